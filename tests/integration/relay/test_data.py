"""Relayed data channels: two agents, or an agent and the service, joined by a token; bounds, rates and what is seen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core import signing

from deploy.endpoint.authority import CertificateFiles
from endpoints.connect import dial, relay_messages
from endpoints.gridftp.agent.keys import AgentIdentity
from endpoints.gridftp.faults import FaultError
from endpoints.models import Endpoint, RelayedOctets
from identity.models import User
from tests.gridftp.authority import Authority
from tests.servers.relay_server import HOST, RelayServer, RunningAgent, agent, make_identity, relay_server
from tests.waiting import eventually
from transferapi.relay.bounds import RelayBounds

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]
BOUNDS = RelayBounds(rate=0, channels_of_user=4, partner_seconds=1.5, waiting_of_token=3)
Laptop = tuple[Endpoint, AgentIdentity]


@pytest.fixture
def relay(transactional_db: None, redis_server: Any, settings: Any) -> Iterator[RelayServer]:
    with relay_server(settings, BOUNDS) as running:
        yield running


@pytest.fixture
def laptops(alice: User) -> tuple[Laptop, Laptop]:
    return make_identity(alice, "laptop"), make_identity(alice, "desktop")


@pytest.fixture
def pair(relay: RelayServer, laptops: tuple[Laptop, Laptop]) -> Iterator[tuple[RunningAgent, RunningAgent]]:
    with agent(relay.service, laptops[0][1]) as one, agent(relay.service, laptops[1][1]) as two:
        yield one, two


def token(laptops: tuple[Laptop, ...], user: User, seconds: float = 60) -> str:
    return dial.new_data_token([laptop[0].pk for laptop in laptops], user_id=user.pk, seconds=seconds)


def send_all(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def read_all(sock: socket.socket) -> bytes:
    sock.settimeout(30)
    return b"".join(iter(lambda: sock.recv(65536), b""))


def moved(source: socket.socket, target: socket.socket, data: bytes) -> bool:
    sender = threading.Thread(target=send_all, args=(source, data))
    sender.start()
    found = read_all(target)
    sender.join()
    return found == data


def is_ended(sock: socket.socket) -> bool:
    sock.settimeout(60)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_two_agents_are_joined_and_octets_are_counted(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    common = token(laptops, alice)
    one, two = (running.tunnel.open_data(common) for running in pair)
    data = os.urandom(5 << 20)
    with one, two:
        assert moved(one, two, data)
        assert moved(two, one, data[:1000])
    eventually(lambda: relay.look(lambda found: found.rendezvous.pairs) == 0)
    eventually(lambda: RelayedOctets.objects.count() == 2)
    counted = dict(RelayedOctets.objects.values_list("endpoint_id", "octets"))
    assert counted == {laptop[0].pk: len(data) + 1000 for laptop in laptops}


def test_one_token_joins_many_streams(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    common = token(laptops, alice)
    ones = [pair[0].tunnel.open_data(common) for _ in range(3)]
    twos = [pair[1].tunnel.open_data(common) for _ in range(3)]
    assert all(moved(one, two, os.urandom(100_000)) for one, two in zip(ones, twos, strict=True))
    for sock in (*ones, *twos):
        sock.close()


def test_the_service_joins_a_channel_of_an_agent(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    common = token(laptops[:1], alice)
    far = pair[0].tunnel.open_data(common)
    near = asyncio.run(dial.join_data(common))
    near.setblocking(True)
    data = os.urandom(3 << 20)
    with far, near:
        assert moved(far, near, data)
        assert moved(near, far, data)


def test_the_service_may_come_first(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    common = token(laptops[:1], alice)
    joined: list[socket.socket] = []
    waiting = threading.Thread(target=lambda: joined.append(asyncio.run(dial.join_data(common))))
    waiting.start()
    eventually(lambda: relay.look(lambda found: found.rendezvous.waiting) == 1)
    far = pair[0].tunnel.open_data(common)
    waiting.join()
    joined[0].setblocking(True)
    with far, joined[0]:
        assert moved(joined[0], far, b"x" * 100_000)


# ---- tokens


def test_an_agent_uses_only_tokens_that_name_it(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User, bob: User
) -> None:
    others = make_identity(bob, "other"), laptops[0]
    foreign = token(others, bob)
    for wrong in (foreign, foreign[:-1] + ("A" if foreign[-1] != "A" else "B"), "", "x" * 3000):
        with pair[1].tunnel.open_data(wrong) as sock:
            assert is_ended(sock)


def test_an_expired_token_opens_nothing(
    pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    with pair[0].tunnel.open_data(token(laptops, alice, seconds=-5)) as sock:
        assert is_ended(sock)


def test_a_channel_whose_other_end_never_comes_ends(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    with pair[0].tunnel.open_data(token(laptops, alice)) as sock:
        sock.sendall(b"octets that wait")
        assert is_ended(sock)
    with pytest.raises(FaultError):
        asyncio.run(dial.join_data(token(laptops[:1], alice)))
    assert relay.look(lambda found: found.rendezvous.waiting) == 0


def test_a_laptop_is_not_joined_with_itself(laptops: tuple[Laptop, Laptop], alice: User) -> None:
    with pytest.raises(ValueError, match="two parties"):
        token((laptops[0], laptops[0]), alice)


def test_who_gives_up_waiting_is_not_joined(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    common = token(laptops, alice)
    pair[0].tunnel.open_data(common).close()
    eventually(lambda: relay.look(lambda found: found.rendezvous.waiting) == 0)
    with pair[1].tunnel.open_data(common) as two, pair[0].tunnel.open_data(common) as one:
        assert moved(one, two, b"data")


# ---- bounds


def test_a_user_has_a_number_of_channels(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    open_ones: list[socket.socket] = []
    for _ in range(BOUNDS.channels_of_user):
        common = token(laptops, alice)
        open_ones += [running.tunnel.open_data(common) for running in pair]
    eventually(lambda: relay.look(lambda found: found.rendezvous.pairs) == BOUNDS.channels_of_user)
    common = token(laptops, alice)
    more = [running.tunnel.open_data(common) for running in pair]
    assert all(is_ended(sock) for sock in more)
    # The others go on, and an end makes room.
    assert moved(open_ones[0], open_ones[1], b"x" * 10_000)
    for sock in (*open_ones, *more):
        sock.close()
    eventually(lambda: relay.look(lambda found: found.rendezvous.pairs) == 0)
    common = token(laptops, alice)
    with pair[0].tunnel.open_data(common) as one, pair[1].tunnel.open_data(common) as two:
        assert moved(one, two, b"again")


def test_a_receiver_that_does_not_read_holds_up_its_sender_and_nothing_else(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    slow, quick = token(laptops, alice), token(laptops, alice)
    one, two = (running.tunnel.open_data(slow) for running in pair)
    one.settimeout(1.0)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64 << 20:
            sent += one.send(bytes(65536))
    # The windows of the channel and the buffers of two pairs of sockets.
    assert sent < 3 << 20
    with pair[0].tunnel.open_data(quick) as source, pair[1].tunnel.open_data(quick) as target:
        assert moved(source, target, os.urandom(1 << 20))
    two.settimeout(60)
    found = 0
    while found < sent:
        found += len(two.recv(65536))
    one.close()
    two.close()


def test_the_rate_of_a_user_is_kept(
    transactional_db: None, redis_server: Any, settings: Any, laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    rate = 2_000_000
    with (
        relay_server(settings, RelayBounds(rate=rate)) as relay,
        agent(relay.service, laptops[0][1]) as first,
        agent(relay.service, laptops[1][1]) as second,
    ):
        common = token(laptops, alice)
        begun = time.monotonic()
        with first.tunnel.open_data(common) as one, second.tunnel.open_data(common) as two:
            assert moved(one, two, os.urandom(3_000_000))
        # Half a second is given in advance. It must not be quicker; how much slower it is depends on the machine.
        assert time.monotonic() - begun > (3_000_000 - rate * 0.5 - 300_000) / rate


def test_the_relay_sees_no_plain_text(
    relay: RelayServer,
    pair: tuple[RunningAgent, RunningAgent],
    laptops: tuple[Laptop, Laptop],
    alice: User,
    authority: Authority,
    host_of: Callable[[Authority], CertificateFiles],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parties speak TLS to each other inside the channel, as GridFTP does (DCAU, PROT P)."""
    from transferapi.relay.splice import SpliceEnd

    seen = bytearray()
    passing = SpliceEnd.data

    def watched(self: SpliceEnd, octets: bytes) -> None:
        seen.extend(octets)
        passing(self, octets)

    monkeypatch.setattr(SpliceEnd, "data", watched)
    known = b"the known plain text of a file " * 1000
    host = host_of(authority)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(host.certificate, host.key)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    common = token(laptops, alice)
    one, two = (running.tunnel.open_data(common) for running in pair)
    received: list[bytes] = []

    def receive() -> None:
        with server.wrap_socket(two, server_side=True) as secured:
            data = b""
            while len(data) < len(known):
                data += secured.recv(65536)
            received.append(data)

    receiver = threading.Thread(target=receive)
    receiver.start()
    with client.wrap_socket(one) as secured:
        secured.sendall(known)
        receiver.join()
    assert received == [known]
    assert len(seen) > len(known)
    assert b"plain text" not in seen


# ---- losses


def test_the_loss_of_one_tunnel_ends_the_channel_at_the_other(
    relay: RelayServer, pair: tuple[RunningAgent, RunningAgent], laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    common = token(laptops, alice)
    one, two = (running.tunnel.open_data(common) for running in pair)
    two.sendall(b"x")
    one.settimeout(60)
    assert one.recv(1) == b"x"
    relay.look(lambda found: found.tunnels[str(laptops[1][0].pk)].abort("cut"))
    with one, two:
        assert is_ended(one)
        assert is_ended(two)
    eventually(lambda: relay.look(lambda found: found.rendezvous.pairs) == 0)


def test_agents_of_two_relay_processes_are_joined(
    relay: RelayServer, transactional_db: None, settings: Any, laptops: tuple[Laptop, Laptop], alice: User
) -> None:
    with (
        relay_server(settings, BOUNDS) as other,
        agent(relay.service, laptops[0][1]) as first,
        agent(other.service, laptops[1][1]) as second,
    ):
        for parties in (laptops, laptops[::-1]):
            common = token(parties, alice)
            with first.tunnel.open_data(common) as one, second.tunnel.open_data(common) as two:
                assert moved(one, two, os.urandom(1 << 20))
        # A worker asks either one: this one names the other.
        settings.RELAY = other.relay.address
        common = token(laptops[:1], alice)
        far = first.tunnel.open_data(common)
        with far, asyncio.run(dial.join_data(common)) as near:
            near.setblocking(True)
            assert moved(far, near, b"x" * 100_000)


def test_a_second_relay_process_refuses_the_clone_of_the_first_ones_agent(
    relay: RelayServer, settings: Any, laptops: tuple[Laptop, Laptop]
) -> None:
    with relay_server(settings, BOUNDS) as other, agent(relay.service, laptops[0][1]) as first:
        with agent(other.service, laptops[0][1], connected=False) as clone:
            eventually(lambda: clone.status.startswith("cloned"))
        assert first.statuses == ["connecting", "connected"]


def test_only_this_service_may_dial(relay: RelayServer, laptops: tuple[Laptop, Laptop]) -> None:
    content = {"do": "control", "endpoint": str(laptops[0][0].pk)}
    signed = signing.dumps(content, key="the secret key of another service", salt="waybill.relay.request")
    ours = relay_messages.request(content).removeprefix(relay_messages.BEGINNING)
    for line in (signed.encode() + b"\n", b"x" + ours, b"\n", b"\xff" * 100 + b"\n"):
        with socket.create_connection((HOST, relay.port), 10) as sock:
            sock.sendall(relay_messages.BEGINNING + line)
            assert b"forbidden" in read_all(sock)
    with socket.create_connection((HOST, relay.port), 10) as sock:
        sock.sendall(relay_messages.BEGINNING + b"x" * 10_000)
        assert is_ended(sock)
