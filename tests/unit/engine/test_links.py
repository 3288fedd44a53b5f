"""Symlinks: left out, kept, or followed; and those that the user names to be kept."""

from __future__ import annotations

import pytest

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, Side, make_fault
from tests.engine_fakes import MemoryTree, State
from tests.unit.engine.world import World
from transferapi.tasks.records import ItemRow
from workers.engine.scan.links import MAX_ATTEMPTS, found_link, relative

pytestmark = pytest.mark.virtual_time

KEEP: dict[str, object] = {"recursive_symlinks": "keep"}
COPY: dict[str, object] = {"recursive_symlinks": "copy"}


def links(tree: MemoryTree, folder: str) -> dict[str, str]:
    """The symlinks below a folder: path to text."""
    found = {}
    for path in tree.paths(folder):
        node = tree.find(folder + path, follow=False)
        if node and node.target is not None:
            found[path] = node.target
    return found


def linked_world(options: dict[str, object]) -> World:
    """A folder with links to a file, to a folder, up, and nowhere."""
    world = World([("/src/", "/dst/", None)], options=options)
    world.source.write("/src/real", b"real")
    world.source.write("/src/in/deep", b"deep")
    world.source.write("/elsewhere/far", b"far")
    world.source.link("/src/file", "/src/real")
    world.source.link("/src/in/folder", "/elsewhere")
    world.source.link("/src/dangling", "no where;%")
    return world


LINKS = {"/file": "/src/real", "/in/folder": "/elsewhere", "/dangling": "no where;%"}


# ---- kept


async def test_links_are_kept_with_their_text_and_counted_as_links() -> None:
    world = linked_world(KEEP)
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "/dst") == LINKS
    assert world.destination.files("/dst") == {"/real": b"real", "/in/deep": b"deep"}
    totals = world.store.totals
    assert (totals.files, totals.transferred, totals.symlinks, totals.bytes_transferred) == (2, 2, 3, 8)
    assert world.store.count(State.DONE) == 5
    assert not any(path in LINKS for path in world.sessions.moved)


async def test_links_that_are_there_stay_and_others_give_way() -> None:
    world = linked_world(KEEP)
    world.destination.link("/dst/file", "/src/real")
    world.destination.link("/dst/dangling", "elsewhere")
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "/dst") == LINKS


@pytest.mark.parametrize("there", ["file", "folder"])
async def test_what_is_no_link_does_not_give_way_to_one(there: str) -> None:
    world = linked_world(KEEP)
    if there == "file":
        world.destination.write("/dst/file", b"precious")
    else:
        world.destination.write("/dst/file/precious", b"precious")
    assert await world.run() == "FAILED"
    assert links(world.destination, "/dst") == {path: to for path, to in LINKS.items() if path != "/file"}
    assert b"precious" in world.destination.files("/dst").values()
    assert world.store.file("/src/file").state is State.FAILED
    assert world.store.codes().count("PATH_EXISTS") == 1
    assert world.store.totals.failed == 1
    assert len(world.outcomes) == 1


async def test_a_repeated_sync_makes_no_link_again() -> None:
    first = linked_world(KEEP)
    assert await first.run() == "SUCCEEDED"
    again = World(first.items, source=first.source, destination=first.destination, options={**KEEP, "sync_level": 1})
    made: list[str] = []
    again.sessions.faults = lambda step, _, path: made.append(path) if step in ("symlink", "stor") else None
    assert await again.run() == "SUCCEEDED"
    assert made == []
    assert (again.store.totals.files, again.store.totals.skipped, again.store.totals.symlinks) == (2, 2, 3)


async def test_links_are_made_after_all_files() -> None:
    """Some servers make them only to what is there."""
    world = linked_world(KEEP)
    for n in range(500):
        world.source.write(f"/src/many/f{n}", b"x")
    at: list[int] = []
    world.sessions.faults = lambda step, *_: at.append(len(world.sessions.moved)) if step == "symlink" else None
    assert await world.run() == "SUCCEEDED"
    assert at == [502] * 3


async def test_a_server_that_wants_the_target_to_be_there_is_asked_a_few_times() -> None:
    world = linked_world(KEEP)
    world.script.add("symlink", "/dst/file", make_fault(Kind.FILE_NOT_FOUND), 2)
    world.script.add("symlink", "/dst/dangling", make_fault(Kind.FILE_NOT_FOUND), -1)
    assert await world.run() == "FAILED"
    assert links(world.destination, "/dst") == {path: to for path, to in LINKS.items() if path != "/dangling"}
    assert world.store.file("/src/dangling").state is State.FAILED
    assert world.store.codes().count("INVALID_SYMLINK") >= MAX_ATTEMPTS
    assert world.store.fatal is None


async def test_a_connection_that_is_lost_under_many_links_fails_none() -> None:
    world = World([("/src/", "/dst/", None)], options=KEEP)
    for n in range(450):
        world.source.link(f"/src/l{n}", f"to {n}")
    world.script.add("symlink", "/dst/l77", make_fault(Kind.CONNECTION_RESET), 2)
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "/dst") == {f"/l{n}": f"to {n}" for n in range(450)}
    assert world.store.totals.faults == 0


async def test_links_wait_for_a_destination_that_is_down() -> None:
    world = linked_world(KEEP)
    world.script.add("symlink", "/dst", make_fault(Kind.CONNECTION_RESET), 3)
    world.script.add("open", "", make_fault(Kind.CONNECT_FAILED), 6)
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "/dst") == LINKS


async def test_full_paths_of_what_links_lead_to_become_relative_within_the_tree() -> None:
    world = linked_world(KEEP)
    world.sessions.resolves_links = True
    world.source.link("/src/in/up", "/src/real")
    world.source.link("/src/in/root", "/src")
    world.source.link("/src/twin", "/srcs")
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "/dst") == {
        "/file": "real",
        "/in/up": "../real",
        "/in/root": "..",
        "/in/folder": "/elsewhere",
        "/twin": "/srcs",
        "/dangling": "no where;%",
    }


async def test_the_root_that_is_a_link_itself_is_looked_through() -> None:
    world = World([("/link/", "/dst/", None)], options=KEEP)
    world.sessions.resolves_links = True
    world.source.write("/real/in/f", b"f")
    world.source.link("/real/in/l", "/real/in/f")
    world.source.link("/link", "/real")
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "/dst") == {"/in/l": "f"}


@pytest.mark.parametrize(
    ("target", "link", "root", "expected"),
    [
        ("/a/b/f", "/a/l", "/a", "b/f"),
        ("/a/f", "/a/b/l", "/a", "../f"),
        ("/a", "/a/l", "/a", "."),
        ("/ab/f", "/a/l", "/a", "/ab/f"),
        ("/f", "/l", "", "f"),
        ("rel/x", "/a/l", "/a", "rel/x"),
    ],
)
def test_only_what_lies_in_the_tree_is_reported_relatively(target: str, link: str, root: str, expected: str) -> None:
    assert relative(target, link, root) == expected


def test_a_link_without_a_text_cannot_be_kept() -> None:
    with pytest.raises(FaultError) as caught:
        found_link("/s/l", "/d/l", Entry("l", "link"))
    assert caught.value.fault.kind is Kind.INVALID_SYMLINK


# ---- followed


async def test_links_are_followed_and_what_they_lead_to_is_copied() -> None:
    world = linked_world(COPY)
    del world.source.get("/src").children["dangling"]  # type: ignore[union-attr]
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {
        "/real": b"real",
        "/file": b"real",
        "/in/deep": b"deep",
        "/in/folder/far": b"far",
    }
    assert links(world.destination, "/dst") == {}
    assert (world.store.totals.files, world.store.totals.symlinks) == (4, 0)


async def test_a_link_that_leads_nowhere_is_a_missing_file_and_the_others_arrive() -> None:
    world = linked_world({**COPY, "skip_source_errors": True})
    assert await world.run() == "SUCCEEDED"
    assert len(world.destination.files("/dst")) == 4
    row = world.store.file("/src/dangling")
    assert (row.state, row.fault and row.fault.kind) == (State.SKIPPED, Kind.FILE_NOT_FOUND)
    assert world.store.totals.skipped_errors == 1


async def test_a_loop_of_links_is_reported_and_has_an_end() -> None:
    world = World([("/src/", "/dst/", None)], options=COPY)
    world.source.write("/src/a/f", b"f")
    world.source.link("/src/a/up", "/src")
    world.source.link("/src/a/self", "/src/a")
    world.source.write("/out/g", b"g")
    world.source.link("/src/out", "/out")
    world.source.link("/out/back", "/src/a")
    assert await world.run() == "FAILED"
    # From /src/out one comes to /src/a by another way than from above it: that is no loop.
    assert world.destination.files("/dst") == {"/a/f": b"f", "/out/g": b"g", "/out/back/f": b"f"}
    assert "INVALID_SYMLINK" in world.store.codes()
    assert world.store.fatal is None


async def test_a_followed_link_never_writes_over_what_it_leads_to() -> None:
    world = World([("/src/", "/dst/", None)], options=COPY, same_endpoint=True)
    world.source.write("/src/f", b"f")
    world.source.write("/dst/l", b"precious")
    world.source.write("/else", b"e")
    world.source.link("/src/l", "/dst/l")
    world.source.link("/src/m", "/else")
    assert await world.run() == "FAILED"
    assert world.source.files("/dst") == {"/f": b"f", "/l": b"precious", "/m": b"e"}
    assert "AMBIGUOUS_PATH" in world.store.codes()
    assert "/src/l" not in world.sessions.moved


async def test_a_folder_by_two_links_is_no_loop() -> None:
    world = World([("/src/", "/dst/", None)], options=COPY)
    world.source.write("/out/g", b"g")
    for name in ("one", "two", "in/three"):
        world.source.write("/src/in/x", b"x")
        world.source.link(f"/src/{name}", "/out")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {
        "/one/g": b"g", "/two/g": b"g", "/in/three/g": b"g", "/in/x": b"x",
    }  # fmt: skip


async def test_folders_are_not_followed_into_where_nobody_can_distinguish_them() -> None:
    world = linked_world(COPY)
    for name in ("/src/dangling", "/src/file"):
        world.source.remove(name, directory=False)
    plain = world.source.entry
    world.source.entry = lambda name, node: _without_unique(plain(name, node))  # type: ignore[method-assign]
    assert await world.run() == "FAILED"
    assert world.destination.files("/dst") == {"/real": b"real", "/in/deep": b"deep"}
    assert "UNSUPPORTED" in world.store.codes()


def _without_unique(entry: Entry) -> Entry:
    return Entry(entry.name, entry.kind, entry.size, entry.modified, link_target=entry.link_target)


# ---- items that are links


def link_item(source: str, destination: str) -> ItemRow:
    return ItemRow(0, source, destination, None, 0, symlink=True)


async def test_an_item_that_is_a_link_is_made_anew() -> None:
    world = World([link_item("/l", "/new/place/m"), link_item("/to-folder/", "/n/"), link_item("/gone", "/o")])
    world.source.link("/l", "some where")
    world.source.link("/to-folder", "/folder")
    world.source.write("/folder/f", b"f")
    world.source.link("/gone", "nowhere")
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "") == {"/new/place/m": "some where", "/n": "/folder", "/o": "nowhere"}
    assert world.destination.files() == {}
    assert (world.store.totals.files, world.store.totals.symlinks) == (0, 3)


async def test_a_link_item_within_one_endpoint_may_be_repeated() -> None:
    for _ in range(2):
        world = World([link_item("/l", "/m")], same_endpoint=True)
        world.source.write("/f", b"f")
        world.source.link("/l", "/f")
        world.source.link("/m", "/f")
        assert await world.run() == "SUCCEEDED"
        assert links(world.source, "") == {"/l": "/f", "/m": "/f"}


@pytest.mark.parametrize("there", ["file", "folder"])
async def test_an_item_that_should_be_a_link_and_is_none_fails_at_once(there: str) -> None:
    world = World([link_item("/l", "/m"), ("/good", "/good", None)])
    world.source.write("/good", b"x")
    world.source.write("/l" if there == "file" else "/l/f", b"x")
    assert await world.run() == "FAILED"
    assert world.store.codes().count("NOT_A_SYMLINK") == 1
    assert world.destination.files() == {"/good": b"x"}
    assert len(world.outcomes) == 1


async def test_a_link_item_that_appears_late_is_made_then() -> None:
    world = World([link_item("/l", "/m")])
    world.script.add("stat", "/l", make_fault(Kind.FILE_NOT_FOUND), 3)
    world.source.link("/l", "x")
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "") == {"/m": "x"}


# ---- a worker that dies


@pytest.mark.parametrize("mode", ["keep", "copy", "items"])
async def test_a_worker_that_dies_at_any_step_leaves_the_right_links(mode: str) -> None:
    step, killed = 1, True
    while killed:
        world = linked_world({**KEEP, "sync_level": 0} if mode == "keep" else COPY if mode == "copy" else {})
        world.source.remove("/src/dangling", directory=False)
        if mode == "items":
            items = [link_item("/src/file", "/dst/file"), link_item("/src/in/folder", "/dst/in/folder")]
            world = World(items, source=world.source)
        world.destination.link("/dst/file", "wrong")
        if mode == "copy":
            world.destination.remove("/dst/file", directory=False)
        killed = await world.killed_slice(step)
        if killed:
            await world.killed_slice(step)
        assert await world.run() == "SUCCEEDED"
        if mode == "copy":
            assert links(world.destination, "/dst") == {}
            assert world.destination.files("/dst")["/in/folder/far"] == b"far"
        else:
            assert links(world.destination, "/dst") == {"/file": "/src/real", "/in/folder": "/elsewhere"}
            assert world.store.totals.symlinks == 2
        step += 1
    assert step > 15


async def test_a_fault_of_a_link_waits_for_nobody() -> None:
    world = linked_world(KEEP)
    fault = make_fault(Kind.PERMISSION_DENIED, side=Side.DESTINATION)
    assert fault.scope is FaultScope.FILE
    world.script.add("symlink", "/dst/in", fault, 4)
    assert await world.run() == "SUCCEEDED"
    assert links(world.destination, "/dst") == LINKS
    assert world.store.totals.faults == 4
