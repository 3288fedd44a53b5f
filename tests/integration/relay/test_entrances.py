"""Ports of the relay to which a server connects with data for an agent: who may come, and the limits of each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from endpoints.connect import dial
from endpoints.connect.relay_address import DataPorts, parse_data_ports
from endpoints.gridftp.agent.keys import AgentIdentity
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.models import Endpoint, RelayedOctets
from identity.models import User
from tests.integration.relay.test_data import is_ended, moved
from tests.servers.relay_server import DATA_PORTS, HOST, RelayServer, RunningAgent, agent, make_identity, relay_server
from tests.waiting import eventually
from transferapi.relay.bounds import RelayBounds

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]
BOUNDS = RelayBounds(
    rate=0, entrances_of_user=3, connections_of_entrance=2, partner_seconds=4.0, strangers_of_entrance=3
)
Laptop = tuple[Endpoint, AgentIdentity]


@pytest.fixture
def relay(transactional_db: None, redis_server: Any, settings: Any) -> Iterator[RelayServer]:
    with relay_server(settings, BOUNDS, data_ports=DATA_PORTS) as running:
        yield running


@pytest.fixture
def laptop(alice: User) -> Laptop:
    return make_identity(alice, "laptop")


@pytest.fixture
def running(relay: RelayServer, laptop: Laptop) -> Iterator[RunningAgent]:
    with agent(relay.service, laptop[1]) as one:
        yield one


class Port:
    """An open port of the relay, as a worker holds it."""

    def __init__(self, laptop: Laptop, user: User, seconds: float = 60) -> None:
        self.token = dial.new_entrance_token(laptop[0].pk, user_id=user.pk, seconds=seconds)
        self.held, self.address = asyncio.run(dial.open_entrance(self.token, {HOST}))

    def __enter__(self) -> Port:
        return self

    def __exit__(self, *_: object) -> None:
        self.held.close()

    def call(self, host: str = HOST) -> socket.socket:
        return socket.create_connection(self.address, 10, source_address=(host, 0))


def is_open(port: Port) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(port.address, 10):
        return True
    return False


def test_a_server_that_connects_is_joined_with_the_agent_and_octets_are_counted(
    relay: RelayServer, running: RunningAgent, laptop: Laptop, alice: User
) -> None:
    data = os.urandom(3 << 20)
    with Port(laptop, alice) as port, port.call() as server, running.tunnel.open_data(port.token) as far:
        assert moved(server, far, data)
        assert moved(far, server, data[:1000])
    eventually(lambda: relay.look(lambda found: (found.rendezvous.pairs, len(found.entrances))) == (0, 0))
    eventually(lambda: RelayedOctets.objects.count() == 1)
    assert RelayedOctets.objects.get().octets == len(data) + 1000


def test_the_agent_may_come_first_and_send_first(running: RunningAgent, laptop: Laptop, alice: User) -> None:
    with Port(laptop, alice) as port, running.tunnel.open_data(port.token) as far:
        far.sendall(b"x" * 5000)
        with port.call() as server:
            server.settimeout(60)
            assert server.recv(5000, socket.MSG_WAITALL) == b"x" * 5000


def test_a_stranger_is_turned_away_and_the_right_server_still_comes(
    relay: RelayServer, running: RunningAgent, laptop: Laptop, alice: User
) -> None:
    """More strangers than the relay answers in a second: they take no place from the server."""
    with Port(laptop, alice) as port:
        for _ in range(2 * BOUNDS.strangers_of_entrance):
            with port.call("127.0.0.9") as stranger:
                assert is_ended(stranger)
        with port.call() as server:
            eventually(lambda: relay.look(lambda found: found.rendezvous.waiting) == 1)
            with running.tunnel.open_data(port.token) as far:
                assert moved(server, far, os.urandom(100_000))


def test_a_flood_of_the_servers_own_host_is_bounded(
    relay: RelayServer, running: RunningAgent, laptop: Laptop, alice: User
) -> None:
    with Port(laptop, alice) as port, contextlib.ExitStack() as stack:
        calls = [stack.enter_context(port.call()) for _ in range(10)]
        eventually(lambda: relay.look(lambda found: found.rendezvous.waiting) == BOUNDS.connections_of_entrance)
        assert sum(is_ended(call) for call in calls[BOUNDS.connections_of_entrance :]) == 8
        # Those that wait for an agent that does not come are ended too, and there is room again.
        assert all(map(is_ended, calls[: BOUNDS.connections_of_entrance]))
        with port.call() as server, running.tunnel.open_data(port.token) as far:
            assert moved(server, far, b"y" * 1000)


def test_the_port_closes_with_the_worker_and_ends_what_it_has_joined(
    relay: RelayServer, running: RunningAgent, laptop: Laptop, alice: User
) -> None:
    port = Port(laptop, alice)
    with port.call() as server, running.tunnel.open_data(port.token) as far:
        assert moved_one_octet(server, far)
        with running.tunnel.open_data(port.token) as waiting:
            eventually(lambda: relay.look(lambda found: found.rendezvous.waiting) == 1)
            port.held.close()
            assert is_ended(waiting)
        assert is_ended(server)
        assert is_ended(far)
    eventually(lambda: not is_open(port))
    with running.tunnel.open_data(port.token) as late:
        begun = time.monotonic()
        assert is_ended(late)
        assert time.monotonic() - begun < 10, "it is refused, and does not wait for a partner"


def moved_one_octet(server: socket.socket, far: socket.socket) -> bool:
    server.sendall(b"z")
    far.settimeout(60)
    return far.recv(1) == b"z"


def test_a_port_closes_with_its_token_where_the_worker_is_gone_without_a_word(
    relay: RelayServer, running: RunningAgent, laptop: Laptop, alice: User
) -> None:
    with Port(laptop, alice, seconds=1) as port:
        eventually(lambda: relay.look(lambda found: len(found.entrances)) == 0)
        assert not is_open(port)


def test_a_port_rests_before_it_is_used_again(
    relay: RelayServer, running: RunningAgent, laptop: Laptop, alice: User
) -> None:
    ports = set()
    for _ in range(4):
        with Port(laptop, alice) as port:
            ports.add(port.address)
        eventually(lambda: relay.look(lambda found: len(found.entrances)) == 0)
    assert len(ports) == 4


def test_a_user_has_a_limited_number_of_ports(
    relay: RelayServer, running: RunningAgent, laptop: Laptop, alice: User
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(BOUNDS.entrances_of_user):
            stack.enter_context(Port(laptop, alice))
        with pytest.raises(FaultError) as refused:
            Port(laptop, alice)
        assert refused.value.fault.kind is Kind.ENDPOINT_TOO_BUSY
    eventually(lambda: relay.look(lambda found: len(found.entrances)) == 0)
    with Port(laptop, alice):
        pass


def test_without_ports_of_the_operator_there_is_none(
    settings: Any, transactional_db: None, redis_server: Any, laptop: Laptop, alice: User
) -> None:
    with relay_server(settings) as relay, agent(relay.service, laptop[1]), pytest.raises(FaultError) as refused:
        Port(laptop, alice)
    assert refused.value.fault.kind is Kind.UNSUPPORTED


def test_an_agent_that_is_away_has_no_port(relay: RelayServer, laptop: Laptop, alice: User) -> None:
    with pytest.raises(FaultError) as refused:
        Port(laptop, alice)
    assert refused.value.fault.kind is Kind.AGENT_AWAY


def test_a_token_of_another_agent_opens_nothing(
    relay: RelayServer, running: RunningAgent, laptop: Laptop, alice: User, bob: User
) -> None:
    others = make_identity(bob, "other")
    with (
        agent(relay.service, others[1]) as other,
        Port(laptop, alice) as port,
        other.tunnel.open_data(port.token) as far,
    ):
        assert is_ended(far)


@pytest.mark.parametrize("text", ["198.51.100.7:50000-50999", "[2001:db8::7]:50000-50999"])
def test_the_setting_names_an_address_and_ports(text: str) -> None:
    assert str(parse_data_ports(text)) == text


@pytest.mark.parametrize("text", ["", "host:50000-50999", "192.0.2.7:50000", "192.0.2.7:80-90", "192.0.2.7:6000-5000"])
def test_a_setting_that_names_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address:low-high"):
        parse_data_ports(text)


def test_an_address_of_a_machine_in_front_is_named_and_all_addresses_listen(
    settings: Any, transactional_db: None, redis_server: Any, laptop: Laptop, alice: User
) -> None:
    """As in a container: the relay does not have the address that servers call."""
    ports = DataPorts("192.0.2.1", DATA_PORTS.low, DATA_PORTS.high)
    with (
        relay_server(settings, BOUNDS, data_ports=ports) as relay,
        agent(relay.service, laptop[1]) as one,
        Port(laptop, alice) as port,
    ):
        assert port.address[0] == "192.0.2.1"
        here = (HOST, port.address[1])
        with socket.create_connection(here, 10) as server, one.tunnel.open_data(port.token) as far:
            assert moved(server, far, b"x" * 1000)
