"""Two versions of the service on one database, with real transfers between two servers, for any length of time."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2

from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from tests.database import first_row
from tests.instance import ALLOW_LOOPBACK, Api
from tests.memory import folder_in_memory
from tests.schema_copy import TEMPLATE
from tests.waiting import eventually
from transferapi.config import CHECKOUT

#: Seconds of transfers with two versions. A shorter run:
#: `UPGRADE_SECONDS=20 pytest tests/integration/deploy/test_upgrade.py`.
SECONDS = float(os.environ.get("UPGRADE_SECONDS", "60"))
FILES = {f"{number}": random.Random(number).randbytes(1000 * number) for number in range(20)}
#: A user with a token and two endpoints.
CAST = """
import json, sys
from deploy.commands.base import open_database
open_database()
from identity.models import User
alice = User.objects.create(username="alice")
from identity import tokens
from endpoints import registry
ends = [registry.create(alice, {"name": name, "display_name": name},
    [registry.ServerSpec("127.0.0.1", int(port), "ftp")]) for name, port in zip(("one", "two"), sys.argv[1:])]
print(json.dumps([tokens.issue(alice, "test"), *(str(end.pk) for end in ends)]))
"""


@dataclass
class Site:
    """A database, and folders of another version of the service and of two endpoints."""

    postgres: Postgres
    redis: Redis
    folder: Path
    database: str
    other: Path
    running: ExitStack
    token: str = ""
    ends: tuple[str, str] = ("", "")
    logs: dict[str, Path] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
            "DATABASE_URL": self.postgres.url(self.database),
            "REDIS_URL": self.redis.url(),
            "WAYBILL_SECRET_KEY": "x" * 50,
            "WAYBILL_HOME": str(self.folder),
            "WAYBILL_RATE_LIMIT": "0",
            **ALLOW_LOOPBACK,
        }

    def ask(self, statement: str) -> tuple[Any, ...]:
        return first_row(self.postgres.url(self.database), statement)

    def run(self, tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a module or a script of a version."""
        return subprocess.run(
            [sys.executable, *words],
            env=self.environ,
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def upgrade(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`waybill upgrade` of the other version."""
        return self.run(self.other, "-m", "deploy.cli", "upgrade", *words)

    def start(self, tree: Path, name: str, *words: str) -> Callable[[], object]:
        """Start a program; returns what stops it."""
        log = self.logs[name] = self.folder / name
        process = spawn([sys.executable, "-m", *words], log=log, env=self.environ, cwd=tree)
        self.running.callback(stop, process)
        return lambda: stop(process)

    def web(self, tree: Path, name: str) -> tuple[Api, Callable[[], object]]:
        port = free_port()
        words = ["--config", "python:deploy.web.gunicorn_conf", "--workers", "1", "--bind", f"127.0.0.1:{port}"]
        end = self.start(tree, name, "gunicorn", *words, "transferapi.wsgi")
        eventually(lambda: "Booting worker" in self.logs[name].read_text(), seconds=90)
        home = self.folder / f"{name}-home"
        home.mkdir(exist_ok=True)
        (home / "connection.json").write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "token": self.token}))
        return Api(home), end

    def api(self, name: str) -> Api:
        """That of a web server which was started with this name."""
        return Api(self.folder / f"{name}-home")

    def worker(self, tree: Path, name: str) -> Callable[[], object]:
        words = ["-A", "workers.celery:app", "worker", "--pool", "threads", "--concurrency", "2", "-n", f"{name}@%h"]
        return self.start(tree, name, "celery", *words, "--without-gossip", "--without-mingle", "--without-heartbeat")

    def add_cast(self) -> None:
        """A user and two endpoints, of which the first has FILES."""
        ports = []
        for name in ("one", "two"):
            (self.folder / name).mkdir()
            port = free_port()
            ports.append(str(port))
            words = ["--root", str(self.folder / name), "--port", str(port), "--own-account"]
            self.start(CHECKOUT, f"server-{name}", "endpoints.gridftp.server", *words)
        for name, octets in FILES.items():
            (self.folder / "one" / name).write_bytes(octets)
        made = self.run(CHECKOUT, "-c", CAST, *ports)
        assert made.returncode == 0, made
        self.token, *ends = json.loads(made.stdout)
        self.ends = (ends[0], ends[1])

    def transfer_for(self, seconds: float, apis: Sequence[Api], workers: Sequence[str]) -> int:
        """Submit transfers of FILES by each of these in turn, two at a time, and compare every file.

        Goes on until each of these workers has had a slice since the begin. Returns the number of tasks.
        """
        begun = time.monotonic()
        slices = {name: self.slices(name) for name in workers}
        under_way: list[tuple[str, Path]] = []
        count = 0

        def is_enough() -> bool:
            waited = time.monotonic() - begun
            lazy = [name for name in workers if self.slices(name) == slices[name]]
            assert waited < seconds + 120, f"no slice: {lazy}"
            return waited > seconds and count >= 2 * len(apis) and not lazy

        while under_way or not is_enough():
            if len(under_way) < 2 and not is_enough():
                items = [(f"/{name}", f"/{count}-{begun}/{name}") for name in FILES]
                task = apis[count % len(apis)].transfer_items(*self.ends, items)
                under_way.append((task, self.folder / "two" / f"{count}-{begun}"))
                count += 1
                continue
            task, folder = under_way.pop(0)
            # Each version reads what the other one wrote.
            for api in apis:
                assert api.wait(task, timeout=90)["status"] == "SUCCEEDED"
            assert {one.name: one.read_bytes() for one in folder.iterdir()} == FILES
        return count

    def slices(self, worker: str) -> int:
        """The slices that the worker with this name has ended."""
        return self.logs[worker].read_text().count(" ended: ")

    def reported(self, kind: str) -> int:
        """The processes of this kind that have reported themselves."""
        return int(self.ask(f"SELECT count(*) FROM tasks_serviceprocess WHERE kind = '{kind}'")[0])


@contextmanager
def site_with(postgres: Postgres, redis: Redis, database: str, make_other: Callable[[Path], Path]) -> Iterator[Site]:
    """A site with a new database of this version's schema. make_other: writes the other version into a new folder."""
    session = psycopg2.connect(postgres.url("postgres"))
    session.autocommit = True
    with session.cursor() as cursor, ExitStack() as running, folder_in_memory("waybill-upgrade-", 0o755) as folder:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE])
        template = f" TEMPLATE {TEMPLATE}" if cursor.fetchone() else ""
        cursor.execute(f"CREATE DATABASE {database}{template}")
        running.callback(cursor.execute, f"DROP DATABASE {database} WITH (FORCE)")
        found = Site(postgres, redis, folder, database, make_other(folder / "other"), running)
        if not template:
            assert found.run(CHECKOUT, "manage.py", "migrate").returncode == 0
        yield found
    session.close()
