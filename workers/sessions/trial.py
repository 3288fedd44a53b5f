"""Whether two plain FTP servers open data connections with each other, by the first files of a lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from endpoints.gridftp.faults import Kind
from endpoints.gridftp.third_party.slots import FileEvent, FileProgress, FileRefused, FileReturned, FileSettled

from .pool import DIRECT, SessionPool
from .pooled_sessions import PooledSession

#: Faults of a server that does not open data connections with the other one.
_OF_DATA_CONNECTIONS = frozenset(
    {Kind.CONNECT_FAILED, Kind.UNSUPPORTED, Kind.UNKNOWN, Kind.TIMEOUT, Kind.CONNECTION_RESET, Kind.CONNECTION_BROKEN}
)
#: Losses of a connection in the middle of a file.
_LOSSES = frozenset({Kind.TIMEOUT, Kind.CONNECTION_RESET, Kind.CONNECTION_BROKEN})
_ENDED = "A control connection ended in the middle of a file."
#: Characters of a server's words in an event.
MAX_WHY = 300


class Trial:
    """Whether two plain FTP servers open data connections with each other, by the first files of a lane."""

    #: The way that is tried, for `SessionPool.refuse`.
    way = DIRECT

    def __init__(self, source: PooledSession, destination: PooledSession, pool: SessionPool) -> None:
        self._addresses = source.address, destination.address
        self._pool = pool
        self._passed = False
        self.failed = False

    def judge(self, events: Sequence[FileEvent]) -> Sequence[FileEvent]:
        """The events of the lane. After a failed trial files come back, to be sent through this worker."""
        if not self._passed and any(isinstance(event, FileSettled | FileProgress) for event in events):
            self._passed = True
            self._pool.note_works(self.way, *self._addresses)
        if self._passed:
            self._note_losses(events)
            return events
        for event in events:
            if _shows_failure(event):
                self.failed = True
                why = (event.fault.raw or event.fault.advice)[:MAX_WHY]
                self._pool.refuse(self.way, *self._addresses, why=why)
        return [_returned(event) for event in events] if self.failed else events

    def _note_losses(self, events: Sequence[FileEvent]) -> None:
        """A file whose control connection ends half-way begins anew in such a lane; this worker continues it."""
        if type(self) is not Trial:
            return
        for event in events:
            if isinstance(event, FileRefused) and event.fault.kind in _LOSSES:
                self._pool.refuse(self.way, *self._addresses, why=_ENDED)


def _shows_failure(event: FileEvent) -> TypeGuard[FileRefused]:
    return isinstance(event, FileRefused) and event.fault.kind in _OF_DATA_CONNECTIONS


def _returned(event: FileEvent) -> FileEvent:
    return FileReturned(event.tag, suspect=True, begun=event.begun) if _shows_failure(event) else event
