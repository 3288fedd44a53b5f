"""The interface of attacks, and the instance that they attack.

    @attack("slow heads", seconds=20)
    def slow_heads(target: Target, control: Control) -> None:
        sockets = [open_one(target) for _ in range(24)]     # preparation: not measured
        control.begin()                                     # from here the honest user is measured
        while not control.wait(1.0):                        # True: the end has come
            send_an_octet(sockets)
        control.note("24 connections, 7 were closed by the server")

An attack runs in a process of its own, which is killed when it does not end in time.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.instance import Api

#: Seconds for the preparation of an attack, and for its end after it was asked to end.
PREPARE_SECONDS, END_SECONDS = 120.0, 20.0
#: Memory of one process, in MB (10**6 octets), by the kind of process.
BOUNDS = {"web": 400.0, "worker": 400.0}

#: The address of attackers, which the honest user does not share: servers in front limit addresses.
ATTACKER = "127.66.0.1"

_fork = multiprocessing.get_context("fork")


class Control:
    """The attack's control of its own beginning and end."""

    def __init__(self) -> None:
        self._begun = _fork.Event()
        self._ended = _fork.Event()
        self._notes: Any = _fork.SimpleQueue()

    def begin(self) -> None:
        """The preparation is over."""
        self._begun.set()

    def is_set(self) -> bool:
        """Whether the attack is to end."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep for these seconds. Returns true at once when the attack is to end."""
        return self._ended.wait(seconds)

    def note(self, text: str) -> None:
        """A line below the table, for example the answers to the attacker, or what was left on the disk."""
        self._notes.put(text)

    def wait_for_begin(self, process: ForkProcess) -> None:
        """Wait for the beginning. Raises RuntimeError when the attack ends, or takes too long, before it has begun."""
        until = time.monotonic() + PREPARE_SECONDS
        while not self._begun.wait(0.1):
            if time.monotonic() > until or not process.is_alive():
                raise RuntimeError("the attack did not begin")

    def end(self) -> None:
        self._ended.set()

    def notes(self) -> list[str]:
        found = []
        while not self._notes.empty():
            found.append(self._notes.get())
        return found


@dataclass(frozen=True)
class Person:
    """A user of the instance."""

    name: str
    token: str


@dataclass(frozen=True)
class Target:
    """An instance of `make up` in a folder of its own. Attackers are other users, or none; `api` is the honest user."""

    api: Api
    #: The port of the server in front; 0: there is none.
    front: int = 0

    @property
    def home(self) -> Path:
        return self.api.home

    @property
    def address(self) -> tuple[str, int]:
        """Where users are served."""
        url = urlsplit(self.api.url)
        return str(url.hostname), self.front or url.port or 80

    def endpoint_port(self, name: str) -> int:
        """The port of a sample endpoint's GridFTP server: "ep1" or "ep2"."""
        return int(_json(self.home / "prepared.json")["ports"][name])

    def user(self, name: str) -> Person:
        """Create a user with a token, by the operator's command."""
        self.command("user", "add", name)
        return Person(name, self.command("token", name).split()[-1])

    def command(self, *words: str) -> str:
        """The output of `waybill WORDS`. Raises CalledProcessError."""
        environment = {"WAYBILL_HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [sys.executable, "-m", "deploy.cli", *words], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def pids(self, kind: str) -> list[int]:
        """The processes of a kind that do its work: "web" or "worker"."""
        pids = self.api.connection["pids"]
        if kind == "web":
            return _children(pids["web"])
        return [pid for name, pid in pids.items() if name.startswith(kind)]


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@dataclass(frozen=True)
class Attack:
    name: str
    seconds: float
    run: Callable[[Target, Control], None]

    def start(self, target: Target, control: Control) -> ForkProcess:
        process = _fork.Process(target=self.run, args=(target, control), daemon=True)
        process.start()
        return process

    @staticmethod
    def stop(process: ForkProcess, control: Control) -> bool:
        """Whether it ended in order."""
        control.end()
        process.join(END_SECONDS)
        if process.is_alive():
            process.kill()
            process.join(END_SECONDS)
        return process.exitcode == 0


ATTACKS: list[Attack] = []


def attack(
    name: str, *, seconds: float = 20.0
) -> Callable[[Callable[[Target, Control], None]], Callable[[Target, Control], None]]:
    """Mark a function as an attack. seconds: the time in which the honest user is measured beside it."""

    def mark(run: Callable[[Target, Control], None]) -> Callable[[Target, Control], None]:
        ATTACKS.append(Attack(name, seconds, run))
        return run

    return mark
