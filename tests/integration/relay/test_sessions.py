"""Operations on a personal endpoint: listings, folders and files, through the relay to a real agent."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
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
from endpoints.gridftp.streams import data_stream, mode_s
from endpoints.gridftp.streams.file_streams import PIECE, OctetBudget
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.rest import Answer, Api
from tests.servers.relay_server import RelayServer, RunningAgent, agent, make_identity, relay_server
from transferapi.relay.relay import Relay
from workers.sessions.address_gate import places

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
    running: list[RunningAgent] = []
    server = GridFtpServer(tmp_path, port=None, open_relayed=lambda token: running[0].tunnel.open_data(token))
    server.start()
    try:
        with agent(relay.service, laptop[1], server.serve_socket) as one:
            running.append(one)
            yield one
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
    (place,) = places(endpoint)

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


def test_files_are_read_and_written_through_the_relay(
    served: RunningAgent, laptop: tuple[Endpoint, AgentIdentity], alice: User, tmp_path: Path
) -> None:
    """As the pages do it: whole files, parts of them, and uploads in parts."""
    api, content = Api(alice), os.urandom(2_000_000)
    (tmp_path / "read").write_bytes(content)
    (tmp_path / "empty").touch()
    path = f"/operation/endpoint/{laptop[0].pk}/file"

    def get(name: str, **headers: str) -> Answer:
        return api.call("GET", path, query={"path": f"/{name}"}, headers=headers)

    def put(name: str, data: bytes, **headers: str) -> Answer:
        kind = "application/octet-stream"
        return api.call("PUT", path, query={"path": f"/{name}"}, headers=headers, raw=data, content_type=kind)

    assert get("read").body == content
    assert get("read", Range="bytes=1500000-").body == content[1_500_000:]
    assert get("empty").headers["Content-Length"] == "0"
    assert get("missing").status == 404
    for name, data in (("new", content), ("nothing", b"")):
        assert put(name, data).status == 200
        assert (tmp_path / name).read_bytes() == data
    (tmp_path / "folder").mkdir()
    assert put("folder", b"x").code == "ExternalError.UploadFailed.IsDirectory"
    assert not list((tmp_path / "folder").iterdir())


def cut_all(running: Relay) -> None:
    for tunnel in list(running.tunnels.values()):
        tunnel.abort("cut")


@pytest.mark.parametrize("writes", [False, True])
def test_a_stream_ends_with_the_tunnel_and_is_no_whole_file(
    served: RunningAgent, relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity], tmp_path: Path, writes: bool
) -> None:
    (tmp_path / "large").write_bytes(bytes(50_000_000))
    (place,) = places(Endpoint.objects.get(pk=laptop[0].pk))

    async def moved() -> None:
        session = await GridFTPSession.open(place.host, place.port, login=AgentLogin(place.host))
        share = OctetBudget(4 * PIECE).share()
        if writes:
            writer = await mode_s.open_writer(session, "/new", 0, share)
            for number in range(400):
                await share.take(PIECE)
                await writer.write(bytes(PIECE))
                if number == 3:
                    relay.look(cut_all)
            await writer.finish()
        else:
            reader = await mode_s.open_reader(session, "/large", 0, share)
            while data := await reader.read():
                share.give(len(data))
                relay.look(cut_all)

    async def within() -> None:
        async with asyncio.timeout(30):
            await moved()

    with pytest.raises(FaultError) as lost:
        asyncio.run(within())
    assert lost.value.fault.kind in (Kind.AGENT_AWAY, Kind.CONNECT_FAILED, Kind.CONNECTION_BROKEN)


def test_an_agent_that_never_connects_its_data_ends_the_stream(
    relay: RelayServer, laptop: tuple[Endpoint, AgentIdentity], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it does, and is silent."""
    monkeypatch.setattr(data_stream, "CONNECT_TIMEOUT", 1.0)

    def lie(control: socket.socket) -> None:
        def run() -> None:
            with control, control.makefile("rb") as lines:
                control.sendall(b"220 ready\r\n")
                for line in lines:
                    verb = line.split()[0].upper()
                    said = {b"RETR": b"150 soon", b"USER": b"331 go on", b"PASS": b"230 in", b"FEAT": b"211 none"}
                    control.sendall(said.get(verb, b"200 fine") + b"\r\n")

        threading.Thread(target=run, daemon=True).start()

    async def read() -> None:
        session = await GridFTPSession.open("agent", 0, login=AgentLogin(str(laptop[0].pk)))
        try:
            await mode_s.open_reader(session, "/f", 0, OctetBudget(PIECE).share())
        finally:
            session.abort()

    with agent(relay.service, laptop[1], lie), pytest.raises(FaultError) as late:
        asyncio.run(read())
    assert late.value.fault.kind is Kind.TIMEOUT
