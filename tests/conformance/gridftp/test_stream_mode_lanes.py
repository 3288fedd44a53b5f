"""Long files in MODE S between two servers, where no control channel says anything while the data flow."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Kind
from endpoints.gridftp.third_party.growth import UNWATCHED, GrowthWatch
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import FileEvent, FileRefused, FileSettled, Transfer
from tests.gridftp.ends import End
from tests.gridftp.small_ftp import SmallFtp
from tests.gridftp.streamed_tasks import StreamedTask
from workers.ways import third_party

#: Stands for the 90 s of the product.
STALL = 0.5
CONTENT = os.urandom(60_000)


class SlowSource(SmallFtp):
    active = True

    def sending(self, connection: socket.socket, path: Path, offset: int) -> None:
        content = path.read_bytes()[offset:]
        for start in range(0, len(content), 3_000):
            connection.sendall(content[start : start + 3_000])
            time.sleep(0.1)


class DyingSource(SmallFtp):
    """Sends the half, and then nothing until the test is over."""

    active = True

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.over = threading.Event()

    def sending(self, connection: socket.socket, path: Path, offset: int) -> None:
        content = path.read_bytes()
        for start in range(0, len(content) // 2, 3_000):
            connection.sendall(content[start : start + 3_000])
            time.sleep(0.1)
        self.over.wait(30)


async def moved(source: SmallFtp, destination: SmallFtp, *, watched: bool) -> FileEvent:
    """The end of one file between them."""
    here, there, watch = [
        await GridFTPSession.open("127.0.0.1", one.port, timeout=10) for one in (source, destination, destination)
    ]

    async def size_of(path: bytes) -> int | None:
        reply = await watch.connection.request("SIZE", path)
        return None if reply.is_error else int(reply.text)

    lane = ThirdPartyLane(
        here,
        there,
        parallelism=None,
        stream_mode=True,
        accept_address=lambda _: True,
        stall_timeout=STALL,
        size_of=size_of if watched else None,
    )
    lane.feed(Transfer("file", b"/file", b"/copy", len(CONTENT)))
    events: Sequence[FileEvent] = ()
    while not any(isinstance(event, FileSettled | FileRefused) for event in events):
        events = await lane.events()
    lane.release()
    for session in (here, there, watch):
        session.abort()
    return events[-1]


@pytest.mark.parametrize("watched", [True, False])
async def test_a_file_that_takes_longer_than_the_limit_arrives(tmp_path: Path, watched: bool) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "file").write_bytes(CONTENT)
    with SlowSource(here) as source, SmallFtp(there) as destination:
        assert isinstance(await moved(source, destination, watched=watched), FileSettled)
    assert (there / "copy").read_bytes() == CONTENT


async def test_a_file_that_grows_no_more_is_given_up(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "file").write_bytes(CONTENT)
    with DyingSource(here) as source, SmallFtp(there) as destination:
        event = await moved(source, destination, watched=True)
        source.over.set()
    assert isinstance(event, FileRefused)
    assert event.fault.kind is Kind.TIMEOUT


async def test_a_long_file_of_a_task_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(third_party, "STALL_TIMEOUT", STALL)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "file").write_bytes(CONTENT)
    with SlowSource(here) as source, SmallFtp(there) as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/file", "/copy", False)])
        await task.run()
        assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
        assert source.count("RETR") == 1
        assert destination.count("SIZE") > 2, "it was watched"
    assert (there / "copy").read_bytes() == CONTENT


# ---- the watch, by its own clock


def transfer(size: int = 100) -> Transfer:
    return Transfer("file", b"/file", b"/copy", size)


def watch(sizes: Sequence[int | None]) -> GrowthWatch:
    told = iter(sizes)

    async def size_of(path: bytes) -> int | None:
        return next(told)

    return GrowthWatch(90.0, size_of)


async def asked(sizes: Sequence[int | None], file: Transfer) -> GrowthWatch:
    growth = watch(sizes)
    for number in range(len(sizes)):
        assert growth.due(file, 30.0 * (number + 1), 30.0)
        await growth.ask(30.0 * (number + 1))
    return growth


async def test_the_size_is_asked_for_each_half_minute_of_silence() -> None:
    file, growth = transfer(), watch([1, 2])
    assert not growth.due(file, 29.0, 29.0)
    assert growth.due(file, 30.0, 30.0)
    await growth.ask(30.0)
    assert not growth.due(file, 50.0, 50.0)
    assert growth.due(file, 60.0, 60.0)


async def test_a_file_that_was_seen_to_grow_has_the_limit_of_a_reply() -> None:
    file = transfer()
    growth = await asked([10, 20], file)
    assert (growth.grown_at, growth.limit(file)) == (60.0, 90.0)


@pytest.mark.parametrize("sizes", [[None, None], [0, 0], [10, 20, None], []])
async def test_a_file_that_cannot_be_watched_gets_the_time_of_a_slow_line(sizes: Sequence[int | None]) -> None:
    for size, seconds in ((100, UNWATCHED * 90), (10**9, 200_000)):
        file = transfer(size)
        assert (await asked(sizes, file)).limit(file) == seconds


async def test_servers_that_write_in_large_blocks_get_the_time_between_them() -> None:
    file = transfer()
    growth = await asked([10, 20, 20, 20, 30], file)
    assert (growth.grown_at, growth.limit(file)) == (150.0, 270.0)


async def test_another_file_begins_anew() -> None:
    growth = await asked([10, 20], transfer())
    other = transfer(50)
    growth.due(other, 65.0, 1.0)
    assert (growth.grown_at, growth.limit(other)) == (0.0, UNWATCHED * 90)


def test_without_another_session_nothing_is_asked() -> None:
    assert not GrowthWatch(90.0, None).due(transfer(), 1e6, 1e6)
