# ruff: noqa: F811 - fixtures of another module
"""Tasks with agents that lie about sizes or fall silent, and whose connection to the relay is cut at each step.

The relay, the agents and their servers are real. Lies are put in at the end of the control channel.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from endpoints import registry
from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.server import GridFtpServer
from endpoints.registry import ServerSpec
from identity.models import User
from tests.conformance.tasks.slices import in_thread, run, told
from tests.conformance.tasks.test_agents import Place, _instance, alice, move, relay, until_done  # noqa: F401
from tests.gridftp.agent_control import WatchedControl
from tests.servers.relay_server import RelayServer, agent, make_identity
from tests.waiting import eventually
from transferapi.tasks.models import Event, Task
from workers.engine import retry
from workers.ways import third_party

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

#: Octets of the files about which agents lie.
SIZE = 1000
#: The events of a task that was interrupted once or twice: started, its way, agent away, back, done, and some of them
#: for each side.
FEW = 12


@dataclass
class Laptop(Place):
    """An agent's endpoint, whose control channels a test can change."""

    control: WatchedControl = None  # type: ignore[assignment]


@pytest.fixture
def laptop(relay: RelayServer, alice: User, tmp_path: Path) -> Iterator[Laptop]:
    folder = tmp_path / "laptop"
    folder.mkdir()
    endpoint, identity = make_identity(alice, "laptop")
    with ExitStack() as stack:
        server = GridFtpServer(folder, port=None)
        server.start()
        stack.callback(server.stop)
        control = WatchedControl(server.serve_socket)
        running = stack.enter_context(agent(relay.service, identity, control.take))
        yield Laptop(endpoint, folder, "/", running, control)


@pytest.fixture
def server(alice: User, folder: Path, serve: Callable[..., GridFtpServer]) -> Place:
    endpoint = registry.create(alice, {"name": "server"}, [ServerSpec("127.0.0.1", serve().port, "ftp")])
    return Place(endpoint, folder, "/")


@pytest.fixture
def tries_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "FIRST_DELAY", 0.2)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits for silent servers, in seconds rather than minutes."""
    for method, name in ((ControlConnection.__init__, "stall_timeout"), (GridFTPSession.open, "timeout")):
        defaults = method.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, name, 2.0)
    monkeypatch.setattr(third_party, "STALL_TIMEOUT", 2.0)


def errors(task: Task) -> set[str]:
    return set(Event.objects.filter(task=task, is_error=True).values_list("code", flat=True))


def arrives_after_the_lie(task: Task, laptop: Laptop, code: str) -> None:
    """The lie is an error of this code, and the file is sent again; the agent is honest from that error on."""

    def repent() -> None:
        eventually(lambda: in_thread(lambda: Event.objects.filter(task=task, is_error=True).exists()))
        laptop.control.on_reply = lambda verb, line: line

    waiting = threading.Thread(target=repent)
    waiting.start()
    try:
        assert until_done(task) == "SUCCEEDED", told(task)
    finally:
        waiting.join()
    assert errors(task) == {code}, told(task)


# ---- sizes


def another_size(size: int, verbs: set[str]) -> Callable[[str, bytes], bytes]:
    """Replies to these verbs in which files have this size."""

    def lie(verb: str, line: bytes) -> bytes:
        return re.sub(rb"(?i)(size=|^213 )%d\b" % SIZE, rb"\g<1>%d" % size, line) if verb in verbs else line

    return lie


@pytest.mark.parametrize(("size", "verify"), [(SIZE - 100, False), (SIZE + 100, False), (SIZE + 100, True)])
def test_a_source_that_lies_about_sizes_is_an_error_until_it_sends_the_truth(
    tries_soon: None, laptop: Laptop, server: Place, alice: User, size: int, verify: bool
) -> None:
    laptop.fill((SIZE, SIZE))
    laptop.control.on_reply = another_size(size, {"MLSC", "MLSD", "MLST", "SIZE"})
    task = move(alice, laptop, server, options={"verify_checksum": verify})
    arrives_after_the_lie(task, laptop, "FILE_SIZE_CHANGED")
    assert server.hashes() == laptop.hashes()


@pytest.mark.parametrize("size", [SIZE - 100, SIZE + 100])
def test_sizes_that_are_wrong_in_the_listing_only_are_put_right(
    laptop: Laptop, server: Place, alice: User, size: int
) -> None:
    laptop.fill((SIZE, SIZE))
    laptop.control.on_reply = another_size(size, {"MLSC", "MLSD"})
    task = move(alice, laptop, server)
    assert until_done(task) == "SUCCEEDED", told(task)
    assert server.hashes() == laptop.hashes()
    task.refresh_from_db()
    assert task.bytes_transferred == 2 * SIZE


def loses_half(folder: Path, markers: bytes | None) -> Callable[[str, bytes], bytes | None]:
    """A destination that answers success and has half of each file. markers: what it says that it has."""

    def lie(verb: str, line: bytes) -> bytes | None:
        if verb == "STOR" and line.startswith(b"111"):
            return markers
        if verb == "STOR" and line.startswith(b"226"):
            for path in (folder / "data").iterdir():
                os.truncate(path, SIZE // 2)
        return line

    return lie


@pytest.mark.parametrize(
    ("markers", "verify", "code"),
    [
        (b"111 Range Marker 0-%d\r\n" % SIZE, True, "VERIFY_CHECKSUM"),
        (b"111 Range Marker 0-%d\r\n" % (SIZE // 2), False, "FILE_SIZE_CHANGED"),
        (None, False, "FILE_SIZE_CHANGED"),
    ],
    ids=["all of it", "half of it", "nothing"],
)
def test_a_destination_that_answers_success_for_octets_that_it_has_not_is_an_error(
    tries_soon: None, laptop: Laptop, server: Place, alice: User, markers: bytes | None, verify: bool, code: str
) -> None:
    """Whatever it says that it has received."""
    server.fill((SIZE, SIZE))
    laptop.control.on_reply = loses_half(laptop.folder, markers)
    task = move(alice, server, laptop, options={"verify_checksum": verify})
    arrives_after_the_lie(task, laptop, code)
    assert laptop.hashes() == server.hashes()


# ---- silence


def test_an_agent_that_never_answers_is_an_error_of_its_side_and_the_slice_ends(
    relay: RelayServer, server: Place, alice: User, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_DELAY", 60.0)  # longer than a slice waits
    endpoint, identity = make_identity(alice, "silent")
    server.fill((SIZE,))
    with agent(relay.service, identity):
        task = move(alice, server, Place(endpoint, server.folder, "/"))
        assert run(task) == "ACTIVE", told(task)
    task.refresh_from_db()
    assert (task.files_transferred, errors(task)) == (0, {"TIMEOUT"}), told(task)
    assert Event.objects.filter(task=task).count() <= FEW, told(task)


@pytest.mark.parametrize("from_agent", [True, False])
def test_an_agent_that_falls_silent_in_a_file_costs_a_try_and_the_file_arrives(
    laptop: Laptop, server: Place, alice: User, impatient: None, from_agent: bool
) -> None:
    source, destination = (laptop, server) if from_agent else (server, laptop)
    source.fill((SIZE,))
    begun: list[str] = []
    silent = threading.Event()

    def silent_after_150(verb: str, line: bytes) -> bytes | None:
        """The first time; the next connection answers."""
        if not verb:
            silent.clear()
        if silent.is_set():
            return None
        if verb in ("RETR", "STOR") and not begun and line.startswith(b"150"):
            begun.append(verb)
            silent.set()
        return line

    laptop.control.on_reply = silent_after_150
    task = move(alice, source, destination)
    assert until_done(task) == "SUCCEEDED", told(task)
    assert destination.hashes() == source.hashes()
    assert errors(task) == {"TIMEOUT"}, told(task)
    assert Event.objects.filter(task=task).count() <= FEW, told(task)


# ---- the connection to the relay


def cut_at(relay: RelayServer, laptop: Laptop, verbs: list[str]) -> None:
    """Cut the agent's connection to the relay when the first of these commands comes, then at the next, and so on."""
    name = str(laptop.endpoint.pk)

    def cut(verb: str) -> None:
        if verbs and verb == verbs[0]:
            del verbs[0]
            relay.look(lambda running: running.tunnels[name].abort("cut"))

    laptop.control.on_command = cut


@pytest.mark.parametrize(
    ("from_agent", "verbs"),
    [
        (True, ["USER"]),
        (True, ["MLSC"]),
        (False, ["MKD"]),
        (False, ["PORT"]),
        (False, ["CKSM"]),
        (False, ["STOR", "SITE"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "source" if value else "destination",
)
def test_a_relay_connection_that_is_cut_at_a_step_costs_no_error_and_every_file_arrives(
    relay: RelayServer, laptop: Laptop, server: Place, alice: User, from_agent: bool, verbs: list[str]
) -> None:
    source, destination = (laptop, server) if from_agent else (server, laptop)
    source.fill((0, SIZE, 300_000))
    left = list(verbs)
    cut_at(relay, laptop, left)
    task = move(alice, source, destination, options={"verify_checksum": True})
    assert until_done(task) == "SUCCEEDED", told(task)
    assert left == [], "the task did not come to this step"
    assert destination.hashes() == source.hashes()
    task.refresh_from_db()
    assert (task.faults, errors(task)) == (0, set()), told(task)
    assert Event.objects.filter(task=task).count() <= FEW, told(task)
