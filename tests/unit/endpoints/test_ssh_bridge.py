"""The bridge between a channel of ssh and a socket, in the last moment of a server: what it has said is passed on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import cast

import paramiko
import pytest

from endpoints.ssh.channel import BridgeOptions, CommandBridge
from endpoints.ssh.sshftp_login import _end_of

WORDS = b"500 Server is not configured for SSHFTP connections.\r\n"


class LastMoment:
    """A channel like paramiko's, whose last data and end arrive together, at the moment of the check for the end."""

    closed = False

    def __init__(self) -> None:
        self._arriving, self._arrived = WORDS, b""
        self.signal, self._other = socket.socketpair()
        self._other.send(b"!")

    @property
    def eof_received(self) -> bool:
        self._arrived, self._arriving = self._arrived + self._arriving, b""
        return True

    def fileno(self) -> int:
        return self.signal.fileno()

    def recv_ready(self) -> bool:
        return bool(self._arrived)

    def recv(self, size: int) -> bytes:
        data, self._arrived = self._arrived[:size], self._arrived[size:]
        return data

    def recv_stderr_ready(self) -> bool:
        return False

    def sendall(self, data: bytes) -> None:
        raise OSError("Socket is closed")

    def end(self) -> None:
        self.signal.close()
        self._other.close()


@pytest.fixture
def channel() -> Iterator[LastMoment]:
    channel = LastMoment()
    yield channel
    channel.end()


@pytest.mark.parametrize("said", [b"", b"USER sshftp\r\n"], ids=["while we listen", "while we speak"])
def test_the_last_words_of_a_server_are_heard(channel: LastMoment, said: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(60)
        ours.sendall(said)
        order = BridgeOptions("alice", b"", "", lambda _: True, (), 5.0)
        bridge = CommandBridge(theirs, order, lambda _: None)
        bridge._pump(cast(paramiko.Channel, channel), theirs)
        assert ours.recv(1000) == WORDS


async def test_a_cancel_right_after_the_start_leaves_no_socket_open() -> None:
    connected, server = socket.socketpair()
    ours, theirs = socket.socketpair()
    with connected, server, theirs:
        bridge = CommandBridge(connected, BridgeOptions("u", b"", "", lambda _: True, [], 1.0), lambda _: None)
        started: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(_end_of(bridge, started))
        await asyncio.sleep(0)
        started.set_result(ours)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ours.fileno() == -1
        assert server.recv(1) == b"", "the connection to the host has ended"
