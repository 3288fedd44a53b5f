"""The servers of endpoints as workers connect to them: their places, their kinds, and the address gate before them."""

from __future__ import annotations

from collections.abc import Collection

from django.conf import settings

from endpoints.addresses import gate
from endpoints.connect.login import AGENT_PORT
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.third_party.data_path import DataAddress
from endpoints.models import Endpoint
from endpoints.protocols import of_scheme
from endpoints.sharing.access import Access

from .server_addresses import Place


def places(endpoint: Endpoint) -> list[Place]:
    """The addresses of its servers. The others than those of a jump host are connected to, behind the gate."""
    if endpoint.personal:
        return [Place(str(endpoint.pk), AGENT_PORT)]
    jumps = endpoint.jump_host_id is not None
    return [
        Place(server.hostname, server.port, server.subject, jumps and of_scheme(server.scheme).uses_jump_host)
        for server in endpoint.servers.all()
    ]


def kind(end: Access | None) -> str:
    """A word for the tallies: the scheme of an endpoint's first server, "agent", or "none" (of a deletion)."""
    if end is None:
        return "none"
    return "agent" if end.host.personal else next((one.scheme for one in end.host.servers.all()), "none")


def resolve(host: str, port: int) -> list[str]:
    """Pass the gate; its refusal is a fault of the endpoint: the task waits for the operator or its deadline.

    An agent has no address: it is reached through the relay.
    """
    if port == AGENT_PORT:
        return [host]
    try:
        return gate.resolve_target(host, port, allow=settings.ALLOW_TARGETS)
    except gate.TargetRefusedError as error:
        raise FaultError(
            Fault(Kind.CONNECT_FAILED, scope=FaultScope.ENDPOINT, advice=error.reason, raw=str(error))
        ) from None


def accepts(address: DataAddress) -> bool:
    try:
        gate.check_address(*address, settings.ALLOW_TARGETS)
    except gate.TargetRefusedError:
        return False
    return True


def look_up(host: str) -> Collection[str]:
    """The addresses of a data host; none where the name has none."""
    try:
        return gate.addresses_of(host)
    except gate.TargetRefusedError:
        return ()
