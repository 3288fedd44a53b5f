"""Activation status: whether a user has a credential that an endpoint accepts and that has not expired.

The kind of credential follows from the scheme of the endpoint's servers. A credential is bound to the endpoint itself,
or to the MyProxy or OAuth server that issued it, and is then valid for every endpoint that names this server. The one
bound to the endpoint itself has precedence. `services.py` stores credentials.
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from endpoints.addresses import gate
from endpoints.connect.login import AgentLogin
from endpoints.errors import NotActivatedError
from endpoints.fields import host_and_port
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.ftp_tls.login import FtpTlsLogin
from endpoints.gridftp.login import ANONYMOUS, GsiLogin, Login, PasswordLogin
from endpoints.models import Endpoint
from endpoints.ssh.host_keys import note_host_key
from identity.gsi.trust import TrustFolder
from identity.gsi.x509 import X509Credential
from identity.vault import store as vault
from identity.vault.bindings import MYPROXY_PORT
from identity.vault.store import CredentialInfo, CredentialKind

# The modules with logins by ssh are loaded with the first such login: they need 0.25 s and 10 MB, in every process.
if TYPE_CHECKING:
    from endpoints.ssh.connection import JumpHost


class Need(Enum):
    """The kind of credential that an endpoint requires."""

    NONE = None
    X509 = CredentialKind.X509
    SSH = CredentialKind.SSH
    #: A name and a password, or nothing: an anonymous user.
    PASSWORD = CredentialKind.PASSWORD

    @property
    def required(self) -> bool:
        """Whether nobody can use the endpoint without one."""
        return self not in (Need.NONE, Need.PASSWORD)


_NEEDS = {
    "gsiftp": Need.X509, "sshftp": Need.SSH, "ssh": Need.SSH, "sftp": Need.SSH, "ftp": Need.PASSWORD,
    "ftpes": Need.PASSWORD,
}  # fmt: skip


def need(endpoint: Endpoint) -> Need:
    """An endpoint without servers requires none."""
    schemes = {server.scheme for server in endpoint.servers.all()}
    return next((wanted for scheme, wanted in _NEEDS.items() if scheme in schemes), Need.NONE)


def bindings(endpoint: Endpoint) -> list[str]:
    """The possible bindings of a credential for this endpoint, that of the endpoint itself first."""
    found = [vault.endpoint_binding(endpoint.pk)]
    if endpoint.myproxy_server:
        found.append(vault.myproxy_binding(*host_and_port(endpoint.myproxy_server, MYPROXY_PORT)))
    if endpoint.oauth_server:
        found.append(vault.oauth_binding(endpoint.oauth_server))
    return found


@dataclass(frozen=True, slots=True)
class ActivationStatus:
    """The credential of a user for an endpoint at one time, if any."""

    need: Need
    credential: CredentialInfo | None = None

    @property
    def active(self) -> bool:
        return not self.need.required or self.credential is not None

    @property
    def expires_at(self) -> datetime | None:
        """None: it does not expire, or there is no credential."""
        return self.credential.expires_at if self.credential else None

    def seconds_left(self, now: datetime) -> int:
        """-1: it does not expire; 0: not active."""
        if self.expires_at is None:
            return -1 if self.active else 0
        return max(0, int((self.expires_at - now).total_seconds()))


def activation_status(user_id: uuid.UUID, endpoint: Endpoint, now: datetime | None = None) -> ActivationStatus:
    """Whether this user is active here. Reads no secret."""
    return activation_statuses(user_id, [endpoint], now)[endpoint.pk]


def activation_statuses(
    user_id: uuid.UUID, endpoints: Iterable[Endpoint], now: datetime | None = None
) -> dict[uuid.UUID, ActivationStatus]:
    """The same for many endpoints, in one query of the vault. Their servers should be prefetched."""
    return _activation_statuses({row.pk: (user_id, row) for row in endpoints}, now)


def activation_statuses_seen(
    user_id: uuid.UUID, endpoints: Sequence[Endpoint], now: datetime | None = None
) -> dict[uuid.UUID, ActivationStatus]:
    """The statuses that matter to the user: for a shared endpoint, the status of its owner at the host."""
    shared = {row.pk: (row.owner_id, row.host) for row in endpoints if row.host is not None}
    return _activation_statuses({row.pk: shared.get(row.pk, (user_id, row)) for row in endpoints}, now)


def _activation_statuses(
    places: Mapping[uuid.UUID, tuple[uuid.UUID, Endpoint]], now: datetime | None
) -> dict[uuid.UUID, ActivationStatus]:
    """The statuses of pairs of user and endpoint, by the given keys. A jump host must be active, too."""
    needs = {key: need(endpoint) for key, (_, endpoint) in places.items()}
    bound = {key: bindings(places[key][1]) for key in places if needs[key] is not Need.NONE}
    theirs = _credentials([places[key][0] for key in bound], set().union(*bound.values()), now)
    found = {
        key: ActivationStatus(needs[key], _best(needs[key], bound.get(key, ()), theirs.get(user_id, ())))
        for key, (user_id, _) in places.items()
    }
    jumps = {key: (user_id, row.jump_host) for key, (user_id, row) in places.items() if row.jump_host is not None}
    through = _activation_statuses(jumps, now) if jumps else {}
    return {key: one if through.get(key, one).active else ActivationStatus(one.need) for key, one in found.items()}


def _credentials(
    users: Sequence[uuid.UUID], bound_to: Collection[str], now: datetime | None
) -> Mapping[uuid.UUID, Sequence[CredentialInfo]]:
    """The credentials of each user with one of these bindings."""
    theirs: dict[uuid.UUID, list[CredentialInfo]] = {}
    for one in vault.find_for_users(users, sorted(bound_to), now) if bound_to else []:
        theirs.setdefault(one.user_id, []).append(one)
    return theirs


def _best(wants: Need, bound: Sequence[str], held: Sequence[CredentialInfo]) -> CredentialInfo | None:
    """The endpoint's own credential, else the one that expires last."""
    fitting = [one for one in held if one.kind == wants.value and one.bound_to in bound]
    never = datetime.max.replace(tzinfo=UTC)
    return max(fitting, key=lambda one: (one.bound_to == bound[0], one.expires_at or never), default=None)


class _Maker(Protocol):
    """The login for one server, by its registered name (not an address), against which its certificate is checked.

    subject: `Server.subject`, the expected certificate subject if it differs from the name.
    """

    def __call__(self, hostname: str, port: int, subject: str) -> Login: ...


@dataclass(frozen=True, slots=True)
class Logins:
    """Creates a user's logins for the servers of one endpoint. Contains a credential: keep it no longer than needed."""

    credential: CredentialInfo | None
    at: _Maker = field(repr=False)
    #: No connection of ours goes to the server's address.
    through_jump_host: bool = False
    #: The login to the agent of a personal endpoint, which has no servers.
    agent: AgentLogin | None = None

    @property
    def expires_at(self) -> datetime | None:
        return self.credential.expires_at if self.credential else None


@sensitive_variables()
def logins(user_id: uuid.UUID, endpoint: Endpoint, now: datetime | None = None) -> Logins:
    """Raises NotActivatedError, and VaultError when the credential cannot be decrypted."""
    found = activation_status(user_id, endpoint, now)
    if found.credential is None:
        if not found.need.required:
            return Logins(
                None,
                _over_tls(endpoint) if is_over_tls(endpoint) else lambda hostname, port, subject: ANONYMOUS,
                agent=AgentLogin(str(endpoint.pk), str(endpoint.owner_id)) if endpoint.personal else None,
            )
        raise NotActivatedError(endpoint, why_not_active(endpoint))
    secret = vault.reveal(found.credential)
    if found.need is Need.X509:
        return Logins(found.credential, _with_proxy(secret))
    if found.need is Need.PASSWORD:
        make = _over_tls(endpoint, *unpack_ssh(secret)) if is_over_tls(endpoint) else _with_password(secret)
        return Logins(found.credential, make)
    schemes = {server.scheme for server in endpoint.servers.all()}
    if schemes == {"sftp"}:
        return Logins(found.credential, _with_account(endpoint, secret, None, sftp=True))
    if schemes == {"ssh"}:
        through = jump(user_id, endpoint.jump_host, now)
        return Logins(found.credential, _with_account(endpoint, secret, through, sftp=False), through is not None)
    return Logins(found.credential, _with_sshftp(secret))


@sensitive_variables()
def jump(user_id: uuid.UUID, jump_host: Endpoint | None, now: datetime | None = None) -> JumpHost | None:
    """The login of this user at a jump host. Raises NotActivatedError, VaultError."""
    if jump_host is None:
        return None
    from endpoints.ssh.connection import JumpHost, SshAccount

    server = jump_host.servers.first()
    held = activation_status(user_id, jump_host, now).credential
    if server is None or held is None or jump_host.deleted_at is not None:
        raise NotActivatedError(jump_host, why_not_active(jump_host))
    username, private_key = unpack_ssh(vault.reveal(held))
    hostname, port = server.hostname, server.port

    async def resolve() -> list[str]:
        try:
            return await asyncio.to_thread(gate.resolve_target, hostname, port, allow=settings.ALLOW_TARGETS)
        except gate.TargetRefusedError as error:
            raise FaultError(make_fault(Kind.CONNECT_FAILED, error.reason)) from None

    return JumpHost(SshAccount(username, private_key, server.subject), port, resolve)


def why_not_active(endpoint: Endpoint, requester_id: uuid.UUID | None = None) -> str:
    """A sentence for the user who asks. Only the owner of a shared endpoint may read the name of its host."""
    if endpoint.host is not None and endpoint.owner_id == requester_id:
        endpoint = endpoint.host
    name = f"{endpoint.owner.username}#{endpoint.name}"
    if endpoint.host is not None:
        why = f"The owner of the shared endpoint {name} has no credential for its host that is valid now."
        return f"{why} {endpoint.owner.username} must activate the host; then try again."
    return f"You have no credential for the endpoint {name} that is valid now; activate it, then try again."


def trust() -> TrustFolder:
    """The certificate authorities that this service trusts."""
    return _trust_folder(Path(settings.CERTIFICATES))


@functools.lru_cache(maxsize=8)
def _trust_folder(path: Path) -> TrustFolder:
    return TrustFolder(path)


def may_delegate_to(hostname: str, subject: str) -> bool:
    """Whether the operator lets this server act as the user, with a limited proxy.

    The operator lists host names, so the server must prove its host name: with a `subject`, another service of that
    host could pass for it.
    """
    return not subject and hostname.lower() in {name.lower() for name in settings.DELEGATE_TO}


def pack_ssh(username: str, private_key: bytes) -> bytes:
    """An account, and its private key (PEM, without a passphrase) or its password, as one secret for the vault."""
    return username.encode() + b"\0" + private_key


def unpack_ssh(secret: bytes) -> tuple[str, bytes]:
    username, _, private_key = secret.partition(b"\0")
    return username.decode(), private_key


@sensitive_variables()
def _with_proxy(secret: bytes) -> _Maker:
    credential, folder = X509Credential.parse(secret), trust()

    def make(hostname: str, port: int, subject: str) -> Login:
        return GsiLogin(credential, folder, hostname, subject, delegate=may_delegate_to(hostname, subject))

    return make


@sensitive_variables()
def _with_account(endpoint: Endpoint, secret: bytes, jump_host: JumpHost | None, *, sftp: bool) -> _Maker:
    """sftp: by SFTP only; else by what the account offers."""
    from endpoints.ssh.accounts.account_login import AccountLogin
    from endpoints.ssh.connection import SshAccount
    from endpoints.ssh.sftp.login import SftpLogin

    username, private_key = unpack_ssh(secret)

    def make(hostname: str, port: int, subject: str) -> Login:
        account = SshAccount(username, private_key, subject)
        note = functools.partial(note_host_key, endpoint.pk, hostname, port)
        return SftpLogin(account, note) if sftp else AccountLogin(account, jump_host, endpoint.data_ports, note)

    return make


@sensitive_variables()
def _with_sshftp(secret: bytes) -> _Maker:
    from endpoints.ssh.sshftp_login import SshLogin

    username, private_key = unpack_ssh(secret)
    return lambda hostname, port, subject: SshLogin(username, private_key, subject)


def is_over_tls(endpoint: Endpoint) -> bool:
    """Whether passwords go to its servers by TLS (`ftpes`)."""
    return {server.scheme for server in endpoint.servers.all()} == {"ftpes"}


@sensitive_variables()
def _over_tls(
    endpoint: Endpoint, username: str = ANONYMOUS.user.decode(), password: bytes = ANONYMOUS.password
) -> _Maker:
    def make(hostname: str, port: int, subject: str) -> Login:
        note = functools.partial(note_host_key, endpoint.pk, hostname, port)
        return FtpTlsLogin(hostname, subject, username, password, Path(settings.CERTIFICATES), note)

    return make


@sensitive_variables()
def _with_password(secret: bytes) -> _Maker:
    username, password = unpack_ssh(secret)
    return lambda hostname, port, subject: PasswordLogin(username, password)
