"""A local user swaps a folder, or a file, for a symlink, a pipe or a device while every command of our server uses it.

Nothing outside of what a session may see is read, made, changed or removed: in a served folder, in one of several, and
in a session that is confined by SITE RESTRICT.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.server.roots.parts import RootPart
from endpoints.gridftp.server.roots.root import Root
from tests.gridftp.ftp_dialogue import Dialogue, connect, read_all

ROUNDS = 40
INSIDE, OUTSIDE = b"inside", b"outside: nobody may read or change this" * 100
#: 2001-09-09.
LONG_AGO = 1_000_000_000
FILES = ("file", "name", "new", "moved", ".written", "link")
#: Exchanges two names until its input ends (renameat2(2), RENAME_EXCHANGE).
SWAPPER = """
import ctypes, os, select, sys
one, other = map(os.fsencode, sys.argv[1:])
exchange = ctypes.CDLL(None, use_errno=True).renameat2
print(flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(1000):
        if exchange(-100, one, -100, other, 2):
            sys.exit(os.strerror(ctypes.get_errno()))
"""


@contextmanager
def swapped(one: Path, other: Path) -> Iterator[None]:
    """Another process exchanges the two names all the time."""
    command = [sys.executable, "-I", "-S", "-c", SWAPPER, str(one), str(other)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as swapper:
        assert swapper.stdout
        assert swapper.stdout.readline() == b"\n"
        try:
            yield
        finally:
            swapper.communicate()
            assert swapper.returncode == 0


def fill(folder: Path, content: bytes) -> None:
    (folder / "folder").mkdir(parents=True)
    if content == OUTSIDE:
        (folder / "only outside").write_bytes(content)
    for name in FILES:
        (folder / name).write_bytes(content)
        os.chmod(folder / name, 0o640)
        if content == OUTSIDE:
            os.utime(folder / name, (LONG_AGO, LONG_AGO))


def state(folder: Path) -> dict[str, object]:
    """All that a command could change."""
    found: dict[str, object] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[path.name] = (status.st_mode, status.st_mtime_ns, status.st_ino, status.st_nlink, content)
    return found


@pytest.fixture(params=["openat2", "walk"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With openat2(2), and without it, as before Linux 5.6 and on macOS."""
    if request.param == "walk":
        monkeypatch.setattr(Root, "_has_openat2", lambda root: False)


class Place(NamedTuple):
    """A session, the folder `area` that it may use, which it names `prefix`, and `outside`, which it may not change."""

    dialogue: Dialogue
    prefix: str
    area: Path
    outside: Path


@pytest.fixture(params=["the whole folder", "one of several", "a confined session"])
def place(request: pytest.FixtureRequest, kernel: None, tmp_path: Path) -> Iterator[Place]:
    area, outside, prefix = tmp_path / "served" / "area", tmp_path / "secret", "/area"
    parts = [RootPart(str(area.parent))]
    if request.param == "one of several":
        parts = [RootPart(str(area), "area"), RootPart(str(outside), "secret", writable=False)]
    elif request.param == "a confined session":
        outside = area.parent / "secret"
    fill(area / "trap", INSIDE)
    fill(outside, OUTSIDE)
    (area / "evil").symlink_to(os.path.relpath(outside, area))
    (area / "evil file").symlink_to(os.path.relpath(outside / "file", area / "trap"))
    os.mkfifo(area / "pipe")
    with GridFtpServer(roots=parts) as server, Dialogue(server.port) as dialogue:
        if request.param == "a confined session":
            dialogue.demand("SITE RESTRICT RW/area")
        yield Place(dialogue, prefix, area, outside)


def download(dialogue: Dialogue, line: str) -> tuple[int, bytes]:
    with connect(dialogue.passive()) as data:
        outcome = dialogue.ask(line)
        return outcome.code, read_all(data) if outcome.code < 300 else b""


def upload(dialogue: Dialogue, line: str, octets: bytes) -> int:
    with connect(dialogue.passive()) as data:
        with suppress(OSError):
            data.sendall(octets)
            data.shutdown(socket.SHUT_WR)
        return dialogue.ask(line).code


def read_everything(dialogue: Dialogue, folder: str) -> tuple[list[int], bytes]:
    """The codes of the answers, and all that they hold."""
    file, codes, told = f"{folder}/file", [], b""
    for line in (f"RETR {file}", f"ERET P 0 8 {file}", f"MLSD {folder}", f"LIST {folder}", f"NLST {folder}"):
        code, data = download(dialogue, line)
        codes.append(code)
        told += data
    looks = [f"{verb} {file}" for verb in ("MLST", "SIZE", "MDTM", "STAT", "CKSM SHA256 0 -1", "CKSM SHA256 0 8")]
    for outcome in dialogue.ask_all(*looks, f"MLSC {folder}", f"STAT {folder}", f"CWD {folder}", "MLSC", "CWD /"):
        codes.append(outcome.code)
        told += b"\n".join(line for reply in (*outcome.preliminary, outcome.reply) for line in reply.lines)
    return codes, told


def change_everything(dialogue: Dialogue, folder: str) -> list[int]:
    codes = [
        upload(dialogue, f"STOR {folder}/file", b"inside again"),
        upload(dialogue, f"STOR {folder}/new", b"inside"),
        upload(dialogue, f"APPE {folder}/file", b", and more"),
        upload(dialogue, f"ESTO A 3 {folder}/file", b"at three"),
        upload(dialogue, f"STOR {folder}/.written", b"inside"),
    ]
    written = f"{folder}/.written"
    outcomes = dialogue.ask_all(
        f"SITE WAYBILL REPLACE {len(written)} {written} {folder}/name",
        f"MKD {folder}/made", f"RMD {folder}/made", f"RMD {folder}/folder", f"MKD {folder}/folder",
        f"RNFR {folder}/new", f"RNTO {folder}/moved", f"DELE {folder}/moved",
        "SITE SYMLINKFROM file", f"SITE SYMLINKTO {folder}/linked", f"DELE {folder}/linked",
        f"SITE CHMOD 600 {folder}/file", f"SITE TRNC 3 {folder}/file", f"MFMT 20200101000000 {folder}/file",
        f"DELE {folder}/link",
    )  # fmt: skip
    return codes + [outcome.code for outcome in outcomes]


def attack(place: Place, one: Path, other: Path) -> None:
    """Give all commands while the two names are exchanged."""
    before, codes = state(place.outside), []
    secrets = {OUTSIDE[:8], *(hashlib.sha256(part).hexdigest().encode() for part in (OUTSIDE, OUTSIDE[:8]))}
    secrets |= {f"size={len(OUTSIDE)};".encode(), b"20010909", b"Sep 09  2001", b"only outside"}
    trap = f"{place.prefix}/trap"
    with swapped(one, other):
        for _ in range(ROUNDS):
            got, told = read_everything(place.dialogue, trap)
            codes += got + change_everything(place.dialogue, trap)
            assert not [secret for secret in secrets if secret.lower() in told.lower()]
            assert state(place.outside) == before
    assert min(codes) < 300, "nothing was reached"
    assert max(codes) >= 400, "nothing was refused"


def test_a_folder_that_is_swapped_for_a_symlink_leads_nowhere_else(place: Place) -> None:
    attack(place, place.area / "trap", place.area / "evil")


def test_a_file_that_is_swapped_for_a_symlink_leads_nowhere_else(place: Place) -> None:
    os.rename(place.area / "evil file", place.area / "trap" / "evil")
    attack(place, place.area / "trap" / "file", place.area / "trap" / "evil")


@pytest.mark.timeout(120)
def test_a_file_that_is_swapped_for_a_pipe_holds_nothing_up(place: Place) -> None:
    attack(place, place.area / "trap" / "file", place.area / "pipe")
