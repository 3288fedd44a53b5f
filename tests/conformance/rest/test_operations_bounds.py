"""Operations over REST where it gets hard: many files, servers that hang, are down, or may not be called."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from deploy.stack.free_ports import free_port
from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.server import GridFtpServer
from endpoints.registry import ServerSpec
from identity.models import User
from tests.gridftp.toolkit import ToolkitServer
from tests.integration.cast import make_user
from tests.integration.rest import Answer, Api, assert_error


@dataclass
class Place:
    """alice's endpoint `here` and the folder that it shows at `prefix`."""

    api: Api
    folder: Path
    prefix: str

    def get(self, operation: str, path: str | bytes | None = None, **query: Any) -> Answer:
        """path: below the folder; octets go percent-encoded, as they are."""
        if path is not None:
            query["path"] = os.fsencode(self.prefix) + b"/" + os.fsencode(path)
        return self.api.call("GET", f"/operation/endpoint/here/{operation}?{urlencode(query, doseq=True)}")

    def names(self, path: str | bytes = "", **query: Any) -> list[str]:
        answer = self.get("ls", path, **query)
        assert answer.status == 200, answer.body
        return [row["name"] for row in answer.body["DATA"]]

    def post(self, operation: str, **paths: str) -> Answer:
        document = {name: f"{self.prefix}/{path}" for name, path in paths.items()}
        return self.api.post(f"/operation/endpoint/here/{operation}", {"DATA_TYPE": operation, **document})


@pytest.fixture
def alice(db: None, settings: Any) -> User:
    settings.ALLOW_TARGETS = parse_openings("127.0.0.0/8")
    return make_user("alice")


def register(alice: User, *ports: int) -> Api:
    registry.create(alice, {"name": "here"}, [ServerSpec("127.0.0.1", port, "ftp") for port in ports])
    return Api(alice)


@pytest.fixture
def own(alice: User, folder: Path, serve: Callable[..., GridFtpServer]) -> Place:
    return Place(register(alice, serve().port), folder, "")


@pytest.fixture(params=["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def place(request: pytest.FixtureRequest, alice: User, folder: Path) -> Callable[[], Place]:
    """Start the server over `folder`, once that holds what the test wants to find."""

    def start() -> Place:
        if request.param == "own":
            return Place(register(alice, request.getfixturevalue("serve")().port), folder, "")
        server: ToolkitServer = request.getfixturevalue("toolkit_server_factory")(folder)
        return Place(register(alice, server.port), folder, str(folder))

    return start


@pytest.fixture
def tree(folder: Path) -> Path:
    (folder / "small.txt").write_bytes(b"1")
    (folder / "large.dat").write_bytes(b"x" * 5000)
    (folder / ".hidden").write_bytes(b"")
    (folder / "sub").mkdir()
    (folder / "sub" / "inner").write_bytes(b"12")
    os.utime(folder / "large.dat", (10**9, 10**9))
    return folder


def test_five_thousand_entries_come_whole_and_in_pages(place: Callable[[], Place], folder: Path) -> None:
    names = [f"file-{number:05}" for number in range(5000)]
    for name in names:
        (folder / name).touch()
    here = place()
    assert here.names() == names
    assert here.names(limit=7, offset=4990) == names[4990:4997]
    assert here.names(orderby="name DESC", limit=3) == names[:-4:-1]
    assert here.get("ls", "", limit=1, offset=9999).body["total"] == 5000


def test_an_account_without_permission_is_refused_by_our_server_with_the_reason(
    alice: User, tree: Path, serve: Callable[..., GridFtpServer]
) -> None:
    here = Place(register(alice, serve(read_only=True).port), tree, "")
    assert_error(here.post("mkdir", path="new"), 502, "ExternalError.MkdirFailed.PermissionDenied")
    assert_error(
        here.post("rename", old_path="sub", new_path="new"), 502, "ExternalError.RenameFailed.PermissionDenied"
    )
    assert sorted(os.listdir(tree)) == [".hidden", "large.dat", "small.txt", "sub"]


def test_a_local_account_comes_with_a_later_version(own: Place, tree: Path) -> None:
    not_yet = "ClientError.BadRequest.NotSupported"
    assert_error(own.get("ls", "", local_user="root"), 400, not_yet)
    assert_error(own.get("stat", "sub", local_user="root"), 400, not_yet)
    document = {"path": "/new", "local_user": "root"}
    assert_error(own.api.post("/operation/endpoint/here/mkdir", document), 400, not_yet)
    assert not (tree / "new").exists()


def test_the_next_server_is_asked_when_one_is_down(
    alice: User, tree: Path, serve: Callable[..., GridFtpServer]
) -> None:
    here = Place(register(alice, free_port(), serve().port), tree, "")
    assert here.names("sub") == ["inner"]


def test_the_next_address_of_a_name_is_asked_when_one_is_down(
    own: Place, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the first of the two."""
    monkeypatch.setattr("endpoints.addresses.gate.resolve_target", lambda *_, **__: ["127.0.0.9", "127.0.0.1"])
    assert own.names()


def test_a_server_that_hangs_is_given_up(alice: User, folder: Path, settings: Any) -> None:
    settings.OPERATION_SECONDS = 0.3
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here = Place(register(alice, silent.getsockname()[1]), folder, "")
        assert_error(here.get("ls", ""), 502, "ExternalError.DirListingFailed.Timeout")


def test_a_target_that_the_gate_refuses_is_never_called(
    alice: User, folder: Path, serve: Callable[..., GridFtpServer], settings: Any
) -> None:
    here = Place(register(alice, serve().port), folder, "")
    assert here.get("ls", "").status == 200
    settings.ALLOW_TARGETS = ()
    (folder / "before").touch()
    for answer in (here.get("ls", ""), here.get("stat", "before"), here.post("mkdir", path="new")):
        assert_error(answer, 502, "ExternalError.ConnectFailed")
    assert os.listdir(folder) == ["before"]
