"""Transfers between a GridFTP server and a real object store, in slices as workers run them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.login import ANONYMOUS
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.streams import mode_s
from endpoints.s3 import uploads
from endpoints.s3.session import S3Session
from tests.gridftp.ends import End
from tests.gridftp.streamed_tasks import StreamedTask
from tests.servers.s3_server import NEEDS_S3_SERVER, S3Server
from workers.engine.settle.arrival import octets
from workers.streaming.host import StreamingHost

pytestmark = NEEDS_S3_SERVER
MIB = 2**20
PART = 5 * MIB
SIZES = {"empty": 0, "one": 1, "small": 300_000, "part": PART, "parts": 2 * PART, "large": 3 * PART + 12345}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest parts that stores take: files of tests go in several."""
    monkeypatch.setattr(uploads, "PART", PART)


def fill(folder: Path) -> dict[str, bytes]:
    made = {}
    for name, size in SIZES.items():
        path = folder / "tree" / ("sub" if size > PART else "") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
        made[str(path.relative_to(folder / "tree"))] = path.read_bytes()
    return made


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def grid(folder: Path, serve: Callable[..., GridFtpServer]) -> End:
    return End(serve().port, ANONYMOUS)


@pytest.fixture
def s3(server: S3Server, pin: str) -> End:
    return End(server.port, server.login(pin))


async def open_uploads(session: S3Session, bucket: str) -> int:
    """Uploads in parts that the store holds."""
    answer = await session._store.ask("GET", bucket, {"uploads": ""})
    return answer.body.count(b"<Upload>")


async def test_a_tree_goes_to_a_bucket_and_back_verified(folder, grid, s3, server, session, bucket) -> None:
    content = fill(folder)
    there = StreamedTask(grid, s3, [("/tree", f"{bucket}/tree", True)], {"verify_checksum": True})
    await there.run()
    assert there.store.status == "SUCCEEDED", there.store.events
    assert files_of(server.data / bucket.strip("/")) == {f"tree/{name}": data for name, data in content.items()}
    assert await open_uploads(session, bucket) == 0
    back = StreamedTask(s3, grid, [(f"{bucket}/tree", "/back", True)], {"verify_checksum": True})
    await back.run()
    assert back.store.status == "SUCCEEDED", back.store.events
    assert files_of(folder / "back") == content


async def test_a_deletion_removes_a_tree_of_a_bucket(grid, s3, folder, server, bucket) -> None:
    fill(folder)
    await StreamedTask(grid, s3, [("/tree", f"{bucket}/tree", True)]).run()
    task = StreamedTask(s3, None, [(f"{bucket}/tree", None, True)], {"recursive": True})
    await task.run()
    assert task.store.status == "SUCCEEDED", task.store.events
    assert files_of(server.data / bucket.strip("/")) == {}


async def test_a_killed_worker_s_upload_is_continued_behind_its_parts(
    folder, grid, s3, server, session, bucket, monkeypatch
) -> None:
    """Nothing is seen under the name before the file is whole, and the parts are not sent again."""
    data = os.urandom(6 * PART + 77)
    (folder / "file").write_bytes(data)
    sent: list[int] = []
    begin = uploads.PartedUpload.begin_part

    async def counted(self: uploads.PartedUpload, body: object, number: int) -> None:
        sent.append(number)
        await begin(self, body, number)  # type: ignore[arg-type]

    monkeypatch.setattr(uploads.PartedUpload, "begin_part", counted)
    slow = StreamingHost(12 * MIB)
    task = StreamedTask(grid, s3, [("/file", f"{bucket}/file", False)], {"verify_checksum": True}, slow)

    def three_parts_are_known() -> bool:
        return any(octets(row.file.ranges) >= 3 * PART for row in task.store.pending.values())

    await task.killed_when(three_parts_are_known)
    assert "file" not in files_of(server.data / bucket.strip("/"))
    before = len(sent)
    task.host = StreamingHost()
    await task.run()
    assert task.store.status == "SUCCEEDED", task.store.events
    assert hashlib.sha256(files_of(server.data / bucket.strip("/"))["file"]).digest() == hashlib.sha256(data).digest()
    assert min(sent[before:]) >= 4, sent
    assert await open_uploads(session, bucket) == 0


async def test_a_source_that_fails_publishes_nothing(folder, grid, s3, server, session, bucket, monkeypatch) -> None:
    """The last octets have arrived when the source reports its fault: the object must not appear all the same."""
    read = mode_s.ModeSReader.read

    async def failing(self: mode_s.ModeSReader) -> bytes:
        data = await read(self)
        if not data:
            raise FaultError(make_fault(Kind.ENDPOINT_ERROR, "the server reports that it was not all"))
        return data

    for name in ("small", "parts"):
        (folder / name).write_bytes(os.urandom(SIZES[name]))
    monkeypatch.setattr(mode_s.ModeSReader, "read", failing)
    items = [(f"/{name}", f"{bucket}/{name}", False) for name in ("small", "parts")]
    task = StreamedTask(grid, s3, items)
    await task.run(1)
    assert task.store.status == "ACTIVE"
    assert not {"small", "parts"} & files_of(server.data / bucket.strip("/")).keys()
    monkeypatch.undo()
    monkeypatch.setattr(uploads, "PART", PART)
    await task.run()
    assert task.store.status == "SUCCEEDED", task.store.events
    assert files_of(server.data / bucket.strip("/")) == files_of(folder)
    assert await open_uploads(session, bucket) == 0
