"""Entries and memory of a task for its folders are bounded, and released with the task."""

from __future__ import annotations

from functools import partial

import pytest

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, Kind, Side, make_fault
from tests.unit.engine import world as engine_world
from tests.unit.engine.world import World
from transferapi.tasks.errors import TooMuchError
from workers.engine import bounds
from workers.engine.bounds import EngineBounds, ListingCounter, Memory, MemoryFullError, TaskShare
from workers.engine.slice import SliceResult, run_slice

pytestmark = pytest.mark.virtual_time


def test_entries_are_counted_by_folder_and_in_all() -> None:
    listed = ListingCounter(EngineBounds(folder=10, entries=25))
    some = [Entry("name", "file")] * 5
    for folder in ("/a", "/b"):
        assert listed.check(folder, listed.check(folder, 0, some), some) == 10
    with pytest.raises(TooMuchError, match="A folder has at most 10 entries"):
        listed.check("/c", 6, some)
    with pytest.raises(TooMuchError, match="at most 25 entries in one go"):
        listed.check("/d", 0, some)


def test_memory_is_taken_and_given_back_by_its_parts() -> None:
    memory = Memory(1000)
    one, other = TaskShare(memory), TaskShare(memory)
    one.take(400)
    other.take(100)
    assert not other.try_take(200), "half of it is for what cannot be done without"
    one.free(300)
    assert other.try_take(200)
    with pytest.raises(TooMuchError, match="WAYBILL_MAX_SCAN_MEMORY"):
        one.take(700)
    one.close()
    other.free(10_000)
    assert Memory.all_held == 0


def test_a_small_task_never_waits_for_what_others_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SMALL", 100)
    monkeypatch.setattr(Memory, "all_held", 5000)
    memory = Memory(1000)
    memory.take(100)
    with pytest.raises(MemoryFullError):
        memory.take(1)


async def test_a_task_that_finds_no_room_is_given_back_and_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SMALL", 0)
    world = World([("/src/", "/dst/", None)])
    world.source.write("/src/in/one", b"1")
    with monkeypatch.context() as others:
        others.setattr(Memory, "all_held", 1 << 40)
        assert await world.slice() is SliceResult.RELEASED
    assert (world.store.next_run_at - world.clock.now()).total_seconds() > 30
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/in/one": b"1"}
    assert Memory.all_held == 0


async def test_folders_that_cannot_be_listed_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_world, "run_slice", partial(run_slice, bounds=EngineBounds(memory=90_000)))
    world = World([("/src/", "/dst/", None)])
    paths = [f"/src/d{outer:02}/x{inner:02}" for outer in range(30) for inner in range(20)]
    for path in paths:
        world.source.folder(path)
        world.script.add("list", path, make_fault(Kind.PERMISSION_DENIED))
    assert await world.run() == "SUCCEEDED"
    assert world.script.met == len(paths)
    assert Memory.all_held == 0


async def test_a_listing_that_breaks_off_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_world, "run_slice", partial(run_slice, bounds=EngineBounds(memory=250_000)))
    asked = 0

    def breaks_off(step: str, _side: Side, path: str) -> Fault | None:
        """Behind the first 500 folders, twice."""
        nonlocal asked
        asked += (step, path) == ("list", "/src")
        broken = (step, path) == ("list", "/src") and asked in (2, 4)
        return make_fault(Kind.CONNECTION_BROKEN) if broken else None

    world = World([("/src/", "/dst/", None)])
    world.sessions.faults = breaks_off
    for number in range(600):
        world.source.folder(f"/src/d{number:03}")
    assert await world.run() == "SUCCEEDED"
    assert asked == 6
    assert Memory.all_held == 0
