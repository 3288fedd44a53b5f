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
    if first.personal or second.personal or activation.need(first).required or activation.need(second).required:
        return False
    servers, others = (list(endpoint.servers.all()[:MAX_SERVERS]) for endpoint in (first, second))
    pairs = [(one, two) for one in servers for two in others if (one.scheme, one.port) == (two.scheme, two.port)]
    if any(one.hostname.lower() == two.hostname.lower() for one, two in pairs):
        return True
    addresses = {name: _addresses(name) for name in {server.hostname for pair in pairs for server in pair}}
    return any(addresses[one.hostname] & addresses[two.hostname] for one, two in pairs)


def _addresses(host: str) -> frozenset[str]:
    try:
        return gate.addresses_of(host, timeout=LOOKUP_SECONDS)
    except gate.TargetRefusedError:
        return frozenset()
