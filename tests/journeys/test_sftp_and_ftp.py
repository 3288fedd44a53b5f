"""SFTP and plain FTP servers through the whole service: registered, activated, listed, and files in both directions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, PASSWORD, USER, FtpServer
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer
from tests.instance import Api
from tests.journeys.conftest import Site
from tests.journeys.test_transfers import digests, events, make_tree, succeeded

NAMES = ["hello? sausage", "#hash", "100%", "semi;colon", "a -> b", "grüße 世界", ".hidden"]
MakeSite = Callable[..., Site]


@dataclass
class Place:
    """An endpoint, and the folder of its server. path: of an entry of the folder, for users of the endpoint."""

    id: str
    folder: Path
    path: Callable[[str], str]
    ready: Callable[[], None] = lambda: None


def register(service: Api, scheme: str, port: int, subject: str = "") -> str:
    server = {"DATA_TYPE": "server", "hostname": "127.0.0.1", "port": port, "scheme": scheme, "subject": subject}
    name = f"{scheme}-{secrets.token_hex(4)}"
    document = {"DATA_TYPE": "endpoint", "name": name, "display_name": name, "DATA": [server]}
    return str(service.call("POST", "/endpoint", document)["id"])


@pytest.fixture
def sftp(service: Api, workspace: Path) -> Iterator[Place]:
    """An account with SFTP only, its key in the vault."""
    folder = workspace / "sftp"
    folder.mkdir()
    home = folder / "ssh"
    home.mkdir()
    key = key_pair(folder)
    with SshServer(home, sftp_only=True) as server:
        server.authorize(key)
        endpoint = register(service, "sftp", server.port, server.fingerprint())
        assert service.activate(endpoint, "ssh_key", username=server.username, private_key=key.read_text())[
            "code"
        ].startswith("Activated.")
        data = folder / "data"
        data.mkdir()
        yield Place(endpoint, data, lambda path: f"{data}/{path}")


@pytest.fixture
def make_ftp(service: Api, workspace: Path) -> Iterator[Callable[[str], Place]]:
    running: list[FtpServer] = []

    def make(name: str) -> Place:
        server = FtpServer(name, workspace / name).__enter__()
        running.append(server)
        endpoint = register(service, "ftp", server.port)
        if name != "vsftpd":
            assert service.activate(endpoint, "password", username=USER, password=PASSWORD)["code"].startswith(
                "Activated."
            )
        prefix = server.path(server.data).rstrip("/.")
        return Place(endpoint, server.data, lambda path: f"{prefix}/{path}", server.give)

    yield make
    for server in running:
        server.__exit__()


def round_trip(service: Api, one: Any, other: Any) -> list[str]:
    """A tree goes there and back, verified, and every file arrives by its hash. Returns why each way was taken."""
    make_tree(one.folder / "tree", count=40, names=NAMES)
    ways = []
    for source, path, destination, target in ((one, "tree/", other, "copy/"), (other, "copy/", one, "back/")):
        if isinstance(source, Place):
            source.ready()
        task = succeeded(
            service.wait(
                service.transfer(
                    source.id, source.path(path), destination.id, destination.path(target), verify_checksum=True
                )
            )
        )
        assert digests(destination.folder / target) == digests(one.folder / "tree")
        ways += [event["details"] for event in events(service, task["task_id"]) if event["code"] == "DATA_WAY"]
    return ways


@NEEDS_SSHD
def test_an_sftp_server_and_a_gridftp_server_in_both_directions(service: Api, sftp: Place, site: MakeSite) -> None:
    other = site("grid", "own")
    assert len(round_trip(service, sftp, other)) == 2
    listed = service.call("GET", f"/operation/endpoint/{sftp.id}/ls?path={sftp.path('')}")["DATA"]
    assert {row["name"] for row in listed} == {"tree", "back"}


@NEEDS_FTP_SERVERS
@pytest.mark.parametrize("name", ["vsftpd", "proftpd"])
def test_a_plain_ftp_server_in_both_directions(
    service: Api, make_ftp: Callable[[str], Place], site: MakeSite, name: str
) -> None:
    place, other = make_ftp(name), site("grid", "own")
    round_trip(service, place, other)


@NEEDS_SSHD
@NEEDS_FTP_SERVERS
def test_sftp_and_plain_ftp_in_both_directions(service: Api, sftp: Place, make_ftp: Callable[[str], Place]) -> None:
    assert len(round_trip(service, sftp, make_ftp("proftpd"))) == 2
