"""The address that this machine names to other agents in its network, so that they exchange data directly."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit


def own_address(service_url: str) -> str:
    """The address of the interface towards the service; "" where that is loopback, or there is no way to it.

    No packet is sent: connecting a UDP socket only chooses the route.
    """
    parts = urlsplit(service_url)
    try:
        family, _, _, _, target = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            address = str(probe.getsockname()[0])
    except OSError:
        return ""
    return "" if address.startswith("127.") or ":" in address else address
