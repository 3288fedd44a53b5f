"""interpret_globs: a DELETE of what patterns match, and of nothing else."""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.gridftp.faults import Kind, make_fault
from endpoints.gridftp.patterns import is_pattern
from tests.engine_fakes import MemoryTree
from tests.unit.engine.world import World
from workers.engine.scan import globs
from workers.engine.scan.globs import matcher
from workers.engine.slice import SliceResult

pytestmark = pytest.mark.virtual_time


def glob_world(*paths: str, recursive: bool = False, **options: Any) -> World:
    world = World([(path, None, None) for path in paths], delete=True)
    world.options = {"recursive": recursive, "interpret_globs": True, **options}
    return world


def fill(tree: MemoryTree) -> None:
    for name in ("a1", "a2", "b1", ".a3", "*", "a1.log", "z"):
        tree.write(f"/data/{name}", b"x")
    for folder in ("d1", "d2", ".hidden"):
        tree.write(f"/data/{folder}/a1", b"x")
        tree.write(f"/data/{folder}/in/a9", b"x")
    tree.write("/outside/a1", b"precious")
    tree.link("/data/lnk", "/outside")
    tree.link("/data/dangling", "/nowhere")


def left(*gone: str) -> set[str]:
    """All that `fill` makes but this."""
    tree = MemoryTree()
    fill(tree)
    return {path for path in tree.paths() if not any(path == one or path.startswith(f"{one}/") for one in gone)}


@pytest.mark.parametrize(
    ("path", "recursive", "gone"),
    [
        ("/data/a?", False, ["/data/a1", "/data/a2"]),
        ("/data/[ab]1", False, ["/data/a1", "/data/b1"]),
        ("/data/[!ad]1", False, ["/data/b1"]),
        ("/data/.a*", False, ["/data/.a3"]),
        ("/data/?a3", None, []),
        ("/data/[*]", False, ["/data/*"]),
        ("/data/*.log", False, ["/data/a1.log"]),
        ("/data/d*", True, ["/data/d1", "/data/d2", "/data/dangling"]),
        ("/data/d*/", True, ["/data/d1", "/data/d2"]),
        ("/data/d?/a1", False, ["/data/d1/a1", "/data/d2/a1"]),
        ("/data/*/in/*", False, ["/data/d1/in/a9", "/data/d2/in/a9"]),
        ("/*/d1/a*", False, ["/data/d1/a1"]),
        ("/data/.h*/in", True, ["/data/.hidden/in"]),
        ("/data/dang*", False, ["/data/dangling"]),
        ("/data/l*", True, ["/data/lnk"]),
        ("/data/l*/a1", False, ["/outside/a1"]),
        ("/data/l*/", None, []),
        ("/nothing/*", None, []),
        ("/data/a1/*", None, []),
        ("/data/*/a1/*", None, []),
    ],
)
@pytest.mark.parametrize("ignore_missing", [True, False])
async def test_what_a_shell_would_match_goes_and_all_else_stays(
    path: str, recursive: bool | None, gone: list[str], ignore_missing: bool
) -> None:
    world = glob_world(path, recursive=bool(recursive), ignore_missing=ignore_missing)
    fill(world.source)
    found = recursive is not None
    assert await world.run() == ("SUCCEEDED" if found or ignore_missing else "FAILED")
    assert world.source.paths() == left(*gone)
    if not found and not ignore_missing:
        assert "FILE_NOT_FOUND" in world.store.codes()


async def test_without_the_option_an_asterisk_is_a_name() -> None:
    world = glob_world("/data/*")
    world.options["interpret_globs"] = False
    fill(world.source)
    assert await world.run() == "SUCCEEDED"
    assert world.source.paths() == left("/data/*")


async def test_folders_go_only_where_recursive_was_asked_and_the_files_go_before() -> None:
    world = glob_world("/data/*")
    fill(world.source)
    assert await world.run() == "FAILED"
    names = ["a1", "a2", "b1", "*", "a1.log", "z", "lnk", "dangling"]
    assert world.source.paths() == left(*(f"/data/{name}" for name in names))
    assert "IS_A_DIRECTORY" in world.store.codes()


async def test_one_folder_that_cannot_be_looked_into_does_not_keep_the_rest() -> None:
    world = glob_world("/data/d?/a1")
    fill(world.source)
    world.script.add("stat", "/data/d1/a1", make_fault(Kind.PERMISSION_DENIED), 5)
    world.slice_seconds = 2.0
    assert await world.slice() is SliceResult.RELEASED
    assert world.source.paths() == left("/data/d2/a1")
    world.slice_seconds = 300.0
    assert await world.run() == "SUCCEEDED"
    assert world.source.paths() == left("/data/d1/a1", "/data/d2/a1")


async def test_what_a_scan_that_broke_off_had_found_counts_as_found() -> None:
    world = glob_world("/data/d?/a1")
    fill(world.source)
    world.source.remove("/data/d2/a1", directory=False)
    # The second folder cannot be looked into until the first one's file is gone.
    world.script.add("stat", "/data/d2/a1", make_fault(Kind.PERMISSION_DENIED), 2)
    assert await world.run() == "SUCCEEDED"
    assert world.source.paths() == left("/data/d1/a1", "/data/d2/a1")


@pytest.mark.parametrize("death", range(1, 60, 2))
async def test_a_killed_worker_changes_nothing_of_the_outcome(death: int) -> None:
    world = glob_world("/data/d*", "/data/*.log", recursive=True)
    fill(world.source)
    await world.killed_slice(death)
    assert await world.run() == "SUCCEEDED"
    assert world.source.paths() == left("/data/d1", "/data/d2", "/data/dangling", "/data/a1.log")


async def test_ten_thousand_matches_come_in_batches() -> None:
    world = glob_world("/data/x*")
    fill(world.source)
    for n in range(10_000):
        world.source.write(f"/data/x{n}")
    assert await world.run() == "SUCCEEDED"
    assert world.source.paths() == left()
    assert max(len(batch.settled) for batch in world.store.writes) < 2000


async def test_more_folders_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(globs, "MAX_FOLDERS", 10)
    world = glob_world("/data/*/f")
    for n in range(20):
        world.source.write(f"/data/d{n}/f")
    assert await world.run() == "FAILED"
    assert "LIMIT_EXCEEDED" in world.store.codes()
    assert len(world.source.files()) == 20


NAMES = st.text("ab.*[]!-?", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much])
@given(NAMES, st.text("ab.*?", min_size=1, max_size=6))
def test_asterisks_and_question_marks_match_as_the_standard_library_has_it(name: str, pattern: str) -> None:
    expected = fnmatch.fnmatchcase(name, pattern) and (not name.startswith(".") or pattern.startswith("."))
    assert matcher(pattern)(name) is expected


def test_a_pattern_of_asterisks_is_no_burden() -> None:
    assert not matcher("*a" * 100 + "b")("a" * 255)


def test_only_what_has_a_wild_letter_is_a_pattern() -> None:
    assert all(map(is_pattern, ("/a*", "/?", "/[", "/a/*/b")))
    assert not any(map(is_pattern, ("/a", "/~/b", "/a]b", "/x{1,2}")))
