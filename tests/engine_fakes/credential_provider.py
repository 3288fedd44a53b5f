"""The credentials of a user in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from endpoints.gridftp.faults import Side
from workers.engine.credentials import CredentialStatus
from workers.engine.ports import Clock


class MemoryCredentials:
    """A CredentialProvider: each side that needs a credential has one without end, until a test changes that."""

    def __init__(self, clock: Clock, needed: Collection[Side] = ()) -> None:
        self.clock = clock
        self.credential_statuses: dict[Side, CredentialStatus] = {}
        self.reads = 0
        for side in needed:
            self.give(side)

    async def statuses(self) -> Mapping[Side, CredentialStatus]:
        self.reads += 1
        return dict(self.credential_statuses)

    def give(self, side: Side, expires_at: datetime | None = None) -> None:
        """Store another credential."""
        self.credential_statuses[side] = CredentialStatus(self.clock.now(), expires_at)

    def take_away(self, side: Side, why: str = "No credential is there.") -> None:
        """Remove the credential, as a deactivation does."""
        self.credential_statuses[side] = CredentialStatus(missing=why)
