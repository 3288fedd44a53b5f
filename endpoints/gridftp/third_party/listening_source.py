"""The coordinator of a pair whose source listens, in MODE S: several files on their way at once. No socket, no clock.

Each file has a data connection of its own: PASV and RETR to the source, PORT and STOR to the destination. PASV and RETR
of the files to come wait at the source already, so that it listens for the next file as soon as it has sent one: a file
takes the way of 227 to the destination and the opening of a connection, two and a half round trips
(docs/decisions/agents.md).

A connection belongs to a file by its port alone. Where the source takes one port again while the destination may still
connect there for an earlier file, that file may get the octets of the later one, with success on both sides. Hence:

1. The outcome of a file counts when both sides have answered, and when the answers to all PASV have arrived that the
   source had been sent before the destination's answer. None of them may name the port of this file: else it is given
   back, whatever both have answered. A source that does so often gets one file at a time.
2. A destination that has refused a file may never have connected, and then the source waits in accept(): the driver
   connects there once, and hangs up (`Flush`). Where that takes the connection of a later file, rule 1 holds.
3. A file whose control connection died may still be written by a process that has not noticed: it is given back as
   suspect (`pair`, rule 4).

Each file is in one of the states of `listening_states`; its table has the actions of each row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from endpoints.gridftp.commands import CommandError
from endpoints.gridftp.control import ControlChannel
from endpoints.gridftp.faults import Side, classify
from endpoints.gridftp.markers import RANGE_CODE
from endpoints.gridftp.replies import Reply

from . import outcomes, steps
from .data_path import DataAddress, DataPath
from .listening_states import UNDER_WAY, ListeningAction, ListeningInput, ListeningState, transition
from .pair_base import PairBase
from .pair_states import PairState
from .slots import HEAD, FileRefused, FileReturned, FileSettled, Flush, Slot, Transfer

#: How often a source may take a port again until it gets one file at a time.
MOST_SAME_PORTS = 3
#: Octets of the files that the source's system takes whole at once, given a large buffer (SBUF): the source is free for
#: the next file before this one has arrived. Linux allows an ordinary program buffers of 208 KiB, and doubles them.
BUFFERED = 200_000
BUFFER = b"1048576"
#: The buffer that the system tunes by itself.
TUNED = b"0"


class _File(Slot):
    """A file under way. number: that of its PASV. wait_for: the PASV whose answer its outcome waits for (rule 1).

    doubtful: another file's connection may have met its port. outcome: the event with which it is given back.
    """

    __slots__ = ("addresses", "doubtful", "number", "outcome", "state", "wait_for")

    def __init__(self, transfer: Transfer, head: int, number: int) -> None:
        super().__init__(transfer, head)
        self.state = ListeningState.ASKED
        self.number = number
        self.wait_for = 0
        self.addresses: tuple[DataAddress, ...] = ()
        self.doubtful = False
        self.outcome: FileRefused | FileReturned | None = None


class _Opened(NamedTuple):
    """PASV for this file."""

    file: _File


class _Removed(NamedTuple):
    """DELE of this file."""

    file: _File


class ListeningSourcePair(PairBase[_File]):
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
        super().__init__(source, destination, accept_address, path, stream_mode=True)
        #: In the order in which the source has them, until they are given back.
        self._files: list[_File] = []
        #: PASV sent, and answered.
        self._asked = self._heard = 0
        self._same_ports = 0
        self._buffer = TUNED
        self._set_mode()
        if path.ours:
            # It connects at once for each PORT that waits behind a file; an older program does not know this.
            self._send(Side.DESTINATION, "OPTS", b"PORT Ahead=1;", steps.OPTIONAL)

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
        return len(self._files) + len(self._waiting)

    @property
    def renaming(self) -> int:
        """`ThirdPartyPair.renaming`: here a file keeps its place, because each has a data connection of its own."""
        return 0

    @property
    def begun(self) -> list[object]:
        """`ThirdPartyPair.begun`."""
        return [file.transfer.tag for file in self._moving() if file.begun]

    @property
    def in_stream(self) -> Transfer | None:
        """The first file that both sides have begun."""
        both = (file.transfer for file in self._moving() if file.source.started and file.destination.started)
        return next(both, None)

    def waits_at(self, address: DataAddress) -> bool:
        """`ThirdPartyPair.waits_at`."""
        return any(file.state is ListeningState.STORED and address in file.addresses for file in self._files)

    def use_streams(self, parallelism: int) -> None:
        """MODE S has one stream for each file."""

    def send(self, transfer: Transfer) -> None:
        """`ThirdPartyPair.send`."""
        self._waiting.append(transfer)
        self._advance()

    def end(self) -> None:
        """Leave the sessions as another pair expects them, when nothing is under way."""
        self._use_buffer(TUNED)

    # ---- the table

    def _take(self, file: _File, what: ListeningInput) -> None:
        """Do one step of the table."""
        file.state, actions = transition(file.state, what)
        for action in actions:
            _PERFORM[action](self, file)

    def _moving(self) -> list[_File]:
        return [file for file in self._files if file.state in UNDER_WAY]

    # ---- sending

    def _advance(self, _: _File | None = None) -> None:
        if self._loss:
            self._return_waiting()
            return
        while self._waiting and not (self._same_ports >= MOST_SAME_PORTS and self._moving()):
            self._start(self._waiting.popleft())

    def _start(self, transfer: Transfer) -> None:
        try:
            file = _File(transfer, 0 if self._path.ours else HEAD, self._asked + 1)
        except CommandError as error:
            self._refuse(transfer, error)
            return
        self._use_buffer(BUFFER if transfer.size <= BUFFERED else TUNED)
        self._asked += 1
        self._files.append(file)
        self._send(Side.SOURCE, *self._path.listen, step=_Opened(file))
        self._move(Side.SOURCE, file)

    def _use_buffer(self, wanted: bytes) -> None:
        if wanted != self._buffer:
            self._buffer = wanted
            self._send(Side.SOURCE, "SBUF", wanted, steps.OPTIONAL)

    def _connect(self, file: _File) -> None:
        self._send(Side.DESTINATION, *self._path.connect(file.addresses))
        self._move(Side.DESTINATION, file)

    # ---- replies

    def _preliminary(self, side: Side, step: object, reply: Reply) -> None:
        match step:
            case steps.Move(_, progress) if reply.code in (125, 150):
                progress.started = True
            case steps.Move(_File() as file) if reply.code == RANGE_CODE and side is Side.DESTINATION:
                self._marker(file, reply)

    def _surely_own(self, file: _File) -> bool:
        """Whether the file's connection is its own: the source has listened nowhere else since."""
        return self._heard == self._asked and not file.doubtful and file.source.started

    def _answered(self, side: Side, step: object, reply: Reply) -> None:
        match step:
            case _Opened(file):
                self._listening(file, reply)
            case steps.Move(_File() as file):
                step.progress.answered(reply, side)
                self._take(file, _ANSWER[side, file.destination.fault is not None])
            case steps.Rename(_File() as file):
                self._renamed(file, reply)
            case _Removed(file):
                self._take(file, ListeningInput.REMOVED)
            case _:
                self._prepared(side, step, reply)

    def _listening(self, file: _File, reply: Reply) -> None:
        addresses = self._addresses_in(reply)
        if not addresses:
            return
        self._heard = file.number
        file.addresses = addresses
        self._doubt_earlier(file)
        self._take(file, ListeningInput.ADDRESS)
        for answered in [one for one in self._files if one.state is ListeningState.ANSWERED]:
            self._judge(answered)

    def _doubt_earlier(self, file: _File) -> None:
        """Doubt the files whose port this one has, too: its connection may have met theirs (rule 1)."""
        for earlier in self._moving():
            if earlier is not file and earlier.addresses[:1] == file.addresses[:1] and not earlier.doubtful:
                earlier.doubtful = True
                self._same_ports += 1

    # ---- settling

    def _count_ports(self, file: _File) -> None:
        file.wait_for = self._asked

    def _flush(self, file: _File) -> None:
        self._events.append(Flush(*file.addresses[0]))

    def _judge(self, file: _File) -> None:
        """Decide the outcome of a file that both sides have answered, when rule 1 allows it."""
        if file.wait_for > self._heard:
            return
        if file.doubtful:
            file.restart_refused = True
        if file.faulty:
            self._not_moved(file, FileRefused(file.transfer.tag, file.cause, outcomes.trusted(file)))
        elif file.doubtful:
            self._not_moved(file, FileReturned(file.transfer.tag, suspect=False))
        else:
            aside = file.transfer.rename_to is not None
            self._take(file, ListeningInput.MOVED_ASIDE if aside else ListeningInput.MOVED)

    def _renamed(self, file: _File, reply: Reply) -> None:
        if reply.is_error:
            fault = classify(reply, Side.DESTINATION)
            self._not_moved(file, FileRefused(file.transfer.tag, fault, file.on_disk() or None, unnamed=True))
        else:
            self._take(file, ListeningInput.MOVED)

    def _not_moved(self, file: _File, outcome: FileRefused | FileReturned) -> None:
        """Leave no octets of one file under the name of another, then give the file back (`ThirdPartyPair`)."""
        file.outcome = outcome
        trusted = isinstance(outcome, FileRefused) and outcome.trusted
        stays = trusted or not file.destination.started or file.transfer.joins_others
        self._take(file, ListeningInput.NOT_MOVED if stays else ListeningInput.SPOILED)

    def _remove(self, file: _File) -> None:
        self._send(Side.DESTINATION, "DELE", file.transfer.write_path, _Removed(file))

    def _settle(self, file: _File) -> None:
        self._files.remove(file)
        self._events.append(FileSettled(file.transfer.tag, self._received(file)))

    def _give_back(self, file: _File) -> None:
        assert file.outcome is not None
        self._files.remove(file)
        self._events.append(file.outcome)

    # ---- when a connection is lost

    def _lost(self) -> None:
        assert self._loss is not None
        moving = self._moving()
        for file in moving:
            if not self._surely_own(file):
                file.restart_refused = True
        renaming = [file for file in self._files if file.state is ListeningState.RENAMING]
        cleaning = [
            (file, file.outcome) for file in self._files if file.state is ListeningState.CLEANING and file.outcome
        ]
        self._events += outcomes.lost(renaming, cleaning, moving, self._loss)
        for file in self._files:
            self._take(file, ListeningInput.LOSS)
        self._files.clear()
        self._return_waiting()


_ANSWER = {
    (Side.SOURCE, False): ListeningInput.SOURCE_ANSWERED,
    (Side.SOURCE, True): ListeningInput.SOURCE_ANSWERED,
    (Side.DESTINATION, False): ListeningInput.DESTINATION_SUCCEEDED,
    (Side.DESTINATION, True): ListeningInput.DESTINATION_FAILED,
}
_PERFORM: dict[ListeningAction, Callable[[ListeningSourcePair, _File], None]] = {
    ListeningAction.CONNECT: ListeningSourcePair._connect,
    ListeningAction.COUNT_PORTS: ListeningSourcePair._count_ports,
    ListeningAction.FLUSH: ListeningSourcePair._flush,
    ListeningAction.JUDGE: ListeningSourcePair._judge,
    ListeningAction.SETTLE: ListeningSourcePair._settle,
    ListeningAction.RENAME: ListeningSourcePair._ask_to_rename,
    ListeningAction.REMOVE: ListeningSourcePair._remove,
    ListeningAction.GIVE_BACK: ListeningSourcePair._give_back,
    ListeningAction.ADVANCE: ListeningSourcePair._advance,
}
