"""A role one of whose loops stands still ends with the tracebacks of its threads, and one that works goes on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.redis import Redis
from tests.waiting import eventually
from transferapi.config import CHECKOUT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]

#: Seconds, in place of two minutes.
LIMIT = 15.0
#: With a loop that sleeps for ever, where `{hang}` makes one do so.
BEGIN = f"""
import sys, time
import django
from transferapi.outages import watchdog
watchdog.LIMIT = {LIMIT}
django.setup()
"""
RUN = """
from deploy.cli import main
sys.exit(main(["run", "{role}"]))
"""
SHELL = """
from transferapi.shell.server.listener import Listener
Listener._accept = lambda *_: time.sleep(3600)
"""
RELAY = """
from transferapi.relay.front import Front
Front.connection_made = lambda *_: time.sleep(3600)
"""
#: `waybill run worker` becomes Celery by exec, and so would lose what was changed.
WORKER = """
import workers.celery
from celery.signals import worker_ready
from transferapi.tasks.upkeep import rounds
from workers import runtime
@worker_ready.connect(weak=False)
def begin(**_):
    {hang}
    print("can be hung", flush=True)
workers.celery.app.worker_main(["worker", "--pool", "threads", "--concurrency", "2", "--without-gossip"])
"""
SESSIONS = WORKER.format(hang="runtime.current().loop.call_later(1.0, time.sleep, 3600)")
ROUNDS = WORKER.format(hang="rounds.poll = lambda _: time.sleep(3600)")
WORKS = WORKER.format(hang="runtime.current()")


@contextmanager
def process_of(
    script: str, database_url: str, redis_server: Redis, folder: Path
) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """The process, the port at which it listens, and its log."""
    port, log = free_port(), folder / "log"
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_server.url(),
        "WAYBILL_SECRET_KEY": "x" * 50,
        "WAYBILL_HOME": str(folder),
        "DJANGO_SETTINGS_MODULE": "transferapi.settings",
        "WAYBILL_SSH_HOST": "127.0.0.1",
        "WAYBILL_SSH_PORT": str(port),
        "WAYBILL_RELAY": f"127.0.0.1:{port}",
    }
    process = spawn([sys.executable, "-c", BEGIN + script], log=log, env=given, cwd=CHECKOUT)
    try:
        yield process, port, log
    finally:
        stop(process, timeout=30)


def connect(port: int) -> bool:
    """To a loop that then stands still."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


@pytest.mark.parametrize(
    ("script", "loop", "where"),
    [
        pytest.param(SHELL + RUN.format(role="shell"), "the listening socket", "in serve", id="shell"),
        pytest.param(RELAY + RUN.format(role="relay"), "the loop of the connections", "in run_forever", id="relay"),
        pytest.param(SESSIONS, "the loop of the sessions", "in run_forever", id="sessions of a worker"),
        pytest.param(ROUNDS, "the periodic jobs", "in run_due", id="periodic jobs of a worker"),
    ],
)
def test_a_role_that_stands_still_ends_and_says_where(
    database_url: str, redis_server: Redis, tmp_path: Path, script: str, loop: str, where: str
) -> None:
    with process_of(script, database_url, redis_server, tmp_path) as (process, port, log):
        if script not in (SESSIONS, ROUNDS):
            eventually(lambda: connect(port) or process.poll() is not None, seconds=90)
        eventually(lambda: process.poll() is not None, seconds=120)
        said = log.read_text()
        assert process.returncode == 1, said
        assert f"watchdog: {loop} stands still" in said
        assert where in said.partition("Timeout (0:00:")[2], said


def test_a_worker_that_works_outlives_the_limit(database_url: str, redis_server: Redis, tmp_path: Path) -> None:
    with process_of(WORKS, database_url, redis_server, tmp_path) as (process, _, log):
        eventually(lambda: "can be hung" in log.read_text() or process.poll() is not None, seconds=90)
        time.sleep(2 * LIMIT)
        assert process.poll() is None, log.read_text()
        assert "watchdog" not in log.read_text()
