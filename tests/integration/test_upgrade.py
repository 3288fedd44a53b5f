"""An upgrade without a pause: two versions of the service on one schema, and the command that changes it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from bench.instance import ALLOW_LOOPBACK, Api
from deploy.endpoint.toolkit import free_port
from deploy.stack.child import spawn, stop
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from tests import newer_version
from tests.database import first_row
from tests.memory import folder_in_memory
from tests.newer_version import CONTRACTION, EXPANSION
from tests.schema_copy import TEMPLATE
from tests.waiting import eventually
from transferapi.config import CHECKOUT

pytestmark = pytest.mark.timeout(240)
DATABASE = "upgrades"
#: A user with a token and two endpoints.
CAST = """
import json, sys
from deploy.user_commands import user_model
alice = user_model().objects.create(username="alice")
from identity import tokens
from endpoints import registry
ends = [registry.create(alice, {"name": name, "display_name": name},
    [registry.ServerSpec("127.0.0.1", int(port), "ftp")]) for name, port in zip(("one", "two"), sys.argv[1:])]
print(json.dumps([tokens.issue(alice, "test"), *(str(end.pk) for end in ends)]))
"""


@dataclass
class Site:
    """A database, and folders of the two versions and of two endpoints. ours: this version; newer: the other."""

    postgres: Postgres
    redis: Redis
    folder: Path
    newer: Path
    running: ExitStack
    token: str = ""
    ends: tuple[str, str] = ("", "")
    logs: dict[str, Path] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
            "DATABASE_URL": self.postgres.url(DATABASE),
            "REDIS_URL": self.redis.url(),
            "WAYBILL_SECRET_KEY": "x" * 50,
            "WAYBILL_HOME": str(self.folder),
            "WAYBILL_RATE_LIMIT": "0",
            **ALLOW_LOOPBACK,
        }

    def ask(self, statement: str) -> tuple[Any, ...]:
        return first_row(self.postgres.url(DATABASE), statement)

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
        return self.run(self.newer, "-m", "deploy.cli", "upgrade", *words)

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

    def worker(self, tree: Path, name: str) -> Callable[[], object]:
        words = ["-A", "workers.celery:app", "worker", "--pool", "threads", "--concurrency", "2", "-n", f"{name}@%h"]
        return self.start(tree, name, "celery", *words, "--without-gossip", "--without-mingle", "--without-heartbeat")

    def reported(self, kind: str) -> int:
        """The processes of this kind that have reported themselves."""
        return int(self.ask(f"SELECT count(*) FROM tasks_serviceprocess WHERE kind = '{kind}'")[0])


@pytest.fixture(scope="module")
def site(
    postgres: Postgres, redis_server: Redis, django_db_modify_db_settings: None, tmp_path_factory: Any
) -> Iterator[Site]:
    session = psycopg2.connect(postgres.url("postgres"))
    session.autocommit = True
    with session.cursor() as cursor, ExitStack() as running, folder_in_memory("waybill-upgrade-", 0o755) as folder:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE])
        template = f" TEMPLATE {TEMPLATE}" if cursor.fetchone() else ""
        cursor.execute(f"CREATE DATABASE {DATABASE}{template}")
        running.callback(cursor.execute, f"DROP DATABASE {DATABASE} WITH (FORCE)")
        found = Site(postgres, redis_server, folder, newer_version.make(folder / "newer"), running)
        if not template:
            assert found.run(CHECKOUT, "manage.py", "migrate").returncode == 0
        yield found
    session.close()


@pytest.fixture(scope="module")
def cast(site: Site) -> Site:
    """A user and two endpoints, of which the first has files."""
    ports = []
    for name in ("one", "two"):
        (site.folder / name).mkdir()
        port = free_port()
        ports.append(str(port))
        words = ["--root", str(site.folder / name), "--port", str(port), "--own-account"]
        site.start(CHECKOUT, f"server-{name}", "endpoints.gridftp.server", *words)
    for number in range(20):
        (site.folder / "one" / f"{number}").write_bytes(random.Random(number).randbytes(1000 * number))
    made = site.run(CHECKOUT, "-c", CAST, *ports)
    assert made.returncode == 0, made
    site.token, *ends = json.loads(made.stdout)
    site.ends = (ends[0], ends[1])
    return site


def test_a_migration_that_finds_a_table_in_use_gives_way_to_the_service(site: Site) -> None:
    """While it waits for a lock, a reader behind it waits for at most its time limit; then it is tried again."""
    blocking = psycopg2.connect(site.postgres.url(DATABASE))
    with blocking.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM tasks_task")
        process = subprocess.Popen(
            [sys.executable, "-m", "deploy.cli", "upgrade"],
            env=site.environ,
            cwd=site.newer,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'tasks_task'::regclass"
        eventually(lambda: site.ask(waits)[0], seconds=60)
        # It has given up its place in the queue: others read and write.
        eventually(lambda: not site.ask(waits)[0], seconds=60)
        site.ask("SELECT count(*) FROM tasks_task")
        assert process.poll() is None
    blocking.close()
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "a table is in use (attempt 1 of" in said
    assert f"{EXPANSION}: done" in said
    assert "1 contractions are left" in said


def test_two_versions_work_on_one_schema(cast: Site) -> None:
    """The expansion is done; a web server and a worker of each version do real transfers."""
    site = cast
    old, end_old = site.web(CHECKOUT, "old-web")
    new, _ = site.web(site.newer, "new-web")
    end_worker = site.worker(CHECKOUT, "old-worker")
    site.worker(site.newer, "new-worker")
    tasks = []
    for number, api in enumerate([old, new] * 3):
        items = [(f"/{one}", f"/{number}/{one}") for one in range(20)]
        tasks.append((number, api, api.transfer_items(*site.ends, items)))
    for number, api, task in tasks:
        # Each version reads what the other one wrote.
        for reader in (api, new if api is old else old):
            assert reader.wait(task, timeout=90)["status"] == "SUCCEEDED"
        for one in range(20):
            assert (site.folder / "two" / f"{number}" / f"{one}").read_bytes() == random.Random(one).randbytes(
                1000 * one
            )
    written = site.ask("SELECT array_agg(DISTINCT tomorrow ORDER BY tomorrow) FROM tasks_task")
    assert written == (["later", "sooner"],)
    eventually(lambda: (site.reported("web"), site.reported("worker")) == (2, 2), seconds=60)
    for name in ("old-web", "old-worker"):
        assert f"the migration {EXPANSION} of a newer version, an expansion" in site.logs[name].read_text()

    refused = site.upgrade("--contract")
    assert refused.returncode == 1
    assert "older processes run: web " in refused.stderr
    end_old()
    end_worker()
    site.ask("UPDATE tasks_serviceprocess SET seen_at = seen_at - interval '1 hour'")
    site.ask("UPDATE tasks_workerprocess SET seen_at = seen_at - interval '1 hour'")


def test_after_the_contraction_the_older_version_does_not_start(site: Site) -> None:
    shown = site.upgrade("--check", "--contract")
    assert (shown.returncode, f"{CONTRACTION}: contraction" in shown.stdout) == (0, True), shown
    done = site.upgrade("--contract")
    assert (done.returncode, f"{CONTRACTION}: done" in done.stdout) == (0, True), done
    again = site.upgrade("--check")
    assert (again.returncode, "Nothing to do" in again.stdout) == (0, True), again
    old = site.run(CHECKOUT, "-m", "deploy.cli", "token", "alice")
    assert old.returncode == 1
    assert f"the database has the migration {CONTRACTION}, which this version does not know" in old.stderr
