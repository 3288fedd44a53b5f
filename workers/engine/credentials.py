"""The credentials of a slice: a port, and what the engine makes of it. Looked at first of all, and then now and again.

The engine never holds a secret: it learns whether there is something to log in with, which one, and until when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from endpoints.gridftp.faults import Fault, Kind, Scope, Side

from .ports import Clock

#: Seconds between two looks: a deactivation, and a new credential, are noticed within them.
LOOK = 3.0
#: Before its end a credential is put away: a file that is under way then needs a moment to be left in good order.
MARGIN = timedelta(seconds=12)
ENDED = "The credential has expired."


@dataclass(frozen=True, slots=True)
class Purse:
    """What the user has for one endpoint.

    stored_at: no two credentials have the same, and a newer one has a later. expires_at None: never. missing: why there
    is none.
    """

    stored_at: datetime | None = None
    expires_at: datetime | None = None
    missing: str = ""


class Wallet(Protocol):
    """The credentials that the owner of the task has given for its endpoints."""

    async def look(self) -> Mapping[Side, Purse]:
        """What there is now; a side that is not in it needs none. Sessions that are opened from then on use it."""


class Credentials:
    """What of them this slice has seen: first, and last."""

    def __init__(self, wallet: Wallet, clock: Clock) -> None:
        self._wallet = wallet
        self._clock = clock
        self._first: Mapping[Side, Purse] | None = None
        self._last: Mapping[Side, Purse] = {}

    async def look(self) -> Fault | None:
        """Look again; the fault of the first side that has nothing to go on with."""
        self._last = await self._wallet.look()
        if self._first is None:
            self._first = self._last
        now = self._clock.now()
        for side, purse in sorted(self._last.items(), reverse=True):
            why = purse.missing or (ENDED if _is_over(purse, now) else "")
            if why:
                return Fault(Kind.NO_CREDENTIALS, side, scope=Scope.ENDPOINT, advice=why)
        return None

    async def watch(self) -> Fault:
        """Wait until a side has nothing to go on with. For ever where none is needed."""
        fault = None
        while fault is None:
            await self._clock.sleep(self._pause())
            fault = await self.look()
        return fault

    def renewable(self, side: Side) -> bool:
        """Whether a person can do something about a login that this side refuses: anonymous ones have no other."""
        return bool(self._last) if side is Side.UNKNOWN else side in self._last

    def blame(self, fault: Fault) -> tuple[Fault, datetime | None]:
        """The fault at a side that can do something about it, and when the credential was stored that had it."""
        side = fault.side if fault.side in self._last else max(self._last, default=fault.side)
        return fault.at(side), self._last.get(side, Purse()).stored_at

    @property
    def renewed(self) -> bool:
        """Whether there is another credential now than the sessions of this slice were begun with.

        At either side: what goes wrong between two servers is not always told of the right one.
        """
        first = self._first or {}
        return any(purse.stored_at != first[side].stored_at for side, purse in self._last.items() if side in first)

    def _pause(self) -> float:
        """Until the next look: in time to see a credential end."""
        ends = [purse.expires_at for purse in self._last.values() if purse.expires_at is not None]
        left = min(((end - MARGIN - self._clock.now()).total_seconds() for end in ends), default=LOOK)
        return min(max(left, 0.0), LOOK) if self._last else 3600.0


def _is_over(purse: Purse, now: datetime) -> bool:
    return purse.expires_at is not None and purse.expires_at - MARGIN <= now
