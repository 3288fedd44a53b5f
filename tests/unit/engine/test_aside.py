"""Files for a shared endpoint are written under names that nobody could know, and get their own when they are whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from endpoints.gridftp.faults import Kind, Side, make_fault
from tests.engine_fakes import MemorySessions, MemoryTree
from tests.unit.engine.world import World

pytestmark = pytest.mark.virtual_time

RESET = make_fault(Kind.CONNECTION_RESET)
REFUSED = make_fault(Kind.PERMISSION_DENIED)
MIDWAY = make_fault(Kind.TIMEOUT)
COUNT = 30


class Recorded(MemorySessions):
    """Remembers the name of each STOR."""

    def __init__(self, *trees: MemoryTree, **more: Any) -> None:
        super().__init__(*trees, **more)
        self.names: list[str] = []

    def check(self, step: str, side: Side, path: str) -> None:
        if step == "stor":
            self.names.append(path)
        super().check(step, side, path)


class SharedWorld(World):
    servers = Recorded

    @property
    def stored(self) -> list[str]:
        assert isinstance(self.sessions, Recorded)
        return self.sessions.names


def world_of_files(size: int = 10, **options: object) -> SharedWorld:
    world = SharedWorld([("/src/", "/dst/", True)], **{"to_share": True, **options})  # type: ignore[arg-type]
    for number in range(COUNT):
        world.source.write(f"/src/file{number:02}", bytes([65 + number]) * size)
    world.destination.write("/dst/file07", b"old")
    return world


def check(world: SharedWorld, *, continued: bool = False) -> None:
    """All has arrived, nothing else is left, and no name was used for two beginnings."""
    for number in range(COUNT):
        node = world.source.get(f"/src/file{number:02}")
        assert world.destination.get(f"/dst/file{number:02}").content == node.content
    assert world.destination.paths("/dst") == {f"/file{number:02}" for number in range(COUNT)}
    assert all(name.startswith("/dst/.waybill-") for name in world.stored)
    if not continued:
        assert len(set(world.stored)) == len(world.stored) >= COUNT


@pytest.mark.parametrize("verify", [True, False])
async def test_each_try_of_a_file_has_a_name_of_its_own(verify: bool) -> None:
    world = world_of_files(options={"verify_checksum": verify})
    world.script.add("retr", "/src/file05", REFUSED, 2)
    world.script.add("retr", "/src/file09", RESET, 1)
    assert await world.run() == "SUCCEEDED"
    check(world)


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_file_is_continued_under_the_name_that_it_has(trusted: bool) -> None:
    world = world_of_files(chunk=3, trusted=trusted)
    world.script.add("midway", "/src/file03", MIDWAY, 2)
    world.script.add("midway", "/src/file11", RESET, 1)
    assert await world.run() == "SUCCEEDED"
    check(world, continued=trusted)


async def test_what_a_killed_worker_has_named_is_removed() -> None:
    for steps in range(2, 90, 6):
        world = world_of_files(chunk=4)
        killed = await world.killed_slice(steps)
        world.suspect_up_to = COUNT if killed else 0
        world.sessions = world.new_sessions(None)
        assert await world.run() == "SUCCEEDED"
        check(world, continued=True)


async def test_a_task_that_is_canceled_leaves_no_temporary_file() -> None:
    world = world_of_files(chunk=1, latency=0.01)
    task = asyncio.create_task(world.run())
    await world.until(lambda: len(world.stored) > 3)
    world.store.cancel_requested = True
    await task
    assert not [path for path in world.destination.paths("/dst") if ".waybill" in path]
