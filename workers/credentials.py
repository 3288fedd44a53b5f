"""The engine's CredentialProvider on the vault, and the keys of the sessions that these credentials open."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from endpoints.activation import status as activation
from endpoints.connect.login import AGENT_PORT, AgentLogin
from endpoints.errors import NotActivatedError
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.login import Login
from endpoints.gridftp.third_party.dcsc_keys import STOCK_OF_KEYS
from endpoints.sharing.access import Access
from identity.vault.errors import VaultError, VaultKeyMissingError, VaultKeyNotConfiguredError
from identity.vault.store import CredentialInfo
from transferapi.tasks.forecast.pace import Pace
from transferapi.tasks.worker import leases, renewal

from .engine.credentials import CHECK_INTERVAL, CredentialStatus
from .sessions.pool import Address, SessionKey
from .sessions.server_addresses import Place
from .store import in_a_thread

#: Seconds between two checks whether a credential lasts as long as the remaining work.
FORESEE = 10.0


class VaultCredentials:
    """The credentials for one slice of one task.

    forget: called with the key prefix of sessions that may not be used any more.
    """

    def __init__(self, grant: leases.Grant, ends: Mapping[Side, Access], forget: Callable[[str], None]) -> None:
        self._grant = grant
        # Read here, in a thread: the loop makes no queries.
        needs = {side: activation.need(end.host) for side, end in ends.items()}
        self._ends = {side: end for side, end in ends.items() if needs[side] is not activation.Need.NONE}
        #: The sides that nobody can use without a credential.
        self._required = {side for side, need in needs.items() if need.required}
        self._forget = forget
        self._held: Mapping[Side, CredentialInfo | None] = {}
        #: Changes when a certificate is revoked: sessions that were opened before are not used again.
        self._trusted = ""
        #: Prefixes of the keys of sessions whose credential was removed during this slice.
        self._gone: set[str] = set()
        self._foresee_at = time.monotonic() + min(CHECK_INTERVAL, FORESEE)
        self._pace = Pace()

    async def statuses(self) -> Mapping[Side, CredentialStatus]:
        """Read the database once, and only where a credential is needed. Nothing is decrypted."""
        if not self._ends:
            return {}
        before = self._held
        self._held = await in_a_thread(self._read)
        self._gone |= {self._begins(held) for side, held in before.items() if held and self._held[side] is None}
        self.clear()
        STOCK_OF_KEYS.prepare()
        await self._check_expiry()
        return {side: _credential_status(held) for side, held in self._held.items() if held or side in self._required}

    def clear(self) -> None:
        """Close idle sessions of removed credentials; called again after the slice has given its own sessions back."""
        for begins in self._gone:
            self._forget(begins)

    def session_key(self, side: Side, address: Address, place: Place) -> SessionKey:
        """The key of sessions to this server, with the credential of the task's owner, or of the owner of the share.

        The secrets of a login are decrypted only when a session is opened.
        """
        if place.port == AGENT_PORT:
            return _to_agent(address, place)
        end = self._ends.get(side)
        if end is None:
            return SessionKey(address)
        held = self._held.get(side)
        if held is None:
            if side not in self._required:
                return SessionKey(address)
            return SessionKey(address, f"{end.actor_id} nothing", _nothing(side))

        async def login() -> Login:
            try:
                found = await in_a_thread(lambda: activation.logins(end.actor_id, end.host))
            except (NotActivatedError, VaultError) as error:
                raise FaultError(_missing(side, error)) from None
            return found.at(place.host, place.port, place.subject)

        at = f"{place.host} {place.port} {place.subject}"
        key = f"{self._begins(held)}{held.stored_at.isoformat()} {self._trusted} {at}"
        return SessionKey(address, key, login)

    def _begins(self, held: CredentialInfo) -> str:
        """The prefix of the keys of all sessions that were opened with any version of this credential."""
        return f"{held.user_id} {held.id} "

    def _read(self) -> Mapping[Side, CredentialInfo | None]:
        """Read the credentials, with one vault query for each owner."""
        self._trusted = activation.trust().stamp
        found: dict[Side, CredentialInfo | None] = {}
        for actor_id in {end.actor_id: None for end in self._ends.values()}:
            hosts = {side: end.host for side, end in self._ends.items() if end.actor_id == actor_id}
            statuses = activation.activation_statuses(actor_id, hosts.values())
            found |= {side: statuses[host.pk].credential for side, host in hosts.items()}
        return found

    async def _check_expiry(self) -> None:
        if time.monotonic() < self._foresee_at:
            return
        self._foresee_at = time.monotonic() + FORESEE
        # A credential that serves both sides is checked once.
        ending = {held.id: (side, held) for side, held in self._held.items() if held and held.expires_at}
        for side, held in ending.values():
            await in_a_thread(partial(self._foresee, side, held))

    def _foresee(self, side: Side, held: CredentialInfo) -> None:
        renewal.foresee(self._grant.task_id, self._grant.epoch, self._ends[side].endpoint, held, pace=self._pace)


def _to_agent(address: Address, place: Place) -> SessionKey:
    agent = AgentLogin(place.host)

    async def login() -> Login:
        return agent

    return SessionKey(address, agent.key, login)


def _credential_status(held: CredentialInfo | None) -> CredentialStatus:
    if held is None:
        return CredentialStatus(missing=renewal.NONE_VALID)
    return CredentialStatus(held.stored_at, held.expires_at)


def _nothing(side: Side) -> Callable[[], Awaitable[Login]]:
    async def login() -> Login:
        raise FaultError(Fault(Kind.NO_CREDENTIALS, side, scope=FaultScope.ENDPOINT, advice=renewal.NONE_VALID))

    return login


def _missing(side: Side, error: NotActivatedError | VaultError) -> Fault:
    """The fault of a credential that is missing, or that the vault cannot decrypt; its text contains no secret.

    A missing vault key is restored by the operator, and no user can act: the task is tried again until then.
    """
    if isinstance(error, VaultKeyMissingError | VaultKeyNotConfiguredError):
        return replace(make_fault(Kind.INTERNAL_ERROR, side=side), advice=error.message)
    advice = renewal.NONE_VALID if isinstance(error, NotActivatedError) else error.message
    return Fault(Kind.NO_CREDENTIALS, side, scope=FaultScope.ENDPOINT, advice=advice)
