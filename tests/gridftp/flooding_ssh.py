"""An ssh server (asyncssh's) that floods its client after the login, with messages that nobody asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
from asyncssh.constants import (
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_REQUEST,
    MSG_CHANNEL_WINDOW_ADJUST,
    MSG_DEBUG,
    MSG_GLOBAL_REQUEST,
    MSG_IGNORE,
    MSG_UNIMPLEMENTED,
)
from asyncssh.packet import Boolean, String, UInt32

from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import fingerprint_of, parse_ssh_key
from tests.gridftp.lying_sftp import LyingSftp
from tests.gridftp.ssh_grid import key_pair

Send = Callable[[asyncssh.SSHServerConnection], None]


def _exchange_keys(connection: asyncssh.SSHServerConnection) -> None:
    if connection._kex_complete:
        connection._send_kexinit()
        connection._kexinit_sent = True


def _channel(connection: asyncssh.SSHServerConnection) -> bytes:
    """The number of the client's first channel."""
    return UInt32(0)


#: The message of each flood, which is sent again and again.
FLOODS: dict[str, Send] = {
    "ignore": lambda to: to.send_packet(MSG_IGNORE, String(b"x" * 20)),
    "large ignore": lambda to: to.send_packet(MSG_IGNORE, String(b"x" * 4000)),
    "debug": lambda to: to.send_packet(MSG_DEBUG, Boolean(False), String(b"noise"), String(b"")),
    "unimplemented": lambda to: to.send_packet(MSG_UNIMPLEMENTED, UInt32(1)),
    "unknown": lambda to: to.send_packet(192, b"noise"),
    "global request": lambda to: to.send_packet(MSG_GLOBAL_REQUEST, String(b"noise@example.org"), Boolean(False)),
    "channel request": lambda to: to.send_packet(
        MSG_CHANNEL_REQUEST, _channel(to), String(b"noise@example.org"), Boolean(False)
    ),
    "window": lambda to: to.send_packet(MSG_CHANNEL_WINDOW_ADJUST, _channel(to), UInt32(1)),
    "empty data": lambda to: to.send_packet(MSG_CHANNEL_DATA, _channel(to), String(b"")),
    "key exchange": lambda to: _exchange_keys(to),
}


class Flooder:
    """One server. sent: messages so far. logins: how many clients have logged in."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.sent = self.logins = 0
        self.port = 0
        self.account: SshAccount
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, connection: asyncssh.SSHServerConnection) -> None:
        self.logins += 1
        running = asyncio.ensure_future(self._flood(connection))
        self._running.add(running)

    async def _flood(self, connection: asyncssh.SSHServerConnection) -> None:
        # The client opens its channel meanwhile.
        await asyncio.sleep(0.2)
        while (transport := connection._transport) is not None:
            if transport.get_write_buffer_size() < 1 << 20:
                for _ in range(100):
                    self._send(connection)
                    self.sent += 1
            await asyncio.sleep(0.001)

    async def end(self) -> None:
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


class _Door(asyncssh.SSHServer):
    def __init__(self, flooder: Flooder) -> None:
        self._flooder = flooder

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def auth_completed(self) -> None:
        self._flooder.begin(self._connection)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return True


async def _hang(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """A command that says nothing."""
    await asyncio.Event().wait()


@asynccontextmanager
async def flooding(folder: Path, send: Send) -> AsyncIterator[Flooder]:
    """folder: for keys."""
    flooder = Flooder(send)
    host_key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=lambda: _Door(flooder),
        server_host_keys=[host_key],
        sftp_factory=LyingSftp,
        process_factory=_hang,
        encoding=None,
        allow_scp=False,
    )
    flooder.port = server.get_port()
    pem = parse_ssh_key(key_pair(folder).read_text()).pem
    flooder.account = SshAccount("alice", pem, fingerprint_of(host_key.public_data))
    try:
        yield flooder
    finally:
        await flooder.end()
        server.close()
        await server.wait_closed()
