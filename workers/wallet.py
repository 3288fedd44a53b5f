"""The engine's Wallet on the vault: what the owner of a task has for its endpoints, and the doors that it opens."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from endpoints import activation
from endpoints.access import Access
from endpoints.errors import NotActivatedError
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side, make_fault
from endpoints.gridftp.login import Login
from endpoints.gridftp.throw_away import STOCK_OF_KEYS
from identity.errors import VaultKeyMissingError, VaultKeyNotConfiguredError
from identity.vault import Held, VaultError
from transferapi.tasks import errors, leases, renewal
from transferapi.tasks.pace import Pace
from workers.engine.credentials import LOOK, Purse
from workers.engine.ports import LeaseLostError
from workers.pool import Address, Door
from workers.sessions import Place
from workers.store import in_a_thread

#: Seconds between two comparisons of what is left of a credential with what is left to do.
FORESEE = 10.0


class VaultWallet:
    """For one slice of one task. forget: told how the keys begin of sessions that nobody may use any more."""

    def __init__(self, grant: leases.Grant, ends: Mapping[Side, Access], forget: Callable[[str], None]) -> None:
        self._grant = grant
        self._ends = {side: end for side, end in ends.items() if activation.need(end.host) is not activation.Need.NONE}
        self._forget = forget
        self._held: Mapping[Side, Held | None] = {}
        #: Sessions that were opened before somebody was revoked are not used again.
        self._trusted = ""
        #: How the keys of sessions begin whose credential was taken away in this slice.
        self._gone: set[str] = set()
        self._foresee_at = time.monotonic() + min(LOOK, FORESEE)
        self._pace = Pace()

    async def look(self) -> Mapping[Side, Purse]:
        """One look into the database, and only where a credential is needed. Nothing is decrypted."""
        if not self._ends:
            return {}
        before = self._held
        self._held = await in_a_thread(self._read)
        self._gone |= {self._begins(held) for side, held in before.items() if held and self._held[side] is None}
        self.clear()
        STOCK_OF_KEYS.prepare()
        await self._look_ahead()
        return {side: _purse(held) for side, held in self._held.items()}

    def clear(self) -> None:
        """End warm sessions with credentials that are gone; also when the slice is over and has given its own back."""
        for begins in self._gone:
            self._forget(begins)

    def door(self, side: Side, address: Address, place: Place) -> Door:
        """How this server is entered now, with a credential of the task's owner, or of the one who shares the endpoint.

        What a login needs is decrypted when somebody logs in.
        """
        end = self._ends.get(side)
        if end is None:
            return Door(address)
        held = self._held.get(side)
        if held is None:
            return Door(address, f"{end.actor_id} nothing", _nothing(side))

        async def login() -> Login:
            try:
                found = await in_a_thread(lambda: activation.logins(end.actor_id, end.host))
            except (NotActivatedError, VaultError) as error:
                raise FaultError(_missing(side, error)) from None
            return found.at(place.host, place.port, place.subject)

        at = f"{place.host} {place.port} {place.subject}"
        key = f"{self._begins(held)}{held.stored_at.isoformat()} {self._trusted} {at}"
        return Door(address, key, login)

    def _begins(self, held: Held) -> str:
        """Of the keys of all sessions that were opened with any version of this credential."""
        return f"{held.user_id} {held.id} "

    def _read(self) -> Mapping[Side, Held | None]:
        """With one look into the vault for each whose credentials are used."""
        self._trusted = activation.trust().stamp
        found: dict[Side, Held | None] = {}
        for actor_id in {end.actor_id: None for end in self._ends.values()}:
            hosts = {side: end.host for side, end in self._ends.items() if end.actor_id == actor_id}
            standings = activation.standings(actor_id, hosts.values())
            found |= {side: standings[host.pk].held for side, host in hosts.items()}
        return found

    async def _look_ahead(self) -> None:
        if time.monotonic() < self._foresee_at:
            return
        self._foresee_at = time.monotonic() + FORESEE
        # One that serves both sides is one credential, and told once.
        ending = {held.id: (side, held) for side, held in self._held.items() if held and held.expires_at}
        for side, held in ending.values():
            await in_a_thread(partial(self._foresee, side, held))

    def _foresee(self, side: Side, held: Held) -> None:
        try:
            renewal.foresee(self._grant.task_id, self._grant.epoch, self._ends[side].endpoint, held, pace=self._pace)
        except errors.LeaseLostError:
            raise LeaseLostError(f"task {self._grant.task_id}, epoch {self._grant.epoch}") from None


def _purse(held: Held | None) -> Purse:
    if held is None:
        return Purse(missing=renewal.NONE_VALID)
    return Purse(held.stored_at, held.expires_at)


def _nothing(side: Side) -> Callable[[], Awaitable[Login]]:
    async def login() -> Login:
        raise FaultError(Fault(Kind.NO_CREDENTIALS, side, scope=Scope.ENDPOINT, advice=renewal.NONE_VALID))

    return login


def _missing(side: Side, error: NotActivatedError | VaultError) -> Fault:
    """Also where the vault cannot open it: its errors say why, and nothing secret.

    A key that is missing is the operator's to give back. Nobody else need act: the task tries again until he has.
    """
    if isinstance(error, VaultKeyMissingError | VaultKeyNotConfiguredError):
        return replace(make_fault(Kind.INTERNAL_ERROR, side=side), advice=error.reason)
    advice = renewal.NONE_VALID if isinstance(error, NotActivatedError) else error.reason
    return Fault(Kind.NO_CREDENTIALS, side, scope=Scope.ENDPOINT, advice=advice)
