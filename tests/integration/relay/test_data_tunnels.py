"""Tunnels of an agent for data: when they are opened, what they carry, who may have one, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from endpoints.connect import dial
from endpoints.gridftp.agent.keys import AgentIdentity
from endpoints.gridftp.agent.tunnel import data_tunnels, frames, websocket
from endpoints.gridftp.agent.tunnel.data_tunnels import MOST, DataTunnelOffer
from endpoints.gridftp.agent.tunnel.frames import FrameType
from endpoints.gridftp.agent.tunnel.websocket import DATA_SUBPROTOCOL, Opcode
from endpoints.models import Endpoint
from identity.models import User
from tests.servers.relay_server import HOST, RelayServer, RunningAgent, agent, make_identity, relay_server
from tests.waiting import eventually
from transferapi.relay.agent_tunnel import AgentTunnel
from transferapi.relay.bounds import RelayBounds
from transferapi.relay.relay import Relay

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]
BOUNDS = RelayBounds(rate=0, data_tunnels_of_agent=3, sign_in_seconds=1.0)
Laptop = tuple[Endpoint, AgentIdentity]


@pytest.fixture
def relay(transactional_db: None, redis_server: Any, settings: Any) -> Iterator[RelayServer]:
    with relay_server(settings, BOUNDS) as running:
        yield running


@pytest.fixture
def laptop(alice: User) -> Laptop:
    return make_identity(alice, "laptop")


@pytest.fixture
def running(relay: RelayServer, laptop: Laptop) -> Iterator[RunningAgent]:
    with agent(relay.service, laptop[1]) as found:
        yield found


class Joined:
    """Data channels between the agent and the service, each with a token of its own."""

    def __init__(self, running: RunningAgent, laptop: Laptop, user: User) -> None:
        self.running, self.laptop, self.user = running, laptop, user

    def token(self) -> str:
        return dial.new_data_token([self.laptop[0].pk], user_id=self.user.pk)

    def open(self, token: str = "") -> tuple[socket.socket, socket.socket]:
        """The ends of the agent and of the service."""
        common = token or self.token()
        far = self.running.tunnel.open_data(common)
        near = asyncio.run(dial.join_data(common))
        near.setblocking(True)
        return far, near


@pytest.fixture
def joined(running: RunningAgent, laptop: Laptop, alice: User) -> Joined:
    return Joined(running, laptop, alice)


def arrives(source: socket.socket, target: socket.socket, size: int = 1 << 20) -> bool:
    data = os.urandom(size)
    sender = threading.Thread(target=source.sendall, args=(data,))
    sender.start()
    target.settimeout(20)
    found = b""
    while len(found) < size and (more := target.recv(65536)):
        found += more
    sender.join()
    return found == data


def is_ended(sock: socket.socket) -> bool:
    sock.settimeout(60)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def main_of(relay: Relay) -> AgentTunnel:
    (tunnel,) = relay.tunnels.values()
    return tunnel


def loads(relay: RelayServer) -> list[int]:
    """The channels of the agent's own tunnel, and those of its tunnels for data, sorted."""

    def read(found: Relay) -> list[int]:
        main = main_of(found)
        return [len(main.channels.channels), *sorted(len(one.channels.channels) for one in main.data_tunnels)]

    return relay.look(read)


def test_one_channel_needs_no_tunnel_of_its_own_and_several_are_spread(relay: RelayServer, joined: Joined) -> None:
    with ExitStack() as stack:
        pairs = [joined.open()]
        assert loads(relay) == [1]
        pairs += [joined.open() for _ in range(6)]
        for pair in pairs:
            for end in pair:
                stack.enter_context(end)
        assert loads(relay) == [1, 2, 2, 2]
        assert all(arrives(near, far) and arrives(far, near) for far, near in pairs)
        assert not relay.look(lambda found: found.tunnels[str(joined.laptop[0].pk)].why_lost)


def test_channels_of_one_token_keep_their_tunnel_and_their_order(relay: RelayServer, joined: Joined) -> None:
    """A late channel of one file must not meet the other end of the next one."""
    with ExitStack() as stack:
        first = joined.open()
        common = joined.token()
        # All are asked for before the tunnel for data is connected.
        far = [joined.running.tunnel.open_data(common) for _ in range(5)]
        near = [asyncio.run(dial.join_data(common)) for _ in range(5)]
        for end in (*first, *far, *near):
            stack.enter_context(end)
        for number, end in enumerate(far):
            end.sendall(bytes([number]))
        for number, end in enumerate(near):
            end.setblocking(True)
            end.settimeout(60)
            assert end.recv(1) == bytes([number])
        assert loads(relay) == [1, 5]


def test_idle_ones_are_closed_and_opened_again(
    relay: RelayServer, joined: Joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_tunnels, "IDLE_SECONDS", 0.1)
    with ExitStack() as stack:
        for end in joined.open():
            stack.enter_context(end)
        for _ in range(2):
            far, near = joined.open()
            assert loads(relay) == [1, 1]
            with far, near:
                assert arrives(near, far)
            eventually(lambda: loads(relay) == [1])
    assert joined.running.status == "connected"


def test_one_that_is_cut_takes_its_channels_with_it_and_no_others(relay: RelayServer, joined: Joined) -> None:
    with ExitStack() as stack:
        kept, lost = joined.open(), joined.open()
        for end in (*kept, *lost):
            stack.enter_context(end)
        (further,) = relay.look(lambda found: list(main_of(found).data_tunnels))
        relay.look(lambda _: further.abort("cut"))
        assert all(is_ended(end) for end in lost)
        assert arrives(kept[1], kept[0])
        far, near = joined.open()
        stack.enter_context(far)
        stack.enter_context(near)
        assert arrives(near, far)
        assert loads(relay) == [1, 1]


def test_they_end_with_the_tunnel_of_the_agent(relay: RelayServer, joined: Joined) -> None:
    pairs = [joined.open() for _ in range(3)]
    further = relay.look(lambda found: list(main_of(found).data_tunnels))
    relay.look(lambda found: main_of(found).abort("cut"))
    assert all(is_ended(end) for pair in pairs for end in pair)
    eventually(lambda: relay.look(lambda _: all(one.why_lost for one in further)))
    for pair in pairs:
        for end in pair:
            end.close()


def test_where_the_relay_has_no_more_the_channels_go_by_the_first(
    transactional_db: None, redis_server: Any, settings: Any, laptop: Laptop, alice: User
) -> None:
    for bounds in (RelayBounds(data_tunnels=0), RelayBounds(data_tunnels_of_agent=0)):
        with relay_server(settings, bounds) as relay, agent(relay.service, laptop[1]) as running:
            made = Joined(running, laptop, alice)
            with ExitStack() as stack:
                pairs = [made.open() for _ in range(4)]
                for pair in pairs:
                    for end in pair:
                        stack.enter_context(end)
                assert loads(relay) == [4]
                assert all(arrives(near, far, 100_000) for far, near in pairs)


def test_a_token_whose_tunnel_was_refused_stays_on_the_first(
    transactional_db: None, redis_server: Any, settings: Any, laptop: Laptop, alice: User
) -> None:
    """Its channels would overtake each other, if a later one went by another tunnel."""
    asked = []
    with relay_server(settings, RelayBounds(data_tunnels=0)) as relay, agent(relay.service, laptop[1]) as running:
        real = relay.look(lambda found: found.agent_of)

        def counted(key: str) -> AgentTunnel:
            asked.append(key)
            return real(key)

        relay.look(lambda found: setattr(found, "agent_of", counted))
        made = Joined(running, laptop, alice)
        with ExitStack() as stack:
            token = made.token()
            for common in (made.token(), token, token, token):
                for end in (pair := made.open(common)):
                    stack.enter_context(end)
                assert arrives(pair[1], pair[0], 100_000)
            assert loads(relay) == [4]
    assert len(asked) == 1


# ---- who may have one


class RawDataTunnel:
    """A claim to be a further tunnel of an agent, on a plain socket."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection((HOST, port), 10)
        self.sock.sendall(websocket.request(HOST, "/connect/tunnel", websocket.new_key(), DATA_SUBPROTOCOL))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = self.sock.recv(1)
            assert more, head
            head += more
        assert DATA_SUBPROTOCOL.encode() in head
        self._decoder = websocket.MessageDecoder(from_client=False, longest=1 << 20)

    def __enter__(self) -> RawDataTunnel:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def say(self, content: object) -> None:
        self.sock.sendall(websocket.encode(Opcode.TEXT, json.dumps(content).encode(), mask=True))

    def send(self, frame: bytes) -> None:
        self.sock.sendall(websocket.encode(Opcode.BINARY, frame, mask=True))

    def messages(self) -> Iterator[websocket.Message]:
        self.sock.settimeout(60)
        while data := self.sock.recv(65536):
            yield from self._decoder.feed(data)

    def documents(self) -> Iterator[dict[str, Any]]:
        for message in self.messages():
            if message.opcode is Opcode.TEXT:
                yield json.loads(message.payload)


def key_of(relay: RelayServer) -> str:
    return relay.look(lambda found: main_of(found).data_key)


def test_a_wrong_key_opens_none(relay: RelayServer, running: RunningAgent) -> None:
    for wrong in (key_of(relay)[:-1], "", 7, None):
        with RawDataTunnel(relay.port) as claimed:
            claimed.say({"key": wrong})
            # The connection ends after this one.
            assert [document["refused"] for document in claimed.documents()] == ["unknown"]
    assert loads(relay) == [0]


def test_the_key_of_a_lost_tunnel_opens_none(relay: RelayServer, running: RunningAgent) -> None:
    key = key_of(relay)
    relay.look(lambda found: main_of(found).abort("cut"))
    eventually(lambda: relay.look(lambda found: bool(found.tunnels)) and key_of(relay) != key)
    with RawDataTunnel(relay.port) as claimed:
        claimed.say({"key": key})
        assert next(claimed.documents())["refused"] == "unknown"


def test_an_agent_has_no_more_than_it_may(relay: RelayServer, running: RunningAgent) -> None:
    with ExitStack() as stack:
        for _ in range(BOUNDS.data_tunnels_of_agent):
            claimed = stack.enter_context(RawDataTunnel(relay.port))
            claimed.say({"key": key_of(relay)})
            assert next(claimed.documents()) == {"welcome": 0}
        with RawDataTunnel(relay.port) as claimed:
            claimed.say({"key": key_of(relay)})
            assert next(claimed.documents())["refused"] == "busy"
    eventually(lambda: loads(relay) == [0])


def test_before_the_key_there_is_neither_a_channel_nor_much_time(relay: RelayServer, running: RunningAgent) -> None:
    with RawDataTunnel(relay.port) as claimed:
        claimed.send(frames.document(FrameType.OPEN, 1, {"kind": "data", "token": "x"}))
        assert [message.opcode for message in claimed.messages()][-1] is Opcode.CLOSE
    with RawDataTunnel(relay.port) as claimed:
        assert list(claimed.messages()) == []


def test_one_has_fewer_channels_than_the_tunnel_of_the_agent(relay: RelayServer, joined: Joined) -> None:
    most = data_tunnels.DATA_TUNNEL_LIMITS.channels
    with RawDataTunnel(relay.port) as claimed:
        claimed.say({"key": key_of(relay)})
        assert next(claimed.documents()) == {"welcome": 0}
        for number in range(most + 1):
            claimed.send(frames.document(FrameType.OPEN, 2 * number + 1, {"kind": "data", "token": joined.token()}))
        refusal = frames.decode(next(one for one in claimed.messages() if one.opcode is Opcode.BINARY).payload)
        assert (refusal.type, refusal.channel) == (FrameType.REFUSE, 2 * most + 1)
        assert loads(relay) == [0, most]


@pytest.mark.parametrize(
    ("content", "most"),
    [
        ({}, 0),
        ({"data": None}, 0),
        ({"data": {"key": "", "most": 4}}, 0),
        ({"data": {"key": "k"}}, 0),
        ({"data": {"key": "k", "most": "4"}}, 0),
        ({"data": {"key": "k", "most": -1}}, 0),
        ({"data": {"key": "k", "most": 4}}, 4),
        ({"data": {"key": "k", "most": 10**9}}, MOST),
    ],
)
def test_the_offer_of_a_relay_is_read_with_care(content: dict[str, Any], most: int) -> None:
    """An older relay offers none."""
    assert DataTunnelOffer.read(content).most == most
