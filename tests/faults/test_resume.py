"""A large file whose lane dies in the middle goes on from its range markers: only the gaps are sent again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Kind, make_fault
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.third_party.slots import FileProgress, FileRefused, FileSettled, PairEvent, Transfer
from tests.gridftp.data_proxy import DataProxy
from tests.gridftp.proxy import MisbehavingProxy
from tests.gridftp.toolkit import ToolkitServer
from tests.memory import folder_in_memory

SIZE = 2**30
#: Octets a second until the lane breaks: markers come once a second, and memory may be faster than that.
RATE = SIZE / 4


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for one large file that lives for seconds."""
    with folder_in_memory("waybill-resume-", 0o777) as path:
        yield path


def make_large(path: Path) -> list[tuple[int, bytes]]:
    """A sparse file with marks all over it; where they are, and what they say."""
    marks = [(place, os.urandom(64)) for place in range(12345, SIZE - 64, SIZE // 97)]
    with path.open("wb") as file:
        file.truncate(SIZE)
        for place, mark in marks:
            file.seek(place)
            file.write(mark)
    return marks


async def open_lane(source: int, destination: int) -> ThirdPartyLane:
    sessions = [await GridFTPSession.open("127.0.0.1", port) for port in (source, destination)]
    return ThirdPartyLane(*sessions, parallelism=4, accept_address=lambda _: True)


async def until(lane: ThirdPartyLane, *kinds: type[PairEvent]) -> PairEvent:
    """The next event of these kinds."""
    async with asyncio.timeout(90):
        while True:
            for event in await lane.events():
                if isinstance(event, kinds):
                    return event


async def resume(folder: Path, source: int, destination: int, root: str) -> tuple[RangeSet, int]:
    """Break the lane after the first marker, go on with a new one: what was trusted, and what came after it."""
    transfer = Transfer("large", f"{root}/source".encode(), f"{root}/copy".encode(), SIZE)
    async with DataProxy(rate=RATE) as data, MisbehavingProxy(source, data=data) as paced:
        lane = await open_lane(paced.port, destination)
        lane.feed(transfer)
        progress = await until(lane, FileProgress, FileSettled)
        assert isinstance(progress, FileProgress), progress
        lane.abort(make_fault(Kind.CONNECTION_RESET, "the test pulled the plug"))
        refused = await until(lane, FileRefused)
        assert isinstance(refused, FileRefused)
        assert refused.trusted is not None
        lane.release()

    lane = await open_lane(source, destination)
    lane.feed(transfer._replace(ranges=refused.trusted))
    settled = await until(lane, FileSettled, FileRefused)
    assert isinstance(settled, FileSettled), settled
    for session in lane.release() or ():
        await session.close()
    await asyncio.sleep(0)
    return refused.trusted, settled.bytes or 0


def check(folder: Path, marks: list[tuple[int, bytes]], trusted: RangeSet, moved: int) -> None:
    assert 0 < trusted.total < SIZE, "the lane was broken in the middle, or the test tests nothing"
    assert moved <= SIZE - trusted.total, "what was on the disk was not sent again"
    assert (folder / "copy").stat().st_size == SIZE
    with (folder / "copy").open("rb") as file:
        for place, mark in marks:
            file.seek(place)
            assert file.read(64) == mark


@pytest.mark.toolkit
async def test_between_the_toolkits_servers(folder: Path, toolkit_server_factory: Callable[..., ToolkitServer]) -> None:
    marks = make_large(folder / "source")
    one, two = toolkit_server_factory(folder), toolkit_server_factory(folder)
    trusted, moved = await resume(folder, one.port, two.port, str(folder))
    check(folder, marks, trusted, moved)


async def test_between_our_servers(folder: Path) -> None:
    marks = make_large(folder / "source")
    with GridFtpServer(folder) as one, GridFtpServer(folder) as two:
        trusted, moved = await resume(folder, one.port, two.port, "")
    check(folder, marks, trusted, moved)
