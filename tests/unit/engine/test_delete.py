"""DELETE: all of what was named goes, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.gridftp.faults import Fault, FaultScope, Kind, make_fault
from tests.engine_fakes import MemoryLease
from tests.engine_fakes import store as fake_store
from tests.unit.engine.world import World, each_in_virtual_time
from transferapi.tasks.records import FileRow, FoundFile, ItemRow
from workers.engine.bounds import Memory
from workers.engine.delete import delete_task
from workers.engine.retry import TRIES_OF_ENDING
from workers.engine.slice import SliceResult

pytestmark = pytest.mark.virtual_time


def delete_world(*paths: str, recursive: bool = True, **options: Any) -> World:
    world = World([(path, None, None) for path in paths], delete=True, **options)
    world.options = {"recursive": recursive, **world.options}
    world.source.write("/keep/precious", b"p")
    return world


def fill(world: World) -> None:
    world.source.write("/old/f", b"x")
    for n in range(30):
        world.source.write(f"/old/a{n % 3}/b{n % 2}/f{n}", b"x")
    world.source.folder("/old/empty/er")
    world.source.link("/old/a1/out", "/keep")
    world.source.link("/old/a1/to-file", "/keep/precious")
    world.source.link("/old/dangling", "/nowhere")
    world.source.special("/old/pipe")


def kept(world: World) -> bool:
    return world.source.paths() == {"/keep", "/keep/precious"}


async def test_a_folder_goes_with_all_that_is_in_it_and_no_symlink_is_followed() -> None:
    world = delete_world("/old/")
    fill(world)
    assert await world.run() == "SUCCEEDED"
    assert kept(world)
    assert world.store.totals.faults == 0
    assert world.store.codes() == ["STARTED"]


async def test_files_and_symlinks_that_are_named_go_and_what_they_lead_to_stays() -> None:
    world = delete_world("/file", "/link", "/dangling", recursive=False)
    world.source.write("/file", b"x")
    world.source.link("/link", "/keep")
    world.source.link("/dangling", "/nowhere")
    assert await world.run() == "SUCCEEDED"
    assert kept(world)


@pytest.mark.parametrize("recursive", [False, True])
async def test_a_symlink_that_is_named_with_a_slash_goes_alone(recursive: bool) -> None:
    world = delete_world("/link/", recursive=recursive)
    world.source.link("/link", "/keep")
    assert await world.run() == "SUCCEEDED"
    assert kept(world)


@pytest.mark.parametrize(("path", "recursive"), [("/keep", False), ("/", True)])
async def test_a_folder_without_recursive_and_the_root_are_refused(path: str, recursive: bool) -> None:
    world = delete_world(path, "/file", recursive=recursive)
    world.source.write("/file", b"x")
    assert await world.run() == "FAILED"
    assert kept(world)


@pytest.mark.parametrize(("ignore_missing", "status"), [(True, "SUCCEEDED"), (False, "FAILED")])
async def test_what_is_missing_is_passed_over_where_that_was_asked(ignore_missing: bool, status: str) -> None:
    world = delete_world("/file", "/gone", options={"ignore_missing": ignore_missing})
    world.source.write("/file", b"x")
    assert await world.run() == status
    assert kept(world)
    assert bool(world.store.fatal) is not ignore_missing


async def test_one_file_that_stays_holds_up_only_the_folders_it_lies_in() -> None:
    world = delete_world("/old")
    fill(world)
    world.script.add("remove", "/old/a1/b1/f1", make_fault(Kind.PERMISSION_DENIED), 4)
    world.slice_seconds = 1.0
    assert await world.slice() is SliceResult.RELEASED
    left = {"/old", "/old/a1", "/old/a1/b1", "/old/a1/b1/f1"}
    assert world.source.paths() - {"/keep", "/keep/precious"} <= left | {f"/old/a1/b1/f{n}" for n in range(30)}
    world.slice_seconds = 300.0
    assert await world.run() == "SUCCEEDED"
    assert kept(world)


async def test_a_folder_that_cannot_be_seen_whole_is_not_given_up() -> None:
    world = delete_world("/old")
    fill(world)
    world.script.add("list", "/old/a2/b0", make_fault(Kind.PERMISSION_DENIED), 3)
    assert await world.run() == "SUCCEEDED"
    assert kept(world)
    assert "DIRECTORY_NOT_EMPTY" not in world.store.codes()


async def test_a_file_that_kills_its_connection_is_found_among_the_others() -> None:
    world = delete_world("/old")
    fill(world)
    world.script.add("remove", "/old/a1/b1/f7", make_fault(Kind.CONNECTION_RESET), 12)
    assert await world.run() == "SUCCEEDED"
    assert kept(world)
    attempts = {row.file.source_path for row in world.store.rows.values() if row.file.attempts}
    assert "/old/a1/b1/f7" in attempts
    assert attempts <= {"/old/a1/b1/f7", "/old/a1/b1", "/old/a1", "/old"}


async def test_a_lost_connection_does_not_change_the_order_of_removal() -> None:
    world = delete_world("/old")
    fill(world)
    world.script.add("remove", "/old/a1/b1/f7", make_fault(Kind.CONNECTION_RESET), 2)
    assert await world.run() == "SUCCEEDED"
    assert kept(world)
    assert world.store.totals.faults == 0


async def test_many_thousand_files_go_in_batches() -> None:
    world = delete_world("/old", latency=0)
    for n in range(12_000):
        world.source.write(f"/old/d{n % 50}/f{n}", b"")
    assert await world.run() == "SUCCEEDED"
    assert kept(world)
    assert world.lease
    assert world.lease.calls["write"] < 100


async def test_a_delete_can_be_canceled() -> None:
    world = delete_world("/old", latency=0.1)
    for n in range(1000):
        world.source.write(f"/old/f{n}", b"")
    task = asyncio.create_task(world.slice())
    await asyncio.sleep(10)
    world.store.cancel_requested = True
    assert await task is SliceResult.FAILED
    assert asyncio.get_running_loop().time() < 12
    assert world.source.paths("/old")


KINDS = st.sampled_from(
    [
        (Kind.PERMISSION_DENIED, FaultScope.FILE),
        (Kind.UNKNOWN, FaultScope.FILE),
        (Kind.CONNECTION_BROKEN, FaultScope.SESSION),
        (Kind.CONNECT_FAILED, FaultScope.ENDPOINT),
    ]
)


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, str, Fault, int]:
    kind, scope = draw(KINDS)
    path = draw(st.sampled_from(["", "/old", "/old/a1", "/old/a1/b1", "/old/f", "/old/a2/b0/f2"]))
    step = draw(st.sampled_from(["open", "stat", "list", "remove"]))
    return step, path, replace(make_fault(kind), scope=scope), draw(st.integers(1, 5))


def mendable(faults: list[tuple[str, str, Fault, int]]) -> bool:
    """Whether no removal fails as often as one that is given up (`retry.unless_ending`)."""
    return sum(times for step, _, _, times in faults if step == "remove") < TRIES_OF_ENDING


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(faults=st.lists(rules(), max_size=5).filter(mendable), deaths=st.lists(st.integers(1, 120), max_size=3))
@each_in_virtual_time
async def test_all_goes_whatever_fails_and_whenever_workers_die(
    faults: list[tuple[str, str, Fault, int]], deaths: list[int]
) -> None:
    world = delete_world("/old", "/single")
    fill(world)
    world.source.write("/single", b"x")
    for rule in faults:
        world.script.add(*rule)
    for step in deaths:
        if world.store.status == "ACTIVE":
            await world.killed_slice(step)
    assert await world.run() == "SUCCEEDED"
    assert kept(world)


async def test_a_right_that_was_taken_away_ends_a_deletion() -> None:
    world = delete_world("/old")
    fill(world)
    gone = Fault(Kind.ACL_CHANGED, retryable=False, advice="No access rule covers it any more.")
    world.script.add("remove", "/old/a1", gone, -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal
    assert world.store.fatal[0] == "ACL_CHANGED"
    assert "/old/a1" in world.source.paths()


async def test_folders_are_written_by_batches_and_counted_until_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made = written = 0
    ahead: list[tuple[int, int]] = []

    def counted(*fields: Any) -> FoundFile:
        nonlocal made
        made += 1
        return FoundFile(*fields)

    class Watched(MemoryLease):
        async def add_found(self, item: ItemRow, found: Sequence[FoundFile]) -> Sequence[FileRow]:
            nonlocal written
            ahead.append((made - written, Memory.all_held))
            written += len(found)
            return await super().add_found(item, found)

    monkeypatch.setattr(delete_task, "FoundFile", counted)
    monkeypatch.setattr(delete_task, "FOUND", 7)
    monkeypatch.setattr(fake_store, "MemoryLease", Watched)
    world = delete_world("/old")
    for number in range(40):
        world.source.folder(f"/old/d{number}")
    assert await world.run() == "SUCCEEDED"
    assert kept(world)
    folders = [(batch, held) for batch, held in ahead if batch]
    assert [batch for batch, _ in folders] == [7, 7, 7, 7, 7, 5, 1]
    assert all(held for _, held in folders[:-1]), "until all of one depth are rows"
    assert Memory.all_held == 0
