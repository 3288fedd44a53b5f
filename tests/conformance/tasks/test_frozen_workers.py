"""A worker that has lost its lease changes nothing at the servers: two worker processes, and one PostgreSQL.

The first process stands still for longer than its lease (SIGSTOP, as a machine that sleeps, or is moved), or PostgreSQL
is cut off from it. A second one ends the task. Then the first one goes on.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.db import connection

from endpoints import registry
from endpoints.activation import services
from endpoints.activation.forms import GivenField
from endpoints.addresses.openings import parse_openings
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.hidden import Secret
from identity.models import User
from identity.vault.keys import new_key, parse_keys
from tests.faults.stations import OwnStation, Station, ToolkitStation
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer
from tests.gridftp.toolkit import hand_over
from tests.integration.cast import submit, submit_delete
from tests.memory import folder_in_memory
from tests.servers.counting_line import CountingLine
from tests.store_connections import close_connections
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.tasks.models import Lease, Task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

#: Plans do not depend on the machine: up to 40 files are under way when the worker stops.
FIXED = {"tuning": "fixed", "perf_cc": 2, "perf_p": 1, "perf_pp": 20}
KINDS = [
    "own",
    pytest.param("toolkit", marks=pytest.mark.toolkit),
    pytest.param("sftp", marks=NEEDS_SSHD),
]


@pytest.fixture(autouse=True)
def vault_key(settings: Any) -> Iterator[str]:
    """The settings that the processes have, too."""
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    settings.VAULT_KEYS = parse_keys(key := new_key())
    close_connections()
    yield key
    close_connections()


@pytest.fixture
def root() -> Iterator[Path]:
    with folder_in_memory("waybill-frozen-", 0o777) as folder:
        yield folder


class Workers:
    """Processes that run a slice each."""

    def __init__(self, task: Task, home: Path, vault_key: str) -> None:
        self._task = task
        self._home = home
        self._vault_key = vault_key
        self._processes: list[subprocess.Popen[bytes]] = []
        self.log = home / "log"

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait(30)

    def start(self, database_url: str) -> subprocess.Popen[bytes]:
        given = {
            **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
            "DATABASE_URL": database_url,
            "REDIS_URL": "redis://127.0.0.1:1/0",
            "WAYBILL_SECRET_KEY": "x" * 50,
            "WAYBILL_VAULT_KEY": self._vault_key,
            "WAYBILL_HOME": str(self._home),
            "WAYBILL_ALLOW_TARGETS": "127.0.0.1/32",
            "DJANGO_SETTINGS_MODULE": "transferapi.settings",
        }
        words = [sys.executable, "-m", "tests.conformance.tasks.slice_process", str(self._task.pk)]
        with self.log.open("ab") as out:
            process = subprocess.Popen(words, cwd=CHECKOUT, env=given, stdout=out, stderr=subprocess.STDOUT)
        self._processes.append(process)
        return process

    def finish(self, database_url: str) -> None:
        """Slices of other workers, until the task is over; one that is refused the task is followed by another."""
        begun = time.monotonic()
        while time.monotonic() - begun < 90:
            eventually(self.lease_is_over)
            self.start(database_url).wait(60)
            self._task.refresh_from_db()
            if self._task.status != "ACTIVE":
                return
        raise AssertionError(self.log.read_text()[-3000:])

    def lease_is_over(self) -> bool:
        return not Lease.objects.extra(where=["expires_at > clock_timestamp()"]).filter(pk=self._task.pk).exists()


@contextmanager
def server_of(kind: str, root: Path, alice: User) -> Iterator[tuple[Endpoint, CountingLine, Callable[[Path], str]]]:
    """An endpoint with one server, behind a line that counts; and the names of its files."""
    with ExitStack() as running:
        if kind == "sftp":
            folder = root / "sshd"
            folder.mkdir(mode=0o711)
            key = key_pair(folder)
            sshd = running.enter_context(SshServer(folder, sftp_only=True))
            sshd.authorize(key)
            line = running.enter_context(CountingLine(sshd.port))
            endpoint = _registered(alice, line.port, "sftp", sshd.fingerprint())
            form = {"username": sshd.username, "private_key": key.read_text()}
            services.activate(
                alice, str(endpoint.pk), [GivenField("ssh_key", name, Secret(value)) for name, value in form.items()]
            )
            yield endpoint, line, str
            return
        station: Station = (ToolkitStation if kind == "toolkit" else OwnStation)(root)
        running.callback(station.end)
        asyncio.run(station.start())
        line = running.enter_context(CountingLine(station.port))
        yield _registered(alice, line.port, "ftp"), line, lambda path: os.fsdecode(station.path(path))


def _registered(alice: User, port: int, scheme: str, subject: str = "") -> Endpoint:
    name = f"at{port}"
    return registry.create(alice, {"name": name}, [ServerSpec("127.0.0.1", port, scheme, subject)])


def written(folder: Path, files: int, octets: int) -> Mapping[str, bytes]:
    """Files of one block of octets, each with its number in front."""
    folder.mkdir()
    block = random.Random(1).randbytes(octets)
    contents = {f"f{number:05}": b"%08d" % number + block[8:] for number in range(files)}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return contents


def wrong(folder: Path, contents: Mapping[str, bytes]) -> list[str]:
    return [
        name
        for name, content in contents.items()
        if not (folder / name).exists() or (folder / name).read_bytes() != content
    ]


def open_to_all(folder: Path) -> None:
    """The sessions of a server may be of another account."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    hand_over(folder, stop_at=folder)


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_stood_still_writes_over_no_file_that_another_one_has_settled(
    kind: str, database_url: str, root: Path, tmp_path: Path, vault_key: str
) -> None:
    alice = User.objects.create(username="alice")
    here, there = root / "here", root / "there"
    contents = written(here, 120 if kind == "sftp" else 300, 400_000)
    open_to_all(there)
    with (
        server_of("own", root, alice) as (source, _, source_path),
        server_of(kind, root, alice) as (destination, line, path),
    ):
        task = submit(alice, source, destination, (f"{source_path(here)}/", f"{path(there)}/"), options=FIXED)
        with Workers(task, tmp_path, vault_key) as workers:
            first = workers.start(database_url)
            eventually(lambda: first.poll() is not None or count(there) > 40)
            first.send_signal(signal.SIGSTOP)
            assert first.poll() is None, workers.log.read_text()[-3000:]
            workers.finish(database_url)
            assert (task.status, wrong(there, contents)) == ("SUCCEEDED", [])
            said = list(line.said)
            first.send_signal(signal.SIGCONT)
            first.wait(60)
            assert line.said[: len(said)] == said, "octets left towards the server after the lease"
            assert len(line.said) == len(said)
            assert wrong(there, contents) == []
            assert "ended: lease lost" in workers.log.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_stood_still_deletes_nothing_that_came_after_the_deletion(
    kind: str, database_url: str, root: Path, tmp_path: Path, vault_key: str
) -> None:
    """The folder is deleted and filled again, with the same names: how scripts replace a data set."""
    alice = User.objects.create(username="alice")
    folder = root / "area" / "there"
    folder.parent.mkdir()
    number = 2000 if kind == "sftp" else 4000
    contents = written(folder, number, 8)
    open_to_all(folder.parent)
    with server_of(kind, root, alice) as (endpoint, line, path):
        task = submit_delete(alice, endpoint, path(folder), options={"recursive": True})
        with Workers(task, tmp_path, vault_key) as workers:
            first = workers.start(database_url)
            eventually(lambda: first.poll() is not None or count(folder) < number - 400)
            first.send_signal(signal.SIGSTOP)
            assert first.poll() is None, workers.log.read_text()[-3000:]
            assert count(folder) > 0, "it was over before it could be stopped"
            with connection.cursor() as cursor:
                cursor.execute("ANALYZE tasks_file")
            workers.finish(database_url)
            assert (task.status, folder.exists()) == ("SUCCEEDED", False)
            written(folder, number, 8)
            open_to_all(folder.parent)
            said = list(line.said)
            first.send_signal(signal.SIGCONT)
            first.wait(60)
            assert line.said == said, "octets left towards the server after the lease"
            assert wrong(folder, contents) == []
            assert "ended: lease lost" in workers.log.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_is_cut_off_from_postgresql_says_nothing_to_the_servers_after_its_lease(
    kind: str, database_url: str, root: Path, tmp_path: Path, vault_key: str
) -> None:
    """Its lines to PostgreSQL stay open and carry nothing; it tries for longer than the lease lasts."""
    alice = User.objects.create(username="alice")
    here, there = root / "here", root / "there"
    written(here, 3000, 20_000)
    open_to_all(there)
    sockets = parse_qs(urlsplit(database_url).query)["host"][0]
    with (
        server_of("own", root, alice) as (source, _, source_path),
        server_of(kind, root, alice) as (destination, line, path),
        CountingLine(Path(sockets) / ".s.PGSQL.5432") as database,
    ):
        task = submit(alice, source, destination, (f"{source_path(here)}/", f"{path(there)}/"), options=FIXED)
        cut_off = database_url.replace(quote(sockets), quote(str(database.folder)))
        assert cut_off != database_url
        with Workers(task, tmp_path, vault_key) as workers:
            first = workers.start(cut_off)
            eventually(lambda: first.poll() is not None or count(there) > 100)
            database.dead.set()
            eventually(workers.lease_is_over)
            said = list(line.said)
            assert first.poll() is None, "it must still try to reach PostgreSQL here"
            first.wait(60)
            assert line.said == said, "octets left towards the server after the lease"
            assert "ended: lease lost" in workers.log.read_text()


def count(folder: Path) -> int:
    return len(os.listdir(folder)) if folder.exists() else 0
