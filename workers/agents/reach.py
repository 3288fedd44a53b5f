"""Whether one end reaches the other, or the relay, by the first file of a lane: if not, another way is taken."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Protocol

from endpoints.gridftp.faults import Fault, FaultScope, Kind
from workers.sessions.pool import THROUGH_RELAY, SessionPool
from workers.sessions.pooled_sessions import PooledSession
from workers.sessions.trial import Trial

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
