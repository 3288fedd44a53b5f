"""SITE WAYBILL REPLACE: a file gets its real name in one command, and what it replaces loses nothing but its octets."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.faults import Kind, classify
from endpoints.gridftp.features import Features
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.server.roots import replacing
from endpoints.gridftp.server.roots.by_path import PathRoot
from endpoints.gridftp.server.roots.parts import RootPart
from endpoints.gridftp.server.roots.replacing import Replacing
from endpoints.gridftp.server.roots.root import Root
from tests.faults.stations import OwnStation
from tests.gridftp.ftp_dialogue import Dialogue, Outcome
from tests.gridftp.toolkit import hand_over

by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other accounts")
ACL = "system.posix_acl_access"
NEW, OLD = b"new octets", b"the old octets, which were more"
Serve = Callable[..., GridFtpServer]


def replace(dialogue: Dialogue, written: bytes, path: bytes) -> Outcome:
    return dialogue.ask(b"SITE WAYBILL REPLACE %d %b %b" % (len(written), written, path))


@pytest.fixture
def dialogue(serve: Serve) -> Iterator[Dialogue]:
    with Dialogue(serve().port) as dialogue:
        yield dialogue


@pytest.fixture(params=["in one call", "in two calls"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With renameat2(2), and without, as on macOS."""
    if request.param == "in two calls":
        monkeypatch.setattr(replacing, "_renameat2", None)


@pytest.fixture
def unprivileged(tmp_path: Path, folder: Path) -> Iterator[Callable[[], Dialogue]]:
    """A session of a server that runs as an account of its own, which is given the folder as it is then."""
    station = OwnStation(folder)
    dialogues: list[Dialogue] = []

    def start() -> Dialogue:
        for above in (folder, *folder.parents):
            if above.is_relative_to("/tmp/"):
                above.chmod(above.stat().st_mode | 0o711)
        asyncio.run(station.start())
        dialogues.append(Dialogue(station.port))
        return dialogues[-1]

    try:
        yield start
    finally:
        for dialogue in dialogues:
            dialogue.close()
        station.end()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# ---- the command


def test_feat_announces_it(dialogue: Dialogue) -> None:
    assert Features.parse(dialogue.ask("FEAT").reply.lines[1:-1]).replaces
    assert not Features.parse([b" WAYBILL", b" REST STREAM"]).replaces


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"tmp", b"name"), (b"a b", b" c d "), (b" ", b"x"), (b"caf\xc3\xa9 \xff", b"\xfe 12 3"), (b"3 x", b"3 y"),
        (b"x" * 255, b"y" * 255),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [None, OLD], ids=["new", "replaced"])
def test_every_name_goes_through(
    dialogue: Dialogue, folder: Path, kernel: None, written: bytes, name: bytes, before: bytes | None
) -> None:
    base = os.fsencode(folder) + b"/"
    Path(os.fsdecode(base + written)).write_bytes(NEW)
    if before is not None:
        Path(os.fsdecode(base + name)).write_bytes(before)
    assert replace(dialogue, b"/" + written, b"/" + name).code == 250
    assert os.listdir(os.fsencode(folder)) == [name]
    assert Path(os.fsdecode(base + name)).read_bytes() == NEW


@pytest.mark.parametrize(
    "argument",
    [
        b"", b"/tmp /name", b"4", b"4 ", b"4 /tmp", b"4 /tmp ", b"3 /tmp /name", b"5 /tmp /name", b"0 /tmp /name",
        b"-4 /tmp /name", b"+4 /tmp /name", b"4.0 /tmp /name", b"04x /tmp /name", b"9999 /tmp /name", b"4/tmp /name",
        b"999999999999999999999 /tmp /name",
    ],
)  # fmt: skip
def test_what_is_not_a_number_and_two_paths_is_refused(dialogue: Dialogue, folder: Path, argument: bytes) -> None:
    (folder / "tmp").write_bytes(NEW)
    (folder / "name").write_bytes(OLD)
    assert dialogue.ask(b"SITE WAYBILL REPLACE " + argument).code == 501
    assert files(folder) == {"tmp": NEW, "name": OLD}


def test_paths_are_of_the_current_folder_and_of_others(dialogue: Dialogue, folder: Path, kernel: None) -> None:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    for number, (written, path, found) in enumerate(
        [("x", "y", "a/y"), ("../b/x", "y2", "a/y2"), ("x", "../b/y", "b/y"), ("/a//./x", "/b/../b/z", "b/z")]
    ):
        source = folder / "a/x" if "b/x" not in written else folder / "b/x"
        source.write_bytes(b"%d" % number)
        dialogue.demand("CWD /a")
        assert replace(dialogue, written.encode(), path.encode()).code == 250
        assert (folder / found).read_bytes() == b"%d" % number
        assert not source.exists()


def test_replacements_are_pipelined_and_each_is_answered_in_its_turn(dialogue: Dialogue, folder: Path) -> None:
    for number in range(200):
        for place in ("one", "two"):
            (folder / place).mkdir(exist_ok=True)
            (folder / place / f".tmp{number}").write_bytes(b"%d" % number)
    pairs = [(f"/{place}/.tmp{n}", f"/{place}/f{n}") for n in range(200) for place in ("one", "two")]
    lines = [f"SITE WAYBILL REPLACE {len(written)} {written} {path}" for written, path in pairs]
    lines[100:100] = ["SITE WAYBILL REPLACE 9 /one/none /one/f7"]
    codes = [outcome.code for outcome in dialogue.ask_all(*lines)]
    assert codes == [250] * 100 + [550] + [250] * 300
    for place in ("one", "two"):
        assert files(folder / place) == {f"f{n}": b"%d" % n for n in range(200)}


def test_a_folder_that_was_moved_away_is_not_used_when_nothing_waits(dialogue: Dialogue, folder: Path) -> None:
    """The folder stays open while commands wait, and no longer."""
    (folder / "a").mkdir()
    (folder / "a/x").write_bytes(NEW)
    assert replace(dialogue, b"/a/x", b"/a/y").code == 250
    (folder / "a").rename(folder / "moved")
    (folder / "a").mkdir()
    (folder / "a/y").write_bytes(OLD)
    assert replace(dialogue, b"/a/y", b"/a/z").code == 250
    assert files(folder / "a") == {"z": OLD}
    assert files(folder / "moved") == {"y": NEW}


# ---- what it keeps


def test_mode_and_extended_attributes_stay(dialogue: Dialogue, folder: Path) -> None:
    tmp, name = folder / "tmp", folder / "name"
    tmp.write_bytes(NEW)
    name.write_bytes(OLD)
    name.chmod(0o640)
    tmp.chmod(0o666)
    try:
        os.setxattr(name, "user.origin", b"\x00 beam line 7 \xff")
        os.setxattr(tmp, "user.other", b"stays")
    except OSError as error:
        pytest.skip(f"the test's disk has no attributes: {error}")
    assert replace(dialogue, b"/tmp", b"/name").code == 250
    assert name.read_bytes() == NEW
    assert stat.S_IMODE(name.stat().st_mode) == 0o640
    assert os.getxattr(name, "user.origin") == b"\x00 beam line 7 \xff"


def acl(*entries: tuple[int, int, int]) -> bytes:
    """posix_acl_xattr.h: the version, and tag, permissions and id of each entry."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


USER_OBJ, USER, GROUP_OBJ, MASK, OTHER, NOBODY = 1, 2, 4, 0x10, 0x20, 0xFFFFFFFF


def test_an_access_list_stays_and_one_that_the_folder_gave_the_new_file_goes(dialogue: Dialogue, folder: Path) -> None:
    listed = acl((USER_OBJ, 6, NOBODY), (USER, 4, 12345), (GROUP_OBJ, 0, NOBODY), (MASK, 4, NOBODY), (OTHER, 0, NOBODY))
    default = acl(
        (USER_OBJ, 7, NOBODY), (USER, 7, 54321), (GROUP_OBJ, 5, NOBODY), (MASK, 7, NOBODY), (OTHER, 5, NOBODY)
    )
    (folder / "listed").write_bytes(OLD)
    (folder / "plain").write_bytes(OLD)
    (folder / "plain").chmod(0o600)
    try:
        os.setxattr(folder / "listed", ACL, listed)
        os.setxattr(folder, "system.posix_acl_default", default)
    except OSError as error:
        pytest.skip(f"the test's disk has no access lists: {error}")
    for name in ("listed", "plain"):
        (folder / "tmp").write_bytes(NEW)
        assert ACL in os.listxattr(folder / "tmp")
        assert replace(dialogue, b"/tmp", b"/" + name.encode()).code == 250
        assert (folder / name).read_bytes() == NEW
    assert os.getxattr(folder / "listed", ACL) == listed
    assert ACL not in os.listxattr(folder / "plain")
    assert stat.S_IMODE((folder / "plain").stat().st_mode) == 0o600


@by_root
def test_owner_and_group_stay_where_the_server_may_set_them(dialogue: Dialogue, folder: Path) -> None:
    (folder / "tmp").write_bytes(NEW)
    (folder / "name").write_bytes(OLD)
    os.chown(folder / "name", 12345, 23456)
    (folder / "name").chmod(0o4751)
    assert replace(dialogue, b"/tmp", b"/name").code == 250
    found = (folder / "name").stat()
    assert (found.st_uid, found.st_gid) == (12345, 23456)
    # Octets that were written here do not run with another's rights.
    assert stat.S_IMODE(found.st_mode) == 0o751


def test_the_name_is_there_at_every_moment_and_always_whole(dialogue: Dialogue, folder: Path, kernel: None) -> None:
    rounds = 300
    contents = {bytes([65 + number % 26]) * 5000 for number in range(rounds)}
    (folder / "name").write_bytes(b"A" * 5000)
    faults: list[str] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            try:
                if (folder / "name").read_bytes() not in contents:
                    faults.append("not whole")
            except FileNotFoundError:
                faults.append("missing")

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(rounds):
            (folder / "tmp").write_bytes(bytes([65 + number % 26]) * 5000)
            assert replace(dialogue, b"/tmp", b"/name").code == 250
    finally:
        ended.set()
        looking.join()
    assert not faults


# ---- symlinks


@pytest.mark.parametrize("way", ["data/real", "/ABSOLUTE/data/real", "data/second", "../served/data/real"])
def test_what_a_symlink_leads_to_is_replaced_and_the_link_stays(
    dialogue: Dialogue, folder: Path, kernel: None, way: str
) -> None:
    (folder / "data").mkdir()
    (folder / "data/real").write_bytes(OLD)
    (folder / "data/second").symlink_to("../data/real")
    (folder / "link").symlink_to(way.replace("/ABSOLUTE", str(folder)))
    (folder / "tmp").write_bytes(NEW)
    outcome = replace(dialogue, b"/tmp", b"/link")
    if way.startswith(".."):
        # Out of the folder, and in again: STOR refuses it as well.
        assert classify(outcome.reply).kind is Kind.PERMISSION_DENIED
        return
    assert outcome.code == 250, outcome.text
    assert (folder / "link").is_symlink()
    assert (folder / "data/second").is_symlink()
    assert (folder / "data/real").read_bytes() == NEW
    assert not (folder / "tmp").exists()


def test_a_symlink_out_of_the_folder_is_refused_and_one_that_dangles_gets_its_target(
    dialogue: Dialogue, folder: Path, tmp_path: Path, kernel: None
) -> None:
    (tmp_path / "secret").write_bytes(OLD)
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to("../secret")
    (folder / "circle").symlink_to("circle")
    (folder / "dangling").symlink_to("there")
    (folder / "tmp").write_bytes(NEW)
    for name in (b"/out", b"/up", b"/circle"):
        assert replace(dialogue, b"/tmp", name).reply.is_error
    assert (tmp_path / "secret").read_bytes() == OLD
    assert (folder / "out").is_symlink()
    assert (folder / "up").is_symlink()
    assert replace(dialogue, b"/tmp", b"/dangling").code == 250
    assert (folder / "dangling").is_symlink()
    assert (folder / "there").read_bytes() == NEW


# ---- refusals


def test_what_is_no_file_is_refused_and_stays(dialogue: Dialogue, folder: Path, kernel: None) -> None:
    (folder / "tmp").write_bytes(NEW)
    (folder / "folder").mkdir()
    (folder / "to folder").symlink_to("folder")
    os.mkfifo(folder / "pipe")
    for name in (b"/folder", b"/to folder"):
        assert classify(replace(dialogue, b"/tmp", name).reply).kind is Kind.IS_A_DIRECTORY
    assert "Not a regular file" in replace(dialogue, b"/tmp", b"/pipe").text
    assert classify(replace(dialogue, b"/none", b"/new").reply).kind is Kind.FILE_NOT_FOUND
    assert classify(replace(dialogue, b"/tmp", b"/none/new").reply).kind is Kind.FILE_NOT_FOUND
    assert replace(dialogue, b"/tmp", b"/").reply.is_error
    assert replace(dialogue, b"/", b"/x").reply.is_error
    assert replace(dialogue, b"/tmp", b"/" + b"x" * 256).code == 553
    assert (folder / "tmp").read_bytes() == NEW
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    (folder / "name").write_bytes(OLD)
    assert classify(replace(dialogue, b"/folder", b"/name").reply).kind is Kind.IS_A_DIRECTORY
    assert (folder / "name").read_bytes() == OLD


def test_a_file_with_several_hard_links_is_to_be_written_in_place(dialogue: Dialogue, folder: Path) -> None:
    (folder / "tmp").write_bytes(NEW)
    (folder / "name").write_bytes(OLD)
    (folder / "second").hardlink_to(folder / "name")
    (folder / "link").symlink_to("name")
    for name in (b"/name", b"/link"):
        outcome = replace(dialogue, b"/tmp", name)
        assert (outcome.code, "hard links" in outcome.text) == (504, True)
    assert files(folder) == {"tmp": NEW, "name": OLD, "second": OLD, "link": OLD}


@by_root
def test_a_folder_that_takes_no_other_file_leaves_the_file_to_be_written_in_place(
    unprivileged: Callable[[], Dialogue], folder: Path
) -> None:
    (folder / "closed").mkdir(0o755)
    (folder / "closed/name").write_bytes(OLD)
    (folder / "closed/name").chmod(0o666)
    (folder / "tmp").write_bytes(NEW)
    hand_over(folder, stop_at=folder.parent)
    os.chown(folder / "closed", 0, 0)
    dialogue = unprivileged()
    outcome = replace(dialogue, b"/tmp", b"/closed/name")
    assert (outcome.code, "its folder takes no other file" in outcome.text) == (504, True)
    assert classify(replace(dialogue, b"/tmp", b"/closed/new").reply).kind is Kind.PERMISSION_DENIED
    assert (folder / "closed/name").read_bytes() == OLD


@by_root
def test_who_may_not_write_a_file_does_not_replace_it_either(
    unprivileged: Callable[[], Dialogue], folder: Path
) -> None:
    (folder / "tmp").write_bytes(NEW)
    hand_over(folder, stop_at=folder.parent)
    (folder / "kept").write_bytes(OLD)
    (folder / "kept").chmod(0o644)
    dialogue = unprivileged()
    assert classify(replace(dialogue, b"/tmp", b"/kept").reply).kind is Kind.PERMISSION_DENIED
    assert files(folder) == {"tmp": NEW, "kept": OLD}


@by_root
@pytest.mark.parametrize("sticky", [False, True])
def test_a_file_of_another_account_stays_its_own_and_is_to_be_written_in_place(
    unprivileged: Callable[[], Dialogue], folder: Path, sticky: bool
) -> None:
    (folder / "tmp").write_bytes(NEW)
    hand_over(folder, stop_at=folder.parent)
    (folder / "name").write_bytes(OLD)
    (folder / "name").chmod(0o666)
    if sticky:
        os.chown(folder, 0, 0)
        folder.chmod(0o1777)
    dialogue = unprivileged()
    assert replace(dialogue, b"/tmp", b"/name").code == 504
    assert files(folder) == {"tmp": NEW, "name": OLD}
    assert (folder / "name").stat().st_uid == 0


def test_a_read_only_server_and_a_read_only_part_refuse(serve: Serve, folder: Path, tmp_path: Path) -> None:
    (folder / "tmp").write_bytes(NEW)
    (folder / "name").write_bytes(OLD)
    with Dialogue(serve(read_only=True).port) as dialogue:
        assert classify(replace(dialogue, b"/tmp", b"/name").reply).kind is Kind.PERMISSION_DENIED
    (tmp_path / "second").mkdir()
    (tmp_path / "second/tmp").write_bytes(NEW)
    parts = [RootPart(str(folder), "one", writable=False), RootPart(str(tmp_path / "second"), "two")]
    with GridFtpServer(roots=parts) as server, Dialogue(server.port) as dialogue:
        assert classify(replace(dialogue, b"/two/tmp", b"/one/name").reply).kind is Kind.PERMISSION_DENIED
        assert classify(replace(dialogue, b"/one/tmp", b"/two/name").reply).kind is Kind.PERMISSION_DENIED
        assert replace(dialogue, b"/two/tmp", b"/two").reply.is_error
        assert replace(dialogue, b"/two/tmp", b"/three").reply.is_error
        assert replace(dialogue, b"/two/tmp", b"/two/name").code == 250
    assert files(folder) == {"tmp": NEW, "name": OLD}


def test_a_restricted_session_replaces_inside_its_folders_only(dialogue: Dialogue, folder: Path) -> None:
    for name in ("mine", "read", "other"):
        (folder / name).mkdir()
        (folder / name / "tmp").write_bytes(NEW)
        (folder / name / "name").write_bytes(OLD)
    (folder / "mine/link").symlink_to("../other/name")
    dialogue.demand("SITE RESTRICT RW/mine,R/read")
    for written, path in [
        (b"/mine/tmp", b"/other/name"), (b"/other/tmp", b"/mine/name"), (b"/mine/tmp", b"/read/name"),
        (b"/read/tmp", b"/mine/name"), (b"/mine/tmp", b"/mine"), (b"/mine/tmp", b"/mine/link"), (b"/mine/tmp", b"/new"),
    ]:  # fmt: skip
        assert classify(replace(dialogue, written, path).reply).kind in (Kind.PERMISSION_DENIED, Kind.UNKNOWN), path
    assert replace(dialogue, b"/mine/tmp", b"/mine/name").code == 250
    assert files(folder / "mine")["name"] == NEW
    assert files(folder / "read") == files(folder / "other") == {"tmp": NEW, "name": OLD}


def test_a_restriction_in_the_same_go_leaves_no_folder_of_before_open(dialogue: Dialogue, folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    for name in ("1", "2"):
        (folder / "a" / name).write_bytes(NEW)
    codes = [outcome.code for outcome in dialogue.ask_all(
        "SITE WAYBILL REPLACE 4 /a/1 /a/x", "SITE RESTRICT RW/b", "SITE WAYBILL REPLACE 4 /a/2 /a/y"
    )]  # fmt: skip
    assert codes[:2] == [250, 250]
    assert codes[2] >= 500
    assert files(folder / "a") == {"x": NEW, "2": NEW}


# ---- other systems


@pytest.mark.parametrize("kind", [Root, PathRoot])
def test_by_paths_it_is_the_same(folder: Path, kind: type[Root], kernel: None) -> None:
    (folder / "data").mkdir()
    (folder / "data/real").write_bytes(OLD)
    (folder / "link").symlink_to("data/real")
    root, replacing_files = kind(folder), Replacing()
    try:
        for path, found in (
            (b"/new", "new"), (b"/new", "new"), (b"/data/other", "data/other"), (b"/link", "data/real")
        ):  # fmt: skip
            (folder / "tmp").write_bytes(NEW)
            replacing_files.replace(root, b"/tmp", path)
            assert (folder / found).read_bytes() == NEW
            assert not (folder / "tmp").exists()
        assert (folder / "link").is_symlink()
    finally:
        replacing_files.forget()
        root.close()


def test_a_kernel_that_cannot_do_it_in_one_call_does_it_in_two(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(replacing, "_renameat2", refusing)
    (folder / "tmp").write_bytes(NEW)
    root, replacing_files = Root(folder), Replacing()
    replacing_files.replace(root, b"/tmp", b"/name")
    replacing_files.forget()
    root.close()
    assert files(folder) == {"name": NEW}


def test_no_descriptor_is_left_open(folder: Path) -> None:
    (folder / "a").mkdir()
    root, replacing_files = Root(folder), Replacing()
    before = os.listdir("/proc/self/fd")
    for name in ("x", "x", "a", "none/y"):
        (folder / "tmp").write_bytes(NEW)
        with contextlib.suppress(OSError):
            replacing_files.replace(root, b"/tmp", b"/" + name.encode())
    replacing_files.forget()
    assert os.listdir("/proc/self/fd") == before
    root.close()
