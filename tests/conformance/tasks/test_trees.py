"""Trees between two real servers, the toolkit's and ours: what is sent, what is deleted, and what becomes of links."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.gridftp import toolkit
from tests.gridftp.six_servers import Served, started
from tests.gridftp.streamed_tasks import StreamedTask, tree
from transferapi.tasks.records import ItemRow

KINDS = [pytest.param("toolkit", marks=pytest.mark.toolkit), "ours"]
PAIRS = [
    pytest.param("toolkit", "toolkit", marks=pytest.mark.toolkit),
    pytest.param("ours", "ours"),
    pytest.param("toolkit", "ours", marks=pytest.mark.toolkit),
    pytest.param("ours", "toolkit", marks=pytest.mark.toolkit),
]
SLICES = 12
#: By path: what is in place before the task, how old it is compared with the source's, and levels at which it is sent.
CASES: dict[str, tuple[bytes | None, int, set[int]]] = {
    "missing": (None, 0, {0, 1, 2, 3}),
    "in/missing": (None, 0, {0, 1, 2, 3}),
    "in/deep/same": (b"content of in/deep/same", 0, set()),
    "size": (b"something longer than before", 9, {1, 2, 3}),
    "in/older": (b"content of in/older", -9, {2}),
    "in/newer": (b"content of in/newer", 9, set()),
    "content": (b"CONTENT OF content", 9, {3}),
    "in/content": (b"CONTENT OF in/content", 0, {3}),
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    folder = tmp_path_factory.mktemp("two")
    with ExitStack() as stack:
        kinds = ["ours", *(["toolkit"] if toolkit.installed() else [])]
        yield {kind: started(kind, folder / kind, stack) for kind in kinds}


@dataclass(frozen=True)
class Place:
    """A folder of one test at a server. path: of a name in it, as users of the server write it."""

    served: Served
    folder: Path

    def path(self, name: str = "") -> str:
        return f"{self.served.path(self.folder)}/{name}"

    def make(self, *names: str) -> None:
        for name in names:
            self.put(name, name.encode())

    def put(self, name: str, content: bytes, modified: int = 10**9) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (modified, modified))

    def names(self, under: str = "") -> set[str]:
        """All that lies there; symlinks are not followed."""
        top = self.folder / under
        return {
            os.path.relpath(os.path.join(root, name), top)
            for root, folders, files in os.walk(top)
            for name in [*folders, *files]
        }

    def links(self, under: str = "") -> dict[str, str]:
        """The symlinks there: relative path to text."""
        top = self.folder / under
        return {name: os.readlink(top / name) for name in self.names(under) if (top / name).is_symlink()}


@dataclass
class Ends:
    servers: dict[str, Served]
    name: str

    def place(self, kind: str, which: str) -> Place:
        served = self.servers[kind]
        folder = served.data / f"{self.name}-{which}"
        folder.mkdir()
        return Place(served, folder)


@pytest.fixture
def ends(servers: dict[str, Served], tmp_path: Path) -> Ends:
    return Ends(servers, tmp_path.name)


Item = tuple[str, str | None, bool | None] | ItemRow


async def run(a: Place, b: Place | None, items: list[Item], **options: object) -> StreamedTask:
    """Move the items, or delete them where there is no destination, until the task is over."""
    for place in filter(None, (a, b)):
        place.served.give()
    task = StreamedTask(a.served.end, b.served.end if b else None, items, options)
    await task.run(SLICES)
    return task


async def copy(a: Place, b: Place, **options: object) -> StreamedTask:
    """Move the whole folder."""
    return await run(a, b, [(a.path(), b.path("copy/"), None)], **options)


async def delete(a: Place, *names: str, **options: object) -> StreamedTask:
    return await run(a, None, [(a.path(name), None, None) for name in names], **options)


def links(folder: Path, outside: Path) -> None:
    """Symlinks to a folder and a file elsewhere, and to nothing."""
    (folder / "to-folder").symlink_to(outside)
    (folder / "to-file").symlink_to(outside / "precious")
    (folder / "dangling").symlink_to("nowhere")


# ---- deletions


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_missing_is_passed_over_only_where_that_was_asked(ends: Ends, kind: str) -> None:
    a = ends.place(kind, "a")
    a.make("old", "other")
    assert (await delete(a, "old", "gone", ignore_missing=True)).store.status == "SUCCEEDED"
    assert a.names() == {"other"}
    a.served.give()
    items = [(a.path(name), None, None) for name in ("other", "gone")]
    task = StreamedTask(a.served.end, None, items, deadline=timedelta(minutes=1))
    await task.run()
    assert (task.store.status, task.store.fatal and task.store.fatal[0]) == ("FAILED", "EXPIRED")
    assert "FILE_NOT_FOUND" in task.faults()
    assert a.names() == set()


@pytest.mark.parametrize("kind", KINDS)
async def test_patterns_match_what_a_shell_would(ends: Ends, kind: str) -> None:
    a = ends.place(kind, "a")
    a.make("a1", "a2", "b1", ".a3", "star*", "run1/out/x.log", "run2/out/y.log", "run2/out/y.txt", "run3")
    a.make("outside/out/z.log", "tmp1/f", "tmp2/in/f")
    (a.folder / "run4").symlink_to("outside")
    every = a.names()

    async def gone(*patterns: str, **options: object) -> set[str]:
        task = await delete(a, *patterns, interpret_globs=True, **options)
        assert task.store.status == "SUCCEEDED"
        return every - a.names()

    expected = {"a1", "a2", "star*"}
    assert await gone("a?", "star[*]") == expected
    # Components before the last lead through links; `run3` is a file, and no way to anything.
    expected |= {"run1/out/x.log", "run2/out/y.log", "outside/out/z.log"}
    assert await gone("run*/out/*.log") == expected
    task = await delete(a, "tmp*", interpret_globs=True)
    assert (task.store.status, set(task.faults())) == ("FAILED", {"IS_A_DIRECTORY"})
    expected |= {"tmp1", "tmp1/f", "tmp2", "tmp2/in", "tmp2/in/f", "run4"}
    assert await gone("tmp*", "run4*", recursive=True) == expected
    assert await gone("nothing*", ignore_missing=True) == expected
    assert await gone(".a*") == expected | {".a3"}


@pytest.mark.parametrize("kind", KINDS)
async def test_files_that_appear_during_a_deletion_go_too(ends: Ends, kind: str) -> None:
    a = ends.place(kind, "a")
    a.make(*(f"old/d{n % 5}/f{n}" for n in range(1000)))
    owner = a.folder.stat().st_uid
    appeared = 0

    async def refill() -> None:
        """A new file in each folder that is there, again and again while the deletion works."""
        nonlocal appeared
        for round_ in range(40):
            for n in range(5):
                path = a.folder / f"old/d{n}/new{round_}"
                try:
                    path.touch()
                    os.chown(path, owner, -1)
                    appeared += 1
                except FileNotFoundError:
                    continue
            await asyncio.sleep(0.005)

    refilling = asyncio.create_task(refill())
    task = await delete(a, "old", recursive=True)
    refilling.cancel()
    await asyncio.wait([refilling])
    assert task.store.status == "SUCCEEDED"
    assert appeared
    assert a.names() == set()


# ---- mirrors


def fill_mirror(a: Place, b: Place) -> None:
    a.make("f", "d/f", "d/e/f", *(f"many/f{n}" for n in range(300)))
    b.make("outside/precious", "copy/old", "copy/d/old", "copy/d/e/old", "copy/gone/deep/old", "copy/d/e/f")
    b.make(*(f"copy/many/x{n}" for n in range(700)), *(f"copy/lots/x{n}" for n in range(700)))
    (b.folder / "copy" / "gone" / "empty").mkdir()


@pytest.mark.parametrize(("source", "destination"), PAIRS)
async def test_a_mirror_has_what_the_source_has_and_nothing_else(ends: Ends, source: str, destination: str) -> None:
    a, b = ends.place(source, "a"), ends.place(destination, "b")
    fill_mirror(a, b)
    (a.folder / "linked").symlink_to("d")
    b.make("copy/linked")
    for folder in ("copy/gone", "copy/gone/deep"):
        links(b.folder / folder, b.folder / "outside")
    (b.folder / "copy" / "d" / "to-folder").symlink_to(b.folder / "outside")
    task = await copy(a, b, delete_destination_extra=True)
    assert task.store.status == "SUCCEEDED"
    assert b.names("copy") == a.names()
    assert (b.folder / "outside" / "precious").read_bytes() == b"outside/precious"
    (a.folder / "linked").unlink()
    (b.folder / "copy" / "linked").unlink()
    assert tree(b.folder / "copy") == tree(a.folder)
    assert sum("Deleted at the destination" in event.description for event in task.store.events) == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_items_that_lie_in_each_other_delete_nothing(ends: Ends, kind: str) -> None:
    a, b = ends.place("ours", "a"), ends.place(kind, "b")
    a.make("one/f", "two/g")
    b.make("copy/old", "copy/two/old", "copy/two/precious")
    (b.folder / "alias").symlink_to(b.folder / "copy")
    before = b.names()
    for second in ("copy/two/", "alias/"):
        items: list[Item] = [(a.path("one/"), b.path("copy/"), None), (a.path("two/"), b.path(second), None)]
        task = await run(a, b, items, delete_destination_extra=True)
        assert task.store.status == "SUCCEEDED"
        assert task.store.codes().count("DELETE_DESTINATION_EXTRA_SKIPPED") == 1
        assert before <= b.names()


# ---- what is sent


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize(("source", "destination"), PAIRS)
async def test_only_what_differs_is_sent(ends: Ends, source: str, destination: str, level: int) -> None:
    a, b = ends.place(source, "a"), ends.place(destination, "b")
    expected = {}
    for name, (there, seconds, levels) in CASES.items():
        content = f"content of {name}".encode()
        a.put(name, content)
        if there is not None:
            b.put(f"copy/{name}", there, 10**9 + seconds)
        expected[name] = content if level in levels or there is None else there
    task = await copy(a, b, sync_level=level)
    sent = sum(level in levels for _, _, levels in CASES.values())
    totals = task.store.totals
    assert (task.store.status, totals.transferred, totals.skipped) == ("SUCCEEDED", sent, len(CASES) - sent)
    assert {name: (b.folder / "copy" / name).read_bytes() for name in CASES} == expected
    compared = [name for name, (there, _, _) in CASES.items() if there and len(there) == len(f"content of {name}")]
    assert totals.bytes_checksummed == (sum(len(f"content of {name}") for name in compared) if level == 3 else 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tree_that_is_in_place_is_not_sent_again(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    a.make("f", "d/f", *(f"many/f{n}" for n in range(300)))
    first = await copy(a, b, sync_level=3)
    assert (first.store.status, first.store.totals.skipped) == ("SUCCEEDED", 0)
    for level in range(4):
        again = await copy(a, b, sync_level=level)
        totals = again.store.totals
        assert (totals.transferred, totals.skipped, totals.bytes_transferred) == (0, 302, 0)
    assert again.store.totals.bytes_checksummed == first.store.totals.bytes_transferred
    assert tree(b.folder / "copy") == tree(a.folder)


@pytest.mark.parametrize("kind", KINDS)
async def test_items_that_are_files_are_compared_one_by_one(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    items: list[Item] = []
    for index in range(60):
        a.put(f"f{index}", b"%d" % index)
        if index % 3:
            b.put(f"g{index}", b"%d" % (index if index % 3 == 1 else index + 1))
        items.append((a.path(f"f{index}"), b.path(f"g{index}"), None))
    totals = (await run(a, b, items, sync_level=3)).store.totals
    assert (totals.transferred, totals.skipped) == (40, 20)
    assert all((b.folder / f"g{index}").read_bytes() == b"%d" % index for index in range(60))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_folder_where_a_file_goes_is_named(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    a.make("f", "g")
    b.make("copy/f/inner")
    task = await copy(a, b, sync_level=0)
    assert (task.store.status, set(task.faults())) == ("FAILED", {"IS_A_DIRECTORY"})
    assert (b.folder / "copy" / "g").read_bytes() == b"g"
    assert (b.folder / "copy" / "f" / "inner").read_bytes() == b"copy/f/inner"


@pytest.mark.parametrize("kind", KINDS)
async def test_rules_leave_out_files_and_folders(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    a.make("a", "b.tmp", "in/keep.tmp", "in/c.tmp", "in/d", "cache/e", "in/cache/f", "out/cache")
    rules = [
        {"method": "include", "name": "keep.*"},
        {"method": "exclude", "name": "*.t?p", "type": "file"},
        {"method": "exclude", "name": "[ac]ache", "type": "dir"},
    ]
    task = await copy(a, b, filter_rules=rules)
    assert (task.store.status, task.store.totals.files) == ("SUCCEEDED", 4)
    assert set(tree(b.folder / "copy")) == {"a", "in/keep.tmp", "in/d", "out/cache"}
    assert not (b.folder / "copy" / "cache").exists()


# ---- links


def linked(place: Place) -> None:
    """A tree with links to a file, to a folder, up, and between folders."""
    place.make("real", "in/deep/f")
    (place.folder / "link").symlink_to("real")
    (place.folder / "in" / "up").symlink_to("../real")
    (place.folder / "folder").symlink_to("in/deep")


@pytest.mark.parametrize(("source", "destination"), PAIRS)
async def test_links_are_kept(ends: Ends, source: str, destination: str) -> None:
    a, b = ends.place(source, "a"), ends.place(destination, "b")
    linked(a)
    for _ in range(2):
        task = await copy(a, b, recursive_symlinks="keep", sync_level=1)
        kept = b.links("copy")
        assert set(kept) == {"link", "in/up", "folder"}
        if destination == "ours":
            assert kept == {"link": "real", "in/up": "../real", "folder": "in/deep"}
        # The toolkit's servers make them absolute; they lead to the copy all the same.
        for name, text in a.links().items():
            place = b.folder / "copy" / name
            assert place.resolve() == place.parent.joinpath(text).resolve()
        totals = task.store.totals
        assert (task.store.status, totals.files, totals.symlinks, totals.faults) == ("SUCCEEDED", 2, 3, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_does_not_give_way_to_a_link(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    linked(a)
    b.put("copy/link", b"precious")
    task = await copy(a, b, recursive_symlinks="keep")
    assert (task.store.status, set(task.faults())) == ("FAILED", {"PATH_EXISTS"})
    assert (b.folder / "copy" / "link").read_bytes() == b"precious"
    assert set(b.links("copy")) == {"in/up", "folder"}


@pytest.mark.parametrize("kind", KINDS)
async def test_links_are_followed(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    linked(a)
    task = await copy(a, b, recursive_symlinks="copy", sync_level=3)
    assert b.links("copy") == {}
    assert set(tree(b.folder / "copy")) == {"real", "link", "in/up", "in/deep/f", "folder/f"}
    assert (b.folder / "copy" / "in" / "up").read_bytes() == b"real"
    assert (task.store.status, task.store.totals.files) == ("SUCCEEDED", 5)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_loop_of_links_ends_and_is_named(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    linked(a)
    (a.folder / "in" / "loop").symlink_to("..")
    task = await copy(a, b, recursive_symlinks="copy")
    assert (task.store.status, set(task.faults())) == ("FAILED", {"INVALID_SYMLINK"})
    assert set(tree(b.folder / "copy")) == {"real", "link", "in/up", "in/deep/f", "folder/f"}


def link_items(a: Place, b: Place, *names: str) -> list[Item]:
    return [ItemRow(0, a.path(name), b.path(f"to/{name}"), None, 0, symlink=True) for name in names]


@pytest.mark.parametrize("kind", KINDS)
async def test_items_may_be_links(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    linked(a)
    task = await run(a, b, link_items(a, b, "link", "folder"))
    there = b.links("to")
    if kind == "ours":
        assert there == {"link": "real", "folder": "in/deep"}
    else:
        # The toolkit's servers report the true target of a link, and a link item has no copied folder to point into.
        assert there == {"link": f"{a.folder}/real", "folder": f"{a.folder}/in/deep"}
    totals = task.store.totals
    assert (task.store.status, totals.files, totals.symlinks) == ("SUCCEEDED", 0, 2)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_item_that_is_no_link_is_named(ends: Ends, kind: str) -> None:
    a, b = ends.place(kind, "a"), ends.place(kind, "b")
    linked(a)
    task = await run(a, b, link_items(a, b, "link", "real", "in"))
    assert (task.store.status, set(task.faults())) == ("FAILED", {"NOT_A_SYMLINK"})
    assert set(b.links("to")) == {"link"}
