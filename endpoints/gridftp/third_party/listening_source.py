"""The coordinator of a pair whose source listens, in MODE S: several files on their way at once. No socket, no clock.

Each file has a data connection of its own: PASV and RETR to the source, PORT and STOR to the destination. PASV and RETR
of the files to come wait at the source already, so that it listens for the next file as soon as it has sent one: a file
takes the way of 227 to the destination and the opening of a connection, two and a half round trips (decision 0054).

A connection belongs to a file by its port alone. Where the source takes one port again while the destination may still
connect there for an earlier file, that file may get the octets of the later one, with success on both sides. Hence:

1. The outcome of a file counts when both sides have answered, and when the answers to all PASV have arrived that the
   source had been sent before the destination's answer. None of them may name the port of this file: else it is given
   back, whatever both have answered. A source that does so often gets one file at a time.
2. A destination that has refused a file may never have connected, and then the source waits in accept(): the driver
   connects there once, and hangs up (`Flush`). Where that takes the connection of a later file, rule 1 holds.
3. A file whose control connection died may still be written by a process that has not noticed: it is given back as
   suspect (`pair`, rule 4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from endpoints.gridftp.commands import CommandError
from endpoints.gridftp.control import Answered, ControlChannel, ControlEvent, Lost, Preliminary
from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side, classify, make_fault
from endpoints.gridftp.markers import RANGE_CODE
from endpoints.gridftp.replies import Reply

from . import outcomes, steps
from .data_path import DataAddress, DataPath, refusal
from .pair import MARKER_INTERVAL
from .pair_states import PairState
from .slots import HEAD, FileProgress, FileRefused, FileReturned, FileSettled, Flush, PairEvent, Slot, Transfer

#: How often a source may take a port again until it gets one file at a time.
MOST_SAME_PORTS = 3
#: Octets of the files that the source's system takes whole at once, given a large buffer (SBUF): the source is free for
#: the next file before this one has arrived. Linux allows an ordinary program buffers of 208 KiB, and doubles them.
BUFFERED = 200_000
BUFFER = b"1048576"
#: The buffer that the system tunes by itself.
TUNED = b"0"


class _Opened(NamedTuple):
    """PASV for this file."""

    file: _File


class _File:
    """A file under way. number: that of its PASV. wait_for: the PASV whose answer its outcome waits for (rule 1)."""

    __slots__ = ("address", "doubtful", "flushed", "number", "slot", "wait_for")

    def __init__(self, slot: Slot, number: int) -> None:
        self.slot = slot
        self.number = number
        self.wait_for = 0
        self.address: DataAddress | None = None
        self.doubtful = self.flushed = False

    @property
    def answered(self) -> bool:
        return self.slot.source.done and self.slot.destination.done


class ListeningSourcePair:
    """Moves files as `ThirdPartyPair` does, with the same calls and events; path.listener is the source.

    Between two calls of `handle` the driver sends what the channels hold.
    """

    def __init__(
        self,
        source: ControlChannel,
        destination: ControlChannel,
        *,
        accept_address: Callable[[DataAddress], bool],
        path: DataPath,
    ) -> None:
        self._channels = {Side.SOURCE: source, Side.DESTINATION: destination}
        self._accept_address = accept_address
        self._path = path
        #: In the order in which the source has them.
        self._files: list[_File] = []
        self._waiting: deque[Transfer] = deque()
        self._renaming: deque[Slot] = deque()
        self._cleaning: deque[tuple[Slot, FileRefused | FileReturned]] = deque()
        self._events: list[PairEvent] = []
        #: PASV sent, and answered.
        self._asked = self._heard = 0
        self._same_ports = 0
        self._buffer = TUNED
        self._loss: Fault | None = None
        self._begin()

    @property
    def state(self) -> PairState:
        """LOST, or CONNECTED: no reply shows that the destination has opened a connection."""
        return PairState.LOST if self._loss else PairState.CONNECTED

    @property
    def idle(self) -> bool:
        return self._loss is None and not self.under_way

    @property
    def under_way(self) -> int:
        """Files given to the pair and not yet given back."""
        return len(self._files) + len(self._waiting) + len(self._renaming) + len(self._cleaning)

    @property
    def begun(self) -> list[object]:
        """`ThirdPartyPair.begun`."""
        return [file.slot.transfer.tag for file in self._files if file.slot.begun]

    def use_streams(self, parallelism: int) -> None:
        """MODE S has one stream for each file."""

    def send(self, transfer: Transfer) -> None:
        """`ThirdPartyPair.send`."""
        self._waiting.append(transfer)
        self._advance()

    def handle(self, side: Side, event: ControlEvent) -> None:
        """`ThirdPartyPair.handle`."""
        if self._loss:
            return
        if isinstance(event, Answered):
            self._answered(side, event.command.tag, event.reply)
        elif isinstance(event, Preliminary):
            self._preliminary(side, event.command.tag, event.reply)
        elif isinstance(event, Lost):
            self._lose(side, event.fault)

    def lose(self, fault: Fault) -> None:
        """`ThirdPartyPair.lose`."""
        if self._loss is None:
            self._lose(fault.side, fault)

    def take(self) -> list[PairEvent]:
        """`ThirdPartyPair.take`."""
        events, self._events = self._events, []
        return events

    def end(self) -> None:
        """Nothing is under way: leave the sessions as another pair expects them."""
        self._use_buffer(TUNED)

    # ---- sending

    def _send(self, side: Side, verb: str, argument: bytes = b"", step: object = steps.REQUIRED) -> None:
        self._channels[side].send(verb, argument, tag=step)

    def _begin(self) -> None:
        for side in (Side.DESTINATION, Side.SOURCE):
            self._send(side, "TYPE", b"I")
            self._send(side, "MODE", b"S")
        if self._path.ours:
            self._send(Side.DESTINATION, "TREV", b"PERF 0", steps.OPTIONAL)
            self._send(Side.DESTINATION, "TREV", b"RESTART %d" % MARKER_INTERVAL, steps.OPTIONAL)
            # It connects at once for each PORT that waits behind a file; an older program does not know this.
            self._send(Side.DESTINATION, "OPTS", b"PORT Ahead=1;", steps.OPTIONAL)

    def _advance(self) -> None:
        if self._loss:
            self._return_waiting()
            return
        while self._waiting and not (self._files and self._same_ports >= MOST_SAME_PORTS):
            self._start(self._waiting.popleft())

    def _start(self, transfer: Transfer) -> None:
        try:
            slot = Slot(transfer, 0 if self._path.ours else HEAD)
        except CommandError as error:
            fault = make_fault(Kind.INVALID_PATH_NAME, str(error), retryable=False)
            self._events.append(FileRefused(transfer.tag, fault, None))
            return
        self._use_buffer(BUFFER if transfer.size <= BUFFERED else TUNED)
        self._asked += 1
        file = _File(slot, self._asked)
        self._files.append(file)
        self._send(Side.SOURCE, *self._path.listen, step=_Opened(file))
        self._move(Side.SOURCE, slot)

    def _use_buffer(self, wanted: bytes) -> None:
        if wanted != self._buffer:
            self._buffer = wanted
            self._send(Side.SOURCE, "SBUF", wanted, steps.OPTIONAL)

    def _move(self, side: Side, slot: Slot) -> None:
        if slot.transfer.ranges:
            self._send(side, "REST", slot.restart_argument(stream_mode=True), steps.Restart(slot))
        line = slot.retrieve if side is Side.SOURCE else slot.store
        self._channels[side].send_line(line[:4].decode(), line, tag=steps.Move(slot))

    # ---- replies

    def _of(self, slot: Slot) -> _File:
        return next(file for file in self._files if file.slot is slot)

    def _preliminary(self, side: Side, step: object, reply: Reply) -> None:
        if not isinstance(step, steps.Move):
            return
        slot = step.slot
        if reply.code in (125, 150):
            slot.side(side).started = True
        elif reply.code == RANGE_CODE and side is Side.DESTINATION and slot.add_marker(reply):
            self._marker(self._of(slot))

    def _marker(self, file: _File) -> None:
        slot = file.slot
        if slot.received.total < slot.transfer.size and self._surely_own(file) and (on_disk := slot.on_disk()):
            self._events.append(FileProgress(slot.transfer.tag, on_disk))

    def _surely_own(self, file: _File) -> bool:
        """Whether the octets that have arrived are of this file: the source has listened nowhere else since."""
        return self._heard == self._asked and not file.doubtful and file.slot.source.started

    def _answered(self, side: Side, step: object, reply: Reply) -> None:
        match step:
            case _Opened(file):
                self._listening(file, reply)
            case steps.Move(slot):
                slot.side(side).answered(reply, side)
                self._side_done(side, self._of(slot))
            case steps.Restart(slot):
                if reply.is_error:
                    slot.side(side).fault = classify(reply, side)
                    slot.restart_refused = True
            case steps.Rename(slot):
                self._renamed(slot, reply)
            case steps.Remove():
                self._events.append(self._cleaning.popleft()[1])
            case steps.Setup(required=True) if reply.is_error:
                self._lose(side, replace(classify(reply, side), scope=FaultScope.SESSION))

    def _listening(self, file: _File, reply: Reply) -> None:
        try:
            addresses = self._path.addresses(reply)
        except CommandError as error:
            fault = make_fault(Kind.ENDPOINT_ERROR, str(error))
            self._lose(Side.SOURCE, replace(fault, scope=FaultScope.SESSION))
            return
        if advice := refusal(addresses, self._path.peer, self._accept_address):
            self._lose(Side.SOURCE, Fault(Kind.CONNECT_FAILED, scope=FaultScope.ENDPOINT, advice=advice))
            return
        self._heard = file.number
        file.address = addresses[0]
        self._doubt_earlier(file)
        self._send(Side.DESTINATION, *self._path.connect(addresses))
        self._move(Side.DESTINATION, file.slot)
        for waiting in list(self._files):
            self._decide(waiting)

    def _doubt_earlier(self, file: _File) -> None:
        """Rule 1: another file's connection may have met the port of this one."""
        for earlier in self._files:
            if earlier is not file and earlier.address == file.address and not earlier.doubtful:
                earlier.doubtful = True
                self._same_ports += 1

    def _side_done(self, side: Side, file: _File) -> None:
        if side is Side.DESTINATION:
            file.wait_for = self._asked
        slot = file.slot
        if slot.destination.fault and not slot.source.done and not file.flushed and file.address:
            file.flushed = True
            self._events.append(Flush(*file.address))
        self._decide(file)

    # ---- settling

    def _decide(self, file: _File) -> None:
        """Rule 1."""
        if not file.answered or file.wait_for > self._heard:
            return
        self._files.remove(file)
        slot, tag = file.slot, file.slot.transfer.tag
        if file.doubtful:
            slot.restart_refused = True
        if slot.faulty:
            self._clean_up(slot, FileRefused(tag, slot.cause, outcomes.trusted(slot)))
        elif file.doubtful:
            self._clean_up(slot, FileReturned(tag, suspect=False))
        elif slot.transfer.rename_to is None:
            self._events.append(FileSettled(tag, slot.received.total))
        else:
            self._renaming.append(slot)
            # When RNFR fails, RNTO does so too, and says why.
            self._send(Side.DESTINATION, "RNFR", slot.transfer.write_path, steps.OPTIONAL)
            self._send(Side.DESTINATION, "RNTO", slot.transfer.rename_to, steps.Rename(slot))
        self._advance()

    def _renamed(self, slot: Slot, reply: Reply) -> None:
        assert self._renaming[0] is slot
        self._renaming.popleft()
        tag = slot.transfer.tag
        if reply.is_error:
            self._clean_up(slot, FileRefused(tag, classify(reply, Side.DESTINATION), slot.on_disk() or None))
        else:
            self._events.append(FileSettled(tag, slot.received.total))

    def _clean_up(self, slot: Slot, event: FileRefused | FileReturned) -> None:
        """Leave no octets of one file under the name of another, then give the file back (`ThirdPartyPair`)."""
        trusted = isinstance(event, FileRefused) and event.trusted
        if trusted or not slot.destination.started or slot.transfer.part is not None:
            self._events.append(event)
        else:
            self._cleaning.append((slot, event))
            self._send(Side.DESTINATION, "DELE", slot.transfer.write_path, steps.REMOVE)

    # ---- when a connection is lost

    def _lose(self, side: Side, fault: Fault) -> None:
        self._loss = fault.at(side) if side is not Side.UNKNOWN else fault
        for file in self._files:
            if not self._surely_own(file):
                file.slot.restart_refused = True
        slots = [file.slot for file in self._files]
        self._events += outcomes.lost(self._renaming, self._cleaning, slots, self._loss)
        self._renaming.clear()
        self._cleaning.clear()
        self._files.clear()
        self._return_waiting()

    def _return_waiting(self) -> None:
        self._events += [FileReturned(transfer.tag, suspect=False) for transfer in self._waiting]
        self._waiting.clear()
