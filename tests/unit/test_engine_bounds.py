"""What a task sees and remembers of folders has an end, and is forgotten with the task."""

from __future__ import annotations

import pytest

from endpoints.gridftp.facts import Entry
from tests.unit.engine_world import World
from workers.engine import bounds
from workers.engine.bounds import Bounds, CrowdedError, Listed, Memory, Share
from workers.engine.fakes import run
from workers.engine.ports import TooMuchError
from workers.engine.run import Outcome


def test_entries_are_counted_by_folder_and_in_all() -> None:
    listed = Listed(Bounds(folder=10, entries=25))
    some = [Entry("name", "file")] * 5
    for folder in ("/a", "/b"):
        assert listed.check(folder, listed.check(folder, 0, some), some) == 10
    with pytest.raises(TooMuchError, match="A folder has at most 10 entries"):
        listed.check("/c", 6, some)
    with pytest.raises(TooMuchError, match="at most 25 entries in one go"):
        listed.check("/d", 0, some)


def test_memory_is_taken_and_given_back_by_its_parts() -> None:
    memory = Memory(1000)
    one, other = Share(memory), Share(memory)
    one.take(400)
    other.take(100)
    assert not other.has_room(200), "half of it is for what cannot be done without"
    one.free(300)
    assert other.has_room(200)
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
    with pytest.raises(CrowdedError):
        memory.take(1)


def test_a_task_that_finds_no_room_is_given_back_and_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SMALL", 0)

    async def main() -> None:
        world = World([("/src/", "/dst/", None)])
        world.source.write("/src/in/one", b"1")
        with monkeypatch.context() as others:
            others.setattr(Memory, "all_held", 1 << 40)
            assert await world.slice() is Outcome.RELEASED
        assert (world.store.next_run_at - world.clock.now()).total_seconds() > 30
        assert await world.run() == "SUCCEEDED"
        assert world.destination.files("/dst") == {"/in/one": b"1"}
        assert Memory.all_held == 0

    run(main())
