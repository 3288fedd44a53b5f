"""Renames over SFTP: on a server without posix-rename@openssh.com, and on servers that confirm what they do not do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.requests.naming import NOT_NAMED
from endpoints.ssh.sftp.session import SftpSession
from tests.gridftp.lying_sftp import LyingSftp, lying
from tests.servers.counting_line import CountingLine


class PlainRename(LyingSftp):
    """The rename of the draft, with plain failures. lost: renames that fail although nothing is in the way."""

    lost = 0

    def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        raise asyncssh.SFTPOpUnsupported("no posix-rename")

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        if not os.path.lexists(oldpath) or os.path.lexists(newpath):
            raise asyncssh.SFTPFailure("Failure")
        if type(self).lost:
            type(self).lost -= 1
            raise asyncssh.SFTPFailure("Failure")
        os.rename(oldpath, newpath)


def in_lower_case(path: bytes) -> bytes:
    """The path with its last name in lower case."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name.lower())


class Folding(PlainRename):
    """It takes names that differ by case for one, as on macOS and Windows: both are stored in lower case."""

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        super().rename(in_lower_case(oldpath), in_lower_case(newpath))

    def remove(self, path: bytes) -> None:
        os.remove(in_lower_case(path))

    def lstat(self, path: bytes) -> os.stat_result:
        return os.lstat(in_lower_case(path))


@pytest.fixture
async def session(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[SftpSession]:
    kind = getattr(request, "param", PlainRename)
    kind.lost = 0
    async with lying(tmp_path, kind) as end:
        session = await end.login.open_session(end.host, end.port)  # type: ignore[attr-defined]
        yield session
        await session.close()


async def test_a_rename_replaces_a_file(session: SftpSession, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    await session.rename(f"{tmp_path}/new", f"{tmp_path}/old")
    assert (tmp_path / "old").read_text() == "new"
    assert not (tmp_path / "new").exists()


async def test_a_rename_of_a_missing_file_removes_nothing(session: SftpSession, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with pytest.raises(FaultError) as refused:
        await session.rename(f"{tmp_path}/new", f"{tmp_path}/old")
    assert refused.value.fault.kind is Kind.FILE_NOT_FOUND
    assert (tmp_path / "old").read_text() == "old"


async def test_a_rename_of_a_dangling_link_replaces_a_file(session: SftpSession, tmp_path: Path) -> None:
    (tmp_path / "new").symlink_to("nowhere")
    (tmp_path / "old").write_text("old")
    await session.rename(f"{tmp_path}/new", f"{tmp_path}/old")
    assert os.readlink(tmp_path / "old") == "nowhere"


async def test_a_rename_that_fails_for_another_reason_removes_nothing(session: SftpSession, tmp_path: Path) -> None:
    PlainRename.lost = 1
    (tmp_path / "new").write_text("new")
    with pytest.raises(FaultError):
        await session.rename(f"{tmp_path}/new", f"{tmp_path}/other")
    assert (tmp_path / "new").read_text() == "new"


async def test_a_rename_that_fails_after_the_removal_says_where_the_content_is(
    session: SftpSession, tmp_path: Path
) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    PlainRename.lost = 1
    with pytest.raises(FaultError) as failed:
        await session.rename(f"{tmp_path}/new", f"{tmp_path}/old")
    assert f'The content is in "{tmp_path}/new"' in failed.value.fault.advice
    assert (tmp_path / "new").read_text() == "new"


@pytest.mark.parametrize("session", [Folding], indirect=True)
async def test_a_rename_to_another_case_of_the_same_name_does_not_remove_the_file(
    session: SftpSession, tmp_path: Path
) -> None:
    (tmp_path / "report").write_text("content")
    with pytest.raises(FaultError):
        await session.rename(f"{tmp_path}/report", f"{tmp_path}/Report")
    assert (tmp_path / "report").read_text() == "content"


class ConfirmsOnly(LyingSftp):
    """Confirms each rename, and does nothing."""

    def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        pass


class ConfirmsOnlyPlainly(ConfirmsOnly):
    def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        raise asyncssh.SFTPOpUnsupported("no posix-rename")

    def rename(self, oldpath: bytes, newpath: bytes) -> None:
        pass


@pytest.mark.parametrize("session", [ConfirmsOnly, ConfirmsOnlyPlainly], indirect=True)
async def test_a_rename_that_is_only_confirmed_is_a_fault(session: SftpSession, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    for renamed in (
        session.rename(f"{tmp_path}/new", f"{tmp_path}/name"),
        session.give_name(f"{tmp_path}/new", f"{tmp_path}/name", 3),
    ):
        with pytest.raises(FaultError) as caught:
            await renamed
        assert (caught.value.fault.kind, caught.value.fault.raw) == (Kind.UNSUPPORTED, NOT_NAMED)


@pytest.mark.parametrize("session", [ConfirmsOnly, ConfirmsOnlyPlainly], indirect=True)
async def test_a_name_under_which_another_file_stays_is_a_fault(session: SftpSession, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "name").write_text("an old file")
    with pytest.raises(FaultError) as caught:
        await session.give_name(f"{tmp_path}/new", f"{tmp_path}/name", 3)
    assert caught.value.fault.kind is Kind.FILE_SIZE_CHANGED
    assert "3 octets, and 11 are there" in caught.value.fault.raw


class SlowRename(LyingSftp):
    """Answers a rename late, and notes how many octets the client has said before that."""

    line: CountingLine
    said = 0

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        await asyncio.sleep(0.3)
        type(self).said = self.line.said[-1]
        os.rename(oldpath, newpath)


async def test_the_look_at_a_new_name_goes_in_the_round_trip_of_the_rename(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    async with lying(tmp_path, SlowRename) as end:
        with CountingLine(end.port) as SlowRename.line:
            session = await end.login.open_session(end.host, SlowRename.line.port)  # type: ignore[attr-defined]
            before = SlowRename.line.said[-1]
            await session.give_name(f"{tmp_path}/new", f"{tmp_path}/name", 3)
            assert before < SlowRename.said == SlowRename.line.said[-1], "nothing was asked after the answer"
            await session.close()
    assert (tmp_path / "name").read_text() == "new"


class ShowsLater(LyingSftp):
    """Does not show a new name at the first look."""

    looks = 0

    def lstat(self, path: bytes) -> os.stat_result:
        type(self).looks += 1
        if type(self).looks == 1:
            raise asyncssh.SFTPNoSuchFile("not yet")
        return os.lstat(path)


@pytest.mark.parametrize("session", [ShowsLater], indirect=True)
async def test_a_name_that_is_shown_a_little_later_is_no_fault(session: SftpSession, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    await session.give_name(f"{tmp_path}/new", f"{tmp_path}/name", 3)
    assert ShowsLater.looks == 2
