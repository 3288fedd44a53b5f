"""The web side of one instance, as `make up` has it: PostgreSQL, Redis and two gunicorn workers, without the engine.

Rows are made in this process, by the services themselves; requests go over HTTP.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import django

from deploy.stack.child import spawn, stop
from deploy.stack.embedded import embedded_environment
from deploy.stack.free_ports import free_port
from deploy.stack.home import Home
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis

HOST = "127.0.0.1"
READY_SECONDS = 30.0


@dataclass(frozen=True)
class Web:
    """The port, and the process ids of the workers."""

    port: int
    master: int

    @property
    def workers(self) -> list[int]:
        children = Path(f"/proc/{self.master}/task/{self.master}/children").read_text()
        return [int(word) for word in children.split()]

    def forget_peaks(self) -> None:
        """Reset the peak of the memory (man 5 proc, clear_refs)."""
        for pid in self.workers:
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak(self) -> float:
        """The most memory that one worker has had since then, in MB."""
        return max(map(_peak, self.workers))


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024 / 1e6


@contextmanager
def web() -> Iterator[Web]:
    """Everything in a folder of its own, until the end of the block. Django is set up in this process, too."""
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        Path(folder).chmod(0o711)
        home = Home(Path(folder) / "home")
        home.make()
        postgres, redis = Postgres(home.path), Redis(home.path)
        port = free_port()
        os.environ |= embedded_environment(home.path) | {
            "WAYBILL_PORT": str(port),
            "WAYBILL_ALLOW_TARGETS": f"{HOST}/32",
            # The rate limit is active, and higher than the rate of one client of a benchmark.
            "WAYBILL_RATE_LIMIT": "100000",
            "WAYBILL_LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "transferapi.settings",
        }
        try:
            postgres.start()
            redis.start()
            django.setup()
            from django.core.management import call_command

            call_command("migrate", interactive=False, verbosity=0)
            master = _gunicorn(home, port)
            try:
                yield Web(port, master.pid)
            finally:
                stop(master, timeout=10)
        finally:
            _close_connections()
            redis.stop()
            postgres.stop()


def _gunicorn(home: Home, port: int) -> subprocess.Popen[bytes]:
    words = ["-m", "gunicorn", "--config", "python:deploy.web.gunicorn_conf", "--bind", f"{HOST}:{port}"]
    master = spawn([sys.executable, *words, "transferapi.wsgi"], log=home.logs / "web.log", env=dict(os.environ))
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end and master.poll() is None:
        try:
            urlopen(f"http://{HOST}:{port}/", timeout=1).close()
            return master
        except (URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError("the web server did not start:\n" + (home.logs / "web.log").read_text()[-4000:])


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()


@dataclass(frozen=True)
class Person:
    """A user with a token and two endpoints."""

    id: uuid.UUID
    token: str
    source: str
    destination: str


def person(name: str, *ports: int) -> Person:
    """Create one. ports: of the servers of the endpoints (default: ports without a server)."""
    from endpoints import registry
    from identity import tokens
    from identity.models import User

    user = User.objects.create(username=name)
    specs = [registry.ServerSpec(HOST, port, "ftp") for port in (ports or (1, 1))]
    made = [registry.create(user, {"name": f"ep{number}"}, [spec]) for number, spec in enumerate(specs, 1)]
    return Person(user.pk, tokens.issue(user), str(made[0].pk), str(made[-1].pk))
