"""The coordinator of a third-party transfer: two control channels, one stream of files. No socket, no clock.

Mode E with cached data channels (GFD.20, GFD.47): the destination listens (PASV), the source connects (PORT), and
then STOR, STOR, ... and RETR, RETR, ... flow without another word about addresses. Such a channel has no identity
per file: when RETR k fails, the destination's STOR k takes the bytes of file k+1, and success is reported on both
sides for every later file under a wrong name. Hence the rule that this module exists for (docs/architecture.md,
truth 3):

1. A file is settled when it *and every earlier file of the pair* succeeded on both sides.
2. On the first refusal nothing more is sent, and PASV goes to both sides behind what is under way. Each side closes
   its cached data connections when it reaches it, which frees the other one if it is stuck. When both have answered,
   nothing runs any more; the source gets PORT with the destination's new address, and all later files are given back.
3. When no RETR since the last PORT opened a connection, the destination waits in accept() and nothing that the
   source does frees it: the driver must then connect to the destination's data port and hang up (`Flush`).
4. A file whose connection died may still be written by a server process that has not noticed: it is given back as
   suspect, and is sent again under another name (a new inode), then renamed. Only what range markers reported while
   both sides were surely at this very file may be continued in place: a late writer can only put the same octets
   there, or, being the toolkit's, spoil the head of the file (`HEAD`).

Mode S has no such channels: each file has its own PASV and PORT, one at a time. There the end of the connection is the
end of the file: a file counts as moved only when both sides answered success, and its size must be right.

The destination listens and the source connects; the other way round is `listening_source.ListeningSourcePair`.

The pair is in one of ten states (`pair_states.PairState`); `pair_states.TRANSITIONS` has the actions of each row. An
input that is not listed here leaves the state as it is; `LOSS` leads from every state to `LOST`, which is final.

    UNCONNECTED         ADDRESS_NEEDED: LISTENING, ADDRESS: CONNECTED
    LISTENING           ADDRESS: CONNECTED
    CONNECTED           DATA_OPENED: OPEN, ADDRESS_NEEDED: LISTENING, SIDE_FAILED: DRAINING_UNOPENED
    OPEN                ADDRESS_NEEDED: LISTENING, STREAMS_CHANGED: LISTENING, SIDE_FAILED: DRAINING
    DRAINING_UNOPENED   DATA_OPENED: DRAINING, ADDRESS: DESTINATION_CLOSED, SOURCE_ANSWERED: STUCK
    DRAINING            ADDRESS: DESTINATION_CLOSED, SOURCE_ANSWERED: SOURCE_CLOSED
    STUCK               ADDRESS: UNCONNECTED
    SOURCE_CLOSED       ADDRESS: UNCONNECTED
    DESTINATION_CLOSED  SOURCE_ANSWERED: UNCONNECTED
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from endpoints.gridftp.commands import CommandError
from endpoints.gridftp.control import ControlChannel
from endpoints.gridftp.faults import Side, classify
from endpoints.gridftp.markers import RANGE_CODE
from endpoints.gridftp.replies import Reply

from . import outcomes, steps
from .data_path import RELAY, DataAddress, DataPath, RelayPorts
from .pair_base import PairBase
from .pair_states import ADDRESSED, FLOWING, PairAction, PairInput, PairState, transition
from .slots import HEAD, FileRefused, FileReturned, FileSettled, Flush, Slot, Transfer


class ThirdPartyPair(PairBase[Slot]):
    """Moves files from one server to another; MODE S moves one file at a time.

    parallelism: data streams; None: `use_streams` is called before the first file.
    entrances: ports of the relay, where the source is to connect there. The others: `PairBase`.
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
        entrances: RelayPorts | None = None,
    ) -> None:
        super().__init__(source, destination, accept_address, path or DataPath(), stream_mode=stream_mode)
        self.state = PairState.UNCONNECTED
        self.parallelism: int | None = None
        self._entrances = entrances
        #: STOR is sent for each, RETR too once the source has the address.
        self._slots: deque[Slot] = deque()
        #: Moved by both sides, and being renamed.
        self._renaming: deque[Slot] = deque()
        #: Another file's octets are being removed (DELE); then the file is given back with this event.
        self._cleaning: deque[tuple[Slot, FileRefused | FileReturned]] = deque()
        #: In MODE S: the same, before DELE is sent. While a file is on its way, Pure-FTPd answers another command with
        #: 500, and before the end of that file.
        self._to_clean: deque[tuple[Slot, FileRefused | FileReturned]] = deque()
        #: Number of the last PASV to the destination: the answers to earlier ones are out of date.
        self._last_listen = 0
        #: Where the destination waits: one address, or one of each of its data nodes.
        self._addresses: tuple[DataAddress, ...] = ()
        #: In MODE S: whether the source has accepted a PORT.
        self._port_accepted = False
        self._set_mode()
        if not stream_mode:
            self._take(PairInput.ADDRESS_NEEDED)
        if parallelism is not None:
            self.use_streams(parallelism)

    @property
    def idle(self) -> bool:
        """Nothing under way, nothing unanswered: the channels may serve another pair."""
        return self.state in FLOWING and not self.under_way

    @property
    def under_way(self) -> int:
        """Files given to the pair and not yet given back."""
        cleaning = len(self._to_clean) + len(self._cleaning)
        return len(self._slots) + len(self._waiting) + len(self._renaming) + cleaning

    @property
    def begun(self) -> list[object]:
        """Tags of the files under way that the destination has opened under their real names."""
        return [slot.transfer.tag for slot in self._slots if slot.begun]

    @property
    def in_stream(self) -> Transfer | None:
        """In MODE S: the file that both sides have begun, and not both have ended."""
        slot = self._slots[0] if self.stream_mode and self._slots else None
        return slot.transfer if slot and slot.source.started and slot.destination.started else None

    @property
    def renaming(self) -> int:
        """Files that have arrived and wait for their final names."""
        return len(self._renaming)

    def waits_at(self, address: DataAddress) -> bool:
        """Whether the destination may still wait there for a connection that nobody makes (`Flush`)."""
        return self.state is PairState.STUCK and address in self._addresses

    def send(self, transfer: Transfer) -> None:
        """Move this file after all earlier ones; it comes back in exactly one event other than FileProgress."""
        self._waiting.append(transfer)
        self._take(PairInput.FILE_GIVEN)

    def use_streams(self, parallelism: int) -> None:
        """Move the files to come over so many data connections; only while none is under way.

        Costs a round trip when a file has been moved already: the streams are opened anew.
        """
        assert not self.under_way
        if self._path.token or self._entrances:
            parallelism = 1
        if not self.stream_mode and parallelism != self.parallelism:
            self.parallelism = parallelism
            self._take(PairInput.STREAMS_CHANGED)

    # ---- the table

    def _take(self, what: PairInput) -> None:
        """Do one step of the table."""
        self.state, actions = transition(self.state, what)
        for action in actions:
            _PERFORM[action](self)

    # ---- sending

    def _set_streams(self) -> None:
        assert self.parallelism is not None
        self._send(Side.SOURCE, "OPTS", b"RETR Parallelism=%d,%d,%d;" % ((self.parallelism,) * 3))

    def _listen(self) -> None:
        self._last_listen += 1
        self._path = self._path.at_next(self._entrances)
        self._send(Side.DESTINATION, *self._path.listen, step=steps.Listen(self._last_listen))

    def _connect(self) -> None:
        if self.stream_mode and not self._port_accepted:
            # Most plain FTP servers refuse PORT: then a file is not asked for in vain.
            self._send(Side.SOURCE, *self._path.connect(self._addresses), step=steps.CONNECT)
            return
        self._send(Side.SOURCE, *self._path.connect(self._addresses))
        self._retrieve()

    def _retrieve(self) -> None:
        for slot in self._slots:
            self._move(Side.SOURCE, slot)

    def _connecting(self, reply: Reply) -> None:
        """Take the first answer to PORT. If the file was refused meanwhile, nothing more is sent."""
        self._port_accepted = not reply.is_error
        if reply.is_error:
            self._prepared(Side.SOURCE, steps.REQUIRED, reply)
        elif self.state in ADDRESSED:
            self._retrieve()

    def _advance(self) -> None:
        """Send what may be sent now."""
        if not self.stream_mode:
            while self._waiting and self._fits(self._waiting[0]):
                if slot := self._slot(self._waiting.popleft()):
                    self._start(slot)
            return
        while self._waiting and not self._slots:
            if slot := self._slot(self._waiting.popleft()):
                self._take(PairInput.ADDRESS_NEEDED)
                self._start(slot)

    def _fits(self, transfer: Transfer) -> bool:
        """Whether it may be sent now. Between data nodes nothing is continued: REST between them garbles the file, and
        they omit markers by which the length of a part is known.

        Such a file waits until nothing else is under way; from then on there is one node
        (docs/decisions/servers-and-addresses.md).
        """
        if (transfer.ranges or transfer.part) and self._path.striped and len(self._addresses) != 1:
            if self._slots:
                return False
            self._path = replace(self._path, striped=False)
            self._take(PairInput.ADDRESS_NEEDED)
        return True

    def _slot(self, transfer: Transfer) -> Slot | None:
        """The file with its command lines; None, and the file is refused, where no wire may carry its name."""
        try:
            return Slot(transfer, 0 if self._path.ours else HEAD)
        except CommandError as error:
            self._refuse(transfer, error)
            return None

    def _start(self, slot: Slot) -> None:
        self._slots.append(slot)
        self._move(Side.DESTINATION, slot)
        if self.state in ADDRESSED:
            self._move(Side.SOURCE, slot)

    # ---- replies

    def _preliminary(self, side: Side, step: object, reply: Reply) -> None:
        if not isinstance(step, steps.Move):
            return
        if reply.code in (125, 150):
            step.progress.started = True
            if side is Side.SOURCE:
                self._take(PairInput.DATA_OPENED)
        elif reply.code == RANGE_CODE and side is Side.DESTINATION:
            self._marker(step.slot, reply)

    def _surely_own(self, slot: Slot) -> bool:
        return outcomes.surely_own(slot, self._slots)

    def _answered(self, side: Side, step: object, reply: Reply) -> None:
        # The first three are nearly all; a pattern costs more than `isinstance`.
        if isinstance(step, steps.Move):
            step.progress.answered(reply, side)
            self._clean()
            self._take(PairInput.SIDE_FAILED if step.progress.fault else PairInput.SIDE_SUCCEEDED)
        elif isinstance(step, steps.Rename):
            self._renamed(step.slot, reply)
        elif isinstance(step, steps.Setup | steps.Restart):
            self._prepared(side, step, reply)
        elif isinstance(step, steps.Listen):
            self._listening(step.number, reply)
        elif isinstance(step, steps.Connect):
            self._connecting(reply)
        elif isinstance(step, steps.Close):
            self._take(PairInput.SOURCE_ANSWERED)
        elif isinstance(step, steps.Remove):
            self._events.append(self._cleaning.popleft()[1])
        else:
            raise AssertionError(step)

    def _listening(self, number: int, reply: Reply) -> None:
        """227 or 229: where the destination waits for the source, unless it was asked again since."""
        if number != self._last_listen and not reply.is_error:
            return
        before, self._addresses = self._addresses, self._addresses_in(reply)
        if self._addresses:
            self._events += [Flush(*one) for one in before if self._entrances and one not in self._addresses]
            self._take(PairInput.ADDRESS)

    # ---- settling

    def _settle(self) -> None:
        """Settle the files for which rule 1 holds.

        Slots leave the queue from its head only: all earlier files have succeeded.
        """
        while self._slots and self._slots[0].moved:
            slot = self._slots.popleft()
            transfer = slot.transfer
            if transfer.rename_to is None:
                self._events.append(FileSettled(transfer.tag, self._count(slot)))
            else:
                self._renaming.append(slot)
                self._ask_to_rename(slot)

    def _count(self, slot: Slot) -> int | None:
        """Octets received, as far as known: several data nodes omit some of their markers when the file ends."""
        return self._received(slot) if len(self._addresses) == 1 else None

    def _renamed(self, slot: Slot, reply: Reply) -> None:
        assert self._renaming[0] is slot
        self._renaming.popleft()
        tag = slot.transfer.tag
        if reply.is_error:
            # All of it is there: what markers reported need not be sent again for another try of the name.
            trusted = (slot.on_disk() if len(self._addresses) == 1 else None) or None
            self._clean_up(slot, FileRefused(tag, classify(reply, Side.DESTINATION), trusted, unnamed=True))
        else:
            self._events.append(FileSettled(tag, self._count(slot)))

    # ---- when a file was refused

    def _drain(self) -> None:
        """Drain the lane (rule 2): PASV to both, behind all that is under way."""
        self._listen()
        self._send(Side.SOURCE, "PASV", step=steps.CLOSE)

    def _flush(self) -> None:
        """Ask the driver to connect to the listener (rule 3).

        Through a relay, a server whose file fails frees the other one itself.
        """
        self._events += [Flush(*address) for address in self._addresses if address != RELAY]

    def _give_back(self) -> None:
        """Give the files back after the drain: both sides have answered PASV, and nothing runs any more."""
        self._settle()
        slots, self._slots = self._slots, deque()
        for slot, event in outcomes.drained(slots):
            self._clean_up(slot, event)
        self._clean()

    def _clean_up(self, slot: Slot, event: FileRefused | FileReturned) -> None:
        """Leave no octets of one file under the name of another, then give the file back.

        Only when they are gone is it given back: in another lane it would be there before our DELE. A file that the
        destination never opened here is not removed: its octets are not ours. Other lanes write other parts of a file.
        """
        trusted = isinstance(event, FileRefused) and event.trusted
        if trusted or not slot.destination.started or slot.transfer.joins_others:
            self._events.append(event)
        else:
            self._to_clean.append((slot, event))
            self._clean()

    def _clean(self) -> None:
        """Send DELE for what is to be removed, unless the destination is in the middle of a file in MODE S."""
        if self.stream_mode and self._slots and not self._slots[0].destination.done:
            return
        while self._to_clean:
            slot, event = self._to_clean.popleft()
            self._cleaning.append((slot, event))
            self._send(Side.DESTINATION, "DELE", slot.transfer.write_path, steps.REMOVE)

    def _resume(self) -> None:
        if self.stream_mode:
            self._advance()
        else:
            self._take(PairInput.ADDRESS)

    # ---- when a connection is lost

    def _lost(self) -> None:
        self._take(PairInput.LOSS)

    def _return_all(self) -> None:
        """Give all files back after a loss (rule 4): the outcome of those under way is unknown."""
        assert self._loss is not None
        cleaning = [*self._cleaning, *self._to_clean]
        self._events += outcomes.lost(self._renaming, cleaning, self._slots, self._loss)
        self._renaming.clear()
        self._to_clean.clear()
        self._cleaning.clear()
        self._slots.clear()
        self._return_waiting()


_PERFORM: dict[PairAction, Callable[[ThirdPartyPair], None]] = {
    PairAction.ADVANCE: ThirdPartyPair._advance,
    PairAction.SET_STREAMS: ThirdPartyPair._set_streams,
    PairAction.LISTEN: ThirdPartyPair._listen,
    PairAction.CONNECT: ThirdPartyPair._connect,
    PairAction.SETTLE: ThirdPartyPair._settle,
    PairAction.DRAIN: ThirdPartyPair._drain,
    PairAction.FLUSH: ThirdPartyPair._flush,
    PairAction.GIVE_BACK: ThirdPartyPair._give_back,
    PairAction.RESUME: ThirdPartyPair._resume,
    PairAction.LOSE: ThirdPartyPair._return_all,
    PairAction.RETURN_WAITING: ThirdPartyPair._return_waiting,
}
