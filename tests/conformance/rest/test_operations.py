"""ls, stat, mkdir and rename over REST, on real servers of both kinds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from deploy.stack.free_ports import free_port
from endpoints import operations, registry
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.server import GridFtpServer
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from tests.gridftp.toolkit import ToolkitServer
from tests.integration.rest import Answer, Api, assert_error

pytestmark = pytest.mark.django_db

OLD = datetime(2021, 1, 15, 1, 45, 50, tzinfo=UTC)
#: Names as octets: all that a POSIX name may be but control characters.
ODD_NAMES = [
    b"plain", b" blanks  inside and at the ends ", b"semi;colon", b"per%41cent#hash?query&and=equals+plus",
    b"*?[a]", b"quotes'\"`", b"~x", b"back\\slash", "grüße-日本".encode(), b"latin-1 \xfc\xff", b"x" * 255,
]  # fmt: skip


@dataclass
class Place:
    """A folder of this machine, served and registered as alice#place. root: its path on the endpoint."""

    api: Api
    folder: Path
    root: str
    endpoint: Endpoint
    #: The toolkit's server takes no more over a channel in clear text: see docs/decisions/scan-and-listings.md.
    ascii_only: bool = False

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def ls(self, name: str = "", **query: Any) -> Answer:
        return self.api.get("/operation/endpoint/place/ls", path=self.path(name), **query)

    def stat(self, name: str) -> Answer:
        return self.api.get("/operation/endpoint/place/stat", path=self.path(name))

    def mkdir(self, name: str) -> Answer:
        return self.api.post("/operation/endpoint/place/mkdir", {"DATA_TYPE": "mkdir", "path": self.path(name)})

    def rename(self, old: str, new: str) -> Answer:
        document = {"DATA_TYPE": "rename", "old_path": self.path(old), "new_path": self.path(new)}
        return self.api.post("/operation/endpoint/place/rename", document)


@pytest.fixture
def alice(db: None) -> User:
    return User.objects.create(username="alice")


@pytest.fixture
def loopback(settings: Any) -> None:
    """The gate lets these tests through to their own servers, and nowhere else."""
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")


Register = Callable[[int], Endpoint]


@pytest.fixture
def register(alice: User, loopback: None) -> Register:
    def make(port: int) -> Endpoint:
        fields = {"name": "place", "display_name": "A place"}
        return registry.create(alice, fields, [ServerSpec("127.0.0.1", port, "ftp")])

    return make


@pytest.fixture(params=["ours", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def place(
    request: pytest.FixtureRequest,
    alice: User,
    register: Register,
    folder: Path,
    serve: Callable[..., GridFtpServer],
    toolkit_server_factory: Callable[..., ToolkitServer],
) -> Iterator[Place]:
    (folder / "folder").mkdir()
    (folder / "file").write_bytes(b"12345")
    (folder / ".hidden").write_bytes(b"")
    (folder / "link").symlink_to("file")
    os.utime(folder / "file", (OLD.timestamp(), OLD.timestamp()))
    (folder / "file").chmod(0o640)
    if request.param == "ours":
        yield Place(Api(alice), folder, "", register(serve().port))
    else:
        server = toolkit_server_factory(folder)
        yield Place(Api(alice), folder, str(folder), register(server.port), ascii_only=True)


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [row["name"] for row in answer.body["DATA"]]


# ---- ls


def test_a_listing_is_a_document_with_the_facts_of_each_file(place: Place) -> None:
    answer = place.ls()
    assert names(answer) == [".hidden", "file", "folder", "link"]
    body = dict(answer.body)
    rows = {row["name"]: row for row in body.pop("DATA")}
    assert body == {
        "DATA_TYPE": "file_list",
        "endpoint": "alice#place",
        "path": f"{place.root}/",
        "absolute_path": f"{place.root}/",
        "rename_supported": True,
        "symlink_supported": True,
        "incomplete": None,
        "writable": True,
        "limit": 100_000,
        "offset": 0,
        "total": 4,
        "length": 4,
    }
    file = rows["file"]
    assert (file["type"], file["size"], file["permissions"]) == ("file", 5, "0640")
    assert file["last_modified"] == "2021-01-15 01:45:50+00:00"
    assert file["user"]
    assert file["group"]
    assert file["link_target"] is None
    assert rows["folder"]["type"] == "dir"
    assert rows["link"]["link_target"]


def test_the_oldest_names_of_operations_do_the_same(place: Place) -> None:
    made = place.api.post("/endpoint/place/mkdir", {"path": place.path("older")})
    assert (made.status, made.body["code"]) == (202, "DirectoryCreated")
    assert (place.folder / "older").is_dir()
    listed = place.api.get("/endpoint/place/ls", path=place.path(""))
    assert names(listed) == names(place.ls()) == [".hidden", "file", "folder", "link", "older"]


def test_a_listing_can_leave_out_hidden_names_and_be_filtered_ordered_and_paged(place: Place) -> None:
    for number in range(10):
        (place.folder / f"data{number}.TXT").write_bytes(b"x" * number)
    assert names(place.ls(show_hidden=0)) == [*(f"data{number}.TXT" for number in range(10)), "file", "folder", "link"]
    assert names(place.ls(filter="name:~*.txt/size:>=7", orderby="size DESC")) == [
        "data9.TXT",
        "data8.TXT",
        "data7.TXT",
    ]
    assert names(place.ls(filter=["type:dir", "name:data0.TXT"])) == ["data0.TXT", "folder"]
    assert names(place.ls(filter="name:!~data*/type:!dir")) == [".hidden", "file", "link"]
    assert names(place.ls(filter="last_modified:,2021-02-01/name:file")) == ["file"]
    page = place.ls(filter="name:~data*", limit=3, offset=8)
    assert names(page) == ["data8.TXT", "data9.TXT"]
    assert (page.body["total"], page.body["length"], page.body["offset"], page.body["limit"]) == (10, 2, 8, 3)
    assert place.ls(fields="name,size", filter="name:file").body["DATA"] == [
        {"DATA_TYPE": "file", "name": "file", "size": 5}
    ]
    assert names(place.ls(offset=100)) == []


@pytest.mark.parametrize("query", [{"filter": "colour:red"}, {"orderby": "colour"}, {"filter": "size:big"}])
def test_a_field_that_no_file_has_is_refused(place: Place, query: dict[str, str]) -> None:
    assert_error(place.ls(**query), 400, "ClientError.BadRequest")


def test_names_of_any_octets_come_out_and_go_back_in(place: Place) -> None:
    inner = os.fsencode(place.folder) + b"/folder"
    for name in ODD_NAMES:
        os.mkdir(inner + b"/" + name)
        with open(inner + b"/" + name + b"/inside", "wb"):
            pass
    os.chmod(inner, 0o755)
    listed = place.ls("folder", orderby="name")
    assert sorted(os.fsencode(name) for name in names(listed)) == sorted(ODD_NAMES)
    for name in ODD_NAMES:
        path = quote(os.fsencode(place.path("folder/")) + name)
        inside = place.api.call("GET", f"/operation/endpoint/place/ls?path={path}")
        if place.ascii_only and not name.isascii():
            assert_error(inside, 400, "ClientError.BadRequest")
            assert "names beyond ASCII" in inside.body["message"]
            continue
        assert names(inside) == ["inside"], name
        assert os.fsencode(inside.body["path"]) == os.fsencode(place.path("folder/")) + name + b"/"
        seen = place.api.call("GET", f"/operation/endpoint/place/stat?path={path}")
        assert (seen.status, os.fsencode(seen.body["name"]), seen.body["type"]) == (200, name, "dir")
        filtered = place.api.call("GET", f"/operation/endpoint/place/ls?path={path}/&filter=name:inside")
        assert names(filtered) == ["inside"]


def test_a_listing_without_a_path_is_that_of_the_default_directory(place: Place) -> None:
    place.api.put("/endpoint/place", {"default_directory": f"{place.root}/folder/"})
    (place.folder / "folder" / "only").write_bytes(b"")
    answer = place.api.get("/operation/endpoint/place/ls")
    assert names(answer) == ["only"]
    assert answer.body["path"] == f"{place.root}/folder/"


def test_a_listing_of_what_is_no_folder_says_why(place: Place) -> None:
    missing = place.ls("nothing")
    assert_error(missing, 404, "ClientError.NotFound")
    lines = missing.body["message"].split("\n")
    server = place.endpoint.servers.get()
    assert lines[0] == "Error (list)"
    assert lines[1] == f"Endpoint: A place ({place.endpoint.pk})"
    assert lines[2] == f"Server: 127.0.0.1:{server.port}"
    assert lines[3].startswith("Message: ")
    assert lines[4] == "---"
    assert lines[5].startswith("Details: ")
    assert_error(place.ls("file"), 502, "ExternalError.DirListingFailed.NotDirectory")


@pytest.mark.toolkit
def test_what_is_closed_to_the_account_on_the_endpoint_is_a_refused_permission(
    alice: User, register: Register, folder: Path, toolkit_server_factory: Callable[..., ToolkitServer]
) -> None:
    """On the toolkit's server: its sessions are an ordinary account also where root runs the tests."""
    (folder / "open").mkdir()
    server = toolkit_server_factory(folder)
    closed = folder / "closed"
    closed.mkdir(0)
    place = Place(Api(alice), folder, str(folder), register(server.port))
    assert_error(place.ls("closed"), 502, "ExternalError.DirListingFailed.PermissionDenied")
    assert_error(place.stat("closed/x"), 403, "EndpointPermissionDenied")
    closed.chmod(0o555)
    assert names(place.ls("closed")) == []
    assert_error(place.mkdir("closed/x"), 502, "ExternalError.MkdirFailed.PermissionDenied")
    assert_error(place.rename("open", "closed/open"), 502, "ExternalError.RenameFailed.PermissionDenied")
    closed.chmod(0o755)


# ---- stat


def test_stat_describes_one_thing(place: Place) -> None:
    answer = place.stat("file")
    assert answer.status == 200
    assert set(answer.body) == {
        "DATA_TYPE", "name", "type", "size", "permissions", "user", "group", "last_modified", "link_target",
        "link_size", "link_user", "link_group", "link_last_modified",
    }  # fmt: skip
    assert {name: answer.body[name] for name in ("DATA_TYPE", "name", "type", "size", "permissions")} == {
        "DATA_TYPE": "file", "name": "file", "type": "file", "size": 5, "permissions": "0640",
    }  # fmt: skip
    assert answer.body["last_modified"] == "2021-01-15 01:45:50+00:00"
    folder = place.stat("folder/").body
    assert (folder["name"], folder["type"]) == ("folder", "dir")
    assert place.stat("link").body["link_target"]


def test_stat_of_what_is_not_there_has_the_code_that_clients_expect(place: Place) -> None:
    answer = place.stat("nothing")
    assert_error(answer, 404, "NotFound")
    assert answer.body["message"].startswith("Path not found, Error (stat)\nEndpoint: A place (")


def test_stat_needs_a_path(place: Place) -> None:
    assert_error(place.api.get("/operation/endpoint/place/stat"), 400, "ClientError.BadRequest")


# ---- mkdir, rename


def test_mkdir_makes_a_folder_with_any_name(place: Place) -> None:
    possible = [name for name in ODD_NAMES if name.isascii() or not place.ascii_only]
    for name in map(os.fsdecode, possible):
        answer = place.mkdir(f"folder/{name}")
        assert answer.status == 202, (name, answer.body)
        body = answer.body
        assert (body["DATA_TYPE"], body["code"]) == ("mkdir_result", "DirectoryCreated")
        assert body["resource"] == "/operation/endpoint/place/mkdir"
    assert sorted(os.listdir(os.fsencode(place.folder / "folder"))) == sorted(possible)


def test_a_name_that_an_endpoint_cannot_take_is_refused(place: Place) -> None:
    if place.ascii_only:
        assert_error(place.mkdir("ü"), 400, "ClientError.BadRequest")
        assert_error(place.rename("file", "\udcff"), 400, "ClientError.BadRequest")
        assert not (place.folder / "ü").exists()
    long = "/".join(["x" * 255] * 20)
    assert_error(place.mkdir(long), 400, "ClientError.BadRequest")


def test_mkdir_says_why_it_cannot(place: Place) -> None:
    assert_error(place.mkdir("folder"), 502, "ExternalError.MkdirFailed.Exists")
    assert_error(place.mkdir("file"), 502, "ExternalError.MkdirFailed.Exists")
    assert_error(place.mkdir("nothing/below"), 404, "ClientError.NotFound")
    assert place.mkdir("nothing/below").body["message"].startswith("Error (mkdir)\n")
    assert_error(place.mkdir("file/below"), 502, "ExternalError.MkdirFailed.NotDirectory")


def test_rename_moves_a_file(place: Place) -> None:
    name = "moved to here" if place.ascii_only else "\udcff moved"
    answer = place.rename("file", f"folder/{name}")
    assert answer.status == 200, answer.body
    assert (answer.body["DATA_TYPE"], answer.body["code"]) == ("result", "FileRenamed")
    assert (place.folder / "folder" / name).read_bytes() == b"12345"
    assert not (place.folder / "file").exists()
    missing = place.rename("file", "elsewhere")
    assert_error(missing, 404, "ClientError.NotFound")
    assert missing.body["message"].startswith("Error (rename)\n")


def test_a_bad_path_never_reaches_the_endpoint(place: Place) -> None:
    before = sorted(os.listdir(place.folder))
    for bad in ("../x", "a/../../x", "nul\0", "cr\r", "lf\nDELE file", "x" * 256, "\ud800"):
        assert_error(place.mkdir(bad), 400, "ClientError.BadRequest")
        assert_error(place.rename("file", bad), 400, "ClientError.BadRequest")
        if bad != "\ud800":
            assert_error(place.ls(bad), 400, "ClientError.BadRequest")
            assert_error(place.stat(bad), 400, "ClientError.BadRequest")
    assert sorted(os.listdir(place.folder)) == before


# ---- endpoints that cannot be asked


def test_an_endpoint_that_is_down_is_said_to_be(alice: User, register: Register) -> None:
    port = free_port()
    place = Place(Api(alice), Path(), "", register(port))
    answer = place.ls("x")
    assert_error(answer, 502, "ExternalError.DirListingFailed.ConnectFailed")
    assert f"Server: 127.0.0.1:{port}" in answer.body["message"]
    assert_error(place.stat("x"), 502, "ExternalError.StatFailed.ConnectFailed")
    assert_error(place.mkdir("x"), 502, "ExternalError.MkdirFailed.ConnectFailed")
    assert_error(place.rename("x", "y"), 502, "ExternalError.RenameFailed.ConnectFailed")


def test_an_endpoint_without_a_server_is_said_to_have_none(alice: User) -> None:
    registry.create(alice, {"name": "place"})
    answer = Api(alice).get("/operation/endpoint/place/ls", path="/")
    assert_error(answer, 502, "ExternalError.DirListingFailed.ConnectFailed")
    assert "Server: none" in answer.body["message"]


def test_the_gate_keeps_operations_away_from_loopback(
    alice: User, loopback_opened: None, serve: Callable[..., GridFtpServer], folder: Path, settings: Any
) -> None:
    registry.create(alice, {"name": "place"}, [ServerSpec("127.0.0.1", serve().port, "ftp")])
    settings.ALLOW_TARGETS = ()
    answer = Api(alice).get("/operation/endpoint/place/ls", path="/")
    assert answer.status == 502
    assert answer.code.startswith("ExternalError")


# ---- many


def test_a_folder_of_many_files_is_listed_in_pages(place: Place) -> None:
    many = place.folder / "many"
    many.mkdir(0o755)
    for number in range(2500):
        (many / f"{number:05}").touch()
    seen: list[str] = []
    while True:
        page = place.ls("many", limit=1000, offset=len(seen))
        seen += names(page)
        assert page.body["total"] == 2500
        if len(seen) >= page.body["total"]:
            break
    assert seen == [f"{number:05}" for number in range(2500)]
    assert names(place.ls("many")) == seen


def test_a_folder_of_too_many_files_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.folder / "many").mkdir(0o755)
    for number in range(120):
        (place.folder / "many" / str(number)).touch()
    defaults = {**(operations.list_directory.__kwdefaults__ or {}), "limit": 100}
    monkeypatch.setattr(operations.list_directory, "__kwdefaults__", defaults)
    assert_error(place.ls("many"), 502, "ExternalError.DirListingFailed.SizeLimit")
