"""Sync: what is in place already is not sent, at each level, and nothing else is left out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, FaultScope, Kind, Side, make_fault
from tests.engine_fakes import MemoryTree, State
from tests.unit.engine.world import World
from transferapi.tasks.records import SYMLINK, FoundFile
from workers.engine.control_sessions import ControlSessions, UnreachableError
from workers.engine.scan import checksum_comparison, comparison, scanner
from workers.engine.scan.comparison import SyncLevel, Verdict, verdict

pytestmark = pytest.mark.virtual_time

THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER, EARLIER = THEN + timedelta(seconds=1), THEN - timedelta(seconds=1)
#: The entry at the destination, and the decision of each level for a file of 3 octets: Send, In place, Compare.
THERE: dict[str, tuple[Entry | None, str]] = {
    "missing": (None, "SSSS"),
    "the same": (Entry("f", "file", 3, THEN), "IIIC"),
    "newer": (Entry("f", "file", 3, LATER), "IIIC"),
    "older": (Entry("f", "file", 3, EARLIER), "IISC"),
    "of no known time": (Entry("f", "file", 3, None), "IISC"),
    "of another size": (Entry("f", "file", 4, LATER), "ISSS"),
    "empty": (Entry("f", "file", 0, LATER), "ISSS"),
    "a folder": (Entry("f", "dir", 3, THEN), "SSSS"),
    "a pipe": (Entry("f", "OS.unix=pipe", 3, THEN), "SSSS"),
    "a link that leads nowhere": (Entry("f", "link", 3, THEN, link_target="x"), "SSSS"),
    "a link to the same": (Entry("f", "file", 3, THEN, link_target="x"), "IIIC"),
}
VERDICTS = {"S": Verdict.SEND, "I": Verdict.IN_PLACE, "C": Verdict.COMPARE}


@pytest.mark.parametrize("level", SyncLevel)
@pytest.mark.parametrize("there", THERE)
def test_a_file_is_sent_when_the_level_says_that_it_differs(level: SyncLevel, there: str) -> None:
    entry, expected = THERE[there]
    assert verdict(level, FoundFile("/src/f", "/dst/f", 3, THEN), entry) is VERDICTS[expected[level]]


def test_fractions_of_a_second_make_nothing_older() -> None:
    found = FoundFile("/src/f", "/dst/f", 3, THEN.replace(microsecond=900_000))
    assert verdict(SyncLevel.MODIFIED, found, Entry("f", "file", 3, THEN)) is Verdict.IN_PLACE


def test_a_source_of_no_known_time_is_sent() -> None:
    assert verdict(SyncLevel.MODIFIED, FoundFile("/s", "/d", 3, None), Entry("d", "file", 3, THEN)) is Verdict.SEND


def test_empty_files_need_no_checksum() -> None:
    assert verdict(SyncLevel.CHECKSUM, FoundFile("/s", "/d", 0, THEN), Entry("d", "file", 0, THEN)) is Verdict.IN_PLACE


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (Entry("l", "file", 3, link_target="x"), Verdict.IN_PLACE),
        (Entry("l", "link", link_target="x"), Verdict.IN_PLACE),
        (Entry("l", "file", 3, link_target="y"), Verdict.SEND),
        (Entry("l", "file", 3), Verdict.SEND),
    ],
)
def test_a_link_is_in_place_when_it_leads_there(there: Entry, expected: Verdict) -> None:
    found = FoundFile("/s/l", "/d/l", 0, None, SYMLINK, link_target="x")
    assert {verdict(level, found, there) for level in SyncLevel} == {expected}


# ---- whole tasks


def fill(tree: MemoryTree, root: str, files: dict[str, bytes], modified: datetime = THEN) -> None:
    for path, content in files.items():
        tree.write(f"{root}{path}", content).modified = modified


#: By path: what the destination has when the task begins, and the levels at which the file is sent.
TREE: dict[str, tuple[bytes | None, datetime, set[int]]] = {
    "/missing": (None, THEN, {0, 1, 2, 3}),
    "/in/missing": (None, THEN, {0, 1, 2, 3}),
    "/in/deep/same": (b"/in/deep/same", THEN, set()),
    "/in/size": (b"/in/size longer", LATER, {1, 2, 3}),
    "/in/older": (b"/in/older", EARLIER, {2}),
    "/newer": (b"/newer", LATER, set()),
    "/content": (b"/CONTENT", LATER, {3}),
    "/in/content": (b"/in/CONTENT", THEN, {3}),
}


@pytest.mark.parametrize("items", ["folder", "files"])
@pytest.mark.parametrize("level", SyncLevel)
async def test_only_what_differs_is_sent(level: SyncLevel, items: str) -> None:
    single = [(f"/src{path}", f"/dst{path}", None) for path in TREE]
    world = World([("/src/", "/dst/", None)] if items == "folder" else single, options={"sync_level": int(level)})
    fill(world.source, "/src", {path: path.encode() for path in TREE})
    for path, (content, modified, _) in TREE.items():
        if content is not None:
            fill(world.destination, "/dst", {path: content}, modified)
    before = world.destination.files("/dst")
    assert await world.run() == "SUCCEEDED"
    sent = {path for path, (_, _, levels) in TREE.items() if level in levels}
    assert {path.removeprefix("/src") for path in world.sessions.moved} == sent
    for path, content in world.destination.files("/dst").items():
        assert content == (path.encode() if path in sent else before[path])
    totals = world.store.totals
    assert (totals.transferred, totals.skipped) == (len(sent), len(TREE) - len(sent))
    same_size = [path for path in TREE if path not in ("/missing", "/in/missing", "/in/size")]
    assert totals.bytes_checksummed == (sum(map(len, same_size)) if level is SyncLevel.CHECKSUM else 0)


@pytest.mark.parametrize("level", SyncLevel)
async def test_a_folder_where_a_file_goes_is_reported_and_the_others_arrive(level: SyncLevel) -> None:
    world = World([("/src/", "/dst/", None), ("/src/f", "/other", None)], options={"sync_level": int(level)})
    fill(world.source, "/src", {"/f": b"f", "/g": b"g"})
    world.destination.folder("/dst/f")
    world.destination.folder("/other")
    assert await world.run() == "FAILED"
    assert world.store.codes().count("IS_A_DIRECTORY") >= 1
    assert world.store.count(State.FAILED) == 2
    assert world.destination.files() == {"/dst/g": b"g"}


@pytest.mark.parametrize("level", SyncLevel)
async def test_a_repeated_task_sends_nothing(level: SyncLevel) -> None:
    first = World([("/src/", "/dst/", None)])
    fill(first.source, "/src", {f"/d{n % 7}/f{n}": b"%d" % n for n in range(500)}, EARLIER)
    assert await first.run() == "SUCCEEDED"
    for path in first.destination.files("/dst"):
        first.destination.get(f"/dst{path}").modified = THEN
    again = World(
        [("/src/", "/dst/", None)],
        source=first.source,
        destination=first.destination,
        options={"sync_level": int(level)},
    )
    assert await again.run() == "SUCCEEDED"
    assert again.sessions.moved == []
    assert (again.store.totals.files, again.store.totals.skipped) == (500, 500)


async def test_new_folders_are_not_listed_at_the_destination() -> None:
    world = World([("/src/", "/dst/", None)], options={"sync_level": 1})
    fill(world.source, "/src", {"/old/f": b"f", "/new/in/f": b"f"})
    fill(world.destination, "/dst", {"/old/f": b"f"})
    listed = watch(world, "list", Side.DESTINATION)
    assert await world.run() == "SUCCEEDED"
    assert sorted(listed) == ["/dst", "/dst/old"]
    assert world.sessions.moved == ["/src/new/in/f"]


def watch(world: World, what: str, where: Side) -> list[str]:
    """The paths of these steps as they come."""
    seen: list[str] = []
    world.sessions.faults = lambda step, side, path: seen.append(path) if (step, side) == (what, where) else None
    return seen


async def test_folders_too_large_for_memory_are_compared_file_by_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "ROOM", 100)
    world = World([("/src/", "/dst/", None)], options={"sync_level": 1})
    fill(world.source, "/src", {f"/d{n % 3}/f{n}": b"%d" % n for n in range(3000)})
    fill(world.destination, "/dst", {f"/d{n % 3}/f{n}": b"%d" % n for n in range(3000) if n % 10})
    looks = watch(world, "stat", Side.DESTINATION)
    assert await world.run() == "SUCCEEDED"
    assert len(world.sessions.moved) == 300
    assert world.destination.files("/dst") == world.source.files("/src")
    # Each folder may find room for some of it; 100 are listed, 2,700 are in place.
    assert 2900 - 100 <= len(looks) <= 3000


async def test_the_room_for_listings_is_given_back() -> None:
    world = World([("/src/", "/dst/", None)])
    fill(world.destination, "/dst", {f"/f{n}": b"" for n in range(600)})
    await world.slice()
    control_sessions = ControlSessions(world.sessions)
    destination = comparison.DestinationFolders(control_sessions)
    room = destination.room
    for _ in range(3):
        async with destination.folder("/dst") as beside:
            there = await beside.entries_for(
                [FoundFile("/src/f7", "/dst/f7", 0, None), FoundFile("/src/x", "/dst/x", 0, None)]
            )
            assert there[0]
            assert there[1] is None
    world.script.add("list", "/dst", make_fault(Kind.CONNECTION_BROKEN))
    with pytest.raises(FaultError):
        async with destination.folder("/dst"):
            pass
    assert destination.room == room
    await control_sessions.close()


async def test_an_endpoint_that_cannot_be_reached_is_not_one_without_the_file() -> None:
    """A session of a shared endpoint is confined to a folder, which may be missing."""
    world = World([("/src/", "/dst/", None)])
    world.script.add("open", "", make_fault(Kind.FILE_NOT_FOUND))
    control_sessions = ControlSessions(world.sessions)
    with pytest.raises(UnreachableError):
        await comparison.entry_at(control_sessions, Side.DESTINATION, "/dst/f")
    await control_sessions.close()


async def test_new_files_flow_while_contents_are_still_compared() -> None:
    world = World([("/src/", "/dst/", None)], options={"sync_level": 3}, latency=0.5)
    fill(world.source, "/src", {f"/f{n}": b"%d" % n for n in range(400)} | {"/new": b"new"})
    fill(world.destination, "/dst", {f"/f{n}": b"%d" % n for n in range(400)})
    compared = watch(world, "checksum", Side.SOURCE)
    task = asyncio.create_task(world.run())
    await world.until(lambda: bool(world.sessions.moved))
    assert len(compared) < 400
    assert not world.store.items[1].scanned
    assert await task == "SUCCEEDED"
    assert world.sessions.moved == ["/src/new"]
    assert len(compared) == 400


async def test_the_scan_waits_when_too_many_contents_are_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum_comparison, "BACKLOG", 10)
    world = World([("/src/", "/dst/", None)], options={"sync_level": 3})
    names = [f"/d{n % 20}/f{n}" for n in range(1000)]
    fill(world.source, "/src", {name: name.encode() for name in names})
    fill(world.destination, "/dst", {name: name.encode() for name in names})
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.skipped == 1000


async def test_no_common_algorithm_fails_the_item_and_new_files_arrive() -> None:
    world = World([("/src/", "/dst/", None), ("/src/f", "/g", None)], options={"sync_level": 3})
    world.sessions.algorithms = {Side.SOURCE: ("MD5",), Side.DESTINATION: ("SHA1",), Side.UNKNOWN: ()}
    fill(world.source, "/src", {"/f": b"f", "/new": b"new"})
    fill(world.destination, "", {"/dst/f": b"f", "/g": b"f"})
    assert await world.run() == "FAILED"
    assert world.destination.files("/dst") == {"/f": b"f", "/new": b"new"}
    assert "UNSUPPORTED" in world.store.codes()
    assert len(world.outcomes) == 1


async def test_a_file_that_cannot_be_read_for_its_checksum_is_sent_and_fails_by_itself() -> None:
    world = World([("/src/", "/dst/", None)], options={"sync_level": 3})
    fill(world.source, "/src", {"/f": b"f", "/g": b"g"})
    fill(world.destination, "/dst", {"/f": b"f", "/g": b"g"})
    world.script.add("checksum", "/src/f", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await world.run() == "SUCCEEDED"
    assert world.sessions.moved == ["/src/f"]


async def test_a_lost_connection_under_many_checksums_blames_no_file() -> None:
    world = World([("/src/", "/dst/", None)], options={"sync_level": 3})
    fill(world.source, "/src", {f"/f{n}": b"%d" % n for n in range(300)})
    fill(world.destination, "/dst", {f"/f{n}": b"%d" % n for n in range(300)})
    world.script.add("checksum", "/dst/f77", make_fault(Kind.CONNECTION_RESET), 2)
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.faults == 0
    assert world.sessions.moved == []


async def test_endpoints_that_are_down_end_the_comparison_until_they_are_back() -> None:
    for step, path in (("open", ""), ("list", "/dst"), ("checksum", "/src")):
        world = World([("/src/", "/dst/", None), ("/one", "/one", None)], options={"sync_level": 3})
        fill(world.source, "", {f"/src/f{n}": b"%d" % n for n in range(300)} | {"/one": b"1"})
        fill(world.destination, "", {f"/dst/f{n}": b"%d" % n for n in range(300)} | {"/one": b"1"})
        world.script.add(step, path, replace(make_fault(Kind.CONNECT_FAILED), scope=FaultScope.ENDPOINT), 12)
        assert await world.run() == "SUCCEEDED"
        assert world.sessions.moved == []
        assert world.store.totals.skipped == 301


async def test_what_an_earlier_scan_has_compared_is_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a task whose comparisons take longer than a slice would never end."""
    monkeypatch.setattr(scanner, "LONGEST", 3.0)
    world = World(
        [("/src/", "/dst/", None)], options={"sync_level": 3}, latency=0.2, slice_seconds=1, may_time_out=True
    )
    names = [f"/f{n}" for n in range(3000)]
    fill(world.source, "/src", {name: name.encode() for name in names})
    fill(world.destination, "/dst", {name: name.encode() for name in names})
    seen = watch(world, "checksum", Side.SOURCE)
    assert await world.run(most_slices=20) == "SUCCEEDED"
    assert len(world.outcomes) > 2
    # Comparisons that were not yet written at the end of a slice are repeated: those of one second at most.
    assert len(seen) <= 3000 + 400 * len(world.outcomes)
    assert world.store.totals.bytes_checksummed == sum(map(len, names))


async def test_a_checksum_that_takes_longer_than_a_slice_is_waited_for() -> None:
    items = [("/src/", "/dst/", None), ("/one", "/one", None)]
    world = World(items, options={"sync_level": 3}, slice_seconds=10)
    for path in ("/src/large", "/one", "/src/large too", "/src/small"):
        world.source.write(path, b"large" if "small" not in path else b"s", scale=1 << 30)
        world.destination.write(path.replace("/src", "/dst"), b"large" if "small" not in path else b"t", scale=1 << 30)
    plain = world.sessions.step

    async def slow(step: str, side: Side, path: str) -> None:
        await plain(step, side, path)
        if step == "checksum" and side is Side.SOURCE:
            await asyncio.sleep(35)

    world.sessions.step = slow  # type: ignore[method-assign]
    world.may_time_out = True
    assert await world.run() == "SUCCEEDED"
    assert world.sessions.moved == ["/src/small"]
    assert world.store.totals.bytes_checksummed == 16 << 30
    assert world.store.totals.skipped == 3


@pytest.mark.parametrize("items", ["folder", "files"])
@pytest.mark.parametrize("level", [0, 3])
async def test_a_worker_that_dies_at_any_step_spoils_no_comparison(level: int, items: str) -> None:
    """A file that is half written when the worker dies looks as if it were there: its row knows better."""
    step, killed = 1, True
    while killed:
        single = [(f"/src{path}", f"/dst{path}", None) for path in TREE]
        world = World(
            [("/src/", "/dst/", None)] if items == "folder" else single, options={"sync_level": level}, chunk=3
        )
        fill(world.source, "/src", {path: path.encode() for path in TREE})
        for path, (content, modified, _) in TREE.items():
            if content is not None:
                fill(world.destination, "/dst", {path: content}, modified)
        killed = await world.killed_slice(step)
        if killed:
            await world.killed_slice(step)
        assert await world.run() == "SUCCEEDED"
        sent = {path for path, (_, _, levels) in TREE.items() if level in levels}
        there = world.destination.files("/dst")
        assert {path for path, content in there.items() if content == path.encode()} >= sent
        assert (world.store.totals.transferred, world.store.totals.skipped) == (len(sent), len(TREE) - len(sent))
        step += 1
    assert step > 20
