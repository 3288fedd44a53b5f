"""A slice whose lease may be over: it ends at once, and asks nothing of the servers any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from endpoints.gridftp.faults import Kind, Side, make_fault
from tests.engine_fakes import MemoryLease, MemorySessions, VirtualLoop
from tests.fences import LASTS
from tests.unit.engine.world import World
from transferapi.tasks.records import HeartbeatReply
from workers.engine.lease import HEARTBEAT
from workers.engine.slice import SliceResult

pytestmark = pytest.mark.virtual_time


class Requests:
    """The times of all requests to servers, also of those that do not leave."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times: list[float] = []
        self.refused = 0
        check = MemorySessions.check

        def noting(sessions: MemorySessions, step: str, side: Side, path: str) -> None:
            if sessions.fence.closed:
                self.refused += 1
            else:
                self.times.append(world.seconds())
            check(sessions, step, side, path)

        monkeypatch.setattr(MemorySessions, "check", noting)


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times of heartbeats; one after `answers.until` has no answer."""
    times: list[float] = []
    beat = MemoryLease.heartbeat

    async def noting(lease: MemoryLease) -> HeartbeatReply:
        times.append(asyncio.get_running_loop().time())
        return await beat(lease)

    monkeypatch.setattr(MemoryLease, "heartbeat", noting)
    return times


def many(count: int = 20_000, **options: Any) -> World:
    """A task that takes minutes."""
    if options.get("delete"):
        world = World([("/src/", None, None)], latency=0.1, options={"recursive": True}, **options)
    else:
        world = World([("/src/", "/dst/", True)], latency=0.1, **options)
    world.source.folder("/src")
    for number in range(count):
        world.source.write(f"/src/f{number:05}", b"x")
    return world


def unanswered(name: str, when: Callable[[], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on the store waits for ever for the answer to these calls."""
    call = getattr(MemoryLease, name)

    async def waiting(lease: MemoryLease, *words: Any) -> Any:
        if when():
            await asyncio.get_running_loop().create_future()
        return await call(lease, *words)

    monkeypatch.setattr(MemoryLease, name, waiting)


@pytest.mark.parametrize("delete", [False, True])
async def test_a_slice_without_an_answer_to_its_heartbeat_ends_when_its_fence_closes(
    delete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = many(delete=delete)
    requests = Requests(world, monkeypatch)
    unanswered("heartbeat", lambda: world.seconds() > 2.5, monkeypatch)
    assert await world.slice() is SliceResult.LEASE_LOST
    # The last good one began a second or two after the first.
    assert LASTS < world.seconds() <= 2.5 + LASTS
    assert requests.times[-1] <= world.seconds()
    assert world.sessions.taken == 0
    assert world.store.status == "ACTIVE"


async def test_nothing_is_asked_of_a_server_after_the_process_has_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another worker has the task meanwhile; the loop of the first one goes on with what it had in its hands."""
    world = many()
    requests = Requests(world, monkeypatch)
    running = asyncio.create_task(world.slice())
    await world.until(lambda: len(world.sessions.moved) > 100)
    world.store.lease()
    moved = list(world.sessions.moved)
    stood_still(60.0)
    before = len(requests.times)
    assert await running is SliceResult.LEASE_LOST
    assert world.sessions.moved == moved
    assert len(requests.times) == before
    assert world.sessions.taken == 0


async def test_a_closed_fence_is_no_fault_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL answers again, and nobody has taken the task: the next slice must not find a troubled endpoint."""
    world = many()
    running = asyncio.create_task(world.slice())
    await world.until(lambda: len(world.sessions.moved) > 100)
    stood_still(60.0)
    assert await running is SliceResult.LEASE_LOST
    assert world.store.trouble is None
    assert [event.code for event in world.store.events if event.is_error] == []
    assert all(row.fault is None for row in world.store.rows.values())


async def test_a_lost_lease_closes_the_fence_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = many()
    requests = Requests(world, monkeypatch)
    running = asyncio.create_task(world.slice())
    await world.until(lambda: len(world.sessions.moved) > 100)
    world.store.lease()
    assert await running is SliceResult.LEASE_LOST
    assert world.sessions.fence.closed
    known = requests.times[-1]
    await asyncio.sleep(60)
    assert requests.times[-1] == known


async def test_the_end_of_a_slice_that_the_store_does_not_write_asks_nothing_of_the_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = many(10)
    requests = Requests(world, monkeypatch)
    unanswered("finish", lambda: True, monkeypatch)
    running = asyncio.create_task(world.slice())
    await asyncio.sleep(60)
    assert requests.times[-1] < 10
    assert world.sessions.fence.closed
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_heart_beats_until_a_slice_has_removed_its_leftovers(beats: list[float]) -> None:
    """The removal is tried four times, which takes longer than the lease."""
    world = World([("/src/", "/dst/", True)], chunk=1, options={"skip_source_errors": True})
    world.source.write("/src/large", b"0123456789")
    world.script.add("midway", "/src/large", make_fault(Kind.TIMEOUT), 1)
    world.script.add("remove", "/dst/", make_fault(Kind.PERMISSION_DENIED), 4)
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.script.met > 0)
    world.source.remove("/src/large", directory=False)
    assert await task == "SUCCEEDED"
    assert world.destination.paths("/dst") == set()
    pauses = [later - earlier for earlier, later in zip(beats, [*beats[1:], world.seconds()], strict=True)]
    assert world.seconds() > 3
    assert max(pauses) < 2 * HEARTBEAT


def stood_still(seconds: float) -> None:
    """The time passes, and nothing has run."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop._jumping.now += seconds
