"""The addresses of clients in a container: Docker's gateway stands for those whose address Docker does not pass on."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from transferapi.config import Config
from transferapi.config.values import Network

from .findings import Finding, warning

#: Files that Docker and podman put into a container.
MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
ROUTES = Path("/proc/net/route")
#: Octets of the table of routes that are read.
MOST = 1 << 20


def check(config: Config) -> Iterator[Finding]:
    if not any(mark.exists() for mark in MARKS):
        return
    try:
        with ROUTES.open() as file:
            routes = file.read(MOST)
    except OSError:
        return
    yield from shared(routes, config.front_servers, config.monitors)


def shared(routes: str, front_servers: Collection[Network], monitors: Collection[Network]) -> Iterator[Finding]:
    """Where a gateway of Docker is a monitor. routes: the text of /proc/net/route (proc(5))."""
    fronts = [one.network_address for one in front_servers if isinstance(one, IPv4Network)]
    for network in _connected(routes):
        gateway = network.network_address + 1
        if any(one in network for one in fronts) and any(gateway in one for one in monitors if one.version == 4):
            yield warning(
                f"WAYBILL_MONITORS has {gateway}, and docker-proxy gives this address to every client of whom it does "
                "not pass on the own one, as by IPv6: strangers may read /metrics.",
                "Take it out, and let Prometheus send WAYBILL_METRICS_TOKEN (docs/operate/compose.md#metrics).",
            )


def _connected(routes: str) -> Iterator[IPv4Network]:
    """The networks that this container is in: routes without a gateway."""
    for line in routes.splitlines()[1:]:
        _interface, destination, gateway, *_rest = words = line.split()
        if gateway == "00000000" and len(words) > 7:
            yield IPv4Network(f"{_address(destination)}/{_address(words[7])}")


def _address(digits: str) -> IPv4Address:
    """Of eight hexadecimal digits: a number of four octets as this processor orders them."""
    return IPv4Address(int(digits, 16).to_bytes(4, sys.byteorder))
