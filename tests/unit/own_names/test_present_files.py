"""Which files a destination has already: these are overwritten in place, and stay what they are for their owners."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from endpoints.gridftp.faults import Kind, Side, make_fault
from tests.engine_fakes import MemorySessions, MemoryTree
from tests.unit.engine.world import World
from workers.engine.queue import present_files

pytestmark = pytest.mark.virtual_time

COUNT = 300
THERE = (0, 7, COUNT - 1)


class Counting(MemorySessions):
    """Counts the requests to the destination."""

    def __init__(self, *trees: MemoryTree, **more: Any) -> None:
        super().__init__(*trees, **more)
        self.asked: Counter[str] = Counter()

    def check(self, step: str, side: Side, path: str) -> None:
        if side is Side.DESTINATION:
            self.asked[step] += 1
        super().check(step, side, path)


class CountingWorld(World):
    servers = Counting

    @property
    def asked(self) -> Counter[str]:
        assert isinstance(self.sessions, Counting)
        return self.sessions.asked


def name(number: int) -> str:
    return f"f{number:03}"


def world_of(count: int = COUNT, others: int = 0) -> CountingWorld:
    world = CountingWorld([("/src/", "/dst/", True)])
    for number in range(count):
        world.source.write(f"/src/{name(number)}", b"new%d" % number)
    for number in THERE:
        world.destination.write(f"/dst/{name(number)}", b"old")
    for number in range(others):
        world.destination.write(f"/dst/other{number}", b"of somebody")
    return world


def kept(world: World) -> dict[str, int]:
    return {name(number): world.destination.get(f"/dst/{name(number)}").id for number in THERE}


async def test_one_listing_shows_it_for_many_files() -> None:
    world = world_of()
    before = kept(world)
    assert await world.run() == "SUCCEEDED"
    assert kept(world) == before
    assert world.destination.files("/dst") == world.source.files("/src")
    # Those that may be there are asked for one by one.
    assert (world.asked["list"], world.asked["stat"]) == (1, len(THERE) + 1)


async def test_a_large_folder_is_not_listed_for_a_few_files() -> None:
    world = CountingWorld([("/src/", "/dst/", True)])
    for number in range(present_files.MANY - 1):
        world.source.write(f"/src/{name(number)}", b"newer")
        world.destination.write(f"/dst/{name(number)}", b"old")
    for number in range(3000):
        world.destination.write(f"/dst/other{number}", b"of somebody")
    before = {number: world.destination.get(f"/dst/{name(number)}").id for number in range(present_files.MANY - 1)}
    assert await world.run() == "SUCCEEDED"
    assert {number: world.destination.get(f"/dst/{name(number)}").id for number in before} == before
    assert world.asked["list"] <= 3, "the beginning alone"
    assert world.asked["stat"] == len(before) + 1


@pytest.mark.parametrize("why", ["too large", "refused", "lost"])
async def test_where_the_listing_shows_nothing_each_is_asked_for(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present_files, "LEAST", 100)
    monkeypatch.setattr(present_files, "FOR_EACH", 1)
    world = world_of(others=2000 if why == "too large" else 0)
    if why != "too large":
        kind = Kind.PERMISSION_DENIED if why == "refused" else Kind.CONNECTION_RESET
        world.script.add("list", "/dst", make_fault(kind), -1)
    before = kept(world)
    assert await world.run() == "SUCCEEDED"
    assert kept(world) == before
    arrived = world.destination.files("/dst")
    assert {path: arrived[path] for path in world.source.files("/src")} == world.source.files("/src")
    assert world.asked["stat"] >= COUNT


@pytest.mark.parametrize(("there", "sent"), [("F007", "f007"), (".hidden", ".hidden")])
async def test_a_name_that_the_listing_may_show_otherwise_is_asked_for(there: str, sent: str) -> None:
    """On a destination without upper case `F007` is the file; some servers list no name with a dot at its beginning."""
    world = world_of()
    world.source.write(f"/src/{sent}", b"new")
    world.destination.write(f"/dst/{there}", b"old")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.get(f"/dst/{sent}").content == world.source.get(f"/src/{sent}").content
    assert world.asked["stat"] > len(THERE)
