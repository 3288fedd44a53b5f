"""A mirror that would delete much of its destination asks first: the source may be a disk that is not mounted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from endpoints.gridftp.faults import Kind, make_fault
from tests.unit.engine.world import ItemSpec, World
from transferapi.tasks.records import ANSWER, CONFIRMED, REFUSED
from workers.engine.delete.extras import SKIPPED

pytestmark = pytest.mark.virtual_time

TREE: list[ItemSpec] = [("/src/", "/dst/", True)]


def mirror(limit: int | None = 50, items: list[ItemSpec] | None = None, **options: Any) -> World:
    return World(items or TREE, options={"delete_destination_extra": True, "confirm_deletion_above": limit, **options})


def fill(world: World, files: int = 10) -> None:
    """A destination with files in folders: four entries for each number."""
    for n in range(files):
        world.destination.write(f"/dst/d{n}/e/f", b"x")
        world.destination.write(f"/dst/d{n}/g", b"x")


async def test_an_empty_source_deletes_nothing_before_its_owner_says_so() -> None:
    world = mirror()
    world.source.folder("/src")
    fill(world)
    before = world.destination.paths()
    assert await world.run() == "INACTIVE"
    assert world.destination.paths() == before
    assert world.store.unconfirmed == (40, 40)


@pytest.mark.parametrize("limit", [0, 50, 99])
async def test_a_source_that_has_lost_a_folder_counts_all_that_is_in_it(limit: int) -> None:
    world = mirror(limit)
    world.source.write("/src/here", b"x")
    for n in range(300):
        world.destination.write(f"/dst/lost/d{n % 7}/f{n}", b"x")
    before = world.destination.paths() | {"/dst/here"}
    assert await world.run() == "INACTIVE"
    assert world.destination.paths() == before
    assert world.store.unconfirmed == (308, 309)


@pytest.mark.parametrize(
    ("limit", "status"), [(None, "SUCCEEDED"), (100, "SUCCEEDED"), (80, "SUCCEEDED"), (79, "INACTIVE")]
)
async def test_the_task_waits_only_above_the_limit(limit: int | None, status: str) -> None:
    world = mirror(limit)
    world.source.write("/src/f", b"x")
    for n in range(4):
        world.destination.write(f"/dst/old{n}", b"x")
    assert await world.run() == status
    assert len(world.destination.files("/dst")) == (1 if status == "SUCCEEDED" else 5)


async def test_what_stays_anyway_does_not_count_as_extra() -> None:
    world = mirror(0, filter_rules=[{"method": "exclude", "name": "*.keep"}])
    world.source.write("/src/Report", b"x")
    world.destination.write("/dst/report", b"x")
    world.destination.write("/dst/a.keep", b"x")
    assert await world.run() == "SUCCEEDED"
    assert set(world.destination.files("/dst")) == {"/Report", "/report", "/a.keep"}


async def test_a_confirmed_deletion_runs() -> None:
    world = mirror()
    world.source.folder("/src")
    fill(world)
    assert await world.run() == "INACTIVE"
    world.options[ANSWER] = CONFIRMED
    world.store.status = "ACTIVE"
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths("/dst") == set()


async def test_a_refused_deletion_does_not_run_and_the_task_succeeds() -> None:
    world = mirror()
    world.source.folder("/src")
    fill(world)
    before = world.destination.paths()
    assert await world.run() == "INACTIVE"
    world.options[ANSWER] = REFUSED
    world.store.status = "ACTIVE"
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths() == before
    (event,) = [event for event in world.store.events if event.code == SKIPPED]
    assert "refused" in str(event.details)


async def test_a_source_that_is_unmounted_between_the_count_and_the_deletion_loses_no_more_than_the_limit() -> None:
    world = mirror(10)
    world.source.write("/src/keep/f", b"x")
    for n in range(200):
        world.source.folder(f"/src/d{n}")
        world.destination.folder(f"/dst/d{n}/sub")
    world.destination.write("/dst/old", b"x")
    world.destination.write("/dst/d0/old", b"x")
    counted = 0

    def unmount(step: str, side: str, path: str) -> None:
        """When the deletion begins, the source is empty."""
        nonlocal counted
        if step == "list" and path == "/src":
            counted += 1
            if counted == 3:  # the scan, the count, and the deletion
                world.source.get("/src").children = {}

    world.sessions.faults = unmount
    world.source.folder("/src/d0/sub")
    for n in range(200):
        world.source.folder(f"/src/d{n}/sub")
    assert await world.run() == "INACTIVE"
    assert counted == 3
    assert len(world.destination.paths("/dst")) > 0.9 * 404
    assert world.store.unconfirmed is not None


async def test_a_fault_while_it_counts_is_tried_again() -> None:
    world = mirror(50)
    world.source.write("/src/f", b"x")
    fill(world, 1)
    for n in range(40):
        world.source.write(f"/src/s{n}", b"x")
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.store.totals.transferred == 41)
    world.script.add("list", "/dst/d0", make_fault(Kind.CONNECTION_RESET), 3)
    assert await task == "SUCCEEDED"
    assert world.destination.paths("/dst") == world.source.paths("/src")
