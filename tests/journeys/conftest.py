"""One running instance of the whole service for the journeys, and servers of both kinds to move files between."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.free_ports import free_port
from tests.browsers import accessibility, chromium
from tests.browsers.chromium import Chromium
from tests.gridftp import toolkit
from tests.gridftp.toolkit import ToolkitServer, hand_over
from tests.instance import Api, instance
from tests.memory import folder_in_memory
from tests.real_clients import Globus

HOW_TO_GET_A_BROWSER = (
    "there is no chromedriver or no axe-core: sudo tests/install-browser.sh; tests/clients/install.sh .clients"
)


@pytest.fixture(scope="session")
def shared_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """The browser of this process: `renew` it before each use, for its start takes longer than most tests with it.

    Without one the tests are skipped; in CI they fail, so that nobody is fooled.
    """
    if not chromium.installed() or not accessibility.AXE.exists():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(HOW_TO_GET_A_BROWSER)
    with Chromium(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="session")
def service(give_schema: Callable[[Path], object]) -> Iterator[Api]:
    """`waybill up` in a folder of its own, ready, its first transfer done."""
    with instance(before=give_schema) as api:
        yield api


@dataclass
class Site:
    """An endpoint of the service and the folder that its server shows. `path` turns a name into an endpoint path."""

    id: str
    folder: Path
    path: Callable[[str], str]


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A folder for the files that a journey moves."""
    with folder_in_memory("waybill-journey-", 0o755) as folder:
        yield folder


@pytest.fixture
def site(service: Api, workspace: Path) -> Iterator[Callable[..., Site]]:
    """`site("a", "toolkit")` or `site("b", "own")`: a registered endpoint over a new folder of that name.

    "bad disk": our own server, with what `bad_disk` does to files of some names.
    """
    running: list[Callable[[], object]] = []

    def make(name: str, kind: str, *prefix: str) -> Site:
        folder = workspace / name
        folder.mkdir()
        if kind == "toolkit":
            if not toolkit.installed():
                pytest.skip("the toolkit's servers are not installed")
            server = ToolkitServer(folder)
            hand_over(folder, stop_at=workspace.parent)
            server.start()
            running.append(server.stop)
            return Site(
                service.endpoint(f"{workspace.name}-{name}", server.port), folder, lambda path: f"{folder}/{path}"
            )
        port = free_port()
        command = [
            *prefix,
            sys.executable,
            "-m",
            "tests.journeys.bad_disk" if kind == "bad disk" else "endpoints.gridftp.server",
            "--root",
            str(folder),
            "--port",
            str(port),
        ]
        process = spawn(command, log=subprocess.DEVNULL)
        running.append(lambda: stop(process))
        wait_ready("the server", process, lambda: _answers(port), timeout=20)
        return Site(service.endpoint(f"{workspace.name}-{name}", port), folder, lambda path: f"/{path}")

    yield make
    for end in running:
        end()


def _answers(port: int) -> bool:
    import socket

    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as probe:
            return probe.recv(3) == b"220"
    except OSError:
        return False


def waybill(service: Api, *words: str) -> str:
    """Run the operator's command and return its standard output."""
    words = (sys.executable, "-m", "deploy.cli", *words)
    given = os.environ | {"WAYBILL_HOME": str(service.home)}
    return subprocess.run(words, env=given, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def alice(service: Api, tmp_path_factory: pytest.TempPathFactory) -> Globus:
    """The sample user, by an application."""
    client = service.connection["client"]
    return Globus(service.url, tmp_path_factory.mktemp("alice"), (client["id"], client["secret"]))


@pytest.fixture(scope="module")
def bob_name(service: Api) -> str:
    """With an @, as the command wants the names of users; the user has none in it."""
    name = f"bob-{uuid.uuid4().hex[:8]}"
    waybill(service, "user", "add", name, "--email", "bob@example.org")
    return f"{name}@127.0.0.1"


@pytest.fixture(scope="module")
def bob(service: Api, bob_name: str, tmp_path_factory: pytest.TempPathFactory) -> Globus:
    told = dict(line.split("=", 1) for line in waybill(service, "client", bob_name).splitlines())
    client = told["GLOBUS_CLI_CLIENT_ID"], told["GLOBUS_CLI_CLIENT_SECRET"]
    return Globus(service.url, tmp_path_factory.mktemp("bob"), client)
