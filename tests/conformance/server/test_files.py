"""Commands of our server on files and folders that move no file data, and its listings."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from endpoints.gridftp.facts import parse_line
from endpoints.gridftp.faults import Kind, classify
from tests.gridftp.ftp_dialogue import Dialogue, connect, read_all

#: Names that hurt: each is made, listed, looked at, renamed and removed.
NAMES = [
    b"plain", b" leading", b"trailing ", b"two  blanks", b"semi;colon", b'quo"te', b"per%cent", b"ha#sh", b"*?[]",
    b"~tilde", b"-dash", b"caf\xc3\xa9", b"not utf8 \xff\xfe", b"x" * 255, b"\xc3\xa9" * 127, b"back\\slash",
    b"a=b;c=d",
]  # fmt: skip


@pytest.fixture
def dialogue(serve):
    with Dialogue(serve().port) as dialogue:
        yield dialogue


def entries(lines):
    return {entry.name.encode("utf-8", "surrogateescape"): entry for entry in map(parse_line, lines)}


def mlsc(dialogue: Dialogue, path: bytes):
    outcome = dialogue.ask(b"MLSC " + path)
    assert outcome.code == 250, outcome.text
    replies = [*outcome.preliminary, outcome.reply]
    return entries(line.removeprefix(b" ") for reply in replies for line in reply.lines[1:-1])


def listing(dialogue: Dialogue, command: bytes) -> bytes:
    with connect(dialogue.passive()) as data:
        outcome = dialogue.ask(command)
        assert outcome.code == 226, outcome.text
        return read_all(data)


# ---- names


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_every_name_goes_through_every_command(dialogue, folder, name):
    path = b"/" + name
    dialogue.demand(b"MKD " + path, b"CWD " + path, b"CWD /")
    assert (os.fsencode(folder) + path) in [
        os.fsencode(folder) + b"/" + each for each in os.listdir(os.fsencode(folder))
    ]
    (Path(os.fsdecode(os.fsencode(folder) + path)) / os.fsdecode(name)).write_bytes(b"12345")
    inner = path + b"/" + name
    assert dialogue.ask(b"SIZE " + inner).text == "5"
    assert mlsc(dialogue, path)[name].size == 5
    look = dialogue.ask(b"MLST " + inner)
    assert parse_line(look.reply.lines[1].removeprefix(b" ")).name.encode("utf-8", "surrogateescape") == inner
    assert entries(listing(dialogue, b"MLSD " + path).splitlines()).keys() == {name}
    assert listing(dialogue, b"NLST " + path) == name + b"\r\n"
    assert listing(dialogue, b"LIST -la " + path).endswith(b" " + name + b"\r\n")
    dialogue.demand(b"RNFR " + inner, b"RNTO /elsewhere", b"RNFR /elsewhere", b"RNTO " + inner)
    dialogue.demand(b"DELE " + inner, b"RMD " + path)
    assert os.listdir(folder) == []


def test_a_name_with_control_characters_is_listed_and_is_no_other_file(dialogue, folder):
    """Percent-encoded in a fact; a line has a question mark for each, as `ls -q` shows it."""
    names = {b"a\nType=file; b", b"tab\there", b"end\r", b"\x7f%0A\x01", b"seen"}
    for name in names:
        (folder / os.fsdecode(name)).touch()
    assert mlsc(dialogue, b"/").keys() == names
    assert entries(listing(dialogue, b"MLSD /").splitlines()).keys() == names
    dialogue.demand(b"OPTS MLST Type;Size;")
    assert entries(listing(dialogue, b"MLSD /").splitlines()).keys() == names
    shown = {re.sub(rb"[\x00-\x1f\x7f]", b"?", name) for name in names}
    assert set(listing(dialogue, b"NLST /").split(b"\r\n")) == shown | {b""}
    assert {line[-len(b"seen") :] for line in listing(dialogue, b"LIST /").splitlines()} >= {b"seen", b"end?"}


# ---- errors say what the system says


@pytest.mark.parametrize(
    ("line", "code", "words", "kind"),
    [
        ("SIZE /none", 550, "No such file or directory", Kind.FILE_NOT_FOUND),
        ("SIZE /folder", 550, "Is a directory", Kind.IS_A_DIRECTORY),
        ("SIZE /file/x", 550, "Not a directory", Kind.NOT_A_DIRECTORY),
        ("MLST /none", 550, "No such file or directory", Kind.FILE_NOT_FOUND),
        ("MLSC /file", 550, "Not a directory", Kind.NOT_A_DIRECTORY),
        ("MDTM /none", 550, "No such file or directory", Kind.FILE_NOT_FOUND),
        ("MKD /folder", 553, "c=PATH_EXISTS", Kind.PATH_EXISTS),
        ("MKD /", 553, "File exists", Kind.PATH_EXISTS),
        ("MKD /none/x", 550, "c=PATH_NOT_FOUND", Kind.FILE_NOT_FOUND),
        ("MKD /" + "x" * 256, 553, "File name too long", Kind.INVALID_PATH_NAME),
        ("RMD /folder", 550, "Directory not empty", Kind.DIRECTORY_NOT_EMPTY),
        ("RMD /file", 550, "Not a directory", Kind.NOT_A_DIRECTORY),
        ("RMD /", 550, "busy", Kind.UNKNOWN),
        ("DELE /none", 550, "No such file or directory", Kind.FILE_NOT_FOUND),
        ("DELE /folder", 550, "Is a directory", Kind.IS_A_DIRECTORY),
        ("RNFR /none", 550, "No such file or directory", Kind.FILE_NOT_FOUND),
        ("CWD /file", 550, "Not a directory", Kind.NOT_A_DIRECTORY),
        ("CKSM MD5 0 -1 /folder", 550, "Is a directory", Kind.IS_A_DIRECTORY),
        ("CKSM MD5 0 -1 /pipe", 550, "Not a regular file", Kind.UNKNOWN),
        ("MFMT 20200102030405 /none", 550, "No such file or directory", Kind.FILE_NOT_FOUND),
        ("SIZE /out", 550, "Permission denied", Kind.PERMISSION_DENIED),
    ],
)  # fmt: skip
def test_a_refusal_says_why(dialogue, folder, line, code, words, kind):
    (folder / "folder").mkdir()
    (folder / "folder" / "x").touch()
    (folder / "file").touch()
    (folder / "out").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    outcome = dialogue.ask(line)
    assert outcome.code == code, outcome.text
    assert words in outcome.text
    if kind is not Kind.UNKNOWN:
        assert classify(outcome.reply).kind is kind


CHANGES = [
    "MKD /x", "DELE /file", "RMD /file", "RNFR /file", "STOR /file", "STOR /new", "APPE /file", "ESTO A 0 /file",
    "MFMT 20200102030405 /file", "SITE CHMOD 600 /file", "SITE TRNC 0 /file",
]  # fmt: skip


def test_a_read_only_server_changes_nothing(serve, folder):
    (folder / "file").write_bytes(b"as it was")
    before = os.stat(folder / "file")
    with Dialogue(serve(read_only=True).port) as dialogue:
        dialogue.passive()
        for line in CHANGES:
            outcome = dialogue.ask(line)
            assert outcome.reply.is_error, line
            assert classify(outcome.reply).kind in (Kind.PERMISSION_DENIED, Kind.CONNECT_FAILED), line
        assert mlsc(dialogue, b"/")[b"file"].perm == "r"
    assert os.listdir(folder) == ["file"]
    assert os.stat(folder / "file") == before


# ---- changes


def test_a_rename_needs_its_first_half(dialogue, folder):
    (folder / "a").write_bytes(b"1")
    assert dialogue.ask("RNTO /b").code == 503
    dialogue.demand("RNFR /a", "RNTO /b")
    assert dialogue.ask("RNTO /c").code == 503
    assert [outcome.code for outcome in dialogue.ask_all("RNFR /none", "RNTO /c")] == [550, 503]
    assert os.listdir(folder) == ["b"]


def test_a_symlink_is_removed_and_renamed_itself(dialogue, folder):
    (folder / "target").mkdir()
    (folder / "link").symlink_to("target")
    dialogue.demand("RNFR /link", "RNTO /other", "DELE /other")
    assert os.listdir(folder) == ["target"]


def test_times_are_set_and_reported(dialogue, folder):
    (folder / "a b").touch()
    assert dialogue.ask("MFMT 20200102030405 /a b").text == "Modify=20200102030405; /a b"
    assert dialogue.ask("MDTM /a b").text == "20200102030405"
    assert (folder / "a b").stat().st_mtime == 1577934245
    dialogue.demand("MFMT 19700101000000.5 /a b")
    assert dialogue.ask("MDTM /a b").text == "19700101000000"
    for wrong in ("", "2020", "20201399000000", "x" * 14, "99999999999999"):
        assert dialogue.ask(f"MFMT {wrong} /a b").code == 501


def test_modes_are_set_but_never_set_user_id(dialogue, folder):
    (folder / "file").touch()
    dialogue.demand("SITE CHMOD 640 /file")
    assert stat.S_IMODE((folder / "file").stat().st_mode) == 0o640
    for wrong in ("4755", "abc", "", "99999", "888"):
        assert dialogue.ask(f"SITE CHMOD {wrong} /file").code == 501


def test_a_file_is_cut_to_a_length(dialogue, folder):
    (folder / "file").write_bytes(b"0123456789")
    dialogue.demand("SITE TRNC 4 /file")
    assert (folder / "file").read_bytes() == b"0123"
    assert dialogue.ask("SITE TRNC x /file").code == 501


# ---- checksums


@pytest.mark.parametrize(
    ("algorithm", "digest"),
    [("MD5", "md5"), ("SHA1", "sha1"), ("SHA256", "sha256"), ("sha512", "sha512")],
)
def test_checksums_of_all_or_a_part(dialogue, folder, algorithm, digest):
    content = os.urandom(700_000)
    (folder / "a file").write_bytes(content)
    for offset, length in ((0, -1), (5, 1000), (300_000, -1), (0, 0), (699_999, 50), (800_000, -1)):
        part = content[offset:] if length < 0 else content[offset : offset + length]
        expected = hashlib.new(digest, part).hexdigest()
        assert dialogue.ask(f"CKSM {algorithm} {offset} {length} /a file").text == expected


def test_adler32_has_eight_digits(dialogue, folder):
    (folder / "f").write_bytes(b"a")
    assert dialogue.ask("CKSM ADLER32 0 -1 /f").text == f"{zlib.adler32(b'a'):08x}"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("", 501),
        ("MD5 0 -1", 501),
        ("MD5 -1 -1 /f", 501),
        ("MD5 0 -2 /f", 501),
        ("MD5 x 0 /f", 501),
        ("CRC32 0 -1 /f", 504),
    ],
)
def test_a_checksum_that_cannot_be_is_refused(dialogue, folder, arguments, code):
    (folder / "f").touch()
    assert dialogue.ask(f"CKSM {arguments}").code == code


def test_a_long_checksum_reports_how_far_it_is_and_can_be_aborted(dialogue, folder):
    with open(folder / "big", "wb") as file:
        file.truncate(6 * 2**30)
    dialogue.demand("OPTS CKSM Markers=1;")
    dialogue.send("CKSM SHA512 0 -1 /big")
    assert dialogue.next_reply().code == 113
    dialogue.send("ABOR")
    outcome = dialogue.outcome()
    assert outcome.code in (213, 426)
    assert dialogue.outcome().code == 226
    assert outcome.code == 426


# ---- listings


def test_facts_describe_what_is_there(dialogue, folder):
    (folder / "file").write_bytes(b"123")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("file")
    (folder / "far").symlink_to(folder / "folder")
    (folder / "dangling").symlink_to("a; b")
    (folder / "out").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    os.chmod(folder / "file", 0o640)
    os.utime(folder / "file", (0, 1577934245))
    found = mlsc(dialogue, b"/")
    assert {name: entry.kind for name, entry in found.items()} == {
        b"file": "file", b"folder": "dir", b"link": "file", b"far": "dir", b"dangling": "link", b"out": "link",
        b"pipe": "OS.unix=pipe",
    }  # fmt: skip
    assert (found[b"file"].size, found[b"file"].mode, found[b"file"].link_target) == (3, "0640", None)
    assert found[b"file"].modified is not None
    assert found[b"file"].modified.timestamp() == 1577934245
    assert (found[b"link"].size, found[b"link"].link_target) == (3, "file")
    assert found[b"link"].unique == found[b"file"].unique
    assert found[b"dangling"].link_target == "a; b"
    for name, entry in found.items():
        alone = dialogue.ask(b"MLST /" + name)
        assert parse_line(alone.reply.lines[1].removeprefix(b" ")).kind == entry.kind


def test_only_the_facts_asked_for_are_reported(dialogue, folder):
    (folder / "file").write_bytes(b"123")
    dialogue.demand("OPTS MLST size;TYPE;nonsense;")
    assert dialogue.ask("MLSC /").reply.lines[1:-1] == (b" Type=file;Size=3; file",)
    assert b" MLST Type*;Size*;Modify;" in b"\n".join(dialogue.ask("FEAT").reply.lines)
    dialogue.demand("OPTS MLST")
    assert dialogue.ask("MLSC /").reply.lines[1:-1] == (b"  file",)


def test_a_long_listing_comes_in_several_blocks_and_lacks_nothing(dialogue, folder):
    for number in range(5000):
        (folder / f"file number {number}").touch()
    outcome = dialogue.ask("MLSC /")
    assert len(outcome.preliminary) > 3
    assert {reply.code for reply in outcome.preliminary} == {150}
    assert len(mlsc(dialogue, b"/")) == 5000
    assert len(listing(dialogue, b"MLSD /").splitlines()) == 5000
    assert len(listing(dialogue, b"NLST /").splitlines()) == 5000


def test_an_empty_folder_and_the_root_are_listed(dialogue, folder):
    (folder / "empty").mkdir()
    assert mlsc(dialogue, b"/empty") == {}
    assert listing(dialogue, b"MLSD /empty") == b""
    assert dialogue.ask("MLST /").reply.lines[1].endswith(b"; /")
    assert mlsc(dialogue, b"").keys() == {b"empty"}


def test_a_long_line_is_as_that_of_ls(dialogue, folder):
    (folder / "old").write_bytes(b"123")
    os.utime(folder / "old", (0, 1577934245))
    line = listing(dialogue, b"LIST").split()
    assert line[0] == b"-rw-r--r--"
    assert line[4:] == [b"3", b"Jan", b"02", b"2020", b"old"]
    assert dialogue.ask("STAT /old").reply.lines[1].endswith(b"2020 old")
    assert listing(dialogue, b"LIST /old").endswith(b"2020 old\r\n")


def test_a_missing_folder_is_refused_before_any_data_flows(dialogue):
    with connect(dialogue.passive()) as data:
        outcome = dialogue.ask("MLSD /none")
        assert outcome.code == 550
        assert not outcome.preliminary
        with suppress(ConnectionResetError):
            assert read_all(data) == b""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_what_the_account_may_not_do_is_refused(dialogue, folder):
    (folder / "secret").touch(0o000)
    (folder / "closed").mkdir(0o500)
    for line in ("CKSM MD5 0 -1 /secret", "MKD /closed/x"):
        assert os.strerror(errno.EACCES) in dialogue.ask(line).text


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a file system with times of 64 bits")
def test_a_file_with_a_nonsensical_time_is_listed_without_one(serve):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root = Path(folder)
        for name, when in (("far", 10**12), ("before", -(10**13)), ("usual", 10**9)):
            (root / name).touch()
            os.utime(root / name, (when, when))
        with Dialogue(serve(root).port) as dialogue:
            found = mlsc(dialogue, b"/")
            assert [found[name].modified is None for name in (b"far", b"before", b"usual")] == [True, True, False]
            assert len(listing(dialogue, b"LIST /").splitlines()) == 3
            assert dialogue.ask(b"MDTM /far").code == 550
