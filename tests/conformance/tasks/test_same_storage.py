"""Two endpoints of one storage, by real servers: SFTP and GridFTP on one folder, one server under two names."""

from __future__ import annotations

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
from tests.gridftp.streamed_tasks import StreamedTask

pytestmark = NEEDS_SSHD
MIRROR = {"delete_destination_extra": True}


@pytest.fixture(scope="module")
def sftp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[End]:
    folder = tmp_path_factory.mktemp("sftp")
    key = key_pair(folder)
    with SshServer(folder, sftp_only=True) as server:
        server.authorize(key)
        account = SshAccount(server.username, parse_ssh_key(key.read_text()).pem, server.fingerprint())
        yield End(server.port, SftpLogin(account))


@pytest.fixture
def gridftp(tmp_path: Path) -> Iterator[End]:
    """A GridFTP server whose root is the folder of the test: its paths are others than those of the SFTP server."""
    with GridFtpServer(tmp_path) as server:
        yield End(server.port)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "one").write_bytes(b"precious" * 50_000)
    (folder / "sub" / "two").write_bytes(b"two")
    (folder / "sub" / "deep" / "three").write_bytes(b"three")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def leftovers(folder: Path) -> list[Path]:
    """The folders of the probe that were not removed."""
    return list(folder.rglob(".waybill*"))


def explained(task: StreamedTask) -> bool:
    return any(event.code == "AMBIGUOUS_PATH" for event in task.store.events)


async def test_a_file_onto_itself_keeps_its_content(sftp: End, gridftp: End, data: Path) -> None:
    before, inode = content(data), (data / "one").stat().st_ino
    for source, destination, items in (
        (gridftp, sftp, [("/data/one", f"{data}/one", False)]),
        (sftp, gridftp, [(f"{data}/one", "/data/one", False)]),
        (gridftp, gridftp, [("/data/one", "/data/one", False)]),
    ):
        task = StreamedTask(source, destination, items)
        await task.run()
        assert task.store.status == "FAILED"
        assert explained(task)
        assert content(data) == before
        assert (data / "one").stat().st_ino == inode


@pytest.mark.parametrize("target", ["", "copy/", "sub/", "sub/deep/copy/"])
async def test_a_folder_onto_or_into_itself_is_refused_and_does_not_nest(
    sftp: End, gridftp: End, data: Path, target: str
) -> None:
    before = content(data)
    task = StreamedTask(gridftp, sftp, [("/data/", f"{data}/{target}", True)])
    await task.run()
    assert task.store.status == "FAILED"
    assert explained(task)
    after = content(data)
    assert before.items() <= after.items()
    assert max(path.count("/") for path in after) <= 6
    assert not leftovers(data)


@pytest.mark.parametrize(("source", "target"), [("/data/sub/", ""), ("/data/sub/deep/", ""), ("/data/", "sub/")])
async def test_a_mirror_deletes_nothing_of_its_own_source(
    sftp: End, gridftp: End, data: Path, source: str, target: str
) -> None:
    before = content(data)
    task = StreamedTask(gridftp, sftp, [(source, f"{data}/{target}", True)], MIRROR)
    await task.run()
    assert before.keys() <= content(data).keys()
    assert "DELETE_DESTINATION_EXTRA_SKIPPED" in task.store.codes()
    assert not leftovers(data)


async def test_a_mirror_beside_its_source_deletes_its_extras(sftp: End, gridftp: End, data: Path) -> None:
    (data.parent / "copy").mkdir()
    (data.parent / "copy" / "old").write_bytes(b"old")
    task = StreamedTask(gridftp, sftp, [("/data/", f"{data.parent}/copy/", True)], MIRROR)
    await task.run()
    assert task.store.status == "SUCCEEDED"
    assert content(data.parent / "copy") == content(data)
