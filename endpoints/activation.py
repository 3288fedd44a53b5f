"""Whether a user is active at an endpoint: he has given a credential that it accepts, and it has not expired.

What is needed follows from the scheme of the endpoint's servers. A credential is bound to the endpoint itself, or to
the MyProxy or OAuth server that it came from; then it serves every endpoint that names the same one. The one bound to
the endpoint comes first: it was given for this place. How credentials are given is in `activating.py`.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from identity import vault
from identity.bindings import MYPROXY_PORT
from identity.vault import Held, Kind

from .errors import NotActivatedError
from .fields import host_and_port
from .gridftp.login import ANONYMOUS, GsiLogin, Login
from .gridftp.trust import TrustFolder
from .gridftp.x509 import Credential
from .models import Endpoint
from .sshftp import SshLogin


class Need(Enum):
    """The kind of credential that an endpoint wants of its users."""

    NONE = None
    X509 = Kind.X509
    SSH = Kind.SSH


_NEEDS = {"ftp": Need.NONE, "gsiftp": Need.X509, "sshftp": Need.SSH}


def need(endpoint: Endpoint) -> Need:
    """An endpoint without servers needs nothing: there is nobody who would ask for it."""
    schemes = {server.scheme for server in endpoint.servers.all()}
    return next((_NEEDS[scheme] for scheme in ("gsiftp", "sshftp") if scheme in schemes), Need.NONE)


def bindings(endpoint: Endpoint) -> list[str]:
    """What a credential for this endpoint may be bound to: the endpoint itself first."""
    found = [vault.endpoint_binding(endpoint.pk)]
    if endpoint.myproxy_server:
        found.append(vault.myproxy_binding(*host_and_port(endpoint.myproxy_server, MYPROXY_PORT)))
    if endpoint.oauth_server:
        found.append(vault.oauth_binding(endpoint.oauth_server))
    return found


@dataclass(frozen=True, slots=True)
class Standing:
    """What a user has at an endpoint at one moment."""

    need: Need
    held: Held | None = None

    @property
    def active(self) -> bool:
        return self.need is Need.NONE or self.held is not None

    @property
    def expires_at(self) -> datetime | None:
        """None: never, or there is nothing that could."""
        return self.held.expires_at if self.held else None

    def seconds_left(self, now: datetime) -> int:
        """-1: it does not expire; 0: not active."""
        if self.expires_at is None:
            return -1 if self.active else 0
        return max(0, int((self.expires_at - now).total_seconds()))


def standing(user_id: uuid.UUID, endpoint: Endpoint, now: datetime | None = None) -> Standing:
    """Whether this user is active here. Reads no secret."""
    return standings(user_id, [endpoint], now)[endpoint.pk]


def standings(
    user_id: uuid.UUID, endpoints: Iterable[Endpoint], now: datetime | None = None
) -> dict[uuid.UUID, Standing]:
    """The same for many endpoints, with one look into the vault. Their servers should have been prefetched."""
    return _standings({row.pk: (user_id, row) for row in endpoints}, now)


def standings_seen(
    user_id: uuid.UUID, endpoints: Sequence[Endpoint], now: datetime | None = None
) -> dict[uuid.UUID, Standing]:
    """As the user meets them: on a shared endpoint it is its owner who must be active at the host."""
    shared = {row.pk: (row.owner_id, row.host) for row in endpoints if row.host is not None}
    return _standings({row.pk: shared.get(row.pk, (user_id, row)) for row in endpoints}, now)


def _standings(
    places: Mapping[uuid.UUID, tuple[uuid.UUID, Endpoint]], now: datetime | None
) -> dict[uuid.UUID, Standing]:
    """Of these users at these endpoints, by what one likes."""
    needs = {key: need(endpoint) for key, (_, endpoint) in places.items()}
    bound = {key: bindings(places[key][1]) for key in places if needs[key] is not Need.NONE}
    wanted = {binding for one in bound.values() for binding in one}
    held = vault.find_theirs([places[key][0] for key in bound], sorted(wanted), now) if wanted else []
    theirs: dict[uuid.UUID, list[Held]] = {}
    for one in held:
        theirs.setdefault(one.user_id, []).append(one)
    return {
        key: Standing(needs[key], _best(needs[key], bound.get(key, ()), theirs.get(user_id, ())))
        for key, (user_id, _) in places.items()
    }


def _best(wants: Need, bound: Sequence[str], held: Sequence[Held]) -> Held | None:
    """The endpoint's own credential, or else the one that lives longest."""
    fitting = [one for one in held if one.kind == wants.value and one.bound_to in bound]
    never = datetime.max.replace(tzinfo=UTC)
    return max(fitting, key=lambda one: (one.bound_to == bound[0], one.expires_at or never), default=None)


class _Maker(Protocol):
    def __call__(self, hostname: str, port: int, subject: str) -> Login: ...


@dataclass(frozen=True, slots=True)
class Logins:
    """How a user logs in at the servers of one endpoint. His credential is in it: keep it no longer than needed."""

    held: Held | None
    make: _Maker = field(repr=False)

    @property
    def expires_at(self) -> datetime | None:
        return self.held.expires_at if self.held else None

    def at(self, hostname: str, port: int, subject: str = "") -> Login:
        """For one server, by its registered name (not an address): against that its certificate is checked.

        subject: `Server.subject`, what it is called where not by its name.
        """
        return self.make(hostname, port, subject)


@sensitive_variables()
def logins(user_id: uuid.UUID, endpoint: Endpoint, now: datetime | None = None) -> Logins:
    """-> NotActivatedError; VaultError where the credential cannot be opened"""
    found = standing(user_id, endpoint, now)
    if found.held is None:
        if found.need is Need.NONE:
            return Logins(None, _anonymous)
        raise NotActivatedError(endpoint, why_not_active(endpoint))
    secret = vault.reveal(found.held)
    return Logins(found.held, _with_ssh_key(secret) if found.need is Need.SSH else _with_proxy(secret))


def why_not_active(endpoint: Endpoint, asker_id: uuid.UUID | None = None) -> str:
    """A sentence for the user who asks. A shared endpoint is its owner's matter: only he is told of what host it is."""
    if endpoint.host is not None and endpoint.owner_id == asker_id:
        endpoint = endpoint.host
    name = f"{endpoint.owner.username}#{endpoint.name}"
    if endpoint.host is not None:
        why = f"The owner of the shared endpoint {name} has no credential for its host that is valid now."
        return f"{why} {endpoint.owner.username} must activate the host; then try again."
    return f"You have no credential for the endpoint {name} that is valid now; activate it, then try again."


def trust() -> TrustFolder:
    """The authorities whose certificates this service believes."""
    return _trust_folder(Path(settings.CERTIFICATES))


@functools.lru_cache(maxsize=8)
def _trust_folder(path: Path) -> TrustFolder:
    return TrustFolder(path)


def may_delegate_to(hostname: str, subject: str) -> bool:
    """Whether the operator lets this server act as the user, with a limited proxy.

    He has named a host, and so one that proves to be it: with a `subject` any program at a port of it might do.
    """
    return not subject and hostname.lower() in {name.lower() for name in settings.DELEGATE_TO}


def pack_ssh(username: str, private_key: bytes) -> bytes:
    """An account and the key (PEM, without a passphrase) that opens it, for the vault."""
    return username.encode() + b"\0" + private_key


def unpack_ssh(secret: bytes) -> tuple[str, bytes]:
    username, _, private_key = secret.partition(b"\0")
    return username.decode(), private_key


def _anonymous(hostname: str, port: int, subject: str) -> Login:
    return ANONYMOUS


@sensitive_variables()
def _with_proxy(secret: bytes) -> _Maker:
    credential, folder = Credential.parse(secret), trust()

    def make(hostname: str, port: int, subject: str) -> Login:
        return GsiLogin(credential, folder, hostname, subject, delegate=may_delegate_to(hostname, subject))

    return make


@sensitive_variables()
def _with_ssh_key(secret: bytes) -> _Maker:
    username, private_key = unpack_ssh(secret)

    def make(hostname: str, port: int, subject: str) -> Login:
        return SshLogin(username, private_key, subject)

    return make
