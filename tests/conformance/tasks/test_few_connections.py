"""Tasks from and to FTP servers that take few connections: all files arrive, over those that there are."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from endpoints.gridftp.login import PasswordLogin
from endpoints.gridftp.server import GridFtpServer
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.small_ftp import FtpSession, SmallFtp
from tests.gridftp.streamed_tasks import StreamedTask, tree

#: Two connections: one asks, and one moves files.
LIMITS = {
    "proftpd": [
        'MaxClientsPerHost 2 "Sorry, the maximum number of clients (%m) from your host are already connected."'
    ],
    "vsftpd": ["max_per_ip=2"],
    "pure-ftpd": ["-C", "2"],
}
FILES = 60
#: Faults in a task: those of the first seconds, in which sessions are opened side by side.
MOST_FAULTS = 6


def fill(folder: Path) -> Path:
    folder.mkdir()
    for number in range(FILES):
        (folder / f"file {number}").write_bytes(os.urandom(2_000))
    return folder


@contextmanager
def served(folder: Path) -> Iterator[GridFtpServer]:
    ours = GridFtpServer(folder)
    ours.start()
    try:
        yield ours
    finally:
        ours.stop()


def check(task: StreamedTask, source: Path, there: Path) -> None:
    faults = task.faults()
    assert (task.store.status, len(tree(there))) == ("SUCCEEDED", FILES), faults
    assert tree(there) == tree(source)
    assert len(faults) <= MOST_FAULTS
    assert set(faults) <= {"ENDPOINT_TOO_BUSY", "CONNECTION_BROKEN", "CONNECTION_RESET"}


@NEEDS_FTP_SERVERS
@pytest.mark.parametrize("name", LIMITS)
async def test_a_real_server_with_two_connections_serves_a_task(tmp_path: Path, name: str) -> None:
    with FtpServer(name, tmp_path / name, *LIMITS[name]) as server:
        source, there = fill(server.data / "in"), tmp_path / "there"
        there.mkdir()
        server.give()
        with served(there) as ours:
            task = StreamedTask(server.end, End(ours.port), [(f"{server.path(source)}/", "/", True)])
            await task.run()
        check(task, source, there)


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("greeting", "421 Too many connections (2) from this IP"),
        ("greeting", "530 Sorry, the maximum number of clients (2) are already connected."),
        ("USER", "530 Sorry, max 2 users -- try again later"),
        ("USER", "421 There are too many connected users, please try later."),
        ("PASS", "530 Too many simultaneous logins for this user (2)"),
        ("PASS", "421 I can't accept more than 2 connections as the same user"),
        ("EPSV", "421 Too many connections, try later"),
    ],
)
async def test_wherever_a_server_says_that_it_is_full_the_files_arrive(tmp_path: Path, at: str, text: str) -> None:
    source, there = fill(tmp_path / "in"), tmp_path / "there"
    there.mkdir()
    with served(there) as ours, SmallFtp(tmp_path) as server:
        server.most, server.full_at, server.full = 2, at, text
        login = PasswordLogin("alice", b"secret")
        task = StreamedTask(End(server.port, login), End(ours.port), [("/in/", "/", True)])
        await task.run()
        check(task, source, there)


class Slow(SmallFtp):
    """Gives the lanes of a task the time to be opened side by side."""

    def before(self, verb: str, argument: str, session: FtpSession) -> str | None:
        if verb == "RETR":
            time.sleep(0.02)
        return None


async def test_a_task_does_not_hammer_a_full_server(tmp_path: Path) -> None:
    source, there = fill(tmp_path / "in"), tmp_path / "there"
    there.mkdir()
    with served(there) as ours, Slow(tmp_path) as server:
        server.most, server.full_at = 2, "PASS"
        server.full = "530 Too many simultaneous logins for this user (2)"
        login = PasswordLogin("alice", b"secret")
        task = StreamedTask(End(server.port, login), End(ours.port), [("/in/", "/", True)], {"perf_cc": 8})
        await task.run()
        check(task, source, there)
        # The clock of the test runs fast: lanes are tried again more often than in the product.
        assert server.refused <= FILES
