"""Whether data can go a way at all, found out by the first files of a lane: if not, the next way is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeGuard

from endpoints.gridftp.faults import Fault, FaultScope, Kind
from endpoints.gridftp.third_party.slots import FileEvent, FileProgress, FileRefused, FileReturned, FileSettled
from workers.sessions.pool import THIRD_PARTY, THROUGH_RELAY, SessionPool
from workers.sessions.pooled_sessions import PooledSession

#: Faults of a server that does not open data connections with the other one.
_OF_DATA_CONNECTIONS = frozenset(
    {Kind.CONNECT_FAILED, Kind.UNSUPPORTED, Kind.UNKNOWN, Kind.TIMEOUT, Kind.CONNECTION_RESET, Kind.CONNECTION_BROKEN}
)
#: Losses of a connection in the middle of a file.
_LOSSES = frozenset({Kind.TIMEOUT, Kind.CONNECTION_RESET, Kind.CONNECTION_BROKEN})
_ENDED = "A control connection ended in the middle of a file."
#: Characters of a server's words in an event.
MAX_WHY = 300
#: Seconds for the first data connection between two agents.
REACH_SECONDS = 4.0
#: Seconds for that of a server to the relay: it is asked to connect first, and may start a process for it.
RELAY_REACH_SECONDS = 10.0
#: Seconds for that between servers of ssh accounts: login nodes are slow under load, and their firewalls mostly refuse.
ACCOUNT_REACH_SECONDS = 20.0
_NOT_REACHED = Fault(
    Kind.CONNECT_FAILED,
    scope=FaultScope.SESSION,
    advice="One computer cannot reach the other: their data are relayed.",
)


class Trial:
    """Whether two plain FTP servers open data connections with each other, by the first files of a lane."""

    #: The way that is tried, for `SessionPool.refuse`.
    way = THIRD_PARTY

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


class Reaching(Protocol):
    """A lane whose first file is under way (`PooledLane`)."""

    @property
    def opened(self) -> bool: ...
    @property
    def moved(self) -> bool: ...
    def lose(self, fault: Fault) -> None: ...


class Reach(Trial):
    """A trial with a short limit: packets to an address of another network are often dropped without an answer."""

    seconds = REACH_SECONDS
    not_reached = _NOT_REACHED

    def __init__(self, source: PooledSession, destination: PooledSession, pool: SessionPool) -> None:
        super().__init__(source, destination, pool)
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, lane: Reaching) -> None:
        """Give the lane up if its first file opens no data connection in time."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.seconds, self._look, lane)

    def reached(self, lane: Reaching) -> bool:
        """Whether the first data connection was made."""
        return lane.opened

    def _look(self, lane: Reaching) -> None:
        if not (self.failed or self.reached(lane)):
            lane.lose(self.not_reached)


class ReachOfAccounts(Reach):
    """Whether servers of ssh accounts reach each other."""

    seconds = ACCOUNT_REACH_SECONDS
    not_reached = replace(_NOT_REACHED, advice=f"The source made no connection within {ACCOUNT_REACH_SECONDS:.0f} s.")


class ReachOfRelay(Reach):
    """Whether the server at the source reaches the port of the relay. A firewall may allow it few addresses."""

    way = THROUGH_RELAY
    seconds = RELAY_REACH_SECONDS
    not_reached = replace(
        _NOT_REACHED, advice="The server at the source cannot reach the relay: the data go directly to the computer."
    )

    def reached(self, lane: Reaching) -> bool:
        """The relay accepts a connection before it refuses it, and small files fit into the source's buffers."""
        return lane.moved


def _shows_failure(event: FileEvent) -> TypeGuard[FileRefused]:
    return isinstance(event, FileRefused) and event.fault.kind in _OF_DATA_CONNECTIONS


def _returned(event: FileEvent) -> FileEvent:
    return FileReturned(event.tag, suspect=True, begun=event.begun) if _shows_failure(event) else event
