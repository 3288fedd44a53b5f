"""Files over entries that the destination has already: in place, and looked at again after a lost worker."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, Side, make_fault
from endpoints.gridftp.third_party.slots import FileEvent, FileRefused
from tests.engine_fakes.lane import MemoryLane
from tests.engine_fakes.rows import State
from tests.engine_fakes.sessions import MemorySession, MemorySessions
from tests.engine_fakes.tree import MemoryTree
from tests.unit.engine.world import World
from transferapi.tasks.records import FileRow
from workers.engine.ports import TCP, Transport
from workers.engine.slice import SliceResult

pytestmark = pytest.mark.virtual_time

COUNT = 12


def world_of(count: int, *, there: int = 0, **options: object) -> World:
    world = World([("/src/", "/dst/", True)], options=dict(options))
    for number in range(count):
        world.source.write(f"/src/f{number:02}", b"new%d" % number)
    for number in range(there):
        world.destination.write(f"/dst/f{number:02}", b"old")
    return world


def ids(world: World) -> dict[str, int]:
    return {name: world.destination.get(f"/dst{name}").id for name in world.destination.files("/dst")}


async def test_an_existing_file_is_overwritten_in_place_and_a_new_one_is_renamed() -> None:
    world = world_of(COUNT, there=3)
    before = ids(world)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")
    assert {name: one for name, one in ids(world).items() if name in before} == before


async def test_a_server_that_replaces_files_gets_each_one_aside() -> None:
    world = world_of(COUNT, there=3)
    world.sessions.replaces = True
    before = ids(world)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")
    assert not set(ids(world).values()) & set(before.values())


async def test_where_another_task_writes_the_same_files_none_is_written_in_place() -> None:
    """Two writers in one file would mix their versions."""
    world = world_of(COUNT, there=3)
    world.store.shared_place = True
    before = ids(world)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")
    assert not set(ids(world).values()) & set(before.values())


async def begun_in_place() -> World:
    """A task that has written a part of a file over an existing one, when another task begins to write the file."""
    world = World([("/src/", "/dst/", True)], chunk=3, latency=0.1, slice_seconds=0.9)
    world.source.write("/src/f", b"0123456789" * 20)
    world.destination.write("/dst/f", b"old")
    assert await world.slice() is SliceResult.RELEASED
    (row,) = world.store.rows.values()
    assert (row.file.ranges != "", row.file.temporary_path) == (True, None)
    world.slice_seconds = 300
    world.store.shared_place = True
    return world


async def test_what_was_begun_in_place_is_not_continued_where_another_task_writes() -> None:
    world = await begun_in_place()
    before = ids(world)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")
    assert not set(ids(world).values()) & set(before.values())


async def test_what_was_begun_in_place_is_not_removed_where_another_task_writes() -> None:
    world = await begun_in_place()
    world.destination.remove("/dst/f", directory=False)
    world.destination.write("/dst/f", b"of the other task")
    world.script.add("retr", "/src/f", make_fault(Kind.IS_A_DIRECTORY, retryable=False), -1)
    assert await world.run() == "FAILED"
    assert world.destination.files("/dst") == {"/f": b"of the other task"}


class UnnamingLane(MemoryLane):
    """Its destination refuses each rename."""

    kind = Kind.PERMISSION_DENIED

    def _rename(self, tree: MemoryTree, file: FileRow) -> None:
        raise FaultError(make_fault(self.kind, "550 Permission denied.", side=Side.DESTINATION))

    async def events(self) -> Sequence[FileEvent]:
        events = await super().events()
        return [
            one._replace(unnamed=True) if isinstance(one, FileRefused) and one.fault.kind is self.kind else one
            for one in events
        ]


class Unnaming(MemorySessions):
    async def lane(self, *, transport: Transport = TCP, relayed: bool = False) -> MemoryLane:
        await super().lane(transport=transport, relayed=relayed)
        lane = self.lanes[-1] = UnnamingLane(self)
        return lane


class UnnamingWorld(World):
    servers = Unnaming


@pytest.mark.parametrize("count", [1, COUNT, 300])
async def test_a_server_that_renames_nothing_gets_files_under_their_real_names(count: int) -> None:
    world = UnnamingWorld([("/src/", "/dst/", True)])
    for number in range(count):
        world.source.write(f"/src/f{number:03}", b"new%d" % number)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")
    assert world.store.totals.faults < 150, "a few refusals count for all files"


async def half_done() -> World:
    """A task whose worker was lost when files had arrived, and before the task ended."""
    for steps in range(20, 1000, 5):
        world = world_of(COUNT, there=COUNT)
        if not await world.killed_slice(steps):
            break
        if world.store.status == "ACTIVE" and any(row.state is State.DONE for row in world.store.rows.values()):
            return world
    pytest.fail("no worker was lost at such a moment")


@pytest.mark.parametrize("cut", [b"", b"old", None])
async def test_a_file_that_a_late_command_cuts_is_sent_again_before_the_task_succeeds(cut: bytes | None) -> None:
    world = await half_done()
    name = next(row.file.source_path for row in world.store.rows.values() if row.state is State.DONE)
    path = name.replace("/src", "/dst")
    world.destination.remove(path, directory=False)
    if cut is not None:
        world.destination.write(path, cut)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")
    assert "CHANGED_AFTER_ARRIVAL" in world.store.codes()


async def test_a_file_that_is_another_one_after_each_arrival_fails_and_names_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that converts what it stores, or that reports other sizes than it has."""
    world = await half_done()
    name = next(row.file.source_path for row in world.store.rows.values() if row.state is State.DONE)
    stat = MemorySession.stat

    async def odd(session: MemorySession, path: str) -> Entry:
        entry = await stat(session, path)
        return entry._replace(size=entry.size + 1) if path == name.replace("/src", "/dst") else entry

    monkeypatch.setattr(MemorySession, "stat", odd)
    assert await world.run() == "FAILED"
    [failed] = [row for row in world.store.rows.values() if row.state is State.FAILED]
    assert failed.file.source_path == name
    assert world.store.codes().count("CHANGED_AFTER_ARRIVAL") <= 8


async def test_without_a_lost_worker_nothing_is_looked_at_again() -> None:
    world = world_of(COUNT, there=COUNT)
    assert await world.run() == "SUCCEEDED"
    assert world.lease
    assert "arrived" not in world.lease.calls
