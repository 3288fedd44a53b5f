"""Operations on a personal endpoint: listings, folders and files, through the relay to a real agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from endpoints import operations
from endpoints.connect.login import AgentLogin
from endpoints.gridftp.agent.keys import AgentIdentity
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.server import GridFtpServer
from endpoints.models import Endpoint
from identity.models import User
from tests.relay_server import RelayServer, RunningAgent, agent, make_identity, relay_server
from workers.runtime import _places

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(60)]


@pytest.fixture
def relay(transactional_db: None, redis_server: Any, settings: Any) -> Iterator[RelayServer]:
    with relay_server(settings) as running:
        yield running


@pytest.fixture
def laptop(alice: User) -> tuple[Endpoint, AgentIdentity]:
    return make_identity(alice, "laptop")


@pytest.fixture
def served(relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity], tmp_path: Path) -> Iterator[RunningAgent]:
    """The agent, with its server in `tmp_path`."""
    server = GridFtpServer(tmp_path, port=None)
    server.start()
    try:
        with agent(relay.service, laptop[1], server.serve_socket) as running:
            yield running
    finally:
        server.stop()


def test_folders_are_listed_and_made_through_the_relay(
    served: RunningAgent, laptop: tuple[Endpoint, AgentIdentity], alice: User, tmp_path: Path
) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "übersicht.txt").write_text("42")
    ref = str(laptop[0].pk)
    found = operations.list_directory(alice, ref, "/results/")
    assert [(entry.name, entry.size) for entry in found.entries] == [("übersicht.txt", 2)]
    operations.make_directory(alice, ref, "/results/new")
    operations.rename(alice, ref, "/results/new", "/results/old")
    assert (tmp_path / "results" / "old").is_dir()


def test_a_large_folder_is_listed_completely(
    served: RunningAgent, laptop: tuple[Endpoint, AgentIdentity], alice: User, tmp_path: Path
) -> None:
    names = [f"{number:05}" + "x" * 90 for number in range(1500)]
    for name in names:
        (tmp_path / name).touch()
    found = operations.list_directory(alice, str(laptop[0].pk), "/")
    assert sorted(entry.name for entry in found.entries) == names


def test_without_its_agent_the_endpoint_is_away(
    relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity], alice: User
) -> None:
    with pytest.raises(FaultError) as refused:
        operations.list_directory(alice, str(laptop[0].pk), "/")
    assert refused.value.fault.kind is Kind.AGENT_AWAY


def test_a_warm_session_of_a_worker_is_away_at_once_when_the_tunnel_is_lost(
    served: RunningAgent, relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity]
) -> None:
    endpoint = Endpoint.objects.get(pk=laptop[0].pk)
    (place,) = _places(endpoint)

    async def lose() -> Kind:
        session = await GridFTPSession.open(place.host, place.port, login=AgentLogin(place.host))
        assert (await session.stat("/")).is_directory
        relay.look(lambda running: running.tunnels[place.host].abort("cut"))
        async with asyncio.timeout(5):
            while session.usable:  # noqa: ASYNC110 - the session has no event for it
                await asyncio.sleep(0.01)
        with pytest.raises(FaultError) as lost:
            await session.stat("/")
        return lost.value.fault.kind

    assert asyncio.run(lose()) is Kind.AGENT_AWAY
