"""Ports of the relay for one lane of small files to an agent: the one in use, and the next.

The reasons: docs/decisions/agents.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.third_party.data_path import DataAddress, RelayPort

#: Opens a port for a token; it is closed with the socket. Raises FaultError.
OpenPort = Callable[[str], Awaitable[tuple[socket.socket, DataAddress]]]


class RelayEntrances:
    """`data_path.RelayPorts`. The next port is opened ahead: a pair that drains has no time to ask for one.

    new_token: of an agent and a server.
    """

    def __init__(self, open_port: OpenPort, new_token: Callable[[], str]) -> None:
        self._open_port, self._new_token = open_port, new_token
        self._held: dict[DataAddress, socket.socket] = {}
        self._next: RelayPort | None = None
        self._opening: asyncio.Task[None] | None = None
        self._ended = False
        self.exhausted = False

    @property
    def host(self) -> str:
        """The relay's address of the next port; "" where none is open."""
        return self._next.address[0] if self._next else ""

    async def prepare(self) -> None:
        """Open the next port. Raises FaultError."""
        token = self._new_token()
        sock, address = await self._open_port(token)
        if self._ended:
            sock.close()
            return
        self._held[address] = sock
        self._next = RelayPort(token, address)

    def take(self) -> RelayPort | None:
        """`RelayPorts.take`."""
        found, self._next = self._next, None
        self.exhausted = self.exhausted or found is None
        if self._opening is None or self._opening.done():
            self._opening = asyncio.get_running_loop().create_task(self._prepare_another())
        return found

    def close(self, address: DataAddress) -> None:
        """`RelayPorts.close`."""
        if sock := self._held.pop(address, None):
            sock.close()

    def end(self) -> None:
        """`RelayPorts.end`."""
        self._ended = True
        if self._opening is not None:
            self._opening.cancel()
        for address in list(self._held):
            self.close(address)

    async def _prepare_another(self) -> None:
        with contextlib.suppress(FaultError):
            await self.prepare()
