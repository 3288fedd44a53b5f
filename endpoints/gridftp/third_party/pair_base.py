"""The base of the coordinators of both kinds of pair: their channels, and files that wait. No socket, no clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from endpoints.gridftp.commands import CommandError, replacement
from endpoints.gridftp.control import Answered, ControlChannel, ControlEvent, Lost, Preliminary
from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side, classify, make_fault
from endpoints.gridftp.replies import Reply

from . import steps
from .data_path import DataAddress, DataPath, refusal
from .slots import FileProgress, FileRefused, FileReturned, PairEvent, Slot, Transfer

S = TypeVar("S", bound=Slot)
#: Seconds between two range markers (TREV RESTART, GFD.20).
MARKER_INTERVAL = 1


class PairBase(ABC, Generic[S]):
    """Two control channels that are logged in; they belong to the pair until `idle`.

    The driver hands every event of both to `handle`, sends what the channels then hold, and takes the outcome from
    `take`. accept_address: `data_path.refusal`: whether the connector may connect to another host than the listener.
    path: how the two agree on addresses.
    """

    def __init__(
        self,
        source: ControlChannel,
        destination: ControlChannel,
        accept_address: Callable[[DataAddress], bool],
        path: DataPath,
        *,
        stream_mode: bool,
    ) -> None:
        self.stream_mode = stream_mode
        self._channels = {Side.SOURCE: source, Side.DESTINATION: destination}
        self._accept_address = accept_address
        self._path = path
        #: Files that are not sent yet.
        self._waiting: deque[Transfer] = deque()
        self._events: list[PairEvent] = []
        #: Why the pair is lost.
        self._loss: Fault | None = None

    # ---- the driver's calls

    def handle(self, side: Side, event: ControlEvent) -> None:
        """Take an event of one of the channels whose tag is this pair's own."""
        if self._loss:
            return
        if isinstance(event, Answered):
            self._answered(side, event.command.tag, event.reply)
        elif isinstance(event, Preliminary):
            self._preliminary(side, event.command.tag, event.reply)
        elif isinstance(event, Lost):
            self._lose(side, event.fault)

    def lose(self, fault: Fault) -> None:
        """Lose the pair because the driver gives up: a hung server, a refused flush."""
        if self._loss is None:
            self._lose(fault.side, fault)

    def take(self) -> list[PairEvent]:
        """The outcome since the last call."""
        events, self._events = self._events, []
        return events

    # ---- commands

    def _send(self, side: Side, verb: str, argument: bytes = b"", step: object = steps.REQUIRED) -> None:
        self._channels[side].send(verb, argument, tag=step)

    def _set_mode(self) -> None:
        """Set type, mode and markers on both channels in one go: no round trip is waited for."""
        for side in (Side.DESTINATION, Side.SOURCE):
            self._send(side, "TYPE", b"I")
            self._send(side, "MODE", b"S" if self.stream_mode else b"E")
        if not self.stream_mode or self._path.ours:
            # Restart markers alone: they say all that markers of performance do. A server may refuse TREV.
            self._send(Side.DESTINATION, "TREV", b"PERF 0", steps.OPTIONAL)
            self._send(Side.DESTINATION, "TREV", b"RESTART %d" % MARKER_INTERVAL, steps.OPTIONAL)

    def _move(self, side: Side, slot: S) -> None:
        if slot.transfer.ranges:
            self._send(side, "REST", slot.restart_argument(stream_mode=self.stream_mode), steps.Restart(slot))
        from_source = side is Side.SOURCE
        line, progress = (slot.retrieve, slot.source) if from_source else (slot.store, slot.destination)
        part = slot.transfer.part is not None
        joins = slot.transfer.joins_others
        verb = ("ERET" if part else "RETR") if from_source else ("ESTO" if joins else "STOR")
        self._channels[side].send_line(verb, line, tag=steps.Move(slot, progress))

    def _ask_to_rename(self, slot: S) -> None:
        written, name, lines = slot.transfer.write_path, slot.transfer.rename_to, slot.renaming
        assert name is not None
        assert lines is not None
        if self._path.replaces and (argument := replacement(written, name)):
            self._send(Side.DESTINATION, "SITE", argument, steps.Rename(slot))
            return
        # When RNFR fails, RNTO does so too, and says why.
        channel = self._channels[Side.DESTINATION]
        channel.send_line("RNFR", lines[0], tag=steps.OPTIONAL)
        channel.send_line("RNTO", lines[1], tag=steps.Rename(slot))

    # ---- replies

    @abstractmethod
    def _preliminary(self, side: Side, step: object, reply: Reply) -> None: ...

    @abstractmethod
    def _answered(self, side: Side, step: object, reply: Reply) -> None: ...

    @abstractmethod
    def _surely_own(self, slot: S) -> bool:
        """Whether what the destination wrote for this file is surely this file's own content."""

    def _marker(self, slot: S, reply: Reply) -> None:
        if not slot.add_marker(reply) or slot.received.total >= slot.transfer.size:
            return
        if self._surely_own(slot) and (on_disk := slot.on_disk()):
            self._events.append(FileProgress(slot.transfer.tag, on_disk))

    def _received(self, slot: S) -> int | None:
        """Octets that the destination's markers name; None where it sends none, as in MODE S: 0 says nothing there."""
        return None if self.stream_mode and not slot.received else slot.received.total

    def _prepared(self, side: Side, step: object, reply: Reply) -> None:
        """Take the answer to a command that prepares others."""
        if not reply.is_error:
            return
        match step:
            case steps.Restart(slot):
                slot.side(side).fault = classify(reply, side)
                slot.restart_refused = True
            case steps.Setup(required=True):
                self._lose(side, replace(classify(reply, side), scope=FaultScope.SESSION))

    def _addresses_in(self, reply: Reply) -> tuple[DataAddress, ...]:
        """Where the listener waits for the connector; none, and the pair is lost, where it may not connect there."""
        listener = self._path.listener
        try:
            addresses = self._path.addresses(reply)
        except CommandError as error:
            self._lose(listener, replace(make_fault(Kind.ENDPOINT_ERROR, str(error)), scope=FaultScope.SESSION))
            return ()
        if advice := refusal(addresses, self._path.peer, self._accept_address):
            self._lose(listener, Fault(Kind.CONNECT_FAILED, scope=FaultScope.ENDPOINT, advice=advice))
            return ()
        return addresses

    # ---- files that are not moved

    def _refuse(self, transfer: Transfer, error: CommandError) -> None:
        """Give a file back whose name no line may carry."""
        fault = make_fault(Kind.INVALID_PATH_NAME, str(error), retryable=False)
        self._events.append(FileRefused(transfer.tag, fault, None))

    def _lose(self, side: Side, fault: Fault) -> None:
        self._loss = fault.at(side) if side is not Side.UNKNOWN else fault
        self._lost()

    @abstractmethod
    def _lost(self) -> None:
        """Give all files back: `_loss` says why."""

    def _return_waiting(self) -> None:
        self._events += [FileReturned(transfer.tag, suspect=False) for transfer in self._waiting]
        self._waiting.clear()
