"""ls, mkdir and rename of the shell, on real servers of both kinds."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deploy.stack.free_ports import free_port
from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.server import GridFtpServer
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from endpoints.sharing import access_rules, shares
from endpoints.sharing.access_rules import RuleSpec
from tests.gridftp.toolkit import ToolkitServer
from tests.integration.cast import make_user
from tests.integration.rest import Api
from tests.shell_context import Shell
from transferapi.shell.commands import files
from transferapi.shell.errors import DisconnectedError

pytestmark = pytest.mark.django_db

OLD = datetime(2021, 1, 15, 1, 45, 50, tzinfo=UTC)


@dataclass
class Place:
    """A folder of this machine, served and registered as alice#place. root: its path on the endpoint."""

    folder: Path
    root: str
    endpoint: Endpoint
    alice: Shell
    bob: Shell
    charlie: Shell


Serve = Callable[..., Place]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With some files, before a server takes it over."""
    folder = tmp_path / "served"
    (folder / "dir" / "inner").mkdir(parents=True)
    (folder / "dir" / "file").write_bytes(b"12345")
    (folder / "dir" / ".hidden").write_bytes(b"")
    (folder / "dir" / "link").symlink_to("file")
    os.utime(folder / "dir" / "file", (OLD.timestamp(), OLD.timestamp()))
    (folder / "dir" / "file").chmod(0o640)
    return folder


@pytest.fixture
def place_of(db: None, folder: Path, settings: Any) -> Callable[[int, str], Place]:
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")

    def make(port: int, root: str) -> Place:
        alice, bob, charlie = map(make_user, ("alice", "bob", "charlie"))
        fields = {"name": "place", "default_directory": f"{root}/dir/"}
        endpoint = registry.create(alice, fields, [ServerSpec("127.0.0.1", port, "ftp")])
        return Place(folder, root, endpoint, Shell(alice), Shell(bob), Shell(charlie))

    return make


@pytest.fixture
def ours(place_of: Callable[[int, str], Place], serve: Callable[..., GridFtpServer]) -> Place:
    return place_of(serve().port, "")


@pytest.fixture(params=["ours", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def place(
    request: pytest.FixtureRequest,
    folder: Path,
    place_of: Callable[[int, str], Place],
    serve: Callable[..., GridFtpServer],
    toolkit_server_factory: Callable[..., ToolkitServer],
) -> Place:
    if request.param == "ours":
        return place_of(serve().port, "")
    return place_of(toolkit_server_factory(folder).port, str(folder))


# ---- ls


def test_ls_prints_one_name_a_line_and_marks_folders(place: Place) -> None:
    assert place.alice.ok(f"ls place{place.root}/dir/") == "file\ninner/\nlink\n"
    assert place.alice.ok(f"ls place:{place.root}/dir -a") == "./\n../\n.hidden\nfile\ninner/\nlink\n"
    assert place.alice.ok(f"ls alice#place{place.root}//dir//inner") == ""
    assert place.alice.ok("ls place") == "file\ninner/\nlink\n"


def test_ls_la_has_seven_columns_and_begins_with_the_folder_itself(place: Place) -> None:
    lines = place.alice.ok(f"ls -la place{place.root}/dir/").splitlines()
    rows = [line.split(maxsplit=6) for line in lines]
    assert [row[6] for row in rows] == [
        *("./", "../", ".hidden", "file", "inner/"),
        f"link -> {place.root}/dir/file" if place.root else "link -> file",
    ]
    assert [row[0][0] for row in rows] == ["d", "d", "-", "-", "d", "l"]
    mode, owner, group, size, date, time, _ = rows[3]
    assert (mode, size, date, time) == ("-rw-r-----", "5", "2021-01-15", "01:45:50Z")
    assert owner == group == "?" or (owner.isalnum() and group)
    assert {len(row) for row in rows} == {7}
    assert place.alice.ok(f"ls -l place{place.root}/dir/").count("\n") == 3


def test_the_home_and_the_root_are_their_own_folder_above(place: Place) -> None:
    for folder in ("place/~/", "place:~", "place/"):
        first, second, *_ = place.alice.ok(f"ls -la {folder}").splitlines()
        assert first.removesuffix("./") == second.removesuffix("../")
        assert (first[0], first.split()[6]) == ("d", "./")


def test_ls_of_a_file_prints_the_path_as_it_was_given(place: Place) -> None:
    path = f"{place.root}/dir/file"
    assert place.alice.ok(f"ls place:{path}") == f"{path}\n"
    assert place.alice.ok(f"ls place{path}") == f"{path}\n"
    [line] = place.alice.ok(f"ls -l place{path}").splitlines()
    mode, *_, name = line.split()
    assert (mode, name) == ("-rw-r-----", path)


def test_ls_of_a_file_at_home_prints_what_follows_the_colon(ours: Place) -> None:
    for given in ("~/dir/file", "/~/dir/file", "dir/file"):
        assert ours.alice.ok(f"ls place:{given}") == f"{given}\n"
    assert ours.alice.ok("ls place/~/dir/file") == "/~/dir/file\n"


def test_a_star_in_the_last_component_selects_names(place: Place) -> None:
    assert place.alice.ok(f"ls place{place.root}/dir/*i*") == "file\ninner/\nlink\n"
    assert place.alice.ok(f"ls place{place.root}/dir/f*e") == "file\n"
    assert place.alice.ok(f"ls place{place.root}/dir/.h*") == ".hidden\n"
    error = place.alice.fails(f"ls place{place.root}/dir/*nothing*")
    assert error.splitlines()[2] == "Message: No such file or directory"


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*", ["", "a", "a*b"], []),
        ("a*", ["a", "ab"], ["ba", ""]),
        ("*a*b*", ["ab", "xaxbx"], ["ba", "a"]),
        ("ab*ba", ["abba", "ab-ba"], ["aba"]),
        ("*aa*a", ["aaa", "xaaya"], ["aa"]),
        ("[x]?*", ["[x]?", "[x]?y"], ["xy"]),
    ],
)
def test_a_pattern_has_no_other_wildcard_than_the_star(pattern: str, fitting: list[str], others: list[str]) -> None:
    fits = files.matcher(pattern)
    assert [name for name in [*fitting, *others] if fits(name)] == fitting


def test_a_pattern_of_many_stars_takes_no_long_time() -> None:
    assert not files.matcher("*a" * 2000 + "b")("a" * 250)


def test_names_with_control_characters_stay_on_their_line(ours: Place) -> None:
    for name in ("plain's", "c1\x85", "sep\u2028"):
        (ours.folder / "dir" / "inner" / name).write_bytes(b"")
    assert ours.alice.ok("ls place/dir/inner").split("\n") == [r"$'c1\u0085'", "plain's", r"$'sep\u2028'", ""]
    assert len(ours.alice.ok("ls -l place/dir/inner").splitlines()) == 3


def test_names_are_escaped_as_bash_reads_them(tmp_path: Path) -> None:
    for name in ("two\nlines", "it's\x1b[31m", "back\\slash\ttab", "del\x7f"):
        script = f"printf %s {files.shown(name)}"
        assert subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout == name
        assert files.shown(name).isprintable()


def test_octets_that_are_no_utf8_come_out_as_they_are(ours: Place) -> None:
    (ours.folder / "dir" / "inner" / os.fsdecode(b"latin-1 \xfc")).write_bytes(b"")
    out = ours.alice.ok("ls place/dir/inner")
    assert os.fsencode(out) == b"latin-1 \xfc\n"
    assert ours.alice.run("ls place/dir/inner -O json").json["DATA"][0]["name"] == "latin-1 \udcfc"


def test_ls_as_json_is_the_document_of_rest(place: Place) -> None:
    path = f"{place.root}/dir/"
    of_rest = Api(place.alice.user).get("/operation/endpoint/place/ls", path=path, show_hidden="0").body
    shown = place.alice.run(f"ls place{path} -O json").json
    assert {**of_rest, "limit": shown["limit"]} == shown
    file = place.alice.run(f"ls place{path}file -O json").json
    assert file == Api(place.alice.user).get("/operation/endpoint/place/stat", path=f"{path}file").body


def test_ls_in_the_forms_for_programs(ours: Place) -> None:
    assert ours.alice.ok("ls place/dir -f name,size,type -O csv") == "file,5,file\ninner,{},dir\nlink,5,file\n".format(
        (ours.folder / "dir" / "inner").stat().st_size
    )
    assert ours.alice.ok("ls place/dir/f* -f name,last_modified -O kv") == (
        "name=file\nlast_modified=2021-01-15 01:45:50Z\n"
    )
    assert "the fields are permissions, user" in ours.alice.fails("ls place/dir -f nonsense", status=2)


def test_a_long_listing_is_written_in_portions_and_keeps_its_slot(ours: Place) -> None:
    many = ours.folder / "many"
    many.mkdir()
    for number in range(2500):
        (many / f"{number:04}").write_bytes(b"")
    out = ours.alice.ok("ls place/many")
    assert out.splitlines() == [f"{number:04}" for number in range(2500)]
    ours.alice.disconnected = True
    for _ in range(10):
        with pytest.raises(DisconnectedError):
            ours.alice.run("ls place/many")
    ours.alice.disconnected = False
    assert ours.alice.ok("ls place/many/0001").strip() == "/many/0001"


def test_what_is_missing_is_an_error_block_and_nothing_on_standard_output(place: Place) -> None:
    lines = place.alice.fails(f"ls place{place.root}/nix").splitlines()
    assert lines[0] == f"Error: place:{place.root}/nix: No such file or directory"
    assert lines[1].startswith("Command: ")
    assert lines[2] == "Message: No such file or directory"
    assert any(line.startswith("Details: Server: 127.0.0.1:") for line in lines[3:])


def test_a_server_that_is_away_is_named_as_the_cause(ours: Place) -> None:
    ours.endpoint.servers.update(port=free_port())
    lines = ours.alice.fails("ls place/dir").splitlines()
    assert lines[2] == "Message: Could not connect to server"


def test_a_target_that_the_gate_refuses_is_named_as_the_cause(ours: Place, settings: Any) -> None:
    settings.ALLOW_TARGETS = ()
    assert ours.alice.fails("ls place/dir").splitlines()[2] == "Message: Could not connect to server"


def test_an_error_as_json_has_the_code_of_rest(ours: Place) -> None:
    found = json.loads(ours.alice.fails("ls place/nix -O json"))
    assert found["code"] == Api(ours.alice.user).get("/operation/endpoint/place/ls", path="/nix").code
    assert "Message: No such file or directory" in found["message"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls", "an operand is missing"),
        ("ls a b", "'b' is one operand too many"),
        ("ls place/../x", 'no ".." components'),
        ("ls /x", "names no endpoint"),
        ("mkdir place", "Missing '/': 'place'\nWrite ENDPOINT/PATH"),
        ("rename place/x", "an operand is missing"),
    ],
)
def test_bad_input_is_reported_with_the_form_that_works(ours: Place, line: str, words: str) -> None:
    found = ours.alice.run(line)
    assert (found.status in (1, 2), found.out) == (True, "")
    assert words in found.err


# ---- mkdir


def test_mkdir_makes_one_level_and_prints_nothing(place: Place) -> None:
    assert place.alice.ok(f"mkdir place:{place.root}/new") == ""
    assert (place.folder / "new").is_dir()
    lines = place.alice.fails(f"mkdir place:{place.root}/new").splitlines()
    assert lines[1:3] == [f"Command: MKD {place.root}/new", "Message: Path already exists"]
    lines = place.alice.fails(f"mkdir place{place.root}/a/b/c").splitlines()
    assert lines[2] == "Message: No such file or directory"


def test_mkdir_p_makes_all_levels_and_takes_a_folder_that_exists(place: Place) -> None:
    assert place.alice.ok(f"mkdir -p place{place.root}/a/b/c/") == ""
    assert (place.folder / "a" / "b" / "c").is_dir()
    assert place.alice.ok(f"mkdir -p place{place.root}/a/b/c") == ""
    lines = place.alice.fails(f"mkdir -p place{place.root}/dir/file").splitlines()
    assert lines[2] == "Message: Path already exists"


def test_mkdir_as_json_is_the_document_of_rest(ours: Place) -> None:
    of_rest = Api(ours.alice.user).post("/operation/endpoint/place/mkdir", {"path": "/one"}).body
    shown = ours.alice.run("mkdir place/two -O json").json
    assert {**of_rest, "request_id": "", "path": "/two", "resource": ""} == {**shown, "request_id": "", "resource": ""}


# ---- rename


def test_rename_moves_within_an_endpoint(place: Place) -> None:
    assert place.alice.ok(f"rename place{place.root}/dir/file place:{place.root}/dir/moved") == ""
    assert (place.folder / "dir" / "moved").read_bytes() == b"12345"
    lines = place.alice.fails(f"rename place{place.root}/nix place{place.root}/nux").splitlines()
    assert lines[2] == "Message: No such file or directory"


def test_rename_takes_any_names_of_one_endpoint_and_refuses_two(ours: Place) -> None:
    ours.alice.ok(f"rename place/dir/file {ours.endpoint.pk}/dir/other")
    registry.create(ours.alice.user, {"name": "second"})
    assert "one endpoint" in ours.alice.fails("rename place/dir/other second/dir/x")


# ---- permission


def test_others_see_nothing_and_a_share_shows_what_its_rules_give(ours: Place) -> None:
    for shell in (ours.bob, ours.charlie):
        for line in ("ls alice#place/dir", "mkdir alice#place/x", "rename alice#place/dir alice#place/y"):
            assert shell.fails(line) == "Error: No such endpoint 'alice#place'\n"
    share = shares.create(ours.alice.user, "place", "/dir", {"name": "share"})
    access_rules.create(ours.alice.user, "share", RuleSpec("identity", str(ours.bob.user.pk), "/inner/", "rw"))
    assert ours.bob.ok("mkdir -p alice#share/inner/x/y") == ""
    assert ours.bob.ok("ls alice#share/inner") == "x/\n"
    assert [row.split()[-1] for row in ours.bob.ok("ls -la alice#share/inner/").splitlines()] == ["./", "../", "x/"]
    lines = ours.bob.fails("mkdir alice#share/outer").splitlines()
    assert lines[2] == "Message: Permission denied"
    assert ours.bob.fails("ls alice#share/").splitlines()[2] == "Message: Permission denied"
    assert str(ours.folder) not in ours.bob.fails("ls alice#share/inner/nix")
    assert ours.charlie.fails(f"ls {share.pk}/") == f"Error: No such endpoint '{share.pk}'\n"


def test_an_endpoint_without_a_credential_names_the_command_and_the_address(ours: Place, settings: Any) -> None:
    ours.endpoint.servers.update(scheme="gsiftp")
    error = ours.alice.fails("ls place/dir")
    assert "endpoint-activate alice#place" in error
    assert f"{settings.PUBLIC_URL}/endpoints/{ours.endpoint.pk}/activate" in error
    assert error.count("\n") == 1
