"""delete_destination_extra: a mirror of the source, and nothing lost that the source has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from sys import getsizeof
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultScope, Kind, make_fault
from tests.engine_fakes import run
from tests.engine_fakes.store import MemoryLease
from tests.unit.engine.world import ItemSpec, World, each_in_virtual_time
from workers.engine.delete import tree_remover
from workers.engine.delete.extras import SKIPPED
from workers.engine.delete.tree_remover import TreeRemover
from workers.engine.slice import SliceResult

pytestmark = pytest.mark.virtual_time

TREE: list[ItemSpec] = [("/src/", "/dst/", True)]


def mirror(items: list[ItemSpec] | None = None, **options: Any) -> World:
    settings_ = {name: options.pop(name) for name in list(options) if name in ("same_endpoint", "latency", "deadline")}
    return World(items or TREE, options={"delete_destination_extra": True, **options}, **settings_)


def fill(world: World) -> None:
    """A source, and a destination with extras of every kind at every depth."""
    for n in range(20):
        world.source.write(f"/src/d{n % 3}/e{n % 2}/f{n}", b"%d" % n)
    world.source.folder("/src/empty")
    world.destination.write("/safe/precious", b"p")
    world.destination.write("/dst/old", b"x")
    world.destination.write("/dst/d1/old", b"x")
    world.destination.write("/dst/d1/e0/old", b"x")
    world.destination.write("/dst/empty/old", b"x")
    for n in range(12):
        world.destination.write(f"/dst/gone/a{n % 3}/b{n % 2}/f{n}", b"x")
    world.destination.folder("/dst/gone/empty/er")
    world.destination.link("/dst/link", "/safe")
    world.destination.link("/dst/gone/link", "/safe")
    world.destination.link("/dst/d1/dangling", "/nowhere")


def is_mirror(world: World) -> bool:
    return (
        world.destination.paths("/dst") == world.source.paths("/src")
        and world.destination.files("/dst") == world.source.files("/src")
        and world.destination.files("/safe") == {"/precious": b"p"}
    )


def why(world: World) -> str:
    """The word of the event that says why nothing was deleted."""
    (event,) = [event for event in world.store.events if event.code == SKIPPED]
    return str(event.details)


async def test_extras_of_every_kind_go_and_no_symlink_is_followed() -> None:
    world = mirror()
    fill(world)
    assert await world.run() == "SUCCEEDED"
    assert is_mirror(world)
    (told,) = [event for event in world.store.events if "Deleted at the destination" in event.description]
    assert isinstance(told.details, dict)
    assert told.details["files"] == 4 + 12
    assert told.details["symlinks"] == 3
    assert told.details["directories"] == 1 + 3 + 6 + 2
    assert len(told.details["paths"]) == tree_remover.NAMES
    assert world.store.totals.faults == 0


async def test_without_the_option_nothing_goes() -> None:
    world = mirror(delete_destination_extra=False)
    fill(world)
    before = world.destination.paths()
    assert await world.run() == "SUCCEEDED"
    assert before <= world.destination.paths()


async def test_nothing_is_deleted_before_all_has_arrived() -> None:
    world = mirror()
    fill(world)
    world.script.add("retr", "/src/d0/e0/f0", make_fault(Kind.PERMISSION_DENIED), 3)
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.store.totals.transferred == 19)
    assert world.destination.find("/dst/old")
    assert await task == "SUCCEEDED"
    assert is_mirror(world)


# ---- refused


def lose_a_file(world: World) -> None:
    world.script.add("retr", "/src/d0/e0/f0", make_fault(Kind.INVALID_PATH_NAME, retryable=False), -1)


def hide_a_folder(world: World) -> None:
    world.options["skip_source_errors"] = True
    world.script.add("list", "/src/d1", make_fault(Kind.PERMISSION_DENIED), -1)


def hide_a_file(world: World) -> None:
    world.options["skip_source_errors"] = True
    world.script.add("retr", "/src/d0/e0/f0", make_fault(Kind.PERMISSION_DENIED), -1)


@pytest.mark.parametrize(
    ("spoil", "status"), [(lose_a_file, "FAILED"), (hide_a_folder, "SUCCEEDED"), (hide_a_file, "SUCCEEDED")]
)
async def test_what_could_not_all_be_read_and_moved_deletes_nothing(
    spoil: Callable[[World], None], status: str
) -> None:
    world = mirror()
    fill(world)
    before = world.destination.paths()
    spoil(world)
    assert await world.run() == status
    assert before <= world.destination.paths()
    assert "could be read" in why(world)


@pytest.mark.parametrize(
    ("items", "same_endpoint"),
    [
        ([("/src/", "/dst/", True), ("/more/", "/dst/sub/", True)], False),
        ([("/more/", "/dst/sub/", True), ("/src/", "/dst/", True)], False),
        ([("/src/", "/", True), ("/more/", "/x/", True)], False),
        ([("/src/sub/", "/src/", True)], True),
        ([("/src/", "/dst/", True), ("/dst/keep/", "/more/", True)], True),
        ([("/src/", "/dst/", True), ("/dst/precious", "/single", None)], True),
        ([("/src/", "/dst/", True), ("/more/", "/src/sub/", True)], True),
    ],
)
async def test_items_that_lie_in_each_other_delete_nothing(items: list[ItemSpec], same_endpoint: bool) -> None:
    world = mirror(items, same_endpoint=same_endpoint)
    target = world.source if same_endpoint else world.destination
    for folder in ("/src", "/src/sub", "/more", "/dst/keep"):
        world.source.write(f"{folder}/f-of{folder.replace('/', '-')}", b"x")
    world.source.write("/dst/precious", b"x")
    target.write("/dst/old", b"x")
    target.write("/src/old", b"x")
    before = world.source.paths() | target.paths()
    assert await world.run() == "SUCCEEDED"
    assert before <= world.source.paths() | target.paths()
    assert "lie in each other" in why(world)


async def test_a_refusal_is_reported_even_if_the_database_is_slow_to_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slice looks for work again meanwhile, and must not end the task before the event is stored."""
    quick = MemoryLease.event

    async def slow(lease: MemoryLease, *args: Any, **options: Any) -> None:
        await asyncio.sleep(20)
        await quick(lease, *args, **options)

    monkeypatch.setattr(MemoryLease, "event", slow)
    world = mirror([("/src/", "/dst/", True), ("/more/", "/dst/sub/", True)])
    for folder in ("/src", "/more"):
        world.source.write(f"{folder}/f", b"x")
    assert await world.run() == "SUCCEEDED"
    assert "lie in each other" in why(world)


async def test_one_folder_under_two_names_deletes_nothing() -> None:
    world = mirror([("/src/", "/dst/", True), ("/more/", "/alias/", True)])
    world.source.write("/src/f", b"f")
    world.source.write("/more/g", b"g")
    world.destination.folder("/dst")
    world.destination.link("/alias", "/dst")
    assert await world.run() == "SUCCEEDED"
    assert set(world.destination.files("/dst")) == {"/f", "/g"}
    assert "under two names" in why(world)


async def test_a_file_item_that_goes_into_a_folder_by_another_name_deletes_nothing() -> None:
    world = mirror([("/src/", "/dst/", True), ("/single", "/alias/g", None)])
    world.source.write("/src/f", b"f")
    world.source.write("/single", b"g")
    world.destination.folder("/dst")
    world.destination.link("/alias", "/dst")
    assert await world.run() == "SUCCEEDED"
    assert set(world.destination.files("/dst")) == {"/f", "/g"}
    assert "by another name" in why(world)


async def test_more_folders_than_can_be_compared_delete_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.engine.delete.deletion_scope.MAX_FOLDERS", 5)
    world = mirror([(f"/src/{n}/", f"/dst/{n}/", True) for n in range(10)])
    for n in range(10):
        world.source.write(f"/src/{n}/f", b"x")
        world.destination.write(f"/dst/{n}/old", b"x")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.find("/dst/0/old")
    assert "more than 5 folders" in why(world)


# ---- what stays


async def test_what_other_items_put_into_the_folder_stays() -> None:
    world = mirror([*TREE, ("/single", "/dst/single", None), ("/single2", "/dst/new/deep/single", None)])
    fill(world)
    world.source.write("/single", b"s")
    world.source.write("/single2", b"s")
    world.destination.write("/dst/new/deep/old", b"x")
    assert await world.run() == "SUCCEEDED"
    there = {"/single", "/new", "/new/deep", "/new/deep/single"}
    assert world.destination.paths("/dst") == world.source.paths("/src") | there


async def test_a_folder_of_another_item_met_by_another_name_is_left_alone() -> None:
    world = mirror([*TREE, ("/more/", "/alias/", True), ("/single", "/door/s", None)])
    fill(world)
    world.source.write("/more/g", b"g")
    world.source.write("/single", b"s")
    world.destination.folder("/dst/gone/of-more/in")
    world.destination.link("/alias", "/dst/gone/of-more/in")
    world.destination.folder("/dst/gone/of-single")
    world.destination.link("/door", "/dst/gone/of-single")
    assert await world.run() == "SUCCEEDED"
    there = {"/gone", "/gone/of-more", "/gone/of-more/in", "/gone/of-more/in/g"}
    there |= {"/gone/of-single", "/gone/of-single/s"}
    assert world.destination.paths("/dst") == world.source.paths("/src") | there


async def test_what_the_source_has_stays_whatever_it_is_there() -> None:
    world = mirror()
    fill(world)
    world.source.link("/src/linked", "/src/d0")
    world.source.link("/src/broken", "/nowhere")
    world.source.special("/src/pipe")
    for name in ("linked/a", "broken/b", "pipe/c"):
        world.destination.write(f"/dst/{name}", b"x")
    assert await world.run() == "SUCCEEDED"
    assert {"/linked/a", "/broken/b", "/pipe/c"} < set(world.destination.files("/dst"))
    assert not world.destination.find("/dst/old")


async def test_names_that_the_rules_exclude_stay_with_the_folders_that_they_lie_in() -> None:
    rules = [{"method": "exclude", "name": "*.keep", "type": "file"}, {"method": "exclude", "name": "cache"}]
    world = mirror(filter_rules=rules)
    fill(world)
    world.destination.write("/dst/a.keep", b"x")
    world.destination.write("/dst/gone/a0/a.keep", b"x")
    world.destination.write("/dst/d0/cache/f", b"x")
    world.destination.write("/dst/dir.keep/f", b"x")
    assert await world.run() == "SUCCEEDED"
    there = {"/a.keep", "/gone", "/gone/a0", "/gone/a0/a.keep", "/d0/cache", "/d0/cache/f"}
    assert world.destination.paths("/dst") == world.source.paths("/src") | there


@pytest.mark.parametrize("links", ["ignore", "keep", "copy"])
async def test_symlinks_of_the_source_are_mirrored_as_they_were_moved(links: str) -> None:
    world = mirror(recursive_symlinks=links)
    fill(world)
    world.source.write("/elsewhere/f", b"x")
    world.source.write("/elsewhere/in/g", b"x")
    world.source.link("/src/linked", "/elsewhere")
    world.source.link("/src/d0/file", "/elsewhere/f")
    if links == "copy":
        world.destination.write("/dst/linked/old", b"x")
        world.destination.write("/dst/linked/in/old", b"x")
    assert await world.run() == "SUCCEEDED"
    there = {
        "ignore": set(),
        "keep": {"/linked", "/d0/file"},
        "copy": {"/linked", "/linked/f", "/linked/in", "/linked/in/g", "/d0/file"},
    }
    expected = world.source.paths("/src") - {"/linked", "/d0/file"} | there[links]
    assert world.destination.paths("/dst") == expected


async def test_a_source_that_has_lost_its_files_since_the_scan_loses_no_copies() -> None:
    world = mirror(latency=0.01)
    fill(world)
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.store.totals.transferred == 20)
    copies = world.source.files("/src")
    world.source.get("/src").children = {}
    assert await task == "SUCCEEDED"
    assert world.destination.files("/dst") == copies


async def test_single_files_have_no_extras() -> None:
    world = mirror([("/f", "/dst/f", None)])
    world.source.write("/f", b"x")
    world.destination.write("/dst/old", b"x")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths("/dst") == {"/f", "/old"}
    assert SKIPPED not in world.store.codes()


async def test_an_extra_that_has_a_source_on_the_same_endpoint_goes_like_any_other() -> None:
    world = mirror(same_endpoint=True)
    world.source.write("/src/f", b"f")
    world.source.write("/dst/old", b"x")
    assert await world.run() == "SUCCEEDED"
    assert world.source.paths("/dst") == {"/f"}


# ---- faults


@pytest.mark.parametrize("step", ["list", "remove", "open"])
@pytest.mark.parametrize("kind", [Kind.PERMISSION_DENIED, Kind.CONNECTION_RESET, Kind.CONNECT_FAILED, Kind.UNKNOWN])
async def test_faults_are_tried_again_and_the_place_is_given_up_meanwhile(step: str, kind: Kind) -> None:
    world = mirror(latency=0.01)
    fill(world)
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.store.totals.transferred == 20)
    world.script.add(step, "" if step == "open" else "/dst", make_fault(kind), 9)
    assert await task == "SUCCEEDED"
    assert is_mirror(world)
    if step != "open":
        assert kind in world.store.codes()
    if step == "list":
        assert SliceResult.RELEASED in world.outcomes


async def test_a_listing_that_breaks_off_deletes_nothing_of_its_folder() -> None:
    world = mirror(latency=0.01)
    for n in range(1200):
        world.source.write(f"/src/f{n}")
    world.destination.write("/dst/old", b"x")
    task = asyncio.create_task(world.run())
    await world.until(lambda: world.store.totals.transferred == 1200)
    world.script.add("list", "/src", make_fault(Kind.PERMISSION_DENIED), 40)
    await world.until(lambda: "PERMISSION_DENIED" in world.store.codes())
    assert world.destination.find("/dst/old")
    assert len(world.destination.files("/dst")) == 1201
    assert await task == "SUCCEEDED"
    assert len(world.destination.files("/dst")) == 1200


async def test_what_can_never_be_deleted_is_reported_and_the_task_succeeds() -> None:
    world = mirror()
    fill(world)
    world.script.add("remove", "/dst/old", make_fault(Kind.INVALID_PATH_NAME, retryable=False), -1)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths("/dst") == world.source.paths("/src") | {"/old"}
    assert "cannot be deleted" in why(world)


async def test_a_walk_that_takes_longer_than_a_slice_comes_to_its_end() -> None:
    world = mirror(latency=0.1)
    fill(world)
    for n in range(300):
        world.source.folder(f"/src/many/d{n}")
    task = asyncio.create_task(world.slice())
    await world.until(lambda: world.store.totals.transferred == 20 and world.store.items[1].scanned)
    world.stop.set()
    assert await task is SliceResult.RELEASED
    world.stop.clear()
    world.slice_seconds = 1
    world.may_time_out = True
    assert await world.run() == "SUCCEEDED"
    assert is_mirror(world)
    assert len(world.outcomes) == 2


async def test_a_worker_that_is_asked_to_stop_does_not_walk_to_the_end() -> None:
    world = mirror(latency=0.1)
    fill(world)
    for n in range(300):
        world.destination.write(f"/dst/gone/d{n}/old")
    task = asyncio.create_task(world.slice())
    await world.until(lambda: world.store.totals.transferred == 20)
    await asyncio.sleep(5)
    world.stop.set()
    began = world.clock.now()
    assert await task is SliceResult.RELEASED
    assert (world.clock.now() - began).total_seconds() < 3
    world.stop.clear()
    assert await world.run() == "SUCCEEDED"
    assert is_mirror(world)


async def test_the_deadline_ends_it() -> None:
    world = mirror()
    fill(world)
    world.script.add("remove", "/dst/old", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal
    assert world.store.fatal[0] == "EXPIRED"
    assert world.store.codes().count("PERMISSION_DENIED") < 1200


async def test_a_cancel_ends_it() -> None:
    world = mirror(latency=0.1)
    fill(world)
    for n in range(1000):
        world.destination.write(f"/dst/many/f{n}")
    task = asyncio.create_task(world.slice())
    await world.until(lambda: world.store.totals.transferred == 20)
    await asyncio.sleep(5)
    world.store.cancel_requested = True
    assert await task is SliceResult.FAILED
    assert world.destination.paths("/dst/many")


@pytest.mark.parametrize("bound", [1, 3, 17])
async def test_more_extras_than_are_remembered_go_in_turns(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_remover, "LEAVES", bound)
    monkeypatch.setattr(tree_remover, "BATCH", 2)
    world = mirror()
    fill(world)
    for n in range(40):
        world.destination.write(f"/dst/d0/x{n}")
    assert await world.run() == "SUCCEEDED"
    assert is_mirror(world)


async def test_extra_links_with_long_targets_take_little_memory_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of 1,000 links fit into memory, their targets (64 MB) do not."""
    world = mirror()
    world.source.write("/src/f", b"x")
    targets = ["/" + "t" * 64_000 + str(number) for number in range(1000)]
    for number, target in enumerate(targets):
        world.destination.link(f"/dst/link{number}", target)
    remembered = [0]
    remove = TreeRemover.remove

    async def measured(remover: TreeRemover, folder: str, entries: Sequence[Entry]) -> None:
        remembered[0] = max(remembered[0], sum(getsizeof(entry.link_target) for entry in entries))
        await remove(remover, folder, entries)

    monkeypatch.setattr(TreeRemover, "remove", measured)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths("/dst") == world.source.paths("/src")
    assert 0 < remembered[0] < 100_000


@pytest.mark.parametrize("octets", [1, 1000, 5000])
async def test_more_octets_of_names_than_fit_go_in_turns(octets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_remover, "LEAF_OCTETS", octets)
    world = mirror()
    fill(world)
    for n in range(20):
        world.destination.write(f"/dst/d0/{'x' * 200}{n}")
        world.destination.write(f"/dst/gone/{'x' * 200}{n}")
    assert await world.run() == "SUCCEEDED"
    assert is_mirror(world)


def test_a_worker_killed_at_any_step_leaves_it_to_the_next() -> None:
    async def one(death: int) -> bool:
        world = mirror()
        fill(world)
        killed = await world.killed_slice(death)
        assert await world.run() == "SUCCEEDED"
        assert is_mirror(world)
        return killed

    death = 1
    while run(one(death)):
        death += 1
    assert death > 100


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
    path = draw(st.sampled_from(["", "/dst", "/src", "/dst/gone", "/dst/gone/a1", "/dst/old", "/src/d1", "/dst/d1"]))
    step = draw(st.sampled_from(["open", "stat", "list", "remove", "retr", "stor"]))
    return step, path, replace(make_fault(kind), scope=scope), draw(st.integers(1, 5))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(faults=st.lists(rules(), max_size=5), deaths=st.lists(st.integers(1, 500), max_size=3))
@each_in_virtual_time
async def test_it_is_a_mirror_whatever_fails_and_whenever_workers_die(
    faults: list[tuple[str, str, Fault, int]], deaths: list[int]
) -> None:
    world = mirror()
    fill(world)
    for rule in faults:
        world.script.add(*rule)
    for step in deaths:
        if world.store.status == "ACTIVE":
            await world.killed_slice(step)
    assert await world.run() == "SUCCEEDED"
    left = world.destination.paths("/dst") - world.source.paths("/src")
    assert left == set()
    assert world.destination.files("/dst") == world.source.files("/src")
    assert world.destination.files("/safe") == {"/precious": b"p"}
