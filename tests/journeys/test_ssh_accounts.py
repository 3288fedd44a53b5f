"""`ssh://` accounts on which nothing is installed through the whole service: files in both directions, and the event
that says what was found there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair, only
from tests.gridftp.sshd import SshServer
from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_sftp_and_ftp import Place, register, round_trip

pytestmark = [pytest.mark.toolkit, NEEDS_SSHD]
MakeSite = Callable[..., Site]
MakeAccount = Callable[[str], Place]
#: By kind of account: what the events say was found.
FOUND = {
    "python3 only": "The account's python3 is",
    "banner": "The account's python3 is",
    "no python3": "There is no python3 of 3.8 or later (found: none).",
    "sftp only": "The account's shell runs no commands of ours.",
}
SFTP = "Subsystem sftp /usr/lib/openssh/sftp-server"
BANNER = "echo Welcome to the cluster; printf 'no end of line'; echo maintenance on Monday >&2"


@pytest.fixture
def account(service: Api, workspace: Path) -> Iterator[MakeAccount]:
    """`account("banner")`: an account of that kind, its endpoint activated with a key."""
    with ExitStack() as running:

        def make(kind: str) -> Place:
            folder = workspace / kind.replace(" ", "-")
            folder.mkdir()
            (folder / "sshd").mkdir()
            (folder / "data").mkdir()
            key = key_pair(folder)
            profile = None if kind == "sftp only" else BANNER if kind == "banner" else ""
            lines = [SFTP] if kind == "no python3" else []
            server = running.enter_context(
                SshServer(folder / "sshd", *lines, sftp_only=kind == "sftp only", profile=profile)
            )
            server.authorize(key)
            if kind == "no python3":
                only(server)
            endpoint = register(service, "ssh", server.port)
            assert service.activate(endpoint, "ssh_key", username=server.username, private_key=key.read_text())[
                "code"
            ].startswith("Activated.")
            return Place(endpoint, folder / "data", lambda path: f"{folder}/data/{path}")

        yield make


@pytest.mark.parametrize("kind", FOUND)
def test_a_tree_goes_to_a_server_and_back_from_an_account(
    service: Api, account: MakeAccount, site: MakeSite, kind: str
) -> None:
    there, back = round_trip(service, account(kind), site("grid", "own"))
    assert f"The source: {FOUND[kind]}" in there
    assert f"The destination: {FOUND[kind]}" in back
