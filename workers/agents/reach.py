"""Whether one agent reaches the other, by the first file of a lane: if not, their data are relayed."""

from __future__ import annotations

import asyncio
from typing import Protocol

from endpoints.gridftp.faults import Fault, FaultScope, Kind
from workers.pooled_sessions import PooledSession
from workers.session_pool import SessionPool
from workers.streaming.opening import Trial

#: Seconds for the first data connection between two agents.
REACH_SECONDS = 4.0
_NOT_REACHED = Fault(
    Kind.CONNECT_FAILED,
    scope=FaultScope.SESSION,
    advice="One computer cannot reach the other: their data are relayed.",
)


class Reaching(Protocol):
    """A lane whose first file is under way (`PooledLane`)."""

    @property
    def opened(self) -> bool: ...
    def lose(self, fault: Fault) -> None: ...


class Reach(Trial):
    """A trial with a short limit: packets to an address of another network are often dropped without an answer."""

    def __init__(self, source: PooledSession, destination: PooledSession, pool: SessionPool) -> None:
        super().__init__(source, destination, pool)
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, lane: Reaching) -> None:
        """Give the lane up if its first file opens no data connection in time."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(REACH_SECONDS, self._look, lane)

    def _look(self, lane: Reaching) -> None:
        if not (self.failed or lane.opened):
            lane.lose(_NOT_REACHED)
