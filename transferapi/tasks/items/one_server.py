"""Whether two endpoints use one server, so that one path is one file on both: as far as a submission can know it.

The engine finds out the rest, when it has connected (`workers.engine.same_storage`).
"""

from __future__ import annotations

from endpoints.activation import status as activation
from endpoints.addresses import gate
from endpoints.models import Endpoint

#: Seconds for the look-up of one name, and the most servers whose names are looked up.
LOOKUP_SECONDS, MAX_SERVERS = 2.0, 4


def is_one_server(first: Endpoint, second: Endpoint) -> bool:
    """Whether they have a server in common that shows the same paths to everybody.

    Names are looked up: call it only where it matters. Endpoints with credentials are left out: one path may be in
    another home or root for another account.
    """
    if first.pk == second.pk:
        return True
    if any(one.personal or activation.need(one).required for one in (first, second)):
        return False
    pairs = [(one, two) for one in _servers(first) for two in _servers(second) if one[:2] == two[:2]]
    return any(one == two for one, two in pairs) or any(_have_one_address(one[2], two[2]) for one, two in pairs)


def _have_one_address(name: str, other: str) -> bool:
    return not _addresses(name).isdisjoint(_addresses(other))


def _servers(endpoint: Endpoint) -> list[tuple[str, int, str]]:
    """The scheme, port and host of each server."""
    return [(one.scheme, one.port, one.hostname.lower()) for one in endpoint.servers.all()[:MAX_SERVERS]]


def _addresses(host: str) -> frozenset[str]:
    try:
        return gate.addresses_of(host, timeout=LOOKUP_SECONDS)
    except gate.TargetRefusedError:
        return frozenset()
