"""Activation status: whether a user has a credential that an endpoint accepts and that has not expired.

The kind of credential follows from the protocol of the endpoint's servers (`endpoints.protocols`). A credential is
bound to the endpoint itself, or to the MyProxy or OAuth server that issued it, and is then valid for every endpoint
that names this server. The one bound to the endpoint itself has precedence. `services.py` stores credentials.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.conf import settings
from django.views.decorators.debug import sensitive_variables

from endpoints import protocols
from endpoints.addresses import gate
from endpoints.connect.login import AgentLogin
from endpoints.errors import NotActivatedError
from endpoints.fields import host_and_port
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.login import ANONYMOUS
from endpoints.models import Endpoint
from endpoints.protocols import LoginContext, LoginMaker, unpack_ssh
from endpoints.protocols import Need as Need
from endpoints.protocols import may_delegate_to as may_delegate_to
from endpoints.protocols import pack_ssh as pack_ssh
from endpoints.protocols import trust as trust
from identity.vault import store as vault
from identity.vault.bindings import MYPROXY_PORT
from identity.vault.store import CredentialInfo

# The modules with logins by ssh are loaded with the first such login: they need 0.25 s and 10 MB, in every process.
if TYPE_CHECKING:
    from endpoints.ssh.connection import JumpHost


def need(endpoint: Endpoint) -> Need:
    """An endpoint without servers requires none."""
    protocol = protocols.of_endpoint(endpoint)
    return protocol.need if protocol else Need.NONE


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
        """None if it does not expire, or there is no credential."""
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


@dataclass(frozen=True, slots=True)
class Logins:
    """Creates a user's logins for the servers of one endpoint. Contains a credential: keep it no longer than needed."""

    credential: CredentialInfo | None
    at: LoginMaker = field(repr=False)
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
    if found.credential is None and found.need.required:
        raise NotActivatedError(endpoint, why_not_active(endpoint))
    secret = None if found.credential is None else vault.reveal(found.credential)
    protocol = protocols.of_endpoint(endpoint)
    if protocol is None:
        agent = AgentLogin(str(endpoint.pk), str(endpoint.owner_id)) if endpoint.personal else None
        return Logins(None, lambda hostname, port, subject: ANONYMOUS, agent=agent)
    through = jump(user_id, endpoint.jump_host, now) if protocol.uses_jump_host else None
    make = protocol.logins(LoginContext(endpoint, secret, through))
    return Logins(found.credential, make, through_jump_host=through is not None)


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
