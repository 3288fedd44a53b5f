"""The order in which the ways of data are tried."""

from __future__ import annotations

from .accounts import BetweenAccounts
from .agents import BetweenAgents, BetweenAgentsByRelay, ToAgent, ToAgentByRelay
from .servers import BetweenServers, InStreamMode
from .through_service import ThroughService
from .way import Pair, Way

#: The first one that is possible is taken. The last one always is.
WAYS: tuple[type[Way], ...] = (
    ToAgentByRelay,
    ToAgent,
    BetweenAgents,
    BetweenAgentsByRelay,
    BetweenAccounts,
    BetweenServers,
    InStreamMode,
    ThroughService,
)


async def way_between(pair: Pair) -> Way:
    """The way of this pair. Raises FaultError."""
    for kind in WAYS:
        way = await kind.of(pair)
        if way is not None:
            return way
    raise AssertionError("the last way is always possible")
