"""Agents at the relay: sign-in, presence, control channels, clones, and revocation."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from endpoints.connect import dial, presence, setup
from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.models import Agent, Endpoint, RelayProcess
from identity.clock import moment
from identity.models import User
from tests.integration.cast import make_endpoint, submit
from tests.servers.relay_server import RelayServer, agent, make_identity, relay_server
from tests.waiting import eventually
from transferapi.relay.bounds import RelayBounds
from transferapi.tasks.models import Task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]
#: An older tunnel is asked for a sign of life for a shorter time than in the product.
BOUNDS = RelayBounds(proof_of_life_seconds=0.3, sign_in_seconds=1.0, partner_seconds=1.0)


@pytest.fixture
def relay(transactional_db: None, redis_server: Any, settings: Any) -> Iterator[RelayServer]:
    with relay_server(settings, BOUNDS) as running:
        yield running


@pytest.fixture
def laptop(alice: User) -> tuple[Endpoint, AgentIdentity]:
    return make_identity(alice, "laptop")


def echo(control: socket.socket) -> None:
    """Send everything back, in a thread."""

    def run() -> None:
        with control:
            while data := control.recv(65536):
                control.sendall(data)

    threading.Thread(target=run, name="echo", daemon=True).start()


def send_all(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def present(endpoint: Endpoint) -> presence.Presence:
    return presence.presence_of([endpoint.pk])[endpoint.pk]


def refusal(endpoint: Endpoint) -> Kind:
    with pytest.raises(FaultError) as refused:
        asyncio.run(dial.open_control(endpoint.pk))
    return refused.value.fault.kind


def test_an_agent_signs_in_and_is_seen(relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity]) -> None:
    endpoint, identity = laptop
    assert present(endpoint) == (False, False, None)
    with agent(relay.service, identity):
        found = present(endpoint)
        assert (found.connected, found.paused) == (True, False)
        assert presence.away_since(endpoint.pk) is None
    eventually(lambda: not present(endpoint).connected)
    assert (present(endpoint).last_seen_at or 0) >= (found.last_seen_at or 0)  # type: ignore[operator]


def test_a_control_channel_carries_octets_both_ways(relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity]) -> None:
    endpoint, identity = laptop
    sent = b"NOOP\r\n" * 100_000
    with agent(relay.service, identity, echo):
        sock = asyncio.run(dial.open_control(endpoint.pk)).sock
        with sock:
            sock.settimeout(60)
            sender = threading.Thread(target=send_all, args=(sock, sent))
            sender.start()
            received = b"".join(iter(lambda: sock.recv(65536), b""))
            sender.join()
    assert received == sent


def test_an_agent_that_is_not_connected_is_away(relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity]) -> None:
    assert refusal(laptop[0]) is Kind.AGENT_AWAY


def test_without_a_relay_all_agents_are_away(db: None, settings: Any, laptop: tuple[Endpoint, AgentIdentity]) -> None:
    from endpoints.connect.relay_address import RelayAddress

    settings.RELAY = RelayAddress("", 0, "/nowhere/relay.sock")
    assert refusal(laptop[0]) is Kind.AGENT_AWAY


def test_a_paused_agent_gets_no_connections_until_it_goes_on(
    relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity]
) -> None:
    endpoint, identity = laptop
    with agent(relay.service, identity, echo) as running:
        running.tunnel.pause(True)
        eventually(lambda: present(endpoint).paused)
        assert refusal(endpoint) is Kind.AGENT_PAUSED
        running.tunnel.pause(False)
        eventually(lambda: not present(endpoint).paused)
        asyncio.run(dial.open_control(endpoint.pk)).sock.close()


def test_a_task_that_waits_for_an_agent_is_due_as_soon_as_it_is_back(
    relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity], alice: User
) -> None:
    endpoint, identity = laptop
    task = submit(alice, endpoint, make_endpoint(alice, "cluster"))
    later = moment() + timedelta(hours=1)
    Task.objects.filter(pk=task.pk).update(nice_status=Kind.AGENT_AWAY, next_run_at=later)
    with agent(relay.service, identity):
        eventually(lambda: Task.objects.get(pk=task.pk).next_run_at <= moment())


def test_a_revoked_agent_is_sent_away_and_stays_away(
    relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity], alice: User
) -> None:
    endpoint, identity = laptop
    with agent(relay.service, identity) as running:
        setup.revoke(alice, str(endpoint.pk))
        eventually(lambda: running.refused is not None)
        assert running.refused is not None
        assert running.refused.code == "revoked"
        eventually(lambda: not present(endpoint).connected)
    with agent(relay.service, identity, connected=False) as again:
        eventually(lambda: again.refused is not None)


def test_a_key_that_another_setup_has_replaced_is_refused(
    relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity]
) -> None:
    endpoint, identity = laptop
    with agent(relay.service, identity) as running:
        Agent.objects.filter(endpoint=endpoint).update(public_key="another")
        eventually(lambda: running.refused is not None)


def test_a_stranger_with_another_key_is_refused(relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity]) -> None:
    stolen = AgentIdentity(AgentKey.new(), laptop[1].chain)
    with agent(relay.service, stolen, connected=False) as running:
        eventually(lambda: running.refused is not None)
    assert running.refused is not None
    assert running.refused.code == "foreign"


def test_a_clone_is_refused_while_the_first_agent_lives(
    relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity]
) -> None:
    endpoint, identity = laptop
    with agent(relay.service, identity) as first:
        with agent(relay.service, identity, connected=False) as clone:
            eventually(lambda: clone.status.startswith("cloned"))
        assert first.statuses == ["connecting", "connected"]
        assert present(endpoint).connected


def test_the_rows_of_a_relay_that_was_killed_do_not_count(
    transactional_db: None, laptop: tuple[Endpoint, AgentIdentity]
) -> None:
    endpoint, _ = laptop
    presence.begin("dead:1")
    held = presence.accept(endpoint.pk, "dead:1", presence.Arrival("1", "Linux", False))
    assert held is not None
    assert present(endpoint).connected
    RelayProcess.objects.filter(address="dead:1").update(heartbeat_at=present(endpoint).last_seen_at)
    RelayProcess.objects.update(heartbeat_at="2020-01-01T00:00:00Z")
    assert not present(endpoint).connected
    assert presence.holder(endpoint.pk) is None
    # The same process, started again, holds nothing either.
    presence.begin("dead:1")
    assert not present(endpoint).connected
