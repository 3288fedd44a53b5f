"""An agent whose computer has slept: what waits in its tunnel was said by a service that has given it up since."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from endpoints.gridftp.agent.tunnel import connection, websocket
from endpoints.gridftp.agent.tunnel.connection import TunnelConnection
from endpoints.gridftp.agent.tunnel.multiplexer import ChannelHandler, TunnelChannel
from transferapi.config import CHECKOUT

#: Seconds of silence after which the agent's process gives a tunnel up, in these tests.
DEAD = 0.5
AGENT = f"""
import sys
from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.agent.tunnel import connection
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from endpoints.gridftp.agent.tunnel.tunnel import Tunnel
from endpoints.gridftp.server import GridFtpServer

connection.DEAD_SECONDS = {DEAD}
with GridFtpServer(sys.argv[1], port=None) as server:
    identity = AgentIdentity(AgentKey.new(), "")
    Tunnel(ServiceAddress(sys.argv[2]), identity, lambda control: server.serve_socket(control, "")).run()
"""


class Relay(TunnelConnection):
    """The relay's end of a tunnel, which lets every agent in."""

    def __init__(self) -> None:
        super().__init__(is_client=False)
        self.welcomed = asyncio.Event()
        self._head: bytes | None = b""

    def data_received(self, data: bytes) -> None:
        if self._head is None:
            super().data_received(data)
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            key = websocket.parse_head(self._head.partition(b"\r\n\r\n")[0]).fields["sec-websocket-key"]
            self._head = None
            assert self.transport
            accept = websocket.accept_key(key)
            answer = f"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
            self.transport.write(answer.encode())
            self.send_document({"welcome": 1})
            self.signed_in = True
            self.welcomed.set()

    def document_received(self, content: Mapping[str, Any]) -> None:
        raise AssertionError(content)

    def channel_opened(self, channel: TunnelChannel, content: Mapping[str, Any]) -> None:
        raise AssertionError(content)

    def tunnel_lost(self) -> None:
        pass


class Control(ChannelHandler):
    """A control channel of the agent."""

    def __init__(self) -> None:
        self.octets = bytearray()
        self.ended = asyncio.Event()

    def data(self, octets: bytes) -> None:
        self.octets += octets

    def reset(self, code: str, reason: str) -> None:
        self.ended.set()

    async def hears(self, words: bytes) -> None:
        async with asyncio.timeout(20):
            while words not in self.octets:  # noqa: ASYNC110 - filled by another process
                await asyncio.sleep(0.01)


@pytest.fixture
async def relay() -> AsyncIterator[tuple[list[Relay], str]]:
    ends: list[Relay] = []

    def new() -> Relay:
        ends.append(Relay())
        return ends[-1]

    server = await asyncio.get_running_loop().create_server(new, "127.0.0.1", 0)
    yield ends, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for end in ends:
        end.abort("the test is over")


@pytest.mark.parametrize("seconds", [0.0, 2 * DEAD])
async def test_an_agent_that_stood_still_for_long_does_nothing_of_what_was_said_before(
    folder: Path, relay: tuple[list[Relay], str], seconds: float
) -> None:
    """A shorter standstill is none: the service waits for it."""
    (folder / "file").write_bytes(b"good")
    ends, url = relay
    pinging: list[asyncio.Task[None]] = []
    agent = await asyncio.create_subprocess_exec(sys.executable, "-c", AGENT, str(folder), url, cwd=CHECKOUT)
    try:
        async with asyncio.timeout(30):
            while not (ends and ends[0].welcomed.is_set()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
        end = ends[0]
        pinging.append(asyncio.create_task(ping(end)))
        control = Control()
        channel = end.channels.open({"kind": "control"}, control)
        channel.grant(100_000)
        await control.hears(b"220 ")
        channel.send(b"USER a\r\nPASS b\r\n")
        await control.hears(b"230 ")
        os.kill(agent.pid, signal.SIGSTOP)
        await asyncio.sleep(0.02)
        channel.send(b"DELE /file\r\n")
        await asyncio.sleep(seconds)
        os.kill(agent.pid, signal.SIGCONT)
        if seconds:
            await asyncio.wait_for(end.lost, 20)
            assert (folder / "file").read_bytes() == b"good"
        else:
            await control.hears(b"250 ")
            assert not os.listdir(folder)
    finally:
        for task in pinging:
            task.cancel()
        agent.kill()
        await agent.wait()


async def ping(end: Relay) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            end.ping()
            await asyncio.sleep(DEAD / 10)


async def test_the_relay_does_not_read_what_waited_for_it_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends are one class; the clock goes on while a machine sleeps."""
    now = 1000.0
    monkeypatch.setattr(connection, "steady_seconds", lambda: now)
    end = Relay()
    end._head = None
    end.signed_in = True
    read: list[bytes] = []

    def feed(data: bytes) -> list[Any]:
        read.append(data)
        return []

    monkeypatch.setattr(end._decoder, "feed", feed)
    now += connection.DEAD_SECONDS - 0.1
    end.data_received(b"in time")
    assert (read, end.why_lost) == ([b"in time"], "")
    now += connection.DEAD_SECONDS + 0.1
    end.data_received(b"late")
    assert read == [b"in time"]
    assert end.why_lost
