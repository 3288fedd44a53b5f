"""A client's connection of asyncssh whose server may send no more than its budget, and is put off where it does.

asyncssh has no such limits, and its buffer takes time that grows with the square of the messages that come together:
16,384 of them, in one read of the loop, took a second. So it gets them in small pieces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

import asyncssh
from asyncssh.constants import MSG_CHANNEL_DATA, MSG_KEXINIT
from asyncssh.packet import SSHPacket

from endpoints.gridftp.wire.fenced_socket import FencedSocket
from endpoints.gridftp.wire.put_off import SERVERS

from .message_budget import MessageBudget, TooManyMessagesError, VersionSearch

#: Octets that asyncssh gets at a time.
PIECE = 16 * 1024
#: Octets of one read of the loop: what one connection sends must not hold the others up.
TURN = 128 * 1024


class FloodError(asyncssh.ProtocolError):
    """The server sends more than its budget."""


class BoundedConnection(asyncssh.SSHClientConnection):
    """Ends with FloodError where the server sends more than its budget (`message_budget`)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: asyncssh.SSHClientConnectionOptions,
        wait: Literal["auth", "kex"],
        server_address: tuple[str, int],
    ) -> None:
        super().__init__(loop, options, wait=wait)
        self._greeting: VersionSearch | None = VersionSearch()
        self._budget = MessageBudget()
        self.server_address = server_address
        #: Why it was ended, where the server has sent too much; for people.
        self.flood = ""

    def data_received(self, data: bytes, datatype: int | None = None) -> None:
        if self._greeting is not None:
            try:
                data = self._greeting.feed(data)
            except TooManyMessagesError as error:
                self._end(error)
                return
            if not data:
                return
            self._greeting = None
        for begin in range(0, len(data), PIECE):
            if self.flood:
                return
            super().data_received(data[begin : begin + PIECE], datatype)

    def process_packet(self, pkttype: int, pktid: int, packet: SSHPacket) -> bool | Awaitable[None]:
        """A message that belongs to no channel, and to no login or key exchange under way: it costs once more."""
        self._take(self._budget.key_exchange if pkttype == MSG_KEXINIT else lambda: self._budget.spend(1))
        return super().process_packet(pkttype, pktid, packet)

    def send_packet(self, pkttype: int, *args: bytes, handler: Any = None) -> None:
        if pkttype == MSG_CHANNEL_DATA:
            self._budget.sent(sum(map(len, args)))
        super().send_packet(pkttype, *args, handler=handler)

    def _recv_pkthdr(self) -> bool:
        """asyncssh's: the header of each message is read here."""
        found = super()._recv_pkthdr()
        if found:
            if self._auth_complete:
                self._budget.logged_in()
            self._take(lambda: self._budget.received(self._pktlen))
        return found

    def _take(self, spend: Callable[[], None]) -> None:
        """Take messages from the budget, and put the server off if there is none left. Raises FloodError."""
        try:
            spend()
        except TooManyMessagesError as error:
            raise self._flooded(error) from None

    def _flooded(self, error: TooManyMessagesError) -> FloodError:
        self.flood = error.reason
        SERVERS.note(*self.server_address, f"it sent {error.reason}")
        return FloodError(error.reason)

    def _end(self, error: TooManyMessagesError) -> None:
        self._force_close(self._flooded(error))


def server_address(host: str, port: int, tunnel: BoundedConnection | None) -> tuple[str, int]:
    """The name of a server in `put_off`. A jump host may answer in the place of any server: its own are others."""
    return (f"{host} through {tunnel.server_address[0]}" if tunnel else host), port


async def open_connection(
    host: str,
    port: int,
    options: asyncssh.SSHClientConnectionOptions,
    *,
    wait: Literal["auth", "kex"],
    wire: FencedSocket | None = None,
    tunnel: BoundedConnection | None = None,
) -> BoundedConnection:
    """Connect by a connected socket, or through a connection to a jump host. Raises OSError, asyncssh.Error.

    wait: for the end of the login, or of the first key exchange, in which the host has shown its key.
    """
    loop = asyncio.get_running_loop()
    options.waiter = waiter = loop.create_future()

    address = server_address(host, port, tunnel)

    def make() -> BoundedConnection:
        return BoundedConnection(loop, options, wait, address)

    made: object
    if tunnel is not None:
        # asyncssh's own way: a connection is used as the session of a channel.
        _, made = await tunnel.create_connection(cast(Callable[[], asyncssh.SSHTCPSession[bytes]], make), host, port)
    else:
        transport, made = await loop.create_connection(make, sock=wire)
        # asyncio's own attribute: it reads 256 KiB at a time.
        transport.max_size = TURN  # type: ignore[attr-defined]
    assert isinstance(made, BoundedConnection)
    try:
        await waiter
    except BaseException:
        made.abort()
        await made.wait_closed()
        raise
    return made
