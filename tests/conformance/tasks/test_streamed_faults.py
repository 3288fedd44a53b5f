"""Faults of servers between which a worker streams: lies, stalls, refusals, a full disk, a killed worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from endpoints.gridftp.faults import Kind
from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import parse_ssh_key
from endpoints.ssh.sftp import files
from endpoints.ssh.sftp.login import SftpLogin
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.lying_sftp import LyingSftp, full_disk, lying, never
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer
from tests.gridftp.streamed_tasks import StreamedTask, tree
from workers.streaming.host import StreamingHost

pytestmark = NEEDS_SSHD
MB = 2**20
VERIFIED = {"verify_checksum": True}


@pytest.fixture(scope="module")
def sftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[End]:
    folder = tmp_path_factory.mktemp("sftp")
    key = key_pair(folder)
    with SshServer(folder, sftp_only=True) as server:
        server.authorize(key)
        yield End(
            server.port,
            SftpLogin(SshAccount(server.username, parse_ssh_key(key.read_text()).pem, server.fingerprint())),
        )


def file_of(folder: Path, octets: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "file"
    path.write_bytes(os.urandom(octets))
    return path


def one_file(source: End, destination: End, path: Path, there: Path, **options: Any) -> StreamedTask:
    return StreamedTask(source, destination, [(str(path), str(there), False)], {**VERIFIED, **options})


async def until_fault(task: StreamedTask, kind: Kind) -> None:
    """Slices until this fault was reported."""
    for _ in range(5):
        if kind in task.faults() or task.store.status != "ACTIVE":
            break
        await task.run(1)
    assert kind in task.faults(), task.faults()


async def test_a_file_is_continued_where_a_killed_worker_has_left_it(sftp: End, tmp_path: Path) -> None:
    path, there = file_of(tmp_path / "from", 32 * MB), tmp_path / "to"
    task = one_file(sftp, sftp, path, there)
    task.host = StreamingHost(rate=12 * MB)
    await task.killed_when(lambda: any(row.file.ranges for row in task.store.pending.values()))
    (row,) = task.store.pending.values()
    left = row.file.ranges
    assert left.startswith("0-")
    task.host = StreamingHost()
    await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert there.read_bytes() == path.read_bytes()
    assert 0 < task.store.totals.bytes_transferred <= 32 * MB - int(left[2:]) < 32 * MB


@NEEDS_FTP_SERVERS
async def test_a_file_on_a_plain_ftp_server_is_continued_where_a_killed_worker_has_left_it(
    sftp: End, tmp_path: Path
) -> None:
    path = file_of(tmp_path / "from", 40 * MB)
    with FtpServer("vsftpd", tmp_path / "ftp") as server:
        there = server.data / "file"
        task = StreamedTask(sftp, server.end, [(str(path), server.path(there), False)], VERIFIED)
        task.host = StreamingHost(rate=12 * MB)
        await task.killed_when(lambda: any(row.file.ranges for row in task.store.pending.values()))
        task.host = StreamingHost()
        await task.run()
        assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
        assert there.read_bytes() == path.read_bytes()
        assert 0 < task.store.totals.bytes_transferred < 40 * MB


@NEEDS_FTP_SERVERS
async def test_a_server_that_knows_pasv_only_takes_files_and_gives_them_back(sftp: End, tmp_path: Path) -> None:
    path = file_of(tmp_path / "from", MB)
    with FtpServer("vsftpd", tmp_path / "ftp", "cmds_denied=EPSV,EPRT") as server:
        there, back = server.data / "file", tmp_path / "back"
        for task in (
            StreamedTask(sftp, server.end, [(str(path), server.path(there), False)], VERIFIED),
            StreamedTask(server.end, sftp, [(server.path(there), str(back), False)], VERIFIED),
        ):
            await task.run()
            assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
        assert there.read_bytes() == back.read_bytes() == path.read_bytes()


async def test_a_full_disk_is_called_a_full_disk(sftp: End, tmp_path: Path) -> None:
    class Full(LyingSftp):
        async def write(self, file_obj: object, offset: int, data: bytes) -> int:
            raise asyncssh.SFTPFailure("Failure")

        def statvfs(self, path: bytes) -> Any:
            return full_disk()

    path = file_of(tmp_path / "from", 3 * MB)
    async with lying(tmp_path, Full) as full:
        task = one_file(sftp, full, path, tmp_path / "to")
        await until_fault(task, Kind.NO_SPACE_LEFT)
    assert task.store.status == "ACTIVE"


async def test_a_source_with_another_size_than_it_says_is_never_counted_as_moved(sftp: End, tmp_path: Path) -> None:
    class Liar(LyingSftp):
        def fstat(self, file_obj: object) -> Any:
            return self._smaller(super().fstat(file_obj))

        def lstat(self, path: bytes) -> Any:
            return self._smaller(super().lstat(path))

        @staticmethod
        def _smaller(attrs: Any) -> Any:
            attrs = asyncssh.SFTPAttrs.from_local(attrs) if isinstance(attrs, os.stat_result) else attrs
            attrs.size = (attrs.size or 0) // 2
            return attrs

    path, there = file_of(tmp_path / "from", MB), tmp_path / "to"
    async with lying(tmp_path, Liar) as liar:
        task = one_file(liar, sftp, path, there)
        await until_fault(task, Kind.FILE_SIZE_CHANGED)
    assert task.store.totals.transferred == 0


async def test_a_file_that_changes_while_it_is_read_is_sent_again(sftp: End, tmp_path: Path) -> None:
    path, there = file_of(tmp_path / "from", 2 * MB), tmp_path / "to"
    changes = [os.urandom(2 * MB)]

    class Changing(LyingSftp):
        def read(self, file_obj: Any, offset: int, size: int) -> bytes:
            data: bytes = super().read(file_obj, offset, size)  # type: ignore[assignment]
            if changes and offset >= MB:
                path.write_bytes(changes.pop())
                os.utime(path, (1_700_000_000, 1_700_000_000))
            return data

    async with lying(tmp_path, Changing) as changing:
        task = one_file(changing, sftp, path, there, verify_checksum=False)
        await task.run()
    assert task.faults() == [Kind.FILE_SIZE_CHANGED]
    assert task.store.status == "SUCCEEDED"
    assert there.read_bytes() == path.read_bytes()


# asyncssh's server leaves the file open when its session is cut off.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_server_that_falls_silent_is_given_up_and_tried_again(
    sftp: End, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "STALL_TIMEOUT", 1.0)
    silences = [1]

    class Silent(LyingSftp):
        async def read(self, file_obj: Any, offset: int, size: int) -> bytes:
            if offset >= MB and silences:
                silences.pop()
                await never()
            return super().read(file_obj, offset, size)  # type: ignore[return-value]

    path, there = file_of(tmp_path / "from", 2 * MB), tmp_path / "to"
    async with lying(tmp_path, Silent) as silent:
        task = one_file(silent, sftp, path, there)
        await task.run()
    assert Kind.TIMEOUT in task.faults()
    assert task.store.status == "SUCCEEDED"
    assert there.read_bytes() == path.read_bytes()


async def test_a_server_that_damages_what_it_stores_is_found_out(sftp: End, tmp_path: Path) -> None:
    damages = [1]

    class Damaging(LyingSftp):
        def write(self, file_obj: Any, offset: int, data: bytes) -> Any:
            if damages:
                damages.pop()
                data = bytes(len(data))
            return super().write(file_obj, offset, data)

    path, there = file_of(tmp_path / "from", MB), tmp_path / "to"
    async with lying(tmp_path, Damaging) as damaging:
        task = one_file(sftp, damaging, path, there)
        await task.run()
    assert task.faults() == [Kind.VERIFY_CHECKSUM]
    assert task.store.status == "SUCCEEDED"
    assert there.read_bytes() == path.read_bytes()


async def test_a_folder_in_the_way_is_named_as_one(sftp: End, tmp_path: Path) -> None:
    path, there = file_of(tmp_path / "from", 1000), tmp_path / "to"
    there.mkdir()
    task = one_file(sftp, sftp, path, there)
    await until_fault(task, Kind.IS_A_DIRECTORY)


async def test_one_unreadable_file_holds_up_no_other(sftp: End, tmp_path: Path) -> None:
    class Locked(LyingSftp):
        def open(self, path: bytes, pflags: int, attrs: Any) -> object:
            if path.endswith(b"/locked"):
                raise asyncssh.SFTPPermissionDenied("Permission denied")
            return super().open(path, pflags, attrs)

    source, there = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    for name in ("a", "locked", "z"):
        (source / name).write_bytes(os.urandom(5000))
    async with lying(tmp_path, Locked) as locked:
        task = StreamedTask(locked, sftp, [(f"{source}/", f"{there}/", True)], VERIFIED)
        await until_fault(task, Kind.PERMISSION_DENIED)
    assert tree(there) == {name: digest for name, digest in tree(source).items() if name != "locked"}


async def test_a_canceled_slice_stops_at_once_and_leaves_a_file_that_can_be_continued(
    sftp: End, tmp_path: Path
) -> None:
    path, there = file_of(tmp_path / "from", 16 * MB), tmp_path / "to"
    task = one_file(sftp, sftp, path, there)
    task.host = StreamingHost(rate=4 * MB)
    stop = asyncio.Event()
    running = asyncio.create_task(task.slice(stop))
    await asyncio.sleep(1.5)
    stop.set()
    async with asyncio.timeout(5):
        await running
    task.host = StreamingHost()
    await task.run()
    assert task.store.status == "SUCCEEDED"
    assert there.read_bytes() == path.read_bytes()
