"""Whatever is canceled, and when: the sessions of a slice go back to the pool, or end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from endpoints.gridftp.faults import FaultError, Side
from tests.engine_fakes.pool import end_pool
from tests.faults.scenes import Arena, arena
from tests.fences import open_fence
from tests.gridftp.ssh_grid import until
from transferapi.tasks.records import FileRow, TaskEndpoint, TaskSpec
from workers.engine.control_sessions import ControlSessions
from workers.engine.ports import TCP
from workers.session_factory import RealSessions
from workers.sessions.pool import SessionPool
from workers.sessions.server_addresses import Place, ServersBySide
from workers.streaming.host import StreamingHost
from workers.ways.through_service import ThroughService
from workers.ways.way import Pair

SPEC = TaskSpec("t", False, TaskEndpoint("1", "go#ep1"), TaskEndpoint("2", "go#ep2"), {}, max_sessions=4)
#: Seconds after which something is canceled: from before the connection to after the login.
MOMENTS = [milliseconds / 2000 for milliseconds in range(20)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with arena(tmp_path_factory.mktemp("canceled"), "own", "own") as made:
        yield made


@pytest.fixture
async def pool(place: Arena) -> AsyncIterator[SessionPool]:
    """A worker's; in the end none of its sessions is in use."""
    await place.ready()
    made = SessionPool()
    yield made
    await end_pool(made)


def sessions(pool: SessionPool, source: int, destination: int) -> RealSessions:
    ports = {Side.SOURCE: source, Side.DESTINATION: destination}
    places = ServersBySide({side: [Place("127.0.0.1", port)] for side, port in ports.items()})
    streams = StreamingHost().task("t")
    return RealSessions(
        SPEC,
        places,
        pool,
        open_fence(),
        resolve=lambda host, _: [host],
        accept_address=lambda _: True,
        streams=streams,
    )


async def ended(task: asyncio.Task[Any]) -> None:
    with suppress(asyncio.CancelledError, FaultError):
        await task


@pytest.mark.parametrize("turns", range(4))
async def test_the_session_of_one_side_that_is_there_when_the_other_has_failed(
    place: Arena, pool: SessionPool, turns: int
) -> None:
    """The lane waits for it, to give it back, and is canceled when it is there."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        lane = asyncio.create_task(sessions(pool, closed.getsockname()[1], place.destination.port).lane())
        async with asyncio.timeout(10):
            while not (lane.done() or any(pool._out.values())):  # noqa: ASYNC110 (each turn of the loop counts)
                await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        lane.cancel()
        await ended(lane)


@pytest.mark.parametrize("seconds", MOMENTS)
async def test_a_lane_that_is_canceled_while_it_is_opened(place: Arena, pool: SessionPool, seconds: float) -> None:
    lane = asyncio.create_task(sessions(pool, place.source.port, place.destination.port).lane())
    for moment in (seconds, 0.001):
        await asyncio.wait([lane], timeout=moment)
        lane.cancel()
    with suppress(asyncio.CancelledError):
        await (await lane).close()


async def test_a_streamed_lane_whose_files_take_too_long_to_stop(place: Arena, pool: SessionPool) -> None:
    """The slice gives the closing half a second; here it gives none."""
    factory = sessions(pool, place.source.port, place.destination.port)
    both = [await factory.session(side) for side in (Side.SOURCE, Side.DESTINATION)]
    lane = await ThroughService(Pair(both[0], both[1], factory._lanes, TCP)).open()
    (place.root / "large").write_bytes(bytes(20_000_000))
    source, target = place.source.path(place.root / "large"), place.destination.path(place.root / "to")
    lane.feed(FileRow(1, 1, source.decode(), target.decode(), 20_000_000))
    await until(lambda: bool(lane.begun))
    closing = asyncio.create_task(lane.close())
    await asyncio.sleep(0)
    closing.cancel()
    await ended(closing)
    assert not any(session.inner.usable for session in both)


@pytest.mark.parametrize("seconds", MOMENTS)
async def test_control_sessions_that_are_put_away_while_they_are_opened(
    place: Arena, pool: SessionPool, seconds: float
) -> None:
    shared = ControlSessions(sessions(pool, place.source.port, place.destination.port))
    shared.open_ahead(Side.DESTINATION)
    asking = asyncio.create_task(shared.ask(Side.SOURCE, lambda session: session.stat("/")))
    await asyncio.sleep(seconds)
    putting = asyncio.create_task(shared.put_away())
    await asyncio.sleep(0)
    for task in (putting, asking):
        task.cancel()
        await ended(task)
    await shared.close()


async def test_a_request_after_the_end_opens_no_session(place: Arena, pool: SessionPool) -> None:
    shared = ControlSessions(sessions(pool, place.source.port, place.destination.port))
    await shared.ask(Side.SOURCE, lambda session: session.stat("/"))
    await shared.close()
    shared.open_ahead(Side.DESTINATION)
    with pytest.raises(asyncio.CancelledError):
        await shared.ask(Side.SOURCE, lambda session: session.stat("/"))
    assert pool.counts() == (1, 0)
