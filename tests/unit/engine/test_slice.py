"""The course of a slice, and all the ways in which it ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side, make_fault
from tests.engine_fakes import FaultSource, MemoryLane, MemoryLease, MemorySessions, State
from tests.unit.engine.world import World
from transferapi.config import CHECKOUT
from transferapi.tasks.records import FileRow, FoundFile, ItemRow, Settlement
from workers.engine.bounds import Memory
from workers.engine.lanes.lane_manager import LaneManager
from workers.engine.ports import TCP, Session, Transport
from workers.engine.queue.file_queue import CAPACITY
from workers.engine.slice import SliceResult
from workers.engine.tuning.plan import MB

pytestmark = pytest.mark.virtual_time

DOWN = replace(make_fault(Kind.CONNECT_FAILED), scope=FaultScope.ENDPOINT)


def folder_world(count: int, size: int = 3, **options: Any) -> World:
    """A task of one folder of so many files."""
    world = World([("/src/", "/dst/", None)], **options)
    world.source.folder("/src")
    for n in range(count):
        world.source.write(f"/src/f{n:05}", b"%03d" % (n % 1000) * (size // 3))
    return world


def arrived(world: World) -> bool:
    return world.destination.files("/dst") == world.source.files("/src")


# ---- the happy path


async def test_a_small_task_waits_for_nothing() -> None:
    world = World([("/one", "/new/one", None)], latency=0)
    world.source.write("/one", b"1")
    assert await world.run() == "SUCCEEDED"
    assert world.seconds() == 0
    assert world.lease
    assert set(world.lease.calls.values()) == {1}


async def test_a_task_of_nothing_but_an_empty_folder_succeeds() -> None:
    world = folder_world(0)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.find("/dst")
    assert "STARTED" not in world.store.codes()


async def test_the_plan_and_its_reason_are_reported() -> None:
    world = folder_world(200)
    assert await world.run() == "SUCCEEDED"
    (started,) = world.store.events
    assert (started.code, started.is_error) == ("STARTED", False)
    assert started.details == {
        "type": "GridFTP Transfer",
        "concurrency": 2,
        "parallelism": 2,
        "pipelining": 20,
        "reason": "more than 100 files, under 50 MB on average",
    }


async def test_files_are_moved_in_chunks_of_their_size_each_with_its_plan() -> None:
    world = folder_world(150)
    world.source.write("/src/a-medium", b"m" * 100, scale=MB)
    world.source.write("/src/b-large", b"l" * 300, scale=MB)
    world.source.write("/src/c-large", b"l" * 300, scale=MB)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert world.sessions.moved[-3:] == ["/src/a-medium", "/src/b-large", "/src/c-large"]
    assert world.store.codes() == ["STARTED", "PROGRESS", "PROGRESS"]
    assert set(world.sessions.streams) == {2, 4, 8}
    assert world.store.totals.bytes_transferred == 450 + 700 * MB


async def test_files_of_one_chunk_go_by_size() -> None:
    world = World([(f"/f{n}", f"/d{n}", None) for n in range(50)], options={"perf_cc": 1})
    for n in range(50):
        world.source.write(f"/f{n}", b"x" * (n * 7919 % 50))
    assert await world.run() == "SUCCEEDED"
    sizes = [world.source.get(path).size for path in world.sessions.moved]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(("max_sessions", "lanes"), [(3, 2), (5, 4), (32, 16)])
async def test_a_task_keeps_to_its_sessions(max_sessions: int, lanes: int) -> None:
    world = folder_world(3000, max_sessions=max_sessions, options={"perf_cc": 16})
    world.source.write("/src/large", b"l" * 300, scale=MB)
    assert await world.run() == "SUCCEEDED"
    assert world.sessions.most_taken <= 2 * max_sessions
    assert world.sessions.most_taken >= 2 * lanes


async def test_a_destination_in_mode_s_gets_eight_lanes_for_small_files() -> None:
    world = folder_world(500, stream_only=True, max_sessions=20)
    assert await world.run() == "SUCCEEDED"
    assert world.sessions.streams == [1] * 8


async def test_a_single_file_opens_a_single_lane() -> None:
    world = folder_world(1)
    assert await world.run() == "SUCCEEDED"
    assert len(world.sessions.streams) == 1


async def test_settlement_goes_in_batches() -> None:
    world = folder_world(5000)
    assert await world.run() == "SUCCEEDED"
    assert world.lease
    assert world.lease.calls["write"] < 5000 / 100
    assert max(len(batch.settled) for batch in world.store.writes) <= 600


async def test_memory_does_not_grow_with_the_task() -> None:
    class Watched(MemoryLease):
        most = 0

        async def pending(self, limit: int, exclude: Sequence[int]) -> Sequence[FileRow]:
            Watched.most = max(Watched.most, len(exclude) + limit)
            return await super().pending(limit, exclude)

        async def add_found(self, item: ItemRow, found: Sequence[FoundFile]) -> Sequence[FileRow]:
            assert len(found) <= 1000
            return await super().add_found(item, found)

        async def write(self, batch: Settlement) -> None:
            assert len(batch.settled) + len(batch.faulted) <= CAPACITY
            await super().write(batch)

    world = folder_world(files := 5 * CAPACITY, size=0)
    world.store.lease = lambda *_: Watched(world.store, _next_epoch(world))  # type: ignore[method-assign]
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.transferred == files
    assert CAPACITY / 2 < Watched.most <= CAPACITY


def _next_epoch(world: World) -> int:
    world.store.epoch += 1
    world.store.held = True
    return world.store.epoch


# ---- faults of files


async def test_one_bad_file_among_a_thousand_holds_up_none() -> None:
    world = folder_world(1000)
    world.script.add("retr", "/src/f00500", make_fault(Kind.PERMISSION_DENIED), 5)
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.store.totals.transferred == 999)
    assert world.seconds() < 1
    assert world.store.file("/src/f00500").state is State.PENDING
    assert await task == "SUCCEEDED"
    assert arrived(world)
    assert (world.store.totals.faults, world.store.file("/src/f00500").file.attempts) == (5, 5)
    assert 8 < world.seconds() < 40


async def test_when_all_that_is_left_waits_the_place_is_given_up() -> None:
    world = folder_world(10)
    world.script.add("retr", "/src/f00003", make_fault(Kind.FILE_NOT_FOUND), 7)
    assert await world.slice() is SliceResult.RELEASED
    assert world.store.totals.transferred == 9
    waits = (world.store.next_run_at - world.clock.now()).total_seconds()
    assert waits > 5
    assert world.store.next_run_at == world.store.file("/src/f00003").next_try_at
    assert await world.run() == "SUCCEEDED"


async def test_other_files_are_tried_again_while_a_large_one_is_under_way() -> None:
    world = folder_world(10, chunk=MB, may_time_out=True)
    world.source.write("/src/large", b"l" * 300, scale=MB)
    world.sessions.latency = world.latency = 1.0
    world.script.add("retr", "/src/f00003", make_fault(Kind.FILE_NOT_FOUND), 4)
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.store.totals.transferred == 10)
    assert world.seconds() < 100
    assert world.store.file("/src/large").state is State.PENDING
    assert await task == "SUCCEEDED"


async def test_a_credential_that_expired_suspends_the_task_and_a_new_one_resumes_it() -> None:
    world = folder_world(100)
    world.script.add("retr", "/src/f00050", make_fault(Kind.NO_CREDENTIALS))
    assert await world.run() == "INACTIVE"
    assert world.store.suspended
    assert world.store.suspended.kind is Kind.NO_CREDENTIALS
    assert world.store.totals.transferred >= 40
    assert world.store.totals.failed == 0
    world.store.status = "ACTIVE"
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)


async def test_a_login_that_is_refused_suspends_the_task() -> None:
    world = folder_world(5)
    world.script.add("open", "", replace(make_fault(Kind.AUTH), scope=FaultScope.ENDPOINT), -1)
    assert await world.run() == "INACTIVE"
    assert world.store.suspended
    assert world.store.suspended.kind is Kind.AUTH
    assert world.store.codes() == []


@pytest.mark.parametrize("change", [b"grown while it was on its way", b"", b"s"])
async def test_a_file_that_changes_its_size_before_it_is_read_arrives_as_it_is(change: bytes) -> None:
    world = folder_world(30)
    world.sessions.faults = at_step("retr", "/src/f00007", lambda: world.source.write("/src/f00007", change))
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert world.store.file("/src/f00007").file.size == len(change)
    assert world.store.totals.faults == 0


async def test_a_file_that_grows_while_it_moves_is_sent_again() -> None:
    world = folder_world(30)
    grow = at_step("stat", "/src/f00007", lambda: world.source.write("/src/f00007", b"and it grew on"))
    first = at_step("retr", "/src/f00007", lambda: world.source.write("/src/f00007", b"it grew"))
    world.sessions.faults = lambda *step: grow(*step) or first(*step)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert world.store.codes().count("FILE_SIZE_CHANGED") == 1


async def test_a_file_that_vanishes_while_it_moves_is_waited_for() -> None:
    world = folder_world(30)

    def vanish() -> None:
        world.source.remove("/src/f00007", directory=False)

    world.sessions.faults = at_step("retr", "/src/f00006", vanish)
    assert await world.slice() is SliceResult.RELEASED
    world.source.write("/src/f00007", b"back again")
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)


def at_step(step: str, path: str, action: Callable[[], object]) -> FaultSource:
    """A FaultSource that does something to the world at this step, once."""
    todo = [action]

    def source(at: str, side: Side, where: str) -> Fault | None:
        if (at, where) == (step, path) and todo:
            todo.pop()()
        return None

    return source


# ---- connections


async def test_a_lost_connection_costs_one_file_a_try_and_a_new_name_for_the_others() -> None:
    world = folder_world(300)
    world.script.add("retr", "/src/f00100", make_fault(Kind.CONNECTION_RESET))
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert world.store.totals.faults == 1
    renamed = [row for row in world.store.rows.values() if row.file.temporary_path]
    assert 1 < len(renamed) <= 21


async def test_what_a_lost_connection_leaves_behind_is_removed() -> None:
    world = folder_world(300)
    # Twice: what had a temporary name is lost again, and gets another one.
    world.script.add("retr", "/src/f00100", make_fault(Kind.CONNECTION_RESET), 3)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)


async def test_a_large_file_goes_on_where_the_connection_was_lost() -> None:
    world = folder_world(0, chunk=10 * MB)
    content = bytes(range(250)) * 2
    world.source.write("/src/large", content, scale=MB)
    world.script.add("midway", "/src/large", make_fault(Kind.CONNECTION_BROKEN), 0)
    steps = iter(range(1000))
    lost = make_fault(Kind.CONNECTION_BROKEN)
    world.sessions.faults = lambda step, *_: lost if step == "midway" and next(steps) in (20, 40) else None
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    # 49 markers for 500 MB in pieces of 10 MB, and not one piece is sent twice.
    assert next(steps) <= 49
    assert world.store.totals.bytes_transferred < 500 * MB


async def test_an_endpoint_that_is_down_is_left_alone_for_longer_and_longer() -> None:
    world = folder_world(10)
    world.script.add("lane", "", DOWN, 30)
    assert await world.run() == "SUCCEEDED"
    waits = [event for event in world.store.events if event.code == "CONNECT_FAILED"]
    # Two lanes are tried at the same time: both failures are one event.
    assert 15 <= len(waits) <= 30
    assert 1500 < world.seconds() < 9000
    assert world.store.connection_failures > 5
    assert set(world.outcomes[:-1]) == {SliceResult.RELEASED}


async def test_an_endpoint_that_cannot_do_what_is_needed_fails_the_task() -> None:
    world = folder_world(10)
    world.script.add("lane", "", make_fault(Kind.UNSUPPORTED, retryable=False), -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal
    assert world.store.fatal[0] == "UNSUPPORTED"


async def test_when_no_data_connection_can_be_made_not_every_file_runs_into_it() -> None:
    world = folder_world(5000)
    world.script.add("retr", "", make_fault(Kind.CONNECT_FAILED), 12)
    await world.slice()
    assert world.store.totals.transferred == 0
    assert world.store.totals.faults <= 12
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)


async def test_a_lane_that_dies_is_replaced_and_the_others_go_on() -> None:
    world = folder_world(2000)
    for n in range(0, 2000, 100):
        world.script.add("stor", f"/dst/f{n:05}", make_fault(Kind.CONNECTION_BROKEN))
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)


# ---- ends


def slow_world(**options: Any) -> World:
    """A task that would take hours."""
    world = folder_world(5000, chunk=1, latency=1.0, **options)
    world.source.write("/src/large", b"l" * 10_000)
    return world


@pytest.mark.parametrize("when", [0.5, 3.0, 30.0, 300.0])
async def test_a_cancel_ends_the_task_within_two_seconds(when: float) -> None:
    world = slow_world()
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(when)
    world.store.cancel_requested = True
    assert await task in (SliceResult.FAILED, SliceResult.RELEASED)
    assert world.seconds() - when < 2
    if world.store.status == "ACTIVE":
        await world.run()
    assert world.store.fatal
    assert world.store.fatal[0] == "CANCELED"
    world.check()


async def test_a_cancel_does_not_wait_for_a_server_that_hangs() -> None:
    class HangingLane(MemoryLane):
        async def close(self) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await super().close()

    class HangingSessions(MemorySessions):
        async def lane(self, *, transport: Transport = TCP, relayed: bool = False) -> MemoryLane:
            await super().lane()
            return HangingLane(self)

    world = slow_world(slice_seconds=100_000.0)
    world.sessions = HangingSessions(world.source, world.destination, latency=3600)
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(8000)
    world.store.cancel_requested = True
    began = world.seconds()
    assert await task is SliceResult.FAILED
    assert world.seconds() - began < 2.5


async def test_a_cancel_before_the_slice_began_moves_nothing() -> None:
    world = folder_world(10)
    world.store.cancel_requested = True
    assert await world.run() == "FAILED"
    assert not world.destination.files()


@pytest.mark.parametrize("when", [0.5, 3.0, 30.0])
async def test_a_pause_gives_the_task_back_within_two_seconds_and_the_next_slice_ends_it(when: float) -> None:
    world = folder_world(300, chunk=1, latency=1.0, may_time_out=True)
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(when)
    world.store.pause_requested = True
    assert await task is SliceResult.RELEASED
    assert world.seconds() - when < 4
    moved = world.store.totals.transferred
    assert await world.slice() is SliceResult.RELEASED
    assert world.store.totals.transferred == moved
    world.store.pause_requested = False
    assert await world.run() == "SUCCEEDED"
    world.check()


async def test_a_cancel_comes_before_a_pause() -> None:
    world = folder_world(10)
    world.store.pause_requested = world.store.cancel_requested = True
    assert await world.run() == "FAILED"


async def test_the_deadline_ends_the_task_with_what_arrived_counted() -> None:
    world = slow_world(deadline=timedelta(seconds=100), slice_seconds=1000.0)
    assert await world.run() == "FAILED"
    assert world.store.fatal
    assert world.store.fatal[0] == "EXPIRED"
    assert 100 <= world.seconds() < 103
    names = {path for path in world.destination.files("/dst") if len(world.destination.files("/dst")[path]) == 3}
    assert world.store.totals.transferred > 30
    assert world.store.totals.transferred <= len(names) <= world.store.totals.transferred + 2


async def test_a_deadline_that_was_moved_is_the_one_that_counts() -> None:
    world = slow_world(deadline=timedelta(seconds=100), slice_seconds=1000.0)
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(50)
    world.store.deadline += timedelta(seconds=100)
    await task
    assert 200 <= world.seconds() < 203


async def test_at_the_end_of_a_slice_the_task_is_given_back_and_goes_on() -> None:
    world = folder_world(3000, latency=0.1, slice_seconds=2.0, may_time_out=True)
    assert await world.run() == "SUCCEEDED"
    assert len(world.outcomes) > 5
    assert arrived(world)
    assert world.store.codes().count("STARTED") == 1
    assert world.store.totals.faults == 0
    # Files in transfer at the end of a slice had time to arrive: none was interrupted and sent again.
    assert len(world.sessions.moved) == 3000
    assert not [row for row in world.store.rows.values() if row.file.temporary_path]


async def test_a_worker_that_is_asked_to_stop_yields_at_once_and_loses_nothing() -> None:
    world = folder_world(100, chunk=MB, latency=0.1)
    world.source.write("/src/large", b"l" * 300, scale=MB)
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(20)
    world.stop.set()
    began = world.seconds()
    assert await task is SliceResult.RELEASED
    assert world.seconds() - began < 1.5
    # It keeps its place among the tasks of its owner, which it would lose at the end of its time.
    assert (world.store.next_run_at - world.began_at).total_seconds() == 0
    large = world.store.file("/src/large")
    assert large.state is State.PENDING
    assert large.file.ranges
    world.stop.clear()
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert world.store.totals.bytes_transferred < 300 * MB


async def test_what_is_cut_off_at_the_end_of_a_slice_is_sent_again_under_another_name() -> None:
    world = folder_world(60, chunk=1, trusted=False, latency=0.9, slice_seconds=20.0, may_time_out=True)
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)
    assert [row for row in world.store.rows.values() if row.file.temporary_path]
    assert world.store.totals.faults == 0


async def test_temporary_files_whose_removal_is_refused_for_a_while_are_gone_when_the_task_is_through() -> None:
    world = folder_world(40, trusted=False)
    lost = replace(make_fault(Kind.CONNECTION_RESET), scope=FaultScope.SESSION)
    world.script.add("stor", "/dst/", lost, 5)
    through: list[float] = []

    def faults(step: str, side: Side, path: str) -> Fault | None:
        """Removals are refused until a moment after the first one that comes when all has arrived."""
        if step != "remove":
            return world.script(step, side, path)
        if not world.store.pending and not through:
            through.append(world.seconds())
        over = through and world.seconds() > through[0] + 0.4
        return None if over else make_fault(Kind.ENDPOINT_ERROR, side=side)

    world.sessions.faults = faults
    assert await world.run() == "SUCCEEDED"
    assert through
    assert arrived(world)


@pytest.mark.parametrize("remains", [b"", b"l" * 3, None])
async def test_a_partial_file_that_somebody_changed_meanwhile_begins_afresh(remains: bytes | None) -> None:
    world = folder_world(1, chunk=MB, latency=0.1)
    world.source.write("/src/large", bytes(range(100)) * 3, scale=MB)
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(10)
    world.stop.set()
    assert await task is SliceResult.RELEASED
    large = world.store.file("/src/large").file
    assert large.ranges
    assert large.temporary_path
    world.destination.remove(large.temporary_path, directory=False)
    if remains is not None:
        world.destination.write(large.temporary_path, remains, scale=MB)
    world.stop.clear()
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)


async def test_a_file_that_comes_in_hand_by_two_ways_is_sent_once() -> None:
    class Late(MemoryLease):
        async def add_found(self, item: ItemRow, found: Sequence[FoundFile]) -> Sequence[FileRow]:
            rows = await super().add_found(item, found)
            await asyncio.sleep(60)
            return rows

    world = World([("/src/", "/dst/", None), ("/other/", "/other/", None), ("/file", "/file", None)])
    for n in range(20):
        world.source.write(f"/src/f{n}", b"x")
        world.source.write(f"/other/f{n}", b"x")
    world.source.write("/file", b"x")
    world.script.add("retr", "/file", make_fault(Kind.UNKNOWN), 5)
    world.store.lease = lambda *_: Late(world.store, _next_epoch(world))  # type: ignore[method-assign]
    assert await world.run() == "SUCCEEDED"
    assert len(world.sessions.moved) == 41


async def test_without_the_lease_nothing_more_is_written() -> None:
    world = slow_world()
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(30)
    world.store.lease()
    began, writes, events = world.seconds(), len(world.store.writes), len(world.store.events)
    assert await task is SliceResult.LEASE_LOST
    assert world.seconds() - began < 2
    assert (len(world.store.writes), len(world.store.events)) == (writes, events)
    assert world.store.status == "ACTIVE"
    assert world.sessions.taken == 0


async def test_an_unexpected_error_is_reported_and_the_task_goes_on_later() -> None:
    class Broken(MemoryLease):
        broken = 1

        async def write(self, batch: Settlement) -> None:
            if Broken.broken:
                Broken.broken -= 1
                raise ZeroDivisionError("oh")
            await super().write(batch)

    world = folder_world(300)
    world.store.lease = lambda *_: Broken(world.store, _next_epoch(world))  # type: ignore[method-assign]
    assert await world.slice() is SliceResult.RELEASED
    (event,) = [event for event in world.store.events if event.is_error]
    assert (event.code, event.details) == ("INTERNAL_ERROR", "")
    assert "log" in event.description
    assert "oh" not in event.description.split(), "what it was is not for users"
    assert (world.store.next_run_at - world.clock.now()).total_seconds() > 1
    assert await world.run() == "SUCCEEDED"
    assert arrived(world)


async def test_an_error_of_the_store_itself_comes_out_and_leaves_nothing_open() -> None:
    class Down(MemoryLease):
        async def write(self, batch: Settlement) -> None:
            raise ConnectionError("the database is gone")

        event = release = write  # type: ignore[assignment]

    world = folder_world(300)
    world.store.lease = lambda *_: Down(world.store, _next_epoch(world))  # type: ignore[method-assign]
    with pytest.raises((ConnectionError, TypeError)):
        await world.slice()
    assert world.sessions.taken == 0


async def test_a_lane_that_cannot_be_closed_keeps_no_session_and_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    world = folder_world(300)
    known = MemoryLane.close

    async def close(self: MemoryLane) -> None:
        await known(self)
        if self is world.sessions.lanes[0]:
            raise OSError("the socket is in a state that nobody thought of")

    monkeypatch.setattr(MemoryLane, "close", close)
    assert await world.slice() is SliceResult.FINISHED
    assert arrived(world)
    assert world.sessions.taken == 0
    assert Memory.all_held == 0


@pytest.mark.parametrize("step", ["abort", "give_back"])
async def test_whatever_fails_at_the_end_of_a_slice_the_other_steps_are_done(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    world = folder_world(300)

    class Broken(MemoryLease):
        async def write(self, batch: Settlement) -> None:
            raise ConnectionError("the database is gone")

        event = release = write  # type: ignore[assignment]

    world.store.lease = lambda *_: Broken(world.store, _next_epoch(world))  # type: ignore[method-assign]
    if step == "abort":
        known = LaneManager.abort

        async def abort(self: LaneManager, *, rename_suspects: bool) -> None:
            await known(self, rename_suspects=rename_suspects)
            raise ZeroDivisionError("oh")

        monkeypatch.setattr(LaneManager, "abort", abort)
    else:
        given = world.sessions.give_back
        failures = iter([True])

        async def give_back(session: Session) -> None:
            await given(session)
            if next(failures, False):
                raise OSError("the pool is closed")

        monkeypatch.setattr(world.sessions, "give_back", give_back)
    with pytest.raises((ConnectionError, TypeError, ZeroDivisionError, OSError)):
        await world.slice()
    assert world.sessions.taken == 0
    assert Memory.all_held == 0


def test_the_engine_knows_nothing_of_django() -> None:
    code = (
        "import sys, pkgutil, importlib, workers.engine as engine\n"
        "for module in pkgutil.walk_packages(engine.__path__, 'workers.engine.'):\n"
        "    importlib.import_module(module.name)\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "assert not names & {'django', 'celery', 'psycopg', 'psycopg2', 'redis'}, names\n"
        "rooms = ('endpoints.', 'identity.', 'transferapi.', 'workers.')\n"
        "ours = {name for name in sys.modules if name.startswith(rooms)}\n"
        "ours -= {f'transferapi.tasks{end}' for end in ('', '.records', '.errors')} | {'identity.error_categories'}\n"
        "assert all(name.startswith(('endpoints.gridftp', 'identity.gsi', 'workers.engine')) for name in ours), ours\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=True, timeout=60)
