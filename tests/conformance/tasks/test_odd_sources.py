"""Files that grow while they are read, and entries that are no files: the others arrive, and each is reported."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from endpoints.gridftp.faults import Kind
from endpoints.gridftp.server import GridFtpServer
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS
from tests.gridftp.six_servers import NAMES, Served, six_servers
from tests.gridftp.ssh_grid import NEEDS_SSHD
from tests.gridftp.streamed_tasks import StreamedTask, tree
from workers.engine.retry import TRIES_OF_CHANGING

pytestmark = [NEEDS_FTP_SERVERS, NEEDS_SSHD]
SLICES = 12
#: ProFTPD lists a pipe as a file, and itself waits for a writer when it is read.
TELL_PIPES = [name for name in NAMES if name != "proftpd"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    with six_servers(tmp_path_factory.mktemp("six")) as made:
        yield made


@pytest.fixture(params=NAMES)
def served(request: pytest.FixtureRequest, servers: dict[str, Served]) -> Served:
    return servers[request.param]


@pytest.fixture
def destination(tmp_path: Path) -> Iterator[End]:
    with GridFtpServer(tmp_path) as server:
        yield End(server.port)


def few_files(served: Served, name: str) -> Path:
    folder = served.data / name
    (folder / "deep").mkdir(parents=True)
    for number in range(5):
        (folder / f"f{number}").write_bytes(os.urandom(1000))
        (folder / "deep" / f"f{number}").write_bytes(os.urandom(1000))
    return folder


@asynccontextmanager
async def growing(path: Path) -> AsyncIterator[None]:
    """Append some octets whenever the loop runs that the task runs in.

    A try needs several turns of this loop, so the file changes during each try, however little processor time a
    program beside the task would get.
    """

    async def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while True:
                file.write(b"y" * 256)
                await asyncio.sleep(0)

    appending = asyncio.create_task(grow())
    try:
        yield
    finally:
        appending.cancel()
        await asyncio.wait([appending])


@pytest.mark.parametrize("verified", [False, True])
async def test_a_log_that_grows_is_given_up_after_a_few_tries(
    served: Served, destination: End, tmp_path: Path, verified: bool
) -> None:
    folder = few_files(served, f"logs-{verified}")
    (folder / "run.log").write_bytes(b"x" * 3_000_000)
    served.give()
    items = [(f"{served.path(folder)}/", "/to/", True)]
    task = StreamedTask(served.end, destination, items, {"verify_checksum": verified})
    async with growing(folder / "run.log"):
        await task.run(SLICES)
    assert task.store.status == "FAILED"
    assert TRIES_OF_CHANGING <= task.faults().count(Kind.FILE_SIZE_CHANGED) <= TRIES_OF_CHANGING + 2
    there = tree(tmp_path / "to")
    assert "run.log" not in there
    assert there == {name: digest for name, digest in tree(folder).items() if name != "run.log"}
    (lost,) = [row for row in task.store.rows.values() if row.fault and row.file.source_path.endswith("run.log")]
    assert lost.fault
    assert "changed while it was read" in lost.fault.advice


@pytest.mark.parametrize("served", TELL_PIPES, indirect=True)
async def test_pipes_and_sockets_in_a_tree_are_left_out(served: Served, destination: End, tmp_path: Path) -> None:
    folder = few_files(served, "special")
    os.mkfifo(folder / "deep" / "fifo")
    with bound(folder / "socket"):
        served.give()
        task = StreamedTask(served.end, destination, [(f"{served.path(folder)}/", "/to/", True)])
        await task.run(SLICES)
    assert tree(tmp_path / "to") == tree(folder)
    left_out = [event for event in task.store.events if "left out" in event.description]
    assert (task.store.status, len(left_out), task.faults()) == ("SUCCEEDED", 1, [])


@pytest.mark.parametrize("served", TELL_PIPES, indirect=True)
async def test_a_pipe_that_is_an_item_fails_soon_and_is_named(served: Served, destination: End, tmp_path: Path) -> None:
    folder = few_files(served, "item")
    os.mkfifo(folder / "fifo")
    served.give()
    items = [(served.path(folder / name), f"/{name}", False) for name in ("f0", "fifo", "f1")]
    task = StreamedTask(served.end, destination, items)
    await task.run(SLICES)
    assert task.store.status == "FAILED"
    assert set(task.faults()) == {Kind.UNSUPPORTED}
    assert (tmp_path / "f0").exists()
    assert (tmp_path / "f1").exists()
    lost = [item.fault for item in task.store.items.values() if item.fault]
    assert ["neither a file nor a folder" in fault.advice for fault in lost] == [True]


@contextmanager
def bound(path: Path) -> Iterator[None]:
    """A socket at this path, which may be longer than the address of one."""
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
            yield
        finally:
            os.close(folder)
