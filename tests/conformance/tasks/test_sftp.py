"""Tasks from and to OpenSSH's SFTP server: every arrival by its checksum, and each fault in its own words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.server import GridFtpServer
from endpoints.ssh.connection import SshAccount
from endpoints.ssh.keys import parse_ssh_key
from endpoints.ssh.sftp.login import SftpLogin
from tests.gridftp.ends import End
from tests.gridftp.ssh_grid import NEEDS_SSHD, key_pair
from tests.gridftp.sshd import SshServer
from tests.gridftp.streamed_tasks import StreamedTask, tree
from transferapi.config import CHECKOUT

pytestmark = NEEDS_SSHD
VERIFIED = {"verify_checksum": True, "preserve_timestamp": True}


@pytest.fixture(scope="module")
def sftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[End]:
    """An account with SFTP and nothing else."""
    folder = tmp_path_factory.mktemp("sftp")
    key = key_pair(folder)
    with SshServer(folder, sftp_only=True) as server:
        server.authorize(key)
        yield End(
            server.port,
            SftpLogin(SshAccount(server.username, parse_ssh_key(key.read_text()).pem, server.fingerprint())),
        )


@pytest.mark.own_interpreter
def test_a_task_of_many_large_streams_takes_less_than_64_mb(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    folder = tmp_path_factory.mktemp("memory")
    key = key_pair(folder)
    for name, files, octets in (("small", 8, 1000), ("large", 8, 12_000_000)):
        (tmp_path / name).mkdir()
        for number in range(files):
            (tmp_path / name / f"{number}").write_bytes(os.urandom(octets))
    with SshServer(folder, sftp_only=True) as server:
        server.authorize(key)
        words = [str(server.port), str(key), server.fingerprint(), str(tmp_path), str(tmp_path / "to")]
        done = subprocess.run(
            [sys.executable, "-m", "tests.gridftp.streaming_memory", *words],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=CHECKOUT,
        )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 64 * 10**6
    assert tree(tmp_path / "to" / "large") == tree(tmp_path / "large")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A tree with files of all kinds of sizes, and names that are not plain ASCII."""
    source = tmp_path / "from"
    (source / "deep" / "er").mkdir(parents=True)
    for number in range(30):
        (source / f"small-{number}").write_bytes(os.urandom(number * 1000))
    (source / "deep" / "er" / "Grüße & more").write_bytes(os.urandom(300_000))
    (source / "deep" / "large").write_bytes(os.urandom(9_000_001))
    os.utime(source / "deep" / "large", (1_600_000_000, 1_600_000_000))
    return source


async def test_a_tree_goes_from_one_sftp_server_to_another(sftp: End, data: Path, tmp_path: Path) -> None:
    there = tmp_path / "to"
    task = StreamedTask(sftp, sftp, [(f"{data}/", f"{there}/", True)], VERIFIED)
    await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(there) == tree(data)
    assert (there / "deep" / "large").stat().st_mtime == 1_600_000_000
    (way,) = [event for event in task.store.events if event.code == "DATA_WAY"]
    assert (way.details, "no transfers between servers" in way.description) == ("streamed", True)


@pytest.mark.parametrize("to_sftp", [True, False])
async def test_a_tree_goes_between_sftp_and_gridftp(sftp: End, data: Path, tmp_path: Path, to_sftp: bool) -> None:
    there = tmp_path / "to"
    with GridFtpServer(tmp_path) as server:
        gridftp = End(server.port)
        if to_sftp:
            task = StreamedTask(gridftp, sftp, [("/from/", f"{there}/", True)], VERIFIED)
        else:
            task = StreamedTask(sftp, gridftp, [(f"{data}/", "/to/", True)], VERIFIED)
        await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(there) == tree(data)


async def test_a_time_that_sftp_cannot_carry_costs_the_file_nothing_but_its_time(sftp: End, tmp_path: Path) -> None:
    there = tmp_path / "to"
    moments = {"before": -631_152_000, "first": 0, "last": 2**32 - 1, "after": 2**32, "y2200": 7_258_118_400}
    source = dated(tmp_path / "from", moments)
    with GridFtpServer(tmp_path) as server:
        task = StreamedTask(End(server.port), sftp, [("/from/", f"{there}/", True)], VERIFIED)
        await task.run(slices=3)
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(there) == tree(source)
    assert [(there / name).stat().st_mtime for name in ("first", "last")] == [0, 2**32 - 1]
    (event,) = [event for event in task.store.events if event.code == "PRESERVE_TIMESTAMP_SKIPPED"]
    assert "from 1970 to 2106" in str(event.details)


def dated(folder: Path, moments: dict[str, int]) -> Path:
    folder.mkdir()
    for name, moment in moments.items():
        (folder / name).write_bytes(name.encode())
        os.utime(folder / name, (moment, moment))
    return folder
