"""Workers do their work while Redis hangs, is gone, or has never been there: PostgreSQL is the truth."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.redis import Redis
from endpoints import registry
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from tests.integration.cast import submit
from tests.waiting import eventually
from transferapi.config import CHECKOUT
from transferapi.config.servers import broker_url
from transferapi.tasks.models import Event, Lease, Task, WorkerProcess

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("loopback_opened"),
]

THREADS = 2
FILES = {f"{number}": random.Random(number).randbytes(20_000 * number) for number in range(10)}


class Broken:
    """A Redis of the test's own, and how it goes away."""

    def __init__(self, server: Redis) -> None:
        self.server = server

    def hang(self) -> None:
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGSTOP)

    def vanish(self) -> None:
        assert self.server.process is not None
        self.server.process.kill()
        self.server.process.wait()
        self.server.process = None

    def come_back(self) -> None:
        if self.server.process is None:
            self.server.start()
        else:
            self.server.process.send_signal(signal.SIGCONT)

    @property
    def answers(self) -> bool:
        return self.server.ready()


@pytest.fixture
def redis(stack_home: Path, settings: Any) -> Iterator[Broken]:
    home = stack_home / "no-redis"
    home.mkdir(mode=0o711, exist_ok=True)
    server = Redis(home)
    settings.REDIS_URL, settings.CELERY_BROKER_URL = server.url(), broker_url(server.url())
    yield Broken(server)
    if server.process is not None:
        server.process.send_signal(signal.SIGCONT)
    server.stop()


@pytest.fixture
def worker(database_url: str, redis: Broken, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start a worker process, as units and compose do. Its log is `worker.log`."""
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis.server.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_ALLOW_TARGETS": "127.0.0.1",
        "WAYBILL_WORKER_THREADS": str(THREADS),
    }
    with ExitStack() as running:

        def start() -> subprocess.Popen[bytes]:
            words = [sys.executable, "-m", "deploy.cli", "run", "worker"]
            process = spawn(words, log=tmp_path / "worker.log", env=given, cwd=CHECKOUT)
            running.callback(stop, process, signal.SIGKILL)
            return process

        yield start


def logged(folder: Path, text: str) -> bool:
    with suppress(FileNotFoundError):
        return text in (folder / "worker.log").read_text()
    return False


@pytest.fixture
def ends(alice: User, tmp_path: Path) -> Iterator[tuple[Endpoint, Endpoint]]:
    """Two servers, of which the first one has FILES."""
    with ExitStack() as running:
        made = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            port = free_port()
            words = ["-m", "endpoints.gridftp.server", "--root", str(tmp_path / name), "--port", str(port)]
            process = spawn([sys.executable, *words, "--own-account"], log=tmp_path / f"{name}.log", cwd=CHECKOUT)
            running.callback(stop, process)
            spec = ServerSpec("127.0.0.1", port, "ftp")
            made.append(registry.create(alice, {"name": name, "display_name": name}, [spec]))
        for name, octets in FILES.items():
            (tmp_path / "one" / name).write_bytes(octets)
        yield made[0], made[1]


def transfer(alice: User, ends: tuple[Endpoint, Endpoint], to: str = "/to") -> Task:
    return submit(alice, *ends, *((f"/{name}", f"{to}/{name}") for name in FILES))


def succeeded(task: Task) -> bool:
    task.refresh_from_db()
    assert task.status != "FAILED"
    return bool(task.status == "SUCCEEDED")


def is_right(folder: Path) -> bool:
    return {one.name: one.read_bytes() for one in folder.iterdir()} == FILES


@pytest.mark.parametrize("away", ["hang", "vanish"])
def test_a_task_that_is_submitted_without_redis_ends(
    away: str,
    redis: Broken,
    worker: Callable[[], object],
    alice: User,
    ends: tuple[Endpoint, Endpoint],
    tmp_path: Path,
) -> None:
    redis.come_back()
    worker()
    eventually(lambda: logged(tmp_path, " ready."), seconds=90)
    getattr(redis, away)()
    for number in range(THREADS):
        task = transfer(alice, ends, f"/{number}")
        eventually(lambda task=task: succeeded(task), seconds=90)  # type: ignore[misc]
        assert is_right(tmp_path / "two" / str(number))
    assert not redis.answers


@pytest.mark.parametrize("hangs", [False, True])
def test_a_worker_that_starts_without_redis_works(
    hangs: bool,
    redis: Broken,
    worker: Callable[[], object],
    alice: User,
    ends: tuple[Endpoint, Endpoint],
    tmp_path: Path,
) -> None:
    if hangs:
        redis.come_back()
        redis.hang()
    task = transfer(alice, ends)
    worker()
    eventually(lambda: succeeded(task), seconds=90)
    assert is_right(tmp_path / "two" / "to")
    assert WorkerProcess.objects.exists()
    assert not logged(tmp_path, " ready.")
    assert not redis.answers


@contextmanager
def silent_task(alice: User) -> Iterator[Task]:
    """A task that waits for a server which says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        spec = ServerSpec("127.0.0.1", listening.getsockname()[1], "ftp")
        one, two = (registry.create(alice, {"name": name, "display_name": name}, [spec]) for name in ("s1", "s2"))
        yield submit(alice, one, two)


def holder(task: Task) -> str:
    return Lease.objects.filter(pk=task.pk).values_list("worker", flat=True).first() or ""


@pytest.mark.parametrize("away", ["hang", "vanish", "never there"])
def test_a_worker_that_stops_without_redis_gives_its_tasks_back_and_ends(
    away: str, redis: Broken, worker: Callable[[], subprocess.Popen[bytes]], alice: User, tmp_path: Path
) -> None:
    if away == "never there":
        process = worker()
    else:
        redis.come_back()
        process = worker()
        eventually(lambda: logged(tmp_path, " ready."), seconds=90)
        getattr(redis, away)()
    with silent_task(alice) as task:
        eventually(lambda: holder(task), seconds=90)
        process.send_signal(signal.SIGTERM)
        eventually(lambda: not holder(task))
        # STOP_SECONDS of deploy.stack.roles is 20.
        assert process.wait(60) == 0
    assert logged(tmp_path, "slice 1 ended: released")
    assert not Event.objects.filter(task=task, code="RESUMED").exists()
    assert not WorkerProcess.objects.exists()


def test_nothing_runs_twice_when_redis_comes_back(
    redis: Broken, worker: Callable[[], object], alice: User, ends: tuple[Endpoint, Endpoint], tmp_path: Path
) -> None:
    """More tasks than threads, some of which began without a message, and others with one."""
    worker()
    with silent_task(alice) as silent:
        eventually(lambda: holder(silent), seconds=90)
        redis.come_back()
        tasks = [transfer(alice, ends, f"/{number}") for number in range(4)]
        eventually(lambda: logged(tmp_path, " ready."), seconds=90)
        tasks += [transfer(alice, ends, f"/{number}") for number in range(4, 8)]
        for task in tasks:
            eventually(lambda task=task: succeeded(task), seconds=90)  # type: ignore[misc]
        assert Lease.objects.get(pk=silent.pk).epoch == 1
    for number, task in enumerate(tasks):
        assert is_right(tmp_path / "two" / str(number))
        assert Lease.objects.filter(pk=task.pk, epoch__gt=1).count() == 0
        assert Event.objects.filter(task=task, code="STARTED").count() == 1
    assert not Event.objects.filter(code="RESUMED").exists()
