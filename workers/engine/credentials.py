"""The credentials of a slice: the port, and the checks of the engine, at the beginning and at intervals.

The engine never holds a secret: it learns whether there is a credential, which one, and until when it is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side
from identity.gsi.printable import translatable as _

from .ports import Clock

#: Seconds between two checks: a deactivation or a new credential is noticed within them.
CHECK_INTERVAL = 3.0
#: A credential is not used for so long before it expires: files under way need time to end in good order.
MARGIN = timedelta(seconds=12)
ENDED = _("The credential has expired.")


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """The credential of one endpoint.

    stored_at: unique, and later for a newer credential. expires_at None: never. missing: the reason why there is none.
    """

    stored_at: datetime | None = None
    expires_at: datetime | None = None
    missing: str = ""


class CredentialProvider(Protocol):
    """The credentials that the owner of the task has given for its endpoints."""

    async def statuses(self) -> Mapping[Side, CredentialStatus]:
        """The current credentials, by side; a side without an entry needs none. New sessions use them."""


class Credentials:
    """The first and the latest credentials that this slice has seen."""

    def __init__(self, credential_provider: CredentialProvider, clock: Clock) -> None:
        self._credential_provider = credential_provider
        self._clock = clock
        self._first: Mapping[Side, CredentialStatus] | None = None
        self._last: Mapping[Side, CredentialStatus] = {}

    async def check(self) -> Fault | None:
        """Read the credentials again. Returns the fault of the first side that cannot continue."""
        self._last = await self._credential_provider.statuses()
        if self._first is None:
            self._first = self._last
        now = self._clock.now()
        for side, credential_status in sorted(self._last.items(), reverse=True):
            why = credential_status.missing or (ENDED if _is_over(credential_status, now) else "")
            if why:
                return Fault(Kind.NO_CREDENTIALS, side, scope=FaultScope.ENDPOINT, advice=why)
        return None

    async def watch(self) -> Fault:
        """Wait until a side cannot continue; for ever where no credential is needed."""
        fault = None
        while fault is None:
            await self._clock.sleep(self._pause())
            fault = await self.check()
        return fault

    def renewable(self, side: Side) -> bool:
        """Whether a person can renew the credential that this side refuses: an anonymous login has none."""
        return bool(self._last) if side is Side.UNKNOWN else side in self._last

    def attribute(self, fault: Fault) -> tuple[Fault, datetime | None]:
        """The fault, moved to a side whose credential can be renewed, and when that credential was stored."""
        side = fault.side if fault.side in self._last else max(self._last, default=fault.side)
        return fault.at(side), self._last.get(side, CredentialStatus()).stored_at

    @property
    def renewed(self) -> bool:
        """Whether a credential of either side is another one than at the beginning of the slice.

        Both sides count, because a fault between two servers is not always reported for the right one.
        """
        first = self._first or {}
        return any(
            credential_status.stored_at != first[side].stored_at
            for side, credential_status in self._last.items()
            if side in first
        )

    def _pause(self) -> float:
        """Seconds until the next check, early enough to notice the end of a credential."""
        ends = [
            credential_status.expires_at
            for credential_status in self._last.values()
            if credential_status.expires_at is not None
        ]
        left = min(((end - MARGIN - self._clock.now()).total_seconds() for end in ends), default=CHECK_INTERVAL)
        return min(max(left, 0.0), CHECK_INTERVAL) if self._last else 3600.0


def _is_over(credential_status: CredentialStatus, now: datetime) -> bool:
    return credential_status.expires_at is not None and credential_status.expires_at - MARGIN <= now
