"""SITE RESTRICT: a session that sees some folders only, whatever links lie in them; the toolkit's server and ours."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.commands import MAX_ARGUMENT
from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.restriction import AllowedPath
from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.roots.restricted import AllowedFolder as Folder
from endpoints.gridftp.server.roots.restricted import parse_allowed
from endpoints.ssh.sshftp_login import SshLogin
from tests.conformance.gridftp.test_client_on_both import Site, site  # noqa: F401
from tests.gridftp.ssh_grid import NEEDS_SSHD
from tests.gridftp.sshd import SshServer, make_key


@pytest.fixture
def shared(site: Site, folder: Path) -> Site:  # noqa: F811
    """Beside what is shared lies a secret, and links lead to it."""
    for name in ("shared/in", "read", "secret", "odd, 100% of ü"):
        (folder / name).mkdir(parents=True)
    (folder / "secret" / "file").write_text("secret")
    (folder / "shared" / "file").write_text("shared")
    (folder / "read" / "file").write_text("read")
    (folder / "shared" / "out").symlink_to("../secret")
    (folder / "shared" / "leak").symlink_to("../secret/file")
    (folder / "shared" / "absolute").symlink_to(folder / "secret" / "file")
    (folder / "shared" / "ahead").symlink_to("../secret/new")
    (folder / "shared" / "inner").symlink_to("in")
    os.chmod(folder / "shared", 0o777)
    for path in (
        folder / "shared",
        folder / "shared/in",
        folder / "read",
        folder / "secret",
        folder / "odd, 100% of ü",
    ):
        os.chmod(path, 0o777)
    return site


def allowed_paths(site: Site) -> list[AllowedPath]:  # noqa: F811
    return [AllowedPath(site.path("shared") + "/", write=True), AllowedPath(site.path("read") + "/", write=False)]


async def names(session: GridFTPSession, path: str) -> set[str]:
    return {entry.name async for entries in session.listing(path) for entry in entries}


async def refused(doing: Awaitable[object]) -> Kind:
    with pytest.raises(FaultError) as error:
        await doing
    return error.value.fault.kind


def test_what_is_shared_is_there_and_nothing_else(shared: Site, folder: Path) -> None:
    async def scene() -> None:
        path = shared.path
        async with shared.session() as session:
            await session.restrict(allowed_paths(shared))
            assert (await session.stat(path("shared"))).is_directory
            assert (await session.stat(path("shared/file"))).size == 6
            assert (await session.stat(path("shared/inner"))).is_directory
            assert {"file", "in", "inner"} <= await names(session, path("shared"))
            assert await session.make_directories([path("shared"), path("shared/new")]) == [False, True]
            await session.rename(path("shared/file"), path("shared/new/file"))
            assert await refused(session.stat(path("secret/file"))) is Kind.PERMISSION_DENIED
            for hidden in ("secret/file", "shared/out/file", "shared/leak", "shared/absolute"):
                assert await refused(session.checksum(path(hidden), "MD5")) is Kind.PERMISSION_DENIED
            assert await refused(names(session, path("shared/out"))) is Kind.PERMISSION_DENIED

    asyncio.run(scene())
    assert (folder / "shared" / "new" / "file").read_text() == "shared"


@pytest.mark.parametrize("name", ["shared/out/x", "secret/x", "read/x", "x"])
def test_nothing_is_made_changed_or_removed_elsewhere(shared: Site, folder: Path, name: str) -> None:
    async def scene() -> None:
        path = shared.path
        async with shared.session() as session:
            await session.restrict(allowed_paths(shared))
            assert await refused(session.make_directories([path(name)])) is Kind.PERMISSION_DENIED
            assert await refused(session.rename(path("shared/file"), path(name))) is Kind.PERMISSION_DENIED
            assert await refused(session.make_symlink("file", path(name))) is Kind.PERMISSION_DENIED
            for there in ("shared/out/file", "secret/file", "read/file"):
                (fault,) = await session.remove([(path(there), False)])
                assert fault is not None
                assert fault.kind is Kind.PERMISSION_DENIED

    asyncio.run(scene())
    assert (folder / "secret" / "file").read_text() == "secret"
    assert sorted(os.listdir(folder / "secret")) == ["file"]
    assert os.listdir(folder / "read") == ["file"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", ["in", "way/in"])
def test_a_folder_that_has_become_a_link_opens_nothing(shared: Site, folder: Path, when: str, place: str) -> None:
    """A folder may be replaced by a link at any moment: before the server gets the path of the folder, and after."""
    swapped, real = folder / "shared" / place.split("/")[0], folder / "shared" / place
    if place != "in":
        real.mkdir(parents=True)
    (folder / "secret" / "in").mkdir()
    for name in ("secret/key", "secret/in/key"):
        (folder / name).write_text("secret")
    for name in ("secret/in", "shared", f"shared/{place}"):
        (folder / name).chmod(0o777)

    def swap() -> None:
        swapped.rename(folder / "away")
        swapped.symlink_to("../secret")

    async def scene() -> None:
        path = shared.path(f"shared/{place}")
        async with shared.session() as session:
            if when == "before":
                swap()
            await session.restrict([AllowedPath(f"{path}/", write=True)])
            if when == "after":
                assert (await session.stat(path)).is_directory
                swap()
            await nothing_is_done_in(session, path)
            swapped.unlink()
            (folder / "away").rename(swapped)
            assert await session.make_directories([f"{path}/new"]) == [True]

    asyncio.run(scene())
    assert (folder / "secret" / "key").read_text() == (folder / "secret" / "in" / "key").read_text() == "secret"
    assert sorted(path.name for path in (folder / "secret").rglob("*")) == ["file", "in", "key", "key"]


async def nothing_is_done_in(session: GridFTPSession, path: str) -> None:
    """No command that reads, creates, changes or deletes has an effect there. The folder holds a file "key"."""
    ask = session.connection.request
    to_its_own = session.encode_path(path)
    for verb, argument in (
        ("MLST", b"%s/key"), ("MLSC", b"%s"), ("CKSM", b"MD5 0 -1 %s/key"), ("SIZE", b"%s/key"), ("MDTM", b"%s/key"),
        ("MFMT", b"20200101000000 %s/key"), ("MKD", b"%s/new"), ("RMD", b"%s"), ("DELE", b"%s/key"),
        ("RNFR", b"%s/key"), ("SITE", b"CHMOD 777 %s/key"), ("SITE", b"TRNC 0 %s/key"), ("SITE", b"RDEL %s/"),
        ("SITE", b"RDEL %s/key"), ("SITE", b"SYMLINKTO %s/new"),
    ):  # fmt: skip
        if argument.startswith(b"SYMLINKTO"):
            await ask("SITE", b"SYMLINKFROM %s/key" % to_its_own)
        assert (await ask(verb, argument % to_its_own)).is_error, (verb, argument)


def test_nothing_widens_it_again(shared: Site) -> None:
    async def scene() -> None:
        async with shared.session() as session:
            await session.restrict(allowed_paths(shared))
            everything = AllowedPath(shared.path("") or "/", write=True)
            assert await refused(session.restrict([everything])) is Kind.UNSUPPORTED
            with pytest.raises(FaultError):
                await session.stat(shared.path("secret/file"))

    asyncio.run(scene())


def test_a_name_may_hold_whatever_the_list_is_made_of(shared: Site) -> None:
    async def scene() -> None:
        async with shared.session() as session:
            name = shared.path("odd, 100% of") + ("" if shared.kind == "toolkit" else " ü")
            await session.restrict([AllowedPath(name + "/", write=True)])
            if shared.kind == "own":
                assert (await session.stat(name)).is_directory
            with pytest.raises(FaultError):
                await session.stat(shared.path("shared/file"))

    asyncio.run(scene())


def test_a_star_in_the_path_of_a_folder_opens_nothing_beside_it(shared: Site, folder: Path) -> None:
    """Without escapes the toolkit's server would match "sh*" with "shared" too, and "rea?" with "read"."""
    (folder / "sh*").mkdir()
    (folder / "sh*" / "link").symlink_to("../shared/file")
    (folder / "sh*" / "file").write_text("starred")
    (folder / "rea?").mkdir()
    os.chmod(folder / "sh*", 0o777)

    async def scene() -> None:
        starred = AllowedPath(shared.path("sh*") + "/", write=True)
        async with shared.session() as session:
            await session.restrict([starred, AllowedPath(shared.path("rea?") + "/", write=False)])
            assert (await session.stat(shared.path("rea?"))).is_directory
            for hidden in ("sh*/link", "shared/file", "read/file"):
                assert await refused(session.checksum(shared.path(hidden), "MD5")) is Kind.PERMISSION_DENIED
            if shared.kind == "toolkit":
                assert (await session.stat(shared.path("sh*/file"))).size == 7
        async with shared.session() as session:
            assert await refused(session.restrict([])) is Kind.UNSUPPORTED
            if shared.kind == "own":
                assert await refused(session.restrict([starred])) is Kind.UNSUPPORTED

    asyncio.run(scene())


def test_more_folders_than_a_command_can_name_are_not_guessed(shared: Site) -> None:
    async def scene() -> None:
        async with shared.session() as session:
            many = [AllowedPath(f"/{'x' * 100}{number}/", write=False) for number in range(MAX_ARGUMENT // 100)]
            assert await refused(session.restrict(many)) is Kind.LIMIT_EXCEEDED

    asyncio.run(scene())


@pytest.mark.toolkit
@NEEDS_SSHD
async def test_a_server_behind_ssh_does_it_too(ssh_server: SshServer, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", "ed25519")
    ssh_server.authorize(key)
    login = SshLogin(ssh_server.username, key.read_bytes(), ssh_server.fingerprint())
    session = await GridFTPSession.open("127.0.0.1", ssh_server.port, login=login)
    await session.restrict([AllowedPath("/tmp/", write=True)])
    assert (await session.stat("/tmp")).is_directory
    assert await refused(session.stat("/etc/hostname")) is Kind.PERMISSION_DENIED
    await session.close()


@pytest.mark.parametrize("argument", [b"", b"RW", b"relative", b"X/a", b"RW/a,b", b"/a,,/b"])
def test_what_is_no_list_of_folders_is_refused(argument: bytes) -> None:
    with pytest.raises(CommandRefusedError):
        parse_allowed(argument)


def test_a_list_of_folders_is_read_as_the_toolkit_reads_it() -> None:
    assert parse_allowed(b"RW/a%2Cb/,R/c/d,N/e,/f//g/../h") == [
        Folder(b"/a,b", True, True),
        Folder(b"/c/d", True, False),
        Folder(b"/e", False, False),
        Folder(b"/f/h", True, True),
    ]
