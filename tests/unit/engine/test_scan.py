"""The items of the user become files, and nothing else does."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from endpoints.gridftp.faults import FaultScope, Kind, make_fault
from tests.unit.engine.world import World
from transferapi.tasks.records import TaskEndpoint
from workers.engine.credentials import Credentials
from workers.engine.paths import is_a_name, is_within, parent
from workers.engine.scan import scanner
from workers.engine.work import SliceContext

pytestmark = pytest.mark.virtual_time


def statuses(world: World) -> dict[str, str]:
    """Map the source path of each item that was given up to the kind of its fault."""
    return {
        item.row.source_path: str(item.fault.kind)
        for item in world.store.items.values()
        if item.given_up and item.fault
    }


async def test_the_contents_of_a_folder_go_inside_the_destination_folder() -> None:
    world = World([("/src/", "/a/new/place/", None)])
    world.source.write("/src/one", b"1")
    world.source.write("/src/in/two", b"2")
    world.source.folder("/src/empty/er")
    world.source.write("/src/zero", b"")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/a/new/place") == {"/one": b"1", "/in/two": b"2", "/zero": b""}
    assert world.destination.paths("/a/new/place") == world.source.paths("/src")
    assert (world.store.totals.files, world.store.totals.directories) == (3, 4)


async def test_the_root_of_an_endpoint_can_be_source_and_destination() -> None:
    world = World([("/", "/", True)])
    world.source.write("/one", b"1")
    world.source.write("/in/two", b"2")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files() == {"/one": b"1", "/in/two": b"2"}


async def test_names_go_as_they_are() -> None:
    names = ["with blank", " lead", "trail ", "quote\"'", "#", "%41", "*?[]", "~x", "é", "\udcff\udcfe", "a" * 255, ";"]
    world = World([("/src/", "/dst/", None)])
    for name in names:
        world.source.write(f"/src/{name}/{name}", name.encode("utf-8", "surrogateescape"))
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")


async def test_a_name_that_no_wire_takes_is_reported_and_the_others_arrive() -> None:
    world = World([("/src/", "/dst/", None)])
    for name in ("good", "bad\nname", "bell\a", "in/good", "bad\nfolder/x"):
        world.source.write(f"/src/{name}", b"x")
    assert await world.run() == "FAILED"
    assert set(world.destination.files("/dst")) == {"/good", "/in/good"}
    assert world.store.totals.failed == 3
    assert set(world.store.codes()) == {"STARTED", "INVALID_PATH_NAME"}


async def test_a_listing_cannot_lead_out_of_its_folder() -> None:
    world = World([("/src/", "/dst/", None)])
    world.source.write("/src/good", b"x")
    folder = world.source.get("/src")
    assert folder.children is not None
    folder.children["../../etc/passwd"] = folder.children["good"]
    folder.children[".."] = folder.children["good"]
    assert await world.run() == "FAILED"
    assert world.destination.files() == {"/dst/good": b"x"}
    assert statuses(world) == {"/src/": "INVALID_PATH_NAME"}


async def test_symlinks_inside_a_folder_are_counted_and_left_out() -> None:
    world = World([("/src/", "/dst/", None)])
    world.source.write("/src/real", b"x")
    world.source.link("/src/to-file", "/src/real")
    world.source.link("/src/to-folder", "/src")
    world.source.link("/src/dangling", "/nowhere")
    world.source.special("/src/pipe")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.paths("/dst") == {"/real"}
    assert (world.store.totals.files, world.store.totals.symlinks) == (1, 3)
    assert [event.details for event in world.store.events if event.description == "Some entries were left out."]


async def test_a_symlink_that_the_user_names_is_followed() -> None:
    world = World([("/file", "/f", None), ("/folder", "/d", None)])
    world.source.write("/real/file", b"x")
    world.source.link("/file", "/real/file")
    world.source.link("/folder", "/real")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files() == {"/f": b"x", "/d/file": b"x"}


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (("/folder", "/dst/", False), "IS_A_DIRECTORY"),
        (("/file", "/dst", True), "NOT_A_DIRECTORY"),
        (("/file", "/dst/", None), "IS_A_DIRECTORY"),
        (("/pipe", "/dst", None), "UNSUPPORTED"),
    ],
)
async def test_a_request_that_makes_no_sense_fails_at_once(item: tuple[str, str, bool | None], kind: str) -> None:
    world = World([item, ("/file", "/good", None)])
    world.source.write("/folder/x", b"x")
    world.source.write("/file", b"f")
    world.source.special("/pipe")
    assert await world.run() == "FAILED"
    assert statuses(world) == {item[0]: kind}
    assert world.destination.files() == {"/good": b"f"}
    assert len(world.outcomes) == 1


async def test_a_file_whose_destination_is_a_folder_fails() -> None:
    world = World([("/file", "/dst", None)])
    world.source.write("/file", b"f")
    world.destination.folder("/dst")
    assert await world.run() == "FAILED"
    assert world.store.codes()[-1] == "IS_A_DIRECTORY"


async def test_a_missing_source_is_retried_until_the_deadline() -> None:
    world = World([("/late", "/dst", None), ("/there", "/there", None)])
    world.source.write("/there", b"1")
    assert await world.run() == "FAILED"
    assert world.store.fatal
    assert world.store.fatal[0] == "EXPIRED"
    assert world.clock.now() >= world.store.deadline
    assert world.destination.files() == {"/there": b"1"}
    assert world.store.totals.faults > 280


async def test_a_missing_source_that_appears_is_transferred() -> None:
    world = World([("/late", "/dst", None)])
    task = asyncio.create_task(world.run())
    await asyncio.sleep(3600)
    world.source.write("/late", b"better")
    assert await task == "SUCCEEDED"
    assert world.destination.files() == {"/dst": b"better"}


@pytest.mark.parametrize("destination", ["/src/in/it/", "/src", "/src/", "//src/./x"])
async def test_a_folder_is_not_copied_into_itself(destination: str) -> None:
    world = World([("/src/", destination, None)], same_endpoint=True)
    world.source.write("/src/file", b"x")
    assert await world.run() == "FAILED"
    assert statuses(world) == {"/src/": "AMBIGUOUS_PATH"}
    assert world.source.files() == {"/src/file": b"x"}


async def test_a_folder_is_not_copied_into_itself_by_another_name() -> None:
    world = World([("/src", "/other/in", None), ("/src", "/other", None)], same_endpoint=True)
    world.source.write("/src/file", b"x")
    world.source.write("/src/more/file", b"x")
    world.source.link("/other", "/src")
    assert await world.run() == "FAILED"
    assert world.store.totals.failed == 2
    assert max(path.count("/") for path in world.source.paths("/src")) <= 3


@pytest.mark.parametrize("destination", ["/file", "//file", "/link"])
async def test_a_file_is_not_written_over_itself(destination: str) -> None:
    world = World([("/file", destination, None)], same_endpoint=True)
    world.source.write("/file", b"precious")
    world.source.link("/link", "/file")
    assert await world.run() == "FAILED"
    assert world.source.files() == {"/file": b"precious"}
    assert statuses(world) == {"/file": "AMBIGUOUS_PATH"}


async def test_within_one_endpoint_files_and_folders_can_be_copied() -> None:
    world = World([("/src/", "/src-copy/", None), ("/src/file", "/file2", None)], same_endpoint=True)
    world.source.write("/src/file", b"x")
    assert await world.run() == "SUCCEEDED"
    assert world.source.files("/src-copy") == {"/file": b"x"}
    assert world.source.get("/file2").content == b"x"


async def test_two_sources_for_one_destination_are_reported_and_the_others_arrive() -> None:
    items: list[tuple[str, str | None, bool | None]] = [(f"/f{n}", f"/d{n}", None) for n in range(50)]
    world = World([*items, ("/g", "/d7", None), ("/f3", "/d3", None), ("/folder/", "/", None)])
    for n in range(50):
        world.source.write(f"/f{n}", b"%d" % n)
    world.source.write("/g", b"other")
    world.source.write("/folder/d8", b"other")
    world.source.write("/folder/new", b"new")
    assert await world.run() == "FAILED"
    expected = {f"/d{n}": b"%d" % n for n in range(50)} | {"/new": b"new"}
    assert world.destination.files() == expected
    assert statuses(world) == {"/g": "AMBIGUOUS_PATH", "/folder/": "AMBIGUOUS_PATH"}
    assert world.store.totals.transferred == 51


async def test_a_folder_that_cannot_be_listed_holds_up_nothing_and_is_tried_again() -> None:
    world = World([("/src/", "/dst/", None), ("/other/", "/other/", None)])
    for n in range(20):
        world.source.write(f"/src/d{n}/f", b"%d" % n)
    world.source.write("/other/f", b"f")
    world.script.add("list", "/src/d7", make_fault(Kind.PERMISSION_DENIED), 3)
    await world.slice()
    assert len(world.destination.files("/dst")) == 19 or world.store.status == "SUCCEEDED"
    assert world.destination.files("/other")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")
    assert world.store.totals.directories == 22
    assert world.store.totals.faults == 3


async def test_a_folder_that_cannot_be_made_keeps_its_files_back_until_it_can() -> None:
    world = World([("/src/", "/dst/", None)])
    for n in range(20):
        world.source.write(f"/src/d{n}/f", b"%d" % n)
    world.script.add("mkdir", "/dst/d7", make_fault(Kind.PERMISSION_DENIED), 9)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == world.source.files("/src")
    assert "FILE_NOT_FOUND" not in world.store.codes()


async def test_the_folders_above_a_file_are_made_once() -> None:
    world = World([(f"/f{n}", f"/new/deep/f{n}", None) for n in range(500)])
    for n in range(500):
        world.source.write(f"/f{n}", b"x")
    made: list[str] = []
    world.sessions.faults = lambda step, _, path: made.append(path) if step == "mkdir" else None
    assert await world.run() == "SUCCEEDED"
    assert made == ["/new/deep", "/new", "/new/deep"]
    assert len(world.destination.files("/new/deep")) == 500


async def test_many_items_are_looked_at_side_by_side_and_written_in_batches() -> None:
    count = 5000
    world = World([(f"/f{n}", f"/d/f{n}", None) for n in range(count)], latency=0.05)
    for n in range(count):
        world.source.write(f"/f{n}", b"")
    began = world.clock.now()
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.transferred == count
    assert world.lease
    assert world.lease.calls["file_items_scanned"] == count // 200
    # One by one, each at a round trip of 50 ms, the looks alone would take 250 s.
    assert (world.clock.now() - began).total_seconds() < 30


async def test_a_lost_connection_under_many_looks_blames_no_item() -> None:
    world = World([(f"/f{n}", f"/d/f{n}", None) for n in range(300)])
    for n in range(300):
        world.source.write(f"/f{n}", b"")
    world.script.add("stat", "/f77", make_fault(Kind.CONNECTION_RESET))
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.faults == 0


async def test_an_item_that_kills_its_connection_is_found_among_the_others() -> None:
    world = World([(f"/f{n}", f"/d/f{n}", None) for n in range(300)])
    for n in range(300):
        world.source.write(f"/f{n}", b"")
    world.script.add("stat", "/f77", make_fault(Kind.CONNECTION_RESET), 12)
    assert await world.run() == "SUCCEEDED"
    faulted = [item.row.source_path for item in world.store.items.values() if item.row.attempts]
    assert faulted == ["/f77"]


async def test_a_listing_that_breaks_off_is_begun_again_and_nothing_is_counted_twice() -> None:
    world = World([("/src/", "/dst/", None)])
    for n in range(1200):
        world.source.write(f"/src/f{n}", b"")
    for n in range(3):
        world.source.folder(f"/src/d{n}")
        world.source.link(f"/src/l{n}", "/src")
    # The listing of /src comes in three parts; the first passes, the second breaks off.
    rules = iter([None, make_fault(Kind.CONNECTION_BROKEN)])
    world.sessions.faults = lambda step, side, path: next(rules, None) if step == "list" else None
    assert await world.run() == "SUCCEEDED"
    totals = world.store.totals
    assert (totals.files, totals.directories, totals.symlinks, totals.faults) == (1200, 4, 3, 0)


async def test_an_endpoint_that_is_down_is_reported_once_a_try_and_blames_no_item() -> None:
    world = World([(f"/f{n}", f"/d/f{n}", None) for n in range(300)])
    for n in range(300):
        world.source.write(f"/f{n}", b"")
    down = replace(make_fault(Kind.CONNECT_FAILED), scope=FaultScope.ENDPOINT)
    # Both sides are asked at the same time, so that each try meets two.
    world.script.add("open", "", down, 16)
    assert await world.run() == "SUCCEEDED"
    assert world.store.codes().count("CONNECT_FAILED") == 8
    assert world.store.totals.faults == 0
    # 1 + 2 + 4 + ... s apart, over several slices.
    assert 60 < world.clock.now().timestamp() - 1767225600 < 260
    assert len(world.outcomes) > 2


async def test_a_loop_of_folders_has_an_end() -> None:
    world = World([("/src/", "/dst/", None)])
    world.source.write("/src/f", b"x")
    folder = world.source.get("/src")
    assert folder.children is not None
    folder.children["loop"] = folder
    assert await world.run() == "FAILED"
    assert statuses(world) == {"/src/": "INVALID_PATH_NAME"}
    assert world.destination.files("/dst")["/f"] == b"x"


async def test_transfer_begins_before_the_scan_ends() -> None:
    world = World([("/src/", "/dst/", None)])
    for n in range(1500):
        world.source.write(f"/src/d{n}/f", b"x")
    task = asyncio.create_task(world.run())
    await world.until(lambda: bool(world.sessions.moved))
    assert not world.store.items[1].scanned
    assert await task == "SUCCEEDED"


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/a/", "//a/.", True),
        ("/ab", "/a", False),
        ("/", "/a", False),
        ("/a", "/", True),
    ],
)
def test_a_path_lies_in_a_folder_or_does_not(path: str, folder: str, expected: bool) -> None:
    assert is_within(path, folder) is expected


def test_the_parent_of_a_path_is_the_folder_it_lies_in() -> None:
    assert [parent(path) for path in ("/a/b", "/a/b/", "/a//b", "/a", "/", "/~/x")] == ["/a", "/a", "/a", "", "", "/~"]


def test_names_that_lead_elsewhere_are_none() -> None:
    assert [name for name in ("", ".", "..", "a/b", "/", "...", " ", "~") if is_a_name(name)] == ["...", " ", "~"]


@pytest.mark.parametrize("delete", [True, False])
async def test_a_scan_that_takes_longer_than_a_slice_comes_to_its_end(delete: bool) -> None:
    """Otherwise the scan would begin again in each slice, for ever."""
    item = ("/src/", None if delete else "/dst/", True)
    world = World([item], delete=delete, options={"recursive": True}, latency=0.2, slice_seconds=2, may_time_out=True)
    for n in range(300):
        world.source.write(f"/src/d{n}/f", b"x")
    await world.slice()
    assert world.store.items[1].scanned
    assert len(world.store.rows) == (601 if delete else 300)


async def test_a_scan_holds_up_the_end_of_a_slice_only_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "LONGEST", 20.0)
    world = World([("/src/", "/dst/", None)], latency=1.0, slice_seconds=5, may_time_out=True)
    for n in range(1000):
        world.source.write(f"/src/d{n}/f", b"x")
    began = world.clock.now()
    await world.slice()
    assert 24 < (world.clock.now() - began).total_seconds() < 35
    assert world.store.status == "ACTIVE"


@pytest.mark.parametrize(
    ("source_root", "destination_root", "item"),
    [("/srv", None, ("/a", "/srv/a/b")), (None, "/srv/a", ("/srv", "/x")), ("/srv", "/srv/a", ("/a", "/"))],
)
async def test_two_names_of_one_place_are_seen_by_what_the_servers_call_them(
    source_root: str | None, destination_root: str | None, item: tuple[str, str]
) -> None:
    """A shared endpoint and its host, or two of one host."""
    world = World([(*item, True)], same_endpoint=True)
    source = TaskEndpoint("1", "go#one", host_id="h", root=source_root)
    destination = TaskEndpoint("2", "go#two", host_id="h", root=destination_root)
    spec = replace(world.spec(), source=source, destination=destination)
    credentials = Credentials(world.credential_provider, world.clock)
    work = SliceContext(spec, world.store.lease(), world.sessions, credentials, world.clock, float)
    assert work.same_endpoint
    assert work.is_into_itself(*item)
    assert not work.is_into_itself("/else/where", "/elsewhere")
