"""A file that is given up leaves no part of itself; one that this task never touched stays as it was."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from endpoints.gridftp.faults import FaultScope, Kind, make_fault
from tests.engine_fakes import run
from tests.unit.engine.world import World
from transferapi.tasks.records import FileRow
from workers.engine.queue.write_names import TemporaryNames, partials
from workers.engine.slice import SliceResult

pytestmark = pytest.mark.virtual_time

HOPELESS = make_fault(Kind.IS_A_DIRECTORY, retryable=False)
RESET = make_fault(Kind.CONNECTION_RESET)
LARGE = b"0123456789"


def large_world(**options: Any) -> World:
    """One large file that is moved in parts, and what was at the destination before."""
    world = World([("/src/", "/dst/", True)], **{"chunk": 1, **options})
    world.source.write("/src/large", LARGE)
    world.destination.write("/dst/before", b"old")
    return world


def left(world: World) -> set[str]:
    return world.destination.paths("/dst")


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_file_that_is_given_up_half_way_is_removed(trusted: bool) -> None:
    world = large_world(trusted=trusted)
    world.script.add("midway", "/src/large", HOPELESS, 1)
    assert await world.run() == "FAILED"
    assert left(world) == {"/before"}


async def test_a_file_that_is_passed_over_half_way_is_removed() -> None:
    world = large_world(options={"skip_source_errors": True})
    world.script.add("midway", "/src/large", make_fault(Kind.TIMEOUT), 1)
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.script.met > 0)
    world.source.remove("/src/large", directory=False)
    assert await task == "SUCCEEDED"
    assert world.store.totals.skipped_errors == 1
    assert left(world) == {"/before"}


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("losses", [1, 2, 3])
async def test_what_lost_connections_leave_is_removed_when_the_file_is_given_up(trusted: bool, losses: int) -> None:
    world = large_world(trusted=trusted)
    world.script.add("midway", "/src/large", RESET, losses)
    world.script.add("midway", "/src/large", HOPELESS, 1)
    assert await world.run() == "FAILED"
    assert left(world) == {"/before"}


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("losses", [0, 1, 2])
@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_a_task_that_is_ended_leaves_no_part_of_a_file(trusted: bool, losses: int, how: str) -> None:
    world = large_world(trusted=trusted, latency=0.2, deadline=timedelta(seconds=15 + 5 * losses), slice_seconds=60)
    world.source.get("/src/large").content = LARGE * 50
    world.script.add("midway", "/src/large", RESET, losses)
    task = asyncio.create_task(world.run())
    if how == "cancel":
        await asyncio.sleep(13 + 5 * losses)
        assert world.destination.find("/dst/large") or len(left(world)) > 1
        world.store.cancel_requested = True
    assert await task == "FAILED"
    assert left(world) == {"/before"}


@pytest.mark.parametrize("ending", ["cancel", "give up"])
async def test_what_was_there_before_and_was_not_touched_stays(ending: str) -> None:
    world = large_world()
    world.destination.write("/dst/large", b"an older one")
    denied = make_fault(Kind.PERMISSION_DENIED)
    world.script.add("retr", "/src/large", denied if ending == "cancel" else HOPELESS, -1)
    task = asyncio.create_task(world.run())
    if ending == "cancel":
        await world.until(lambda: world.script.met > 2)
        world.store.cancel_requested = True
    assert await task == "FAILED"
    assert world.destination.files("/dst") == {"/before": b"old", "/large": b"an older one"}


@pytest.mark.parametrize("death", range(1, 40, 3))
async def test_a_killed_worker_makes_nobody_remove_what_was_not_touched(death: int) -> None:
    world = large_world(chunk=None)
    for n in range(10):
        world.source.write(f"/src/f{n}", b"new")
        world.destination.write(f"/dst/f{n}", b"older")
        world.script.add("retr", f"/src/f{n}", make_fault(Kind.PERMISSION_DENIED), -1)
    await world.killed_slice(death)
    task = asyncio.create_task(world.run())
    await asyncio.sleep(5)
    world.store.cancel_requested = True
    assert await task == "FAILED"
    assert len(world.destination.files("/dst")) >= 11


def test_a_worker_that_dies_while_a_file_is_given_up_leaves_that_to_the_next() -> None:
    async def one(death: int) -> bool:
        world = large_world(latency=0.1, slice_seconds=0.9)
        world.source.get("/src/large").content = LARGE * 5
        assert await world.slice() is SliceResult.RELEASED
        assert world.store.file("/src/large").file.ranges
        world.script.add("midway", "/src/large", HOPELESS, -1)
        world.slice_seconds = 300
        killed = await world.killed_slice(death)
        assert await world.run() == "FAILED"
        assert left(world) == {"/before"}
        return killed

    death = 1
    while run(one(death)):
        death += 1
    assert death > 20


async def test_the_last_word_does_not_wait_for_a_destination_that_is_gone() -> None:
    world = large_world(latency=0.5, slice_seconds=60)
    world.source.get("/src/large").content = LARGE * 20
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(10)
    world.script.add("remove", "", replace(RESET, scope=FaultScope.SESSION), -1)
    world.script.add("open", "", make_fault(Kind.CONNECT_FAILED), -1)
    world.store.cancel_requested = True
    began = world.clock.now()
    assert await task is SliceResult.FAILED
    assert (world.clock.now() - began).total_seconds() < 4


def test_the_name_of_a_temporary_file_shows_a_part_under_the_real_one() -> None:
    names = TemporaryNames()
    row = FileRow(1, 1, "/src/f", "/dst/f", 5)
    assert partials(row) == []
    assert partials(row._replace(ranges="0-3")) == ["/dst/f"]
    clean = names.give(row)
    assert partials(clean) == [clean.temporary_path]
    begun = names.give(row._replace(begun=True))
    again = names.give(begun._replace(ranges="0-3"))
    for one in (begun, again):
        assert partials(one) == [one.temporary_path, "/dst/f"]
        assert names.named_here(one)
    assert again.temporary_path != begun.temporary_path
