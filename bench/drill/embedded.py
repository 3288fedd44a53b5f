"""The embedded stack as a host: what `make up` starts, without containers; for faster work on recovery."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg2
import redis

from bench.drill.host import TIMEOUTS, Host
from bench.place import workplace
from deploy.stack.child import spawn, stop
from deploy.stack.embedded import embedded_environment
from deploy.stack.free_ports import free_port
from tests.instance import Api, instance


class EmbeddedHost(Host):
    name = "embedded"

    def __init__(self, api: Api, folders: tuple[Path, Path], ports: tuple[int, int]) -> None:
        self.api = api
        self.folders = folders
        self.endpoints = (api.endpoint("drill-1", ports[0]), api.endpoint("drill-2", ports[1]))
        self._environment = embedded_environment(api.home)

    def connect(self) -> psycopg2.extensions.connection:
        url = urlsplit(self._environment["DATABASE_URL"])
        host = parse_qs(url.query)["host"][0]
        return psycopg2.connect(TIMEOUTS, host=host, user=url.username, dbname=url.path.lstrip("/"))

    def kill(self, *roles: str) -> None:
        pids = [(role, pid) for role in roles for pid in self._pids(role)]
        for role, pid in pids:
            self._signal(pid, signal.SIGQUIT if role == "postgres" else signal.SIGKILL)

    def kill_worker(self, name: str) -> None:
        self._signal(int(name.rpartition(":")[2]), signal.SIGKILL)

    def signal_worker(self, name: str, number: signal.Signals) -> float:
        before = time.monotonic()
        for pid in _with_children([int(name.rpartition(":")[2])]):
            self._signal(pid, number)
        return before

    def restart(self, role: str) -> None:
        # SIGINT is the fast shutdown of PostgreSQL. The supervisor starts them again.
        for pid in self._pids(role):
            self._signal(pid, signal.SIGINT if role == "postgres" else signal.SIGTERM)

    def pause(self, role: str) -> None:
        for pid in _with_children(self._pids(role)):
            self._signal(pid, signal.SIGSTOP)

    def resume(self, role: str) -> None:
        for pid in _with_children(self._pids(role)):
            self._signal(pid, signal.SIGCONT)

    def empty_redis(self) -> None:
        with redis.Redis.from_url(self._environment["REDIS_URL"]) as client:
            # FLUSHALL is forbidden to clients.
            names = list(client.scan_iter(count=1000))
            if names:
                client.unlink(*names)

    def _pids(self, role: str) -> list[int]:
        return [pid for name, pid in self.api.connection["pids"].items() if name.rstrip("0123456789") == role]

    def _signal(self, pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _with_children(pids: list[int]) -> list[int]:
    """The parents first, so that no new child escapes a SIGSTOP."""
    found = [*pids]
    for pid in found:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        found += [int(child) for child in children.split()]
    return found


@contextmanager
def embedded_host() -> Iterator[EmbeddedHost]:
    with ExitStack() as stack:
        root = stack.enter_context(workplace())
        folders = (root / "1", root / "2")
        ports = (free_port(), free_port())
        for folder, port in zip(folders, ports, strict=True):
            folder.mkdir()
            words = [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(folder), "--port", str(port)]
            stack.callback(stop, spawn(words, log=subprocess.DEVNULL))
        time.sleep(1.0)
        api = stack.enter_context(instance(WAYBILL_RATE_LIMIT="200"))
        yield EmbeddedHost(api, folders, ports)
