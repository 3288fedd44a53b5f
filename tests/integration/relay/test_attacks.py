"""Hostile agents and lost connections: garbage, floods, silence, resets, and a relay that is started again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from deploy.stack.child import spawn, stop
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from endpoints.connect import dial, presence
from endpoints.connect.relay_address import RelayAddress
from endpoints.gridftp.agent.keys import AgentIdentity
from endpoints.gridftp.agent.tunnel import frames, sign_in, websocket
from endpoints.gridftp.agent.tunnel.frames import FrameType
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from endpoints.gridftp.agent.tunnel.websocket import Opcode
from endpoints.models import Endpoint
from identity.models import User
from tests.servers.relay_server import HOST, RelayServer, agent, make_identity, relay_server
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.relay.bounds import RelayBounds

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(90)]
BOUNDS = RelayBounds(sign_in_seconds=1.0, without_head=20, strangers_of_network=5, messages=500)
Laptop = tuple[Endpoint, AgentIdentity]


@pytest.fixture
def relay(transactional_db: None, redis_server: Any, settings: Any) -> Iterator[RelayServer]:
    with relay_server(settings, BOUNDS) as running:
        yield running


@pytest.fixture
def laptop(alice: User) -> Laptop:
    return make_identity(alice, "laptop")


class RawAgent:
    """An agent that does what a test wants, on a plain socket."""

    def __init__(self, port: int, address: str = HOST) -> None:
        """address: as the front server reports it."""
        self.sock = socket.create_connection((HOST, port), 10)
        request = websocket.request(HOST, "/connect/tunnel", websocket.new_key())
        self.sock.sendall(request.replace(b"\r\n\r\n", b"\r\nX-Forwarded-For: %b\r\n\r\n" % address.encode(), 1))
        self._decoder = websocket.MessageDecoder(from_client=False, longest=frames.MAX_MESSAGE)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = self.sock.recv(1)
            assert more, head
            head += more
        self.status = head.split(b" ")[1]

    def __enter__(self) -> RawAgent:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def documents(self) -> Iterator[dict[str, Any]]:
        """The documents of the relay, until it ends the connection."""
        while data := self._received():
            for message in self._decoder.feed(data):
                if message.opcode is Opcode.TEXT:
                    yield json.loads(message.payload)

    def _received(self) -> bytes:
        try:
            return self.sock.recv(65536)
        except ConnectionResetError:
            return b""

    def is_ended(self) -> bool:
        return not any("welcome" in found for found in self.documents())

    def send(self, opcode: Opcode, payload: bytes) -> None:
        self.sock.sendall(websocket.encode(opcode, payload, mask=True))

    def sign_in(self, identity: AgentIdentity) -> None:
        said = self.documents()
        nonce = bytes.fromhex(next(said)["challenge"])
        signature = identity.sign(sign_in.text_to_sign(nonce, HOST)).hex()
        self.send(Opcode.TEXT, json.dumps({"chain": identity.chain, "signature": signature}).encode())
        assert "welcome" in next(said)


def works(relay: RelayServer, laptop: Laptop) -> bool:
    """Whether the relay serves an honest agent."""
    with agent(relay.service, laptop[1]):
        return presence.presence_of([laptop[0].pk])[laptop[0].pk].connected


@pytest.mark.parametrize(
    "octets",
    [
        os.urandom(5000),
        b"\x82\x05hello",  # not masked
        b"\x82\xff" + b"\x7f" * 8 + bytes(5000),  # endless
        websocket.encode(Opcode.TEXT, b"{}" * 9000, mask=True),
        websocket.encode(Opcode.TEXT, b"[" * 16000, mask=True),
        websocket.encode(Opcode.TEXT, b'{"chain": 1, "signature": [], "epoch": "x"}', mask=True),
        websocket.encode(Opcode.TEXT, b"{}", mask=True) * 2,
        websocket.encode(Opcode.BINARY, frames.encode(FrameType.DATA, 1, b"x"), mask=True),  # before the sign-in
        websocket.encode(Opcode.CLOSE, b"", mask=True),
    ],
    ids=["noise", "unmasked", "endless", "long", "nested", "wrong types", "twice", "early data", "close"],
)
def test_strangers_who_break_the_protocol_are_cut_off(relay: RelayServer, laptop: Laptop, octets: bytes) -> None:
    with RawAgent(relay.port) as raw:
        raw.sock.sendall(octets)
        assert raw.is_ended()
    assert works(relay, laptop)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /connect/tunnel HTTP/1.1\r\n\r\n",
        b"GET /connect/tunnel HTTP/1.1\r\nHost: x\r\n\r\n",
        b"no head at all\r\n\r\n",
        b"x" * 20_000,
        b"WAYBIL",
    ],
)
def test_what_is_neither_agent_nor_worker_is_refused(relay: RelayServer, head: bytes) -> None:
    with socket.create_connection((HOST, relay.port), 10) as sock:
        sock.sendall(head)
        try:
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
        except ConnectionResetError:
            answer = b""
    assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 426")


def test_connections_without_a_head_are_few_and_keep_nobody_out(relay: RelayServer, laptop: Laptop) -> None:
    silent = [socket.create_connection((HOST, relay.port), 10) for _ in range(BOUNDS.without_head + 10)]
    try:
        for sock in silent[:10]:
            sock.settimeout(0.9 * BOUNDS.sign_in_seconds)
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1) == b"", "the oldest were cut off before their time was over"
        assert works(relay, laptop)
    finally:
        for sock in silent:
            sock.close()


def test_who_does_not_sign_in_is_cut_off_in_time_and_makes_room(relay: RelayServer, laptop: Laptop) -> None:
    silent = [RawAgent(relay.port) for _ in range(BOUNDS.strangers_of_network)]
    assert {raw.status for raw in silent} == {b"101"}
    with RawAgent(relay.port) as one_more:
        assert one_more.status == b"101"
        assert silent[0].is_ended(), "the oldest of a network that is full gives way"
    assert all(raw.is_ended() for raw in silent)
    for raw in silent:
        raw.sock.close()
    assert works(relay, laptop)


def test_eight_addresses_without_an_account_keep_no_agent_out(
    transactional_db: None, redis_server: Any, settings: Any, laptop: Laptop
) -> None:
    bounds = RelayBounds(sign_in_seconds=60.0, strangers=24, strangers_of_network=8)
    with relay_server(settings, bounds) as running, contextlib.ExitStack() as attack:
        for number in range(8 * bounds.strangers_of_network):
            attack.enter_context(RawAgent(running.port, f"198.51.{number % 8}.1"))
        for _ in range(5):
            attack.enter_context(RawAgent(running.port, "198.51.0.1"))
            with RawAgent(running.port, "192.0.2.1") as honest:
                honest.sign_in(laptop[1])


def test_a_flood_of_small_messages_ends_the_tunnel(relay: RelayServer, laptop: Laptop, alice: User) -> None:
    other = make_identity(alice, "other")
    with agent(relay.service, other[1]) as honest, RawAgent(relay.port) as raw:
        raw.sign_in(laptop[1])
        ping = websocket.encode(Opcode.PING, b"", mask=True)
        with contextlib.suppress(OSError):
            for _ in range(1000):
                raw.sock.sendall(ping * 1000)
            raise AssertionError("a million pings were accepted")
        assert honest.statuses == ["connecting", "connected"]


def test_a_flood_of_channels_gets_refusals_and_the_relay_goes_on(relay: RelayServer, laptop: Laptop) -> None:
    with RawAgent(relay.port) as raw:
        raw.sign_in(laptop[1])
        for number in range(1, 401, 2):
            content = {"kind": "data", "token": "t" * 1000}
            raw.send(Opcode.BINARY, frames.document(FrameType.OPEN, number, content))
        eventually(lambda: relay.look(lambda found: not any(one.channels.channels for one in found.tunnels.values())))
    assert works(relay, laptop)


def test_data_beyond_the_credit_ends_the_tunnel(relay: RelayServer, laptop: Laptop) -> None:
    with RawAgent(relay.port) as raw:
        raw.sign_in(laptop[1])
        token = dial.new_data_token([laptop[0].pk], user_id=laptop[0].owner_id)
        raw.send(Opcode.BINARY, frames.document(FrameType.OPEN, 1, {"kind": "data", "token": token}))
        raw.send(Opcode.BINARY, frames.encode(FrameType.DATA, 1, bytes(30_000)))
        assert raw.is_ended()


def test_an_agent_that_falls_silent_is_away_within_5_s(relay: RelayServer, laptop: Laptop) -> None:
    """It neither reads nor answers pings; no end of the connection is seen."""
    with RawAgent(relay.port) as raw:
        raw.sign_in(laptop[1])
        begun = time.monotonic()
        eventually(lambda: presence.away_since(laptop[0].pk) is not None)
        # Not at once either: a ping has gone unanswered. The upper bound is DEAD_SECONDS and one round of pings.
        assert time.monotonic() - begun > 3.0


def test_a_connection_that_is_reset_is_away_at_once_and_comes_back(relay: RelayServer, laptop: Laptop) -> None:
    with RawAgent(relay.port) as raw:
        raw.sign_in(laptop[1])
        raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually(lambda: presence.away_since(laptop[0].pk) is not None)
    with agent(relay.service, laptop[1]) as running:
        relay.look(lambda found: found.tunnels[str(laptop[0].pk)].abort("cut"))
        eventually(lambda: running.statuses.count("connected") == 2)


def test_a_relay_that_stops_says_when_to_come_back_and_gets_its_agents_again(
    transactional_db: None, redis_server: Any, settings: Any, laptop: Laptop
) -> None:
    with relay_server(settings) as first:
        port, service = first.port, first.service
        running = agent(service, laptop[1])
        seen = running.__enter__()
    try:
        assert presence.away_since(laptop[0].pk) is not None
        with relay_server(settings, port=port):
            eventually(lambda: seen.statuses.count("connected") == 2)
            assert presence.away_since(laptop[0].pk) is None
            assert seen.statuses[2].startswith("away: the relay restarts")
    finally:
        running.__exit__(None, None, None)


def relay_process(environ: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    before = log.stat().st_size if log.exists() else 0
    process = spawn([sys.executable, "-m", "deploy.cli", "relay"], log=log, env=environ, cwd=CHECKOUT)
    eventually(lambda: b"relay: listening on" in log.read_bytes()[before:] or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    return process


@pytest.fixture
def environ(
    transactional_db: None, postgres: Postgres, redis_server: Redis, settings: Any, tmp_path: Path
) -> dict[str, str]:
    """The environment of a relay process that this test's database names, with a free port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    settings.RELAY = RelayAddress(HOST, port)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": postgres.url(str(connections["default"].settings_dict["NAME"])),
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": settings.SECRET_KEY,
        "WAYBILL_HOME": str(tmp_path),
        "WAYBILL_RELAY": f"{HOST}:{port}",
        "WAYBILL_PUBLIC_URL": f"http://{HOST}:{port}",
    }


def test_a_relay_process_that_is_killed_leaves_nobody_connected(
    environ: dict[str, str], laptop: Laptop, tmp_path: Path
) -> None:
    """The product's own command, SIGKILL, and its agents after the next start."""
    log = tmp_path / "relay.log"
    process = relay_process(environ, log)
    try:
        with agent(ServiceAddress(environ["WAYBILL_PUBLIC_URL"]), laptop[1]) as running:
            asyncio.run(dial.open_control(laptop[0].pk)).sock.close()
            process.send_signal(signal.SIGKILL)
            process.wait(60)
            eventually(lambda: presence.away_since(laptop[0].pk) is not None)
            process = relay_process(environ, log)
            eventually(lambda: running.statuses.count("connected") == 2)
            assert presence.away_since(laptop[0].pk) is None
    finally:
        stop(process)


def test_a_relay_process_that_gets_sigterm_sends_its_agents_away_and_ends(
    environ: dict[str, str], laptop: Laptop, tmp_path: Path
) -> None:
    log = tmp_path / "relay.log"
    process = relay_process(environ, log)
    try:
        with agent(ServiceAddress(environ["WAYBILL_PUBLIC_URL"]), laptop[1]) as running:
            held = asyncio.run(dial.open_control(laptop[0].pk)).sock
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            held.close()
            eventually(lambda: any(status.startswith("away: the relay restarts") for status in running.statuses))
            assert presence.away_since(laptop[0].pk) is not None
        assert "relay: stopped" in log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        stop(process)
