"""The coordinator of a third-party transfer: two control channels, one stream of files. No socket, no clock.

Mode E with cached data channels (GFD.20, GFD.47): the destination listens (PASV), the source connects (PORT), and
then STOR, STOR, ... and RETR, RETR, ... flow without another word about addresses. Such a channel has no identity
per file: when RETR k fails, the destination's STOR k takes the bytes of file k+1, and success is reported on both
sides for every later file under a wrong name. Hence the rule that this module exists for (truth 3):

1. A file is settled when it *and every earlier file of the pair* succeeded on both sides.
2. On the first refusal nothing more is sent, and PASV goes to both sides behind what is under way. Each side closes
   its cached data connections when it reaches it, which frees the other one if it is stuck. When both have answered,
   nothing runs any more; the source gets PORT with the destination's new address, and all later files are given back.
3. When no RETR since the last PORT opened a connection, the destination waits in accept() and nothing that the
   source does frees it: the driver must then connect to the destination's data port and hang up (`Flush`).
4. A file whose connection died may still be written by a server process that has not noticed: it is given back as
   suspect, and is sent again under another name (a new inode), then renamed. Only what range markers told while both
   sides were surely at this very file may be continued in place: a late writer can only put the same octets there,
   or, being the toolkit's, spoil the head of the file (`HEAD`).

Mode S has no such channels: each file has its own PASV and PORT, one at a time.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from .commands import CommandError
from .control import Answered, ControlChannel, ControlEvent, Lost, Preliminary
from .data_path import DataAddress, DataPath, refusal
from .faults import Fault, Kind, Scope, Side, classify, make_fault
from .markers import RANGE_CODE, MarkerError, RangeMarker, parse_marker
from .ranges import RangeError, RangeSet
from .replies import Reply
from .slots import FileProgress, FileRefused, FileReturned, FileSettled, Flush, PairEvent, Slot, Transfer

__all__ = [
    "FileProgress",
    "FileRefused",
    "FileReturned",
    "FileSettled",
    "Flush",
    "PairEvent",
    "State",
    "ThirdPartyPair",
    "Transfer",
]

#: Kinds that a refused open gives: such a refusal says something about its own file, wherever it stands in the lane.
_OPEN_REFUSALS = frozenset(
    {
        Kind.FILE_NOT_FOUND,
        Kind.PERMISSION_DENIED,
        Kind.IS_A_DIRECTORY,
        Kind.NOT_A_DIRECTORY,
        Kind.INVALID_PATH_NAME,
    }
)


class State(enum.IntEnum):
    FLOWING = enum.auto()
    DRAINING = enum.auto()  # a file was refused; PASV is on its way to both sides
    LOST = enum.auto()


class _Step(enum.IntEnum):
    SETUP = enum.auto()
    LISTEN = enum.auto()  # PASV, EPSV or SPAS, whose address the source shall connect to
    CLOSE = enum.auto()  # PASV to the source: closes its cached connections
    CONNECT = enum.auto()  # PORT, EPRT or SPOR
    RESTART = enum.auto()
    MOVE = enum.auto()  # STOR/RETR
    RENAME = enum.auto()
    CLEAN = enum.auto()  # DELE of what holds another file's octets; best effort


class ThirdPartyPair:
    """Moves files from one server to another through two control channels that are logged in.

    The channels belong to the pair until `idle`; the driver hands every event of both to `handle`, sends what the
    channels then hold, and takes the outcome from `take`.

    parallelism: data streams; None: `use_streams` tells before the first file.
    accept_address: `data_path.refusal`: whether the source may be told to connect to another host than the destination.
    path: how the two agree on addresses.
    """

    def __init__(
        self,
        source: ControlChannel,
        destination: ControlChannel,
        *,
        parallelism: int | None,
        stream_mode: bool = False,
        accept_address: Callable[[DataAddress], bool] = lambda _: True,
        path: DataPath | None = None,
        marker_interval: int = 1,
    ) -> None:
        self.state = State.FLOWING
        self.parallelism: int | None = None
        self.stream_mode = stream_mode
        self._channels = {Side.SOURCE: source, Side.DESTINATION: destination}
        self._accept_address = accept_address
        self._path = path or DataPath()
        self._slots: deque[Slot] = deque()
        #: Mode S: files that wait for the one under way.
        self._waiting: deque[Transfer] = deque()
        #: Certain on both sides, and being renamed.
        self._renaming: deque[Slot] = deque()
        #: Under whose names another file's octets are being removed, and with what they are given back then.
        self._cleaning: deque[tuple[Slot, FileRefused | FileReturned]] = deque()
        self._events: list[PairEvent] = []
        #: True once the source has an address and may be sent RETR.
        self._connected = False
        #: Whether a RETR has opened a data connection since the last PORT.
        self._opened = False
        #: While draining: whether each side has answered its PASV.
        self._source_closed = self._destination_closed = False
        #: Questions to the destination where it listens that are not answered.
        self._doors = 0
        #: Where the destination listens: one address, or one of each of its data nodes.
        self._addresses: tuple[DataAddress, ...] = ()
        self._begin(marker_interval)
        if parallelism is not None:
            self.use_streams(parallelism)

    @property
    def idle(self) -> bool:
        """Nothing under way and nothing unanswered: the channels may serve another pair."""
        return self.state is State.FLOWING and not self.under_way

    @property
    def under_way(self) -> int:
        """Files given to the pair and not yet given back."""
        return len(self._slots) + len(self._waiting) + len(self._renaming) + len(self._cleaning)

    @property
    def begun(self) -> list[object]:
        """Tags of the files under way that the destination has opened under their real names."""
        return [slot.transfer.tag for slot in self._slots if slot.begun]

    def send(self, transfer: Transfer) -> None:
        """Move this file after all earlier ones; it comes back in exactly one event other than FileProgress."""
        if self.state is State.LOST:
            self._events.append(FileReturned(transfer.tag, suspect=False))
            return
        self._waiting.append(transfer)
        self._advance()

    def use_streams(self, parallelism: int) -> None:
        """Move the files to come over so many data connections; only while none is under way.

        Costs a round trip when a file has been moved already: the streams are opened anew.
        """
        assert not self.under_way
        if self.stream_mode or self.state is not State.FLOWING or parallelism == self.parallelism:
            return
        self.parallelism = parallelism
        self._tell(Side.SOURCE, "OPTS", b"RETR Parallelism=%d,%d,%d;" % ((parallelism,) * 3))
        if self._opened:
            self._listen()
        elif self._connected:
            # The toolkit's server takes the number when it hears PORT: what came before it keeps its one stream.
            self._connect()

    def handle(self, side: Side, event: ControlEvent) -> None:
        """Take an event of one of the channels whose tag is this pair's own."""
        if self.state is State.LOST:
            return
        if isinstance(event, Answered):
            self._answered(side, event)
        elif isinstance(event, Preliminary):
            self._preliminary(side, event)
        elif isinstance(event, Lost):
            self._lose(side, event.fault)

    def lose(self, fault: Fault) -> None:
        """The driver gives up: a hung server, a refused flush."""
        self._lose(fault.side, fault)

    def take(self) -> list[PairEvent]:
        """The outcome since the last call."""
        events, self._events = self._events, []
        return events

    # ---- sending

    def _tell(
        self,
        side: Side,
        verb: str,
        argument: bytes = b"",
        step: _Step = _Step.SETUP,
        slot: Slot | None = None,
    ) -> None:
        self._channels[side].send(verb, argument, tag=(step, slot))

    def _begin(self, marker_interval: int) -> None:
        """Set both sides up, in one go: no round trip is waited for."""
        mode = b"S" if self.stream_mode else b"E"
        for side in (Side.DESTINATION, Side.SOURCE):
            self._tell(side, "TYPE", b"I")
            self._tell(side, "MODE", mode)
        if self.stream_mode:
            return
        # Performance markers cost six lines a file and tell nothing that the range markers do not.
        self._tell(Side.DESTINATION, "TREV", b"PERF 0")
        self._tell(Side.DESTINATION, "TREV", b"RESTART %d" % marker_interval)
        self._listen()

    def _listen(self) -> None:
        self._connected = False
        self._doors += 1
        self._tell(Side.DESTINATION, self._path.listen, step=_Step.LISTEN)

    def _advance(self) -> None:
        """Send what may be sent now."""
        if self.state is not State.FLOWING:
            return
        if not self.stream_mode:
            while self._waiting and self._fits(self._waiting[0]):
                self._start(self._waiting.popleft())
        elif self._waiting and not self._slots:
            self._listen()
            self._start(self._waiting.popleft())

    def _fits(self, transfer: Transfer) -> bool:
        """Whether it may be sent now. Between data nodes nothing is continued: REST between them garbles the file.

        (docs/decisions/0013) Such a file waits until nothing else is under way; from then on there is one node.
        """
        if transfer.ranges and self._path.striped and len(self._addresses) != 1:
            if self._slots:
                return False
            self._path = replace(self._path, striped=False)
            self._listen()
        return True

    def _start(self, transfer: Transfer) -> None:
        """All lines are made before one is queued: a name that no wire may carry leaves no trace."""
        try:
            slot = Slot(transfer)
        except CommandError as error:
            fault = make_fault(Kind.INVALID_PATH_NAME, str(error), retryable=False)
            self._events.append(FileRefused(transfer.tag, fault, None))
            return
        self._slots.append(slot)
        self._move(Side.DESTINATION, slot)
        if self._connected:
            self._move(Side.SOURCE, slot)

    def _move(self, side: Side, slot: Slot) -> None:
        if slot.transfer.ranges:
            self._tell(side, "REST", self._restart_argument(slot.transfer.ranges), _Step.RESTART, slot)
        verb, line = ("RETR", slot.retrieve) if side is Side.SOURCE else ("STOR", slot.store)
        self._channels[side].send_line(verb, line, tag=(_Step.MOVE, slot))

    def _restart_argument(self, ranges: RangeSet) -> bytes:
        """Mode E takes ranges, mode S the one offset where the file goes on (RFC 3659 section 5)."""
        if not self.stream_mode:
            return ranges.format().encode()
        start, end = next(iter(ranges))
        return b"%d" % (end if start == 0 else 0)

    def _connect(self) -> None:
        """The destination listens: tell the source where, and let it begin."""
        verb, argument = self._path.connect(self._addresses)
        self._tell(Side.SOURCE, verb, argument, _Step.CONNECT)
        self._connected = True
        self._opened = False
        for slot in self._slots:
            self._move(Side.SOURCE, slot)

    # ---- hearing

    def _preliminary(self, side: Side, event: Preliminary) -> None:
        step, slot = cast("tuple[_Step, Slot]", event.command.tag)
        if step is not _Step.MOVE:
            return
        if event.reply.code in (125, 150):
            slot.half(side).started = True
            if side is Side.SOURCE:
                self._opened = True
        elif event.reply.code == RANGE_CODE and side is Side.DESTINATION:
            self._marker(slot, event.reply)

    def _marker(self, slot: Slot, reply: Reply) -> None:
        """Markers are incremental: the union of all is what is on the disk. One that cannot be read is not counted."""
        try:
            marker = parse_marker(RANGE_CODE, reply.lines)
            assert isinstance(marker, RangeMarker)
            if slot.received:
                for start, end in marker.ranges:
                    slot.received.add(start, end)
            else:
                slot.received = marker.ranges
        except (MarkerError, RangeError) as error:
            slot.destination.fault = make_fault(Kind.ENDPOINT_ERROR, str(error), side=Side.DESTINATION)
            return
        if slot.received.total < slot.transfer.size and self._surely_own(slot) and (on_disk := slot.on_disk()):
            self._events.append(FileProgress(slot.transfer.tag, on_disk))

    def _surely_own(self, slot: Slot) -> bool:
        """Whether what the destination wrote for this file is surely this file's own content.

        The source has begun exactly this one, and failed none before it; nor did the destination.
        """
        if slot.restart_refused or not slot.source.started:
            return False
        for earlier in self._slots:
            if earlier is slot:
                return True
            if earlier.faulty or not earlier.source.done:
                return False
        return False

    def _answered(self, side: Side, event: Answered) -> None:
        step, slot = cast("tuple[_Step, Slot]", event.command.tag)
        reply = event.reply
        if step is _Step.MOVE:
            self._moved(side, slot, reply)
        elif step is _Step.LISTEN:
            self._listening(reply)
        elif step is _Step.CLOSE:
            self._source_closed = True
            self._drained()
        elif step is _Step.RENAME:
            self._renamed(slot, event)
        elif step is _Step.CLEAN:
            self._events.append(self._cleaning.popleft()[1])
        elif step is _Step.RESTART and reply.is_error:
            slot.half(side).fault = classify(reply, side)
            slot.restart_refused = True
        elif step in (_Step.SETUP, _Step.CONNECT) and reply.is_error and event.command.verb != "TREV":
            # TREV only asks for markers; a server without it gives them when it likes, or none.
            self._lose(side, replace(classify(reply, side), scope=Scope.SESSION))

    def _listening(self, reply: Reply) -> None:
        """227 or 229: where the destination waits for the source, unless it was asked again since."""
        self._doors -= 1
        if self._doors and not reply.is_error:
            return
        try:
            self._addresses = self._path.addresses(reply)
        except CommandError as error:
            fault = make_fault(Kind.ENDPOINT_ERROR, str(error), side=Side.DESTINATION)
            self._lose(Side.DESTINATION, replace(fault, scope=Scope.SESSION))
            return
        if advice := refusal(self._addresses, self._path.peer, self._accept_address):
            self._lose(Side.DESTINATION, Fault(Kind.CONNECT_FAILED, scope=Scope.ENDPOINT, advice=advice))
        elif self.state is State.DRAINING:
            self._destination_closed = True
            self._drained()
        else:
            self._connect()
            self._advance()

    def _moved(self, side: Side, slot: Slot, reply: Reply) -> None:
        half = slot.half(side)
        half.done = True
        if reply.is_error and half.fault is None:
            half.fault = classify(reply, side)
        if self.state is State.DRAINING:
            self._flush_if_stuck()
        elif half.fault:
            self._drain()
        while self._slots and self._slots[0].moved:
            self._certain(self._slots.popleft())
        self._advance()

    def _certain(self, slot: Slot) -> None:
        """This file and all before it succeeded on both sides."""
        transfer = slot.transfer
        if transfer.rename_to is None:
            self._events.append(FileSettled(transfer.tag, self._count(slot)))
            return
        self._renaming.append(slot)
        self._tell(Side.DESTINATION, "RNFR", transfer.write_path, _Step.RENAME, slot)
        self._tell(Side.DESTINATION, "RNTO", transfer.rename_to, _Step.RENAME, slot)

    def _count(self, slot: Slot) -> int | None:
        """Octets received. Data nodes forget some of their markers when the file ends: then nobody knows."""
        return slot.received.total if len(self._addresses) == 1 else None

    def _renamed(self, slot: Slot, event: Answered) -> None:
        if event.command.verb == "RNFR":  # when it fails, RNTO does so too, and says why
            return
        assert self._renaming[0] is slot
        self._renaming.popleft()
        tag = slot.transfer.tag
        if event.reply.is_error:
            # All of it is there: what markers told need not be sent again for another try of the name.
            trusted = (slot.on_disk() if len(self._addresses) == 1 else None) or None
            refused = FileRefused(tag, classify(event.reply, Side.DESTINATION), trusted)
            if trusted:
                self._events.append(refused)
            else:
                self._give_back(slot, refused)
        else:
            self._events.append(FileSettled(tag, self._count(slot)))

    # ---- when a file was refused

    def _drain(self) -> None:
        """Rule 2: send nothing more; PASV to both, behind all that is under way."""
        self.state = State.DRAINING
        self._source_closed = self._destination_closed = False
        self._listen()
        self._tell(Side.SOURCE, "PASV", step=_Step.CLOSE)

    def _flush_if_stuck(self) -> None:
        """Rule 3. The source is through with its commands, and never came to the destination's door."""
        if self._source_closed and not self._destination_closed and not self._opened:
            self._events += [Flush(*address) for address in self._addresses]

    def _drained(self) -> None:
        """One side has answered its PASV; when both have, nothing runs any more."""
        if not (self._source_closed and self._destination_closed):
            self._flush_if_stuck()
            return
        slots, self._slots = self._slots, deque()
        while slots and slots[0].moved:
            self._certain(slots.popleft())
        if slots:
            first = slots.popleft()
            self._refuse(first, self._surely_own_first(first))
        for slot in slots:
            if slot.faulty and slot.cause.kind in _OPEN_REFUSALS:
                self._refuse(slot, own=False)
            else:
                self._give_back(slot, FileReturned(slot.transfer.tag, suspect=False))
        self.state = State.FLOWING
        if not self.stream_mode:
            self._connect()
        self._advance()

    @staticmethod
    def _surely_own_first(slot: Slot) -> bool:
        """`_surely_own` for a file before which there is none."""
        return slot.source.started and not slot.restart_refused

    def _refuse(self, slot: Slot, own: bool) -> None:
        trusted = slot.on_disk() if own else None
        refused = FileRefused(slot.transfer.tag, slot.cause, trusted or None)
        if trusted:
            self._events.append(refused)
        else:
            self._give_back(slot, refused)

    def _give_back(self, slot: Slot, event: FileRefused | FileReturned) -> None:
        """Leave no octets of one file under the name of another. What the destination never opened is not ours.

        Only when they are gone is the file given back: in another lane it would be there before our DELE.
        """
        if slot.destination.started:
            self._cleaning.append((slot, event))
            self._tell(Side.DESTINATION, "DELE", slot.transfer.write_path, _Step.CLEAN)
        else:
            self._events.append(event)

    def _lose(self, side: Side, fault: Fault) -> None:
        """Rule 4: nothing is known any more of what is under way."""
        if self.state is State.LOST:
            return
        self.state = State.LOST
        fault = fault.at(side) if side is not Side.UNKNOWN else fault
        for slot in self._renaming:
            self._events.append(FileReturned(slot.transfer.tag, suspect=True))
        for slot, event in self._cleaning:
            self._events.append(_given_back_lost(slot, event))
        for index, slot in enumerate(self._slots):
            if index == 0:
                cause = slot.cause if slot.faulty else fault
                trusted = slot.on_disk() if self._surely_own_first(slot) else None
                self._events.append(
                    FileRefused(slot.transfer.tag, replace(cause, scope=Scope.SESSION), trusted or None, slot.begun)
                )
            else:
                self._events.append(FileReturned(slot.transfer.tag, suspect=True, begun=slot.begun))
        for transfer in self._waiting:
            self._events.append(FileReturned(transfer.tag, suspect=False))
        self._renaming.clear()
        self._cleaning.clear()
        self._slots.clear()
        self._waiting.clear()


def _given_back_lost(slot: Slot, event: FileRefused | FileReturned) -> FileRefused | FileReturned:
    """Nobody knows whether its octets are removed, or will be in a while."""
    if isinstance(event, FileReturned):
        return event._replace(suspect=True, begun=slot.begun)
    return event._replace(fault=replace(event.fault, scope=Scope.SESSION), begun=slot.begun)
