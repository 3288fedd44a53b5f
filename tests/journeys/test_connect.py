"""A laptop becomes an endpoint by the real `globus gcp` command and the one-file program, and files move both ways."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import digests
from tests.real_clients import Globus
from tests.waiting import eventually

pytestmark = pytest.mark.real_clients
MakeSite = Callable[..., Site]


@dataclass
class Laptop:
    """A machine with Python and the downloaded program: a folder as home, and a folder of data."""

    home: Path
    program: Path

    @property
    def data(self) -> Path:
        return self.home / "data"

    def try_to(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the program as a person would, with a bare Python, whatever its status is."""
        environ = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        command = [sys.executable, "-I", str(self.program), *words]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)

    def run(self, *words: str, status: int = 0) -> str:
        """Run the program, which has to end with the status. Returns its output."""
        done = self.try_to(*words)
        assert done.returncode == status, f"{done.stdout}\n{done.stderr}\n{self.log()}"
        return done.stdout

    def log(self) -> str:
        log = self.home / ".config" / "waybill-connect" / "agent.log"
        return log.read_text() if log.exists() else ""


@pytest.fixture
def laptop(service: Api, tmp_path: Path) -> Iterator[Laptop]:
    program = tmp_path / "waybill-connect.pyz"
    with urllib.request.urlopen(f"{service.url}/connect/waybill-connect.pyz", timeout=30) as answer:
        program.write_bytes(answer.read())
    made = Laptop(tmp_path / "home", program)
    made.data.mkdir(parents=True)
    yield made
    made.run("--uninstall")


def collection(alice: Globus, laptop: Laptop) -> str:
    """The laptop's endpoint, made by the command, set up and started."""
    made = alice("gcp", "create", "mapped", f"laptop {uuid.uuid4()}").out
    [key], [endpoint] = re.findall(r"wb1\.\S+", made), re.findall(r"Collection ID:\s+(\S+)", made)
    laptop.run("--setup", key, "--root", str(laptop.data))
    laptop.run("--start")
    return str(endpoint)


def moved(globus: Globus, *words: str) -> dict[str, Any]:
    task_id = globus.json("transfer", *words)["task_id"]
    globus("task", "wait", task_id, "--timeout", "60", "--polling-interval", "1")
    task: dict[str, Any] = globus.json("task", "show", task_id)
    assert task["status"] == "SUCCEEDED", task
    return task


def test_a_laptop_sends_and_receives_and_is_seen_to_be_there(
    service: Api, alice: Globus, laptop: Laptop, site: MakeSite
) -> None:
    endpoint = collection(alice, laptop)
    shown = alice.json("endpoint", "show", endpoint)
    assert (shown["is_globus_connect"], shown["gcp_connected"], shown["gcp_paused"]) == (True, True, False)
    for number in range(20):
        (laptop.data / f"{number}.dat").write_bytes(os.urandom(1000 * number))
    (laptop.data / "large.dat").write_bytes(os.urandom(20 << 20))
    assert "large.dat" in alice("ls", f"{endpoint}:/").out

    server = site("server", "own")
    moved(alice, f"{endpoint}:/", f"{server.id}:/from-laptop/", "--recursive")
    assert digests(server.folder / "from-laptop") == digests(laptop.data)
    moved(alice, f"{server.id}:/from-laptop/", f"{endpoint}:/back/", "--recursive")
    assert digests(laptop.data / "back") == digests(server.folder / "from-laptop")
    assert "/large.dat: sent 21 MB" in laptop.log()
    # Under the name that it has until it is whole.
    assert re.search(r"/back/\.waybill-[0-9a-f]{24}: received 21 MB", laptop.log())

    assert "connected" in laptop.run("--status")
    laptop.run("--pause")
    eventually(lambda: alice.json("endpoint", "show", endpoint)["gcp_paused"])
    laptop.run("--resume")
    laptop.run("--stop")
    laptop.run("--status", status=3)
    eventually(lambda: alice.json("endpoint", "show", endpoint)["gcp_connected"] is False)


def test_a_revoked_laptop_ends_and_says_why(service: Api, alice: Globus, laptop: Laptop) -> None:
    endpoint = collection(alice, laptop)
    service.call("DELETE", f"/endpoint/{endpoint}/agent")
    eventually(lambda: laptop.try_to("--status").returncode == 3)
    assert "not running" in laptop.run("--status", status=3)
    assert "revoked" in laptop.run("--start", status=1)
