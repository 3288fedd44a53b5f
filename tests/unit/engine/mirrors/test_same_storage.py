"""Two endpoints that are one storage: nothing is written over itself, nests in itself, or is deleted as extra."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Kind, Side, make_fault
from tests.engine_fakes import MemoryTree
from tests.engine_fakes.tree import Node
from tests.unit.engine.world import ItemSpec, World
from workers.engine.delete.extras import SKIPPED
from workers.engine.scan import walk

pytestmark = pytest.mark.virtual_time


class Anonymous(MemoryTree):
    """A server that reports no identities of files, as those of SFTP."""

    def entry(self, name: str, node: Node) -> Entry:
        found = super().entry(name, node)
        return Entry(found.name, found.kind, found.size, found.modified, link_target=found.link_target)


def one_storage(items: list[ItemSpec], tree: MemoryTree | None = None, **options: Any) -> World:
    tree = tree or Anonymous()
    return World(items, source=tree, destination=tree, near=True, options=options)


def faults(world: World) -> list[str]:
    return [event.description for event in world.store.events if event.code == Kind.AMBIGUOUS_PATH]


@pytest.mark.parametrize("tree", [MemoryTree, Anonymous])
@pytest.mark.parametrize("modified", [None, datetime(2026, 1, 1, tzinfo=UTC)])
async def test_a_file_onto_itself_is_refused(tree: type[MemoryTree], modified: datetime | None) -> None:
    world = one_storage([("/data/f", "/data/f", None), ("/data/g", "/data/h", None)], tree())
    node = world.source.write("/data/f", b"precious")
    node.modified = modified
    world.source.write("/data/g", b"g")
    assert await world.run() == "FAILED"
    assert world.source.files("/data") == {"/f": b"precious", "/g": b"g", "/h": b"g"}
    assert world.source.find("/data/f") is node
    assert "the same file" in faults(world)[0]


@pytest.mark.parametrize("other", ["hard", "soft"])
async def test_a_file_onto_another_name_of_itself_is_refused_where_servers_report_identities(other: str) -> None:
    world = one_storage([("/data/f", f"/data/{other}", None)], MemoryTree())
    node = world.source.write("/data/f", b"precious")
    world.source.link("/data/soft", "/data/f")
    children = world.source.get("/data").children
    assert children is not None
    children["hard"] = node
    assert await world.run() == "FAILED"
    assert node.content == b"precious"


async def test_a_folder_onto_itself_is_refused() -> None:
    world = one_storage([("/data/", "/data/", True)])
    node = world.source.write("/data/f", b"precious")
    assert await world.run() == "FAILED"
    assert world.source.paths("/data") == {"/f"}
    assert world.source.find("/data/f") is node


@pytest.mark.parametrize("target", ["/data/copy/", "/data/deep/er/copy/", "/data/deep/"])
@pytest.mark.parametrize("options", [{}, {"sync_level": 1}, {"recursive_symlinks": "keep"}])
async def test_a_folder_into_its_own_subfolder_does_not_nest(target: str, options: dict[str, Any]) -> None:
    world = one_storage([("/data/", target, True)], **options)
    world.source.write("/data/f", b"x")
    world.source.write("/data/deep/er/g", b"x")
    assert await world.run() == "FAILED"
    assert max(path.count("/") for path in world.source.paths()) <= 7
    assert "lies inside the source" in faults(world)[0]
    assert not [path for path in world.source.paths() if ".waybill" in path]


async def test_two_storages_near_each_other_get_their_copies_and_no_folder_stays() -> None:
    world = World([("/src/", "/dst/", True), ("/f", "/f", None)], near=True)
    world.source.write("/src/d/f", b"x")
    world.source.write("/f", b"x")
    world.destination.write("/f", b"y")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths() == {"/dst", "/dst/d", "/dst/d/f", "/f"}
    assert world.destination.files() == {"/dst/d/f": b"x", "/f": b"x"}


async def test_a_destination_that_refuses_the_probe_gets_its_files() -> None:
    world = World([("/src/", "/dst/", True)], near=True)
    world.source.write("/src/f", b"x")
    world.destination.folder("/dst")
    world.script.add("mkdir", "/dst/.waybill", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/f": b"x"}


@pytest.mark.parametrize("files", [30, 3000], ids=["held", "listed twice"])
async def test_an_answer_that_comes_behind_the_listing_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    monkeypatch.setattr(walk, "HELD", 1000)
    world = World([("/src/", "/dst/", True)], near=True)
    world.sessions.in_order = True
    names = {f"/{number}" for number in range(files)}
    for name in names:
        world.source.write(f"/src{name}", b"x")
    world.destination.folder("/dst")
    assert await world.run() == "SUCCEEDED"
    assert set(world.destination.files("/dst")) == names


@pytest.mark.parametrize("files", [30, 3000], ids=["held", "listed twice"])
async def test_a_folder_onto_itself_is_refused_behind_its_listing(monkeypatch: pytest.MonkeyPatch, files: int) -> None:
    monkeypatch.setattr(walk, "HELD", 1000)
    world = one_storage([("/data/", "/data/", True)])
    world.sessions.in_order = True
    nodes = [world.source.write(f"/data/{number}", b"x") for number in range(files)]
    assert await world.run() == "FAILED"
    assert [world.source.find(f"/data/{number}") for number in range(files)] == nodes


async def test_a_new_destination_costs_no_look_at_the_source_before_it_is_listed() -> None:
    world = World([("/src/", "/a/b/", True)], near=True)
    world.source.write("/src/f", b"x")
    steps: list[tuple[str, Side, str]] = []
    world.sessions.faults = lambda *step: steps.append(step)
    assert await world.run() == "SUCCEEDED"
    source = [(step, path) for step, side, path in steps if side is Side.SOURCE and path]
    assert source[:2] == [("stat", "/src"), ("list", "/src")]
    assert source.count(("list", "/src")) == 1
    assert world.destination.paths() == {"/a", "/a/b", "/a/b/f"}


async def test_a_destination_that_is_removed_after_the_look_at_the_items_is_made_again() -> None:
    """A walk may wait for hours until those before it are done."""
    world = World([("/src/", "/dst/", True)], near=True)
    world.source.write("/src/f", b"x")
    world.destination.folder("/dst")
    looks: list[str] = []

    def remove_after_the_look(step: str, side: Side, path: str) -> None:
        if step == "stat" and side is Side.DESTINATION and path.rstrip("/") == "/dst":
            looks.append(path)
            if len(looks) == 1:
                asyncio.get_running_loop().call_soon(partial(world.destination.remove, "/dst", directory=True))

    world.sessions.faults = remove_after_the_look
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/f": b"x"}


async def test_two_items_may_make_one_destination_at_once() -> None:
    world = World([("/one/", "/new/dst/", True), ("/two/", "/new/dst/", True)], near=True)
    world.source.write("/one/f", b"x")
    world.source.write("/two/g", b"y")
    assert await world.run() == "SUCCEEDED"
    assert Kind.PATH_EXISTS not in world.store.codes()
    assert world.destination.files("/new/dst") == {"/f": b"x", "/g": b"y"}


async def test_a_destination_that_appears_during_the_listing_is_looked_at_again() -> None:
    """It may be the source by another name, which was given just now."""
    world = one_storage([("/data/", "/other/", True)])
    node = world.source.write("/data/f", b"precious")

    def link_it(step: str, side: Side, path: str) -> None:
        if step == "list" and side is Side.SOURCE and world.source.find("/other") is None:
            world.source.get("/").children["other"] = world.source.get("/data")  # type: ignore[index]

    world.sessions.faults = link_it
    assert await world.run() == "FAILED"
    assert Kind.PATH_EXISTS in world.store.codes()
    assert node.content == b"precious"
    assert world.source.find("/data/f") is node
    assert faults(world)


# ---- mirrors


@pytest.mark.parametrize(
    ("source", "destination"), [("/data/sub/", "/data/"), ("/data/sub/deep/", "/data/"), ("/data/", "/data/sub/")]
)
@pytest.mark.parametrize("skip", [False, True])
async def test_a_mirror_within_one_storage_deletes_nothing(source: str, destination: str, skip: bool) -> None:
    world = one_storage([(source, destination, True)], delete_destination_extra=True, skip_source_errors=skip)
    for path in ("/data/a", "/data/sub/b", "/data/sub/deep/c"):
        world.source.write(path, b"x")
    before = world.source.paths()
    await world.run()
    assert before <= world.source.paths()
    assert SKIPPED in world.store.codes()
    assert not [path for path in world.source.paths() if ".waybill" in path]


async def test_a_mirror_beside_its_source_on_one_storage_deletes_its_extras() -> None:
    world = one_storage([("/data/one/", "/data/two/", True)], delete_destination_extra=True)
    world.source.write("/data/one/f", b"x")
    world.source.write("/data/two/old", b"x")
    assert await world.run() == "SUCCEEDED"
    assert set(world.source.files("/data")) == {"/one/f", "/two/f"}


async def test_a_mirror_that_cannot_find_out_deletes_nothing() -> None:
    world = World([("/src/", "/dst/", True)], near=True, options={"delete_destination_extra": True})
    world.source.write("/src/f", b"x")
    world.destination.write("/dst/old", b"x")
    world.script.add("mkdir", "/dst/.waybill", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await world.run() == "SUCCEEDED"
    assert "/old" in world.destination.files("/dst")
    assert SKIPPED in world.store.codes()


async def test_files_of_other_times_or_sizes_cost_no_probe() -> None:
    world = World([("/f", "/f", None)], near=True, source=Anonymous(), destination=Anonymous())
    world.source.write("/f", b"x").modified = datetime(2026, 1, 1, tzinfo=UTC)
    world.destination.write("/f", b"y").modified = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=3)
    world.script.add("mkdir", "/.waybill", make_fault(Kind.PERMISSION_DENIED), 1)
    assert await world.run() == "SUCCEEDED"
    assert world.script.met == 0
