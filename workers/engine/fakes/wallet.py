"""The credentials of a user in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from endpoints.gridftp.faults import Side
from workers.engine.credentials import Purse
from workers.engine.ports import Clock


class MemoryWallet:
    """A Wallet: what needs a credential has one that lasts for ever, until a test says otherwise."""

    def __init__(self, clock: Clock, needed: Collection[Side] = ()) -> None:
        self.clock = clock
        self.purses: dict[Side, Purse] = {}
        self.looks = 0
        for side in needed:
            self.give(side)

    async def look(self) -> Mapping[Side, Purse]:
        self.looks += 1
        return dict(self.purses)

    def give(self, side: Side, expires_at: datetime | None = None) -> None:
        """The user stores another credential."""
        self.purses[side] = Purse(self.clock.now(), expires_at)

    def take_away(self, side: Side, why: str = "No credential is there.") -> None:
        """The user deactivates the endpoint."""
        self.purses[side] = Purse(missing=why)
