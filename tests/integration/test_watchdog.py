"""A role one of whose loops stands still ends with the tracebacks of its threads, and one that works goes on."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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


class Standstill(NamedTuple):
    """A role that hangs, and what the watchdog says of it."""

    script: str
    loop: str
    frame: str


STANDSTILLS = {
    "shell": Standstill(SHELL + RUN.format(role="shell"), "the listening socket", "in serve"),
    "relay": Standstill(RELAY + RUN.format(role="relay"), "the loop of the connections", "in run_forever"),
    "sessions of a worker": Standstill(SESSIONS, "the loop of the sessions", "in run_forever"),
    "periodic jobs of a worker": Standstill(ROUNDS, "the periodic jobs", "in run_due"),
}


@dataclass
class Role:
    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def has_taken_a_connection(self) -> bool:
        """Whether one has got to its loop, which then stands still; True, too, where the role has ended."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
            return True
        return self.has_ended


@contextmanager
def role_of(script: str, database_url: str, redis_server: Redis, folder: Path) -> Iterator[Role]:
    folder.mkdir()
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
        yield Role(process, port, log)
    finally:
        stop(process, timeout=30)


def check_end(role: Role, standstill: Standstill) -> None:
    eventually(lambda: role.has_ended, seconds=120)
    said = role.log.read_text()
    assert role.process.returncode == 1, said
    assert f"watchdog: {standstill.loop} stands still" in said
    assert standstill.frame in said.partition("Timeout (0:00:")[2], said


def test_a_role_that_stands_still_ends_and_says_where_and_one_that_works_outlives_the_limit(
    database_url: str, redis_server: Redis, tmp_path: Path
) -> None:
    """All at the same time: each waits for the limit, and needs no processor meanwhile."""
    with ExitStack() as stack:

        def begin(name: str, script: str) -> Role:
            return stack.enter_context(role_of(script, database_url, redis_server, tmp_path / name))

        working = begin("a worker that works", WORKS)
        roles = {name: begin(name, standstill.script) for name, standstill in STANDSTILLS.items()}
        for name in ("shell", "relay"):
            eventually(roles[name].has_taken_a_connection)
        eventually(lambda: "can be hung" in working.log.read_text() or working.has_ended)
        end = time.monotonic() + 2 * LIMIT
        for name, standstill in STANDSTILLS.items():
            check_end(roles[name], standstill)
        time.sleep(max(0.0, end - time.monotonic()))
        assert not working.has_ended, working.log.read_text()
        assert "watchdog" not in working.log.read_text()
