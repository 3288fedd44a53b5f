"""Tasks between agents and servers: which side listens, which way the data go, and an agent that goes away."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.connect import dial
from endpoints.connect.login import AGENT_PORT, AgentLogin
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import FaultError
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.server import server as server_module
from endpoints.gridftp.server.roots.by_path import PathRoot
from endpoints.gridftp.streams.file_streams import OctetBudget
from endpoints.gridftp.wire.fence import Fence
from endpoints.models import Endpoint, RelayedOctets
from endpoints.registry import ServerSpec
from endpoints.sessions.remote import open_writer
from identity.models import User
from tests.conformance.tasks.slices import run, told
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.toolkit import ToolkitServer
from tests.integration.cast import submit
from tests.servers.relay_server import DATA_PORTS, RelayServer, RunningAgent, agent, make_identity, relay_server
from tests.store_connections import close_connections
from tests.waiting import eventually
from transferapi.tasks.models import Event, Task
from workers.engine.tuning import opening
from workers.ways import parts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

SIZES = (0, 1, 1000, 300_000, 5 * 2**20 + 77)


@pytest.fixture(autouse=True)
def _instance(settings: Any) -> Iterator[None]:
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    close_connections()
    yield
    close_connections()


@pytest.fixture
def relay(transactional_db: None, redis_server: Any, settings: Any) -> Iterator[RelayServer]:
    with relay_server(settings, data_ports=DATA_PORTS) as running:
        yield running


@pytest.fixture
def alice() -> User:
    return User.objects.create(username="alice")


@dataclass
class Place:
    """An endpoint, its folder, and the path by which clients name that folder."""

    endpoint: Endpoint
    folder: Path
    root: str
    running: RunningAgent | None = None

    def fill(self, sizes: tuple[int, ...] = SIZES) -> None:
        (self.folder / "data").mkdir()
        for number, size in enumerate(sizes):
            (self.folder / "data" / str(number)).write_bytes(os.urandom(size))

    def hashes(self, name: str = "data") -> dict[str, str]:
        found = (self.folder / name).iterdir()
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


Agents = Callable[..., Place]


@pytest.fixture
def laptops(relay: RelayServer, alice: User, tmp_path: Path) -> Iterator[Agents]:
    """Starts agents with real tunnels; own_host: the address that each names to others."""
    with ExitStack() as stack:

        def start(name: str, own_host: str = "") -> Place:
            folder = tmp_path / name
            folder.mkdir()
            endpoint, identity = make_identity(alice, name)
            tunnels: list[RunningAgent] = []

            def open_data(token: str) -> socket.socket:
                return tunnels[0].tunnel.open_data(token)

            server = GridFtpServer(folder, port=None, open_relayed=open_data)
            server.start()
            stack.callback(server.stop)
            tunnels.append(
                stack.enter_context(
                    agent(relay.service, identity, lambda control: server.serve_socket(control, own_host))
                )
            )
            return Place(endpoint, folder, "/", tunnels[0])

        yield start


@pytest.fixture(params=["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def server(
    request: pytest.FixtureRequest,
    alice: User,
    folder: Path,
    serve: Callable[..., GridFtpServer],
    toolkit_server_factory: Callable[..., ToolkitServer],
) -> Place:
    if request.param == "own":
        port, root = serve().port, "/"
    else:
        port, root = toolkit_server_factory(folder).port, f"{folder}/"
    endpoint = registry.create(alice, {"name": "server"}, [ServerSpec("127.0.0.1", port, "ftp")])
    return Place(endpoint, folder, root)


def move(alice: User, source: Place, destination: Place, **options: Any) -> Task:
    items = (f"{source.root}data/", f"{destination.root}data/")
    return submit(alice, source.endpoint, destination.endpoint, items, **options)


def ways(task: Task) -> list[str]:
    return list(Event.objects.filter(task=task, code="DATA_WAY").values_list("details", flat=True))


async def _asked_behind_a_closed_fence(login: AgentLogin) -> None:
    """A removal, and a file that is being written: each by a session of its own."""
    for name in ("1", "2"):
        fence = Fence(3.5)
        fence.extend(fence.now())
        with fence.in_force():
            session = await GridFTPSession.open("", AGENT_PORT, login=login)
            session.set_fence(fence)
            assert (await session.stat(f"/data/{name}")).size == SIZES[int(name)]
            if name == "1":
                fence.close()
                with pytest.raises(FaultError):
                    await session.remove([(f"/data/{name}", False)])
            else:
                writer = await open_writer(session, "/data/new", 0, OctetBudget(1 << 22).share())
                await writer.write(b"before")
                fence.close()
                with pytest.raises(FaultError):
                    await writer.write(b"after")
                await writer.close()
        assert not session.usable
        session.abort()


def test_nothing_leaves_for_an_agent_when_the_fence_of_a_slice_is_closed(laptops: Agents) -> None:
    laptop = laptops("laptop")
    laptop.fill()
    asyncio.run(_asked_behind_a_closed_fence(AgentLogin(str(laptop.endpoint.pk))))
    assert {number: (laptop.folder / "data" / str(number)).stat().st_size for number in (1, 2)} == {1: 1, 2: 1000}
    new = laptop.folder / "data" / "new"
    assert (new.read_bytes() if new.exists() else b"") in (b"", b"before")


def test_an_agent_sends_to_a_server_which_listens(laptops: Agents, server: Place, alice: User) -> None:
    laptop = laptops("laptop")
    laptop.fill()
    task = move(alice, laptop, server)
    assert run(task) == "SUCCEEDED", told(task)
    assert server.hashes() == laptop.hashes()
    assert ways(task) == ["The computer at the source connects to the server at the destination."]


def test_an_agent_receives_from_a_server_which_listens(
    laptops: Agents, server: Place, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large file goes in parts."""
    monkeypatch.setattr(parts, "MIN_PART", 2**20)
    laptop = laptops("laptop")
    server.fill()
    (laptop.folder / "data").mkdir()
    large = laptop.folder / "data" / str(len(SIZES) - 1)
    large.write_bytes(os.urandom(SIZES[-1] + 5000))
    large.chmod(0o640)
    task = move(alice, server, laptop)
    assert run(task) == "SUCCEEDED", told(task)
    assert stat.S_IMODE(large.stat().st_mode) == 0o640
    assert laptop.hashes() == server.hashes()
    assert ways(task) == ["The computer at the destination connects to the server at the source."]
    task.refresh_from_db()
    assert (task.faults, task.data_way) == (0, "direct")


def test_files_that_a_server_refuses_hold_up_no_other(laptops: Agents, server: Place, alice: User) -> None:
    laptop = laptops("laptop")
    server.fill((1000,) * 6)
    (laptop.folder / "data" / "3").mkdir(parents=True)
    task = move(alice, server, laptop)
    assert until_done(task) == "FAILED"
    (laptop.folder / "data" / "3").rmdir()
    sent = server.hashes()
    del sent["3"]
    assert laptop.hashes() == sent, "a folder is in the place of one file"


def test_a_name_that_the_computer_cannot_have_fails_at_once_and_holds_up_no_other(
    laptops: Agents, server: Place, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent on Windows, as far as names go."""
    monkeypatch.setattr(server_module, "open_parts", lambda served: PathRoot(served[0].path, as_windows=True))
    laptop = laptops("laptop")
    server.fill((1000,) * 3)
    for name in ("CON", "what?", "aux.txt"):
        (server.folder / "data" / name).write_bytes(b"no such name there")
    task = move(alice, server, laptop)
    assert run(task) == "FAILED", told(task)
    assert sorted(laptop.hashes()) == ["0", "1", "2"]
    assert set(Event.objects.filter(task=task, is_error=True).values_list("code", flat=True)) == {"INVALID_PATH_NAME"}


@pytest.mark.parametrize("from_agent", [True, False])
@NEEDS_FTP_SERVERS
def test_a_plain_ftp_server_and_an_agent_are_joined_by_a_worker(
    laptops: Agents, alice: User, tmp_path: Path, from_agent: bool
) -> None:
    """The server takes no data connection from elsewhere, and the agent listens nowhere."""
    laptop = laptops("laptop")
    with FtpServer("vsftpd", tmp_path / "ftp") as vsftpd:
        endpoint = registry.create(alice, {"name": "ftp"}, [ServerSpec("127.0.0.1", vsftpd.port, "ftp")])
        ftp = Place(endpoint, vsftpd.data, vsftpd.path(vsftpd.data).rstrip("/") + "/")
        source, destination = (laptop, ftp) if from_agent else (ftp, laptop)
        source.fill()
        vsftpd.give()
        task = move(alice, source, destination)
        assert run(task) == "SUCCEEDED", told(task)
        assert destination.hashes() == source.hashes()
    task.refresh_from_db()
    assert (task.data_way, task.faults) == ("streamed", 0)


GREETING = b"220 ready\r\n"
LIES = {
    "no replies": b"\x00\xff" * 100_000,
    "replies without end": b"150 soon\r\n" * 200_000,
    "a reply without end": b"250-" + b"x" * 4_000_000,
    "answers to nothing": b"200 fine\r\n" * 1000,
}


@pytest.mark.parametrize("lie", LIES)
def test_an_agent_that_does_not_speak_the_protocol_is_an_error_of_its_side_and_the_slice_ends(
    relay: RelayServer, alice: User, folder: Path, serve: Callable[..., GridFtpServer], lie: str
) -> None:
    endpoint, identity = make_identity(alice, "liar")
    source = registry.create(alice, {"name": "server"}, [ServerSpec("127.0.0.1", serve().port, "ftp")])
    server = Place(source, folder, "/")

    def lies(control: socket.socket) -> None:
        def talk() -> None:
            with control, suppress(OSError):
                control.sendall(GREETING)
                control.recv(65536)
                control.sendall(LIES[lie])
                while control.recv(65536):
                    pass

        threading.Thread(target=talk, daemon=True).start()

    server.fill((1000,))
    begun = time.monotonic()
    with agent(relay.service, identity, lies):
        task = move(alice, server, Place(endpoint, server.folder, "/"))
        assert run(task) == "ACTIVE", told(task)
    assert time.monotonic() - begun < 30
    errors = Event.objects.filter(task=task, is_error=True)
    assert {event.code for event in errors} <= {"ENDPOINT_ERROR", "CONNECTION_BROKEN", "CONNECTION_RESET"}
    assert errors
    task.refresh_from_db()
    assert task.files_transferred == 0


def test_two_agents_that_do_not_listen_are_joined_by_the_relay_which_sees_ciphertext_only(
    laptops: Agents, alice: User
) -> None:
    first, second = laptops("first"), laptops("second")
    first.fill()
    task = move(alice, first, second)
    assert run(task) == "SUCCEEDED", told(task)
    assert second.hashes() == first.hashes()
    task.refresh_from_db()
    assert (task.data_way, task.data_protection) == ("relayed", "encrypted")
    assert len(ways(task)) == 1


def test_two_agents_in_one_network_reach_each_other(laptops: Agents, alice: User) -> None:
    first, second = laptops("first"), laptops("second", own_host=own_address())
    first.fill()
    task = move(alice, first, second)
    assert run(task) == "SUCCEEDED", told(task)
    assert second.hashes() == first.hashes()
    assert ways(task) == ["The two computers reach each other: they are in one network."]


def test_two_agents_of_which_one_names_an_address_that_is_not_reached_are_relayed(laptops: Agents, alice: User) -> None:
    first, second = laptops("first"), laptops("second", own_host="127.0.0.1")
    first.fill((1000, 2000))
    task = move(alice, first, second)
    assert run(task) == "SUCCEEDED", told(task)
    assert second.hashes() == first.hashes()
    task.refresh_from_db()
    assert task.data_way == "relayed", "an agent's loopback is its own"


@pytest.fixture
def small_files_by_relay(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine a round trip takes no time, and a connection for each file would be as fast."""
    settings.RELAY_SMALL_FILES_RATE = 0
    monkeypatch.setattr(opening, "RELAY_GAIN", 0.0)


def test_small_files_to_an_agent_go_by_ports_of_the_relay(
    small_files_by_relay: None, laptops: Agents, server: Place, alice: User, relay: RelayServer
) -> None:
    laptop = laptops("laptop")
    server.fill((0, 1, *range(1000, 1150)))
    task = move(alice, server, laptop)
    assert run(task) == "SUCCEEDED", told(task)
    assert laptop.hashes() == server.hashes()
    task.refresh_from_db()
    assert task.faults == 0
    # Lanes that are opened before the round trip is known go directly.
    assert any("the relay" in way for way in ways(task))
    eventually(lambda: RelayedOctets.objects.filter(octets__gt=0).exists())
    eventually(lambda: relay.look(lambda running: len(running.entrances)) == 0)


def test_small_files_that_are_refused_hold_up_no_other_on_the_way_by_the_relay(
    small_files_by_relay: None, laptops: Agents, server: Place, alice: User
) -> None:
    laptop = laptops("laptop")
    server.fill((1000,) * 130)
    for name in ("3", "50", "129"):
        (laptop.folder / "data" / name).mkdir(parents=True)
    task = move(alice, server, laptop)
    assert until_done(task) == "FAILED"
    sent = server.hashes()
    for name in ("3", "50", "129"):
        (laptop.folder / "data" / name).rmdir()
        del sent[name]
    assert laptop.hashes() == sent
    task.refresh_from_db()
    assert task.data_way == "relayed"


def test_an_agent_that_goes_away_while_small_files_come_by_the_relay_gets_each_of_them(
    small_files_by_relay: None, laptops: Agents, server: Place, alice: User, relay: RelayServer
) -> None:
    laptop = laptops("laptop")
    server.fill((1000,) * 300)
    task = move(alice, server, laptop)
    name = str(laptop.endpoint.pk)

    def cut() -> None:
        eventually(lambda: sum(1 for _ in laptop.folder.rglob("*")) > 20)
        relay.look(lambda running: running.tunnels[name].abort("cut") if name in running.tunnels else None)

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        assert until_done(task) == "SUCCEEDED", told(task)
    finally:
        cutting.join()
    assert laptop.hashes() == server.hashes()


def test_a_server_that_cannot_reach_the_relay_sends_small_files_directly(
    small_files_by_relay: None, laptops: Agents, server: Place, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay takes it for a stranger."""
    open_entrance = dial.open_entrance
    monkeypatch.setattr(dial, "open_entrance", lambda token, hosts: open_entrance(token, {"127.0.0.9"}))
    laptop = laptops("laptop")
    server.fill((1000,) * 120)
    task = move(alice, server, laptop)
    assert until_done(task) == "SUCCEEDED", told(task)
    assert laptop.hashes() == server.hashes()
    task.refresh_from_db()
    assert task.data_way == "direct"


def test_a_relay_of_another_family_of_addresses_is_not_used(
    small_files_by_relay: None, laptops: Agents, server: Place, alice: User, relay: RelayServer
) -> None:
    relay.look(lambda running: setattr(running.entrances, "_where", DATA_PORTS._replace(host="::1")))
    laptop = laptops("laptop")
    server.fill((1000,) * 110)
    task = move(alice, server, laptop)
    assert run(task) == "SUCCEEDED", told(task)
    assert laptop.hashes() == server.hashes()
    assert [way.split(" ")[1] for way in ways(task)] == ["computer"], "directly from the beginning"


def test_an_agent_that_goes_away_in_a_file_costs_nothing_of_it_and_no_error(
    laptops: Agents, server: Place, alice: User, relay: RelayServer
) -> None:
    laptop = laptops("laptop")
    laptop.fill((1000, 200 * 2**20))
    task = move(alice, laptop, server)
    name = str(laptop.endpoint.pk)

    def cut() -> None:
        eventually(lambda: any(path.stat().st_size > 2**20 for path in server.folder.rglob("1")))
        relay.look(lambda running: running.tunnels[name].abort("cut"))

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        assert until_done(task) == "SUCCEEDED", told(task)
    finally:
        cutting.join()
    assert server.hashes() == laptop.hashes()
    task.refresh_from_db()
    assert (task.faults, Event.objects.filter(task=task, is_error=True).count()) == (0, 0)


def test_an_agent_that_goes_away_among_many_small_files_gets_each_of_them_once(
    laptops: Agents, server: Place, alice: User, relay: RelayServer
) -> None:
    """Many are on their way at once: none is lost, and none has another one's octets."""
    laptop = laptops("laptop")
    server.fill((1000,) * 300)
    task = move(alice, server, laptop)
    name = str(laptop.endpoint.pk)

    def cut() -> None:
        for arrived in (20, 120):
            eventually(lambda arrived=arrived: sum(1 for _ in laptop.folder.rglob("*")) > arrived)  # type: ignore[misc]
            relay.look(lambda running: running.tunnels[name].abort("cut") if name in running.tunnels else None)

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        assert until_done(task) == "SUCCEEDED", told(task)
    finally:
        cutting.join()
    assert laptop.hashes() == server.hashes()


def until_done(task: Task) -> str:
    """Slices as workers take them, until the task has ended; its status. A task that waits is not due."""
    eventually(lambda: run(task) != "ACTIVE", seconds=120)
    return task.status


def own_address() -> str:
    """An address of this machine other than loopback; the test is skipped where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(probe.getsockname()[0])
