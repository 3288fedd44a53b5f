"""The addresses of a relay process: a port or a socket for this service, and ports for the data of servers."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

from endpoints.gridftp.wire.fenced_socket import FencedSocket

_UNIX = "unix:"


class RelayAddress(NamedTuple):
    """path: of a unix socket; "" where there is a host and a port."""

    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return _UNIX + self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def connect(self, timeout: float) -> FencedSocket:
        """A connected socket that does not block. Raises OSError (TimeoutError)."""
        # Imported where it is used: programs that only parse an address need not load it.
        import asyncio

        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout):
            for family, target in await self._targets():
                sock = FencedSocket(family)
                try:
                    sock.setblocking(False)
                    await loop.sock_connect(sock, target)
                except BaseException:
                    sock.close()
                    raise
                return sock
        raise ConnectionRefusedError(f"{self} has no address")

    async def _targets(self) -> list[tuple[int, str | tuple[str, int]]]:
        if self.path:
            return [(socket.AF_UNIX, self.path)]
        import asyncio

        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        return [(one[0], (str(one[4][0]), self.port)) for one in found]


def parse(text: str) -> RelayAddress:
    """`host:port`, `[IPv6 address]:port` or `unix:/path`. Raises ValueError."""
    if text.startswith(_UNIX):
        path = text[len(_UNIX) :]
        if not path.startswith("/"):
            raise ValueError("the path of a socket is absolute: unix:/path")
        return RelayAddress("", 0, path)
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("host:port, or unix:/path")
    return RelayAddress(host.strip("[]"), int(port))


class DataPorts(NamedTuple):
    """The ports of a relay process to which servers may connect with data for agents. host: its public IP address."""

    host: str
    low: int
    high: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.low}-{self.high}"


def parse_data_ports(text: str) -> DataPorts:
    """`address:low-high`, or `[IPv6 address]:low-high`. Raises ValueError."""
    host, _, ports = text.rpartition(":")
    found = re.fullmatch(r"([0-9]{4,5})-([0-9]{4,5})", ports, re.ASCII)
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        found = None
    if found is None or not 1024 <= int(found[1]) < int(found[2]) < 65536:
        raise ValueError("address:low-high: an IP address, and ports from 1024 on")
    return DataPorts(str(address), int(found[1]), int(found[2]))
