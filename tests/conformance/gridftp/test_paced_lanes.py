"""Lanes that are held to a rate: between servers of the toolkit and of ours, in parts and in whole files."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from endpoints.gridftp.faults import Side
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.third_party.slots import FileProgress, FileRefused, FileSettled
from tests.engine_fakes import MemoryCredentials, MemoryStore
from tests.fences import open_fence
from tests.gridftp.toolkit import ToolkitServer
from transferapi.tasks.records import FileRow, TaskEndpoint, TaskSpec
from workers.engine.slice import SliceResult, run_slice
from workers.session_factory import RealSessions
from workers.sessions.pool import SessionPool
from workers.sessions.server_addresses import Place, ServersBySide
from workers.streaming.host import StreamingHost
from workers.streaming.pacer import Pacer
from workers.ways.paced_lane import IN_PARTS, PacedLane

pytestmark = pytest.mark.toolkit

SPEC = TaskSpec("t", False, TaskEndpoint("1", "go#ep1"), TaskEndpoint("2", "go#ep2"), {}, max_sessions=5)
MB = 1_000_000


class World:
    """A folder that all servers see, and the sessions of a slice with a pacer."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pool = SessionPool()
        self.pacer = Pacer()

    def file(self, name: str, octets: int) -> str:
        path = self.root / name
        path.write_bytes(os.urandom(octets))
        return str(path)

    def row(self, octets: int, **facts: Any) -> FileRow:
        return FileRow(1, 1, self.file("file", octets), str(self.root / "copy"), octets)._replace(**facts)

    def sessions(self, *ports: int) -> RealSessions:
        sides = zip((Side.SOURCE, Side.DESTINATION), ports, strict=True)
        streams = StreamingHost().task("t")
        streams.pacer = self.pacer
        return RealSessions(
            SPEC,
            ServersBySide({side: [Place("127.0.0.1", port)] for side, port in sides}),
            self.pool,
            open_fence(),
            resolve=lambda host, _: [host],
            accept_address=lambda _: True,
            streams=streams,
        )

    async def lane(self, *ports: int) -> PacedLane:
        lane = await self.sessions(*ports).lane()
        assert isinstance(lane, PacedLane)
        lane.use_streams(2)
        return lane

    def is_copied(self) -> bool:
        return (self.root / "copy").read_bytes() == (self.root / "file").read_bytes()


@pytest.fixture
async def world(folder: Path) -> AsyncIterator[World]:
    world = World(folder)
    yield world
    world.pool.forget("")
    await asyncio.sleep(0.01)


@pytest.fixture(params=["toolkit", "ours"])
def ports(
    request: pytest.FixtureRequest, world: World, toolkit_server_factory: Callable[..., ToolkitServer]
) -> Iterator[tuple[int, int]]:
    """Of a source and a destination."""
    if request.param == "toolkit":
        server = toolkit_server_factory(world.root)
        yield server.port, server.port
    else:
        with GridFtpServer(Path("/")) as ours:
            yield ours.port, ours.port


async def end_of(lane: PacedLane) -> object:
    async with asyncio.timeout(60):
        while True:
            for event in await lane.events():
                if not isinstance(event, FileProgress):
                    return event


async def test_a_large_file_moves_at_the_rate(world: World, ports: tuple[int, int]) -> None:
    world.pacer.change(4 * MB)
    lane = await world.lane(*ports)
    assert world.pacer.how == IN_PARTS
    row = world.row(16 * MB)
    begun = time.monotonic()
    lane.feed(row)
    assert await end_of(lane) == FileSettled(row, 16 * MB)
    seconds = time.monotonic() - begun
    await lane.close()
    assert world.is_copied()
    # The first part need not wait, and a quarter of a second was saved up while the lane opened.
    assert 3.0 < seconds < 6


async def test_a_longer_file_of_before_is_replaced(world: World, ports: tuple[int, int]) -> None:
    (world.root / "copy").write_bytes(b"x" * (2 * MB))
    (world.root / "copy").chmod(0o666)
    world.pacer.change(MB)
    lane = await world.lane(*ports)
    lane.feed(world.row(MB))
    assert isinstance(await end_of(lane), FileSettled)
    await lane.close()
    assert world.is_copied()


async def test_a_file_gets_its_name_when_all_parts_are_there(world: World, ports: tuple[int, int]) -> None:
    world.pacer.change(2 * MB)
    lane = await world.lane(*ports)
    lane.feed(world.row(3 * MB, temporary_path=str(world.root / ".part")))
    await asyncio.sleep(0.7)
    assert (world.root / ".part").exists()
    assert not (world.root / "copy").exists()
    assert isinstance(await end_of(lane), FileSettled)
    await lane.close()
    assert world.is_copied()
    assert not (world.root / ".part").exists()


async def test_many_small_files_move_at_the_rate(world: World, ports: tuple[int, int]) -> None:
    world.pacer.change(MB)
    lane = await world.lane(*ports)
    begun = time.monotonic()
    for number in range(30):
        source = world.file(f"small{number}", 100_000)
        lane.feed(FileRow(number, 1, source, f"{source}.copy", 100_000))
    settled = 0
    async with asyncio.timeout(30):
        while settled < 30:
            settled += sum(isinstance(event, FileSettled) for event in await lane.events())
    seconds = time.monotonic() - begun
    await lane.close()
    assert 2.6 < seconds < 5
    for number in range(30):
        assert (world.root / f"small{number}.copy").read_bytes() == (world.root / f"small{number}").read_bytes()


async def test_another_rate_holds_for_the_file_under_way(world: World, ports: tuple[int, int]) -> None:
    world.pacer.change(100_000)
    lane = await world.lane(*ports)
    lane.feed(world.row(20 * MB))
    await asyncio.sleep(1.5)
    assert (world.root / "copy").stat().st_size < MB
    world.pacer.change(None)
    assert isinstance(await end_of(lane), FileSettled)
    await lane.close()
    assert world.is_copied()


async def test_after_a_lost_connection_the_file_goes_on_in_another_lane(world: World, ports: tuple[int, int]) -> None:
    world.pacer.change(8 * MB)
    lane = await world.lane(*ports)
    row = world.row(24 * MB)
    lane.feed(row)
    await asyncio.sleep(1.6)
    transport = lane._lane._lane.destination.connection._transport
    assert transport is not None
    transport.abort()
    event = await end_of(lane)
    assert isinstance(event, FileRefused)
    assert not lane.alive
    await lane.close()
    assert event.trusted is not None
    assert event.trusted.total >= 6 * MB
    # A lost process may have spoiled the head: it is sent again.
    with (world.root / "copy").open("r+b") as file:
        file.write(b"x" * MB)
    lane = await world.lane(*ports)
    lane.feed(row._replace(ranges=event.trusted.format()))
    settled = await end_of(lane)
    assert isinstance(settled, FileSettled)
    assert settled.bytes == 24 * MB - event.trusted.total
    await lane.close()
    assert world.is_copied()


async def test_a_file_that_cannot_be_read_leaves_nothing_behind(world: World, ports: tuple[int, int]) -> None:
    world.pacer.change(4 * MB)
    lane = await world.lane(*ports)
    lane.feed(FileRow(7, 1, str(world.root / "missing"), str(world.root / "copy"), 10 * MB))
    event = await end_of(lane)
    assert isinstance(event, FileRefused)
    assert event.trusted is None
    assert not (world.root / "copy").exists()
    assert lane.alive
    lane.feed(world.row(3 * MB))
    assert isinstance(await end_of(lane), FileSettled)
    await lane.close()
    assert world.is_copied()


async def test_a_source_that_has_grown_is_noticed(world: World, ports: tuple[int, int]) -> None:
    world.pacer.change(4 * MB)
    lane = await world.lane(*ports)
    row = world.row(4 * MB)
    lane.feed(row._replace(size=3 * MB))
    assert await end_of(lane) == FileSettled(row._replace(size=3 * MB), None)
    await lane.close()


async def test_a_limited_task_with_checksums_arrives(world: World, ports: tuple[int, int]) -> None:
    world.pacer.change(3 * MB)
    world.row(9 * MB)
    clock = RealClock()
    items = [(str(world.root / "file"), str(world.root / "copy"), False)]
    store = MemoryStore(clock, items, deadline=timedelta(minutes=1))
    spec = replace(SPEC, options={"verify_checksum": True})
    sessions = world.sessions(*ports)
    begun = time.monotonic()
    async with asyncio.timeout(60):
        result = await run_slice(
            spec, store.lease(), sessions, MemoryCredentials(clock), clock, slice_seconds=30, stop=asyncio.Event(),
            jitter=lambda: 0.0,
        )  # fmt: skip
    assert (result, store.status) == (SliceResult.FINISHED, "SUCCEEDED")
    assert world.is_copied()
    assert 2.4 < time.monotonic() - begun < 8


class RealClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
