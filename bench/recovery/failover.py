"""The time from the promotion of a standby until requests are served and workers work.

    python -m bench.recovery.failover [--runs 3] [--before FOLDER]

A primary, its standby, a web server and a worker run on this machine. The primary is killed; 5 s later the standby is
promoted. At the address of the primary nobody is ("refused"), or a server that answers nothing ("silent"), as where a
machine is lost. --before: a checkout of another version, which is measured in the same run, in turn.
"""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from bench.table import print_table
from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.redis import Redis
from tests.memory import folder_in_memory
from tests.servers.external_servers import HOST, NetworkPostgres
from tests.waiting import eventually
from transferapi.config import CHECKOUT

PROMOTED_AFTER, LIMIT, CONNECTIONS = 5.0, 300.0, 100
_TOKEN = """
from deploy.commands.base import open_database
open_database()
from identity.models import User
alice = User.objects.create(username="alice")
from identity import tokens
print(tokens.issue(alice, "failover"))
"""


class Site:
    """Two servers of PostgreSQL, and a web server and a worker of one checkout."""

    def __init__(self, tree: Path, folder: Path, running: ExitStack) -> None:
        self._tree, self._folder, self._running = tree, folder, running
        password = secrets.token_hex(8)
        for name in ("primary", "standby"):
            (folder / name).mkdir(mode=0o711)
        self.primary = NetworkPostgres(folder / "primary", password, connections=CONNECTIONS)
        self.primary.start()
        running.callback(self.primary.stop)
        self.primary.run(f"ALTER ROLE waybill PASSWORD '{password}'")
        self.standby = self.primary.make_standby(folder / "standby", connections=CONNECTIONS)
        running.callback(self.standby.stop)
        redis = Redis(folder)
        redis.start()
        running.callback(redis.stop)
        self._port = free_port()
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
            "DATABASE_URL": f"postgresql://waybill:{password}@{self.primary.place},{self.standby.place}/waybill",
            "REDIS_URL": redis.url(),
            "WAYBILL_SECRET_KEY": "x" * 50,
            "WAYBILL_HOME": str(folder),
            "WAYBILL_RATE_LIMIT": "0",
            "WAYBILL_PORT": str(self._port),
            "WAYBILL_WEB_PROCESSES": "2",
            "WAYBILL_WORKER_THREADS": "4",
        }
        self._run("manage.py", "migrate", "--verbosity", "0")
        self._token = self._run("-c", _TOKEN).strip()
        for role in ("web", "worker"):
            words = [sys.executable, "-m", "deploy.cli", "run", role]
            process = spawn(words, log=folder / f"{role}.log", env=self._environ, cwd=tree)
            running.callback(stop, process)
        eventually(lambda: self.served() and self.swept(self.primary), seconds=LIMIT)

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            env=self._environ,
            cwd=self._tree,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=True,
        )
        return done.stdout

    def served(self) -> bool:
        headers = {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(f"http://{HOST}:{self._port}/v0.10/task_list?limit=1", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10):
                return True
        except OSError:
            return False

    def swept(self, server: NetworkPostgres) -> bool:
        """Whether a worker has claimed a sweep since it was last asked."""
        return bool(server.run("UPDATE tasks_round SET next_at = now() WHERE name = 'sweep' AND next_at > now()"
                               " RETURNING true"))  # fmt: skip


@contextmanager
def silent_at(port: int) -> Iterator[None]:
    """A server that accepts connections, and answers nothing."""
    with socket.create_server((HOST, port), backlog=500):
        yield


def until(condition: Callable[[], bool]) -> float:
    """The time (monotonic) at which it holds. Raises TimeoutError."""
    limit = time.monotonic() + LIMIT
    while time.monotonic() < limit:
        if condition():
            return time.monotonic()
        time.sleep(0.05)
    raise TimeoutError


def run(tree: Path, *, silent: bool) -> tuple[float, float]:
    """Seconds from the promotion until a request is served, and until a worker has claimed a sweep."""
    with folder_in_memory("waybill-failover-", 0o711) as folder, ExitStack() as running:
        site = Site(tree, folder, running)
        site.primary.kill()
        with silent_at(site.primary.port) if silent else nullcontext():
            killed = time.monotonic()
            # Requests go on, as those of clients do: an outage begins with the first one that fails.
            until(lambda: not site.served() and time.monotonic() > killed + PROMOTED_AFTER)
            site.standby.run("SELECT pg_promote()")
            promoted = time.monotonic()
            site.standby.run("UPDATE tasks_round SET next_at = now() WHERE name = 'sweep'")
            return until(site.served) - promoted, until(lambda: site.swept(site.standby)) - promoted


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.recovery.failover", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="of each kind (default: %(default)s)")
    parser.add_argument("--before", type=Path, help="a checkout of another version, to compare with")
    options = parser.parse_args(words)
    trees: Mapping[str, Path] = {"now": CHECKOUT} | ({"before": options.before.resolve()} if options.before else {})
    api: dict[str, list[float]] = defaultdict(list)
    sweep: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.runs):
        for kind in ("refused", "silent"):
            for name, tree in trees.items():
                served, swept = run(tree, silent=kind == "silent")
                api[f"{name}, {kind}"].append(served)
                sweep[f"{name}, {kind}"].append(swept)
    print_table("From the promotion until a request is served", "s", api, "now, silent")
    print_table("From the promotion until a worker sweeps", "s", sweep, "now, silent")
    sys.stdout.write(f"\nload: {os.getloadavg()[0]:.1f}\n")


if __name__ == "__main__":
    main()
