"""ls, stat, mkdir and rename over REST, on real servers of both kinds."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from deploy.endpoint.toolkit import ToolkitServer, free_port
from endpoints import operations, registry
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.server import Server
from endpoints.registry import ServerSpec
from identity.models import User
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
    settings.ALLOW_TARGETS = (ipaddress.ip_network("127.0.0.0/8"),)
    return make_user("alice")


def register(alice: User, *ports: int) -> Api:
    registry.create(alice, {"name": "here"}, [ServerSpec("127.0.0.1", port) for port in ports])
    return Api(alice)


@pytest.fixture
def own(alice: User, folder: Path, serve: Callable[..., Server]) -> Place:
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


def test_a_folder_is_listed_with_what_clients_read(place: Callable[[], Place], tree: Path) -> None:
    here = place()
    body = here.get("ls", "").body
    assert (body["DATA_TYPE"], body["endpoint"], body["length"], body["total"]) == ("file_list", "alice#here", 4, 4)
    assert body["path"] == f"{here.prefix}/"
    assert body["absolute_path"].endswith("/")
    rows = {row["name"]: row for row in body["DATA"]}
    assert list(rows) == [".hidden", "large.dat", "small.txt", "sub"]
    large = rows["large.dat"]
    assert (large["type"], large["size"], large["link_target"]) == ("file", 5000, None)
    assert large["last_modified"] == "2001-09-09 01:46:40+00:00"
    assert large["permissions"].startswith("0")
    assert rows["sub"]["type"] == "dir"
    wanted = "name type size permissions user group last_modified link_target link_size link_user link_group"
    assert set(wanted.split()) <= set(large)
    assert here.names("sub") == here.names("sub/") == ["inner"]


def test_entries_are_hidden_filtered_ordered_and_paged(place: Callable[[], Place], tree: Path) -> None:
    here = place()
    assert here.names(show_hidden="0") == ["large.dat", "small.txt", "sub"]
    assert here.names(filter="type:file", show_hidden="0") == ["large.dat", "small.txt"]
    assert here.names(filter="name:~*.TXT") == ["small.txt"]
    assert here.names(filter="name:!~*.txt/type:file") == [".hidden", "large.dat"]
    assert here.names(filter=["name:~*.txt", "type:dir"]) == ["small.txt", "sub"]
    assert here.names(filter="size:>4999/type:file") == ["large.dat"]
    assert here.names(filter="last_modified:,2001-12-31") == ["large.dat"]
    assert here.names(filter="type:file", orderby="size DESC,name") == ["large.dat", "small.txt", ".hidden"]
    assert here.names(orderby="type,name DESC", filter="type:file,dir", limit=2) == ["sub", "small.txt"]
    page = here.get("ls", "", limit=2, offset=1, fields="name").body
    assert page["DATA"] == [
        {"DATA_TYPE": "file", "name": "large.dat"},
        {"DATA_TYPE": "file", "name": "small.txt"},
    ]
    assert (page["length"], page["total"], page["limit"], page["offset"]) == (2, 4, 2, 1)
    for query in ({"filter": "colour:red"}, {"filter": "size:big"}, {"orderby": "colour"}, {"limit": "x"}):
        assert_error(here.get("ls", "", **query), 400, "ClientError.BadRequest")


def test_five_thousand_entries_come_whole_and_in_pages(place: Callable[[], Place], folder: Path) -> None:
    names = [f"file-{number:05}" for number in range(5000)]
    for name in names:
        (folder / name).touch()
    here = place()
    assert here.names() == names
    assert here.names(limit=7, offset=4990) == names[4990:4997]
    assert here.names(orderby="name DESC", limit=3) == names[:-4:-1]
    assert here.get("ls", "", limit=1, offset=9999).body["total"] == 5000


def test_a_folder_with_more_entries_than_the_limit_is_refused(own: Place, tree: Path) -> None:
    assert operations.MAX_ENTRIES == 100_000
    with pytest.raises(FaultError) as refused:
        operations.list_directory(User.objects.get(), "here", "/", limit=3)
    assert refused.value.fault.kind is Kind.LIMIT_EXCEEDED
    assert len(operations.list_directory(User.objects.get(), "here", "/", limit=4).entries) == 4


@pytest.mark.parametrize("name", ["a b", "#", "100%", "%41", "quote'\"", "~x", "*?[x]", "a+b&c=d;e", "-l"])
def test_odd_names_are_listed_looked_at_made_and_renamed(place: Callable[[], Place], folder: Path, name: str) -> None:
    (folder / name).mkdir()
    (folder / name / name).write_bytes(b"123")
    os.chmod(folder / name, 0o777)
    os.chmod(folder, 0o777)
    here = place()
    assert here.names() == [name]
    assert here.names(name) == [name]
    assert here.get("stat", f"{name}/{name}").body["size"] == 3
    assert here.post("mkdir", path=f"{name}/made {name}").code == "DirectoryCreated"
    assert here.post("rename", old_path=f"{name}/made {name}", new_path=f"{name}/new {name}").code == "FileRenamed"
    assert (folder / name / f"new {name}").is_dir()


def test_names_beyond_ascii_are_utf8(own: Place, folder: Path) -> None:
    for number, name in enumerate(("\u00fc\u6f22", "\U0001f4be", "e\u0301")):
        (folder / name).mkdir()
        (folder / name / "inner").touch()
        assert own.names(name) == ["inner"]
        assert own.post("rename", old_path=name, new_path=f"{name} {number}").code == "FileRenamed"
        assert own.names(filter=f"name:{name} {number}") == [f"{name} {number}"]


def test_names_that_are_no_utf8_are_lone_surrogates_out_and_octets_in(own: Place, folder: Path) -> None:
    odd = b"caf\xe9"
    os.mkdir(os.fsencode(folder) + b"/" + odd)
    assert own.names() == ["caf\udce9"]
    (folder / os.fsdecode(odd) / "inner").write_bytes(b"")
    assert own.names(odd) == ["inner"]
    assert own.get("stat", odd).body["name"] == "caf\udce9"
    assert own.post("rename", old_path="caf\udce9", new_path="caf\udce8").code == "FileRenamed"
    assert own.post("mkdir", path="caf\udce8/\udcff").code == "DirectoryCreated"
    assert set(os.listdir(os.fsencode(folder) + b"/caf\xe8")) == {b"\xff", b"inner"}
    assert own.names(b"caf\xe8", filter=b"name:~\xff*") == ["\udcff"]


def test_stat_tells_of_files_and_folders(place: Callable[[], Place], tree: Path) -> None:
    here = place()
    found = here.get("stat", "large.dat")
    assert (found.status, found.body["DATA_TYPE"], found.body["type"]) == (200, "file", "file")
    assert (found.body["size"], found.body["last_modified"]) == (5000, "2001-09-09 01:46:40+00:00")
    assert here.get("stat", "sub").body["type"] == "dir"
    assert_error(here.get("stat", "nothing"), 404, "NotFound")
    assert_error(here.get("stat"), 400, "ClientError.BadRequest")


def test_what_is_not_there_or_no_folder_is_an_error_of_its_own(place: Callable[[], Place], tree: Path) -> None:
    here = place()
    missing = here.get("ls", "nothing")
    assert_error(missing, 404, "ClientError.NotFound")
    assert "Details: " in missing.body["message"]
    assert_error(here.get("ls", "small.txt"), 502, "ExternalError.DirListingFailed.NotDirectory")
    assert_error(here.post("rename", old_path="nothing", new_path="new"), 404, "ClientError.NotFound")
    assert_error(here.post("mkdir", path="sub"), 502, "ExternalError.MkdirFailed.Exists")
    assert_error(here.post("mkdir", path="no/where"), 404, "ClientError.NotFound")


def test_an_account_without_permission_is_told_so_by_our_server(
    alice: User, tree: Path, serve: Callable[..., Server]
) -> None:
    here = Place(register(alice, serve(read_only=True).port), tree, "")
    assert_error(here.post("mkdir", path="new"), 502, "ExternalError.MkdirFailed.PermissionDenied")
    assert_error(
        here.post("rename", old_path="sub", new_path="new"), 502, "ExternalError.RenameFailed.PermissionDenied"
    )
    assert sorted(os.listdir(tree)) == [".hidden", "large.dat", "small.txt", "sub"]


@pytest.mark.toolkit
def test_an_account_without_permission_is_told_so_by_the_toolkits_server(
    alice: User, tree: Path, toolkit_server_factory: Callable[..., ToolkitServer]
) -> None:
    here = Place(register(alice, toolkit_server_factory(tree).port), tree, str(tree))
    if os.geteuid() == 0:  # its sessions run as another account
        os.chown(tree / "sub", 0, 0)
    os.chmod(tree / "sub", 0o700 if os.geteuid() == 0 else 0)
    try:
        assert_error(here.get("ls", "sub"), 502, "ExternalError.DirListingFailed.PermissionDenied")
        assert_error(here.post("mkdir", path="sub/new"), 502, "ExternalError.MkdirFailed.PermissionDenied")
    finally:
        os.chmod(tree / "sub", 0o755)


@pytest.mark.parametrize("path", ["/../etc", "/a/..", "/a\n", "/\0", "relative"])
def test_a_bad_path_never_reaches_a_server(own: Place, tree: Path, path: str) -> None:
    for operation in ("ls", "stat"):
        answer = own.api.get(f"/operation/endpoint/here/{operation}", path=path)
        assert_error(answer, 400, "ClientError.BadRequest")
        assert answer.body["message"].startswith("path: ")
    assert_error(own.api.post("/operation/endpoint/here/mkdir", {"path": path}), 400, "ClientError.BadRequest")
    paths = {"old_path": "/sub", "new_path": path}
    assert_error(own.api.post("/operation/endpoint/here/rename", paths), 400, "ClientError.BadRequest")


def test_a_local_account_comes_with_a_later_version(own: Place, tree: Path) -> None:
    not_yet = "ClientError.BadRequest.NotSupported"
    assert_error(own.get("ls", "", local_user="root"), 400, not_yet)
    assert_error(own.get("stat", "sub", local_user="root"), 400, not_yet)
    document = {"path": "/new", "local_user": "root"}
    assert_error(own.api.post("/operation/endpoint/here/mkdir", document), 400, not_yet)
    assert not (tree / "new").exists()


def test_without_a_path_the_default_directory_is_listed(own: Place, tree: Path) -> None:
    assert [row["name"] for row in own.get("ls").body["DATA"]] == own.names("")
    own.api.put("/endpoint/here", {"default_directory": "/sub/"})
    body = own.get("ls").body
    assert (body["path"], [row["name"] for row in body["DATA"]]) == ("/sub/", ["inner"])


def test_a_server_that_refuses_connections_is_an_error_that_is_not_tried_again(alice: User, folder: Path) -> None:
    here = Place(register(alice, free_port()), folder, "")
    answer = here.get("ls", "")
    assert_error(answer, 502, "ExternalError.DirListingFailed.ConnectFailed")
    assert_error(here.get("stat", "x"), 502, "ExternalError.StatFailed.ConnectFailed")
    assert_error(here.post("mkdir", path="x"), 502, "ExternalError.MkdirFailed.ConnectFailed")
    assert_error(here.post("rename", old_path="x", new_path="y"), 502, "ExternalError.RenameFailed.ConnectFailed")


def test_the_next_server_is_asked_when_one_is_down(alice: User, tree: Path, serve: Callable[..., Server]) -> None:
    here = Place(register(alice, free_port(), serve().port), tree, "")
    assert here.names("sub") == ["inner"]


def test_a_server_that_hangs_is_given_up(alice: User, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "OPERATION_TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here = Place(register(alice, silent.getsockname()[1]), folder, "")
        assert_error(here.get("ls", ""), 502, "ExternalError.DirListingFailed.Timeout")


def test_an_endpoint_without_a_server_says_so(alice: User, folder: Path) -> None:
    answer = Place(register(alice), folder, "").get("ls", "")
    assert_error(answer, 502, "ExternalError.DirListingFailed.ConnectFailed")
    assert "has no server" in answer.body["message"]


def test_a_target_that_the_gate_refuses_is_never_called(
    alice: User, folder: Path, serve: Callable[..., Server], settings: Any
) -> None:
    here = Place(register(alice, serve().port), folder, "")
    assert here.get("ls", "").status == 200
    settings.ALLOW_TARGETS = ()
    (folder / "before").touch()
    for answer in (here.get("ls", ""), here.get("stat", "before"), here.post("mkdir", path="new")):
        assert_error(answer, 502, "ExternalError.ConnectFailed")
    assert os.listdir(folder) == ["before"]
