"""The supervisor, over dummy programs and real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import eventually, is_alive

RUNS_ON = "echo ready; exec sleep 1000"


class Supervised:
    """A running supervisor over the scripts of a folder."""

    def __init__(self, folder: Path, scripts: dict[str, str]) -> None:
        self.folder = folder
        for name, script in scripts.items():
            (folder / f"{name}.sh").write_text(script + "\n")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.deploy.supervised", str(folder)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def pids(self) -> dict[str, int]:
        try:
            found: dict[str, int] = json.loads((self.folder / "pids.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    made: list[Supervised] = []

    def start(**scripts: str) -> Supervised:
        made.append(Supervised(tmp_path, scripts))
        return made[-1]

    yield start
    for supervised in made:
        supervised.stop()


def test_a_crashed_program_is_started_again(supervise: Callable[..., Supervised]) -> None:
    supervised = supervise(one=RUNS_ON, two=RUNS_ON)
    eventually(lambda: len(supervised.pids()) == 2)
    before = supervised.pids()
    os.kill(before["one"], signal.SIGKILL)
    eventually(lambda: supervised.pids().get("one", before["one"]) != before["one"])
    assert is_alive(supervised.pids()["one"])
    assert supervised.pids()["two"] == before["two"]


def test_a_killed_supervisor_leaves_no_orphan(supervise: Callable[..., Supervised]) -> None:
    supervised = supervise(one=RUNS_ON, deaf="trap '' TERM INT HUP; echo ready; while :; do sleep 1; done")
    eventually(lambda: len(supervised.pids()) == 2)
    children = supervised.pids().values()
    supervised.process.kill()
    eventually(lambda: not any(is_alive(pid) for pid in children))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_asked_to_stop_it_ends_users_before_servers_even_a_deaf_one(
    supervise: Callable[..., Supervised], tmp_path: Path, number: signal.Signals
) -> None:
    order = tmp_path / "order"
    supervised = supervise(
        server=f"trap 'echo server >>{order}; exit' TERM; echo ready; while :; do sleep 0.01; done",
        user=f"trap 'sleep 0.3; echo user >>{order}; exit' TERM; echo ready; while :; do sleep 0.01; done",
        deaf="trap '' TERM; echo ready; while :; do sleep 0.1; done",
    )
    eventually(lambda: len(supervised.pids()) == 3)
    children = supervised.pids().values()
    supervised.process.send_signal(number)
    assert supervised.process.wait(timeout=20) == 0
    assert order.read_text().split() == ["user", "server"]
    assert not any(is_alive(pid) for pid in children)


def test_a_program_that_cannot_start_is_named_with_the_end_of_its_log(supervise: Callable[..., Supervised]) -> None:
    supervised = supervise(good=RUNS_ON, bad="echo 'no such thing as luck'; exit 3")
    _, error = supervised.process.communicate(timeout=30)
    assert supervised.process.returncode == 1
    assert "bad: ended with exit status 3, 5 times" in error
    assert "no such thing as luck" in error


def test_asked_to_stop_while_starting_it_stops(supervise: Callable[..., Supervised], tmp_path: Path) -> None:
    supervised = supervise(slow="touch $0.started; exec sleep 1000")
    eventually((tmp_path / "slow.sh.started").exists)
    supervised.process.terminate()
    assert supervised.process.wait(timeout=20) == 0
