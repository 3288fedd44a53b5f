"""Destinations that fold case or normalise names: nothing is deleted, and nothing overwritten, by another spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine_fakes.folding import composed, folding, without_case
from tests.unit.engine.world import ItemSpec, World
from workers.engine.delete.extras import SKIPPED

pytestmark = pytest.mark.virtual_time

DECOMPOSED = unicodedata.normalize("NFD", "Müller")
TREE: list[ItemSpec] = [("/src/", "/dst/", True)]


def mirror(items: list[ItemSpec] | None = None, **options: Any) -> World:
    return World(items or TREE, options={"delete_destination_extra": True, **options})


def fold(world: World, how: Callable[[str], str]) -> None:
    world.destination.folder("/dst")
    world.destination.root.children = folding(how, world.destination.root.children or {})


def kept(world: World) -> list[str]:
    """The paths that an event names as kept."""
    (event,) = [event for event in world.store.events if event.description.startswith("Kept")]
    assert isinstance(event.details, dict)
    return list(event.details["paths"])


@pytest.mark.parametrize(
    ("how", "ours", "theirs"),
    [
        (without_case, "Report.txt", "report.txt"),
        (without_case, "STRASSE", "straße"),
        (without_case, "Ärger", "ärger"),
        (composed, "Müller", DECOMPOSED),
        (composed, DECOMPOSED, "Müller"),
        (lambda name: name.rstrip(". "), "notes.", "notes"),
    ],
)
@pytest.mark.parametrize("path", ["{}", "{}/one", "deep/{}/one", "deep/er/{}"])
async def test_a_mirror_keeps_what_it_wrote_under_the_other_spelling_of_its_name(
    how: Callable[[str], str], ours: str, theirs: str, path: str
) -> None:
    world = mirror()
    world.source.write(f"/src/{path.format(ours)}", b"new")
    world.destination.write(f"/dst/{path.format(theirs)}", b"old")
    world.destination.write("/dst/deep/old", b"x")
    fold(world, how)
    assert await world.run() == "SUCCEEDED"
    assert list(world.destination.files("/dst").values()) == [b"new"]
    assert len(kept(world)) == 1


async def test_a_name_that_only_folds_to_one_of_the_source_stays_also_where_the_destination_does_not_fold() -> None:
    world = mirror()
    world.source.write("/src/Report.txt", b"new")
    world.destination.write("/dst/report.txt", b"old")
    world.destination.write("/dst/other.txt", b"old")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/Report.txt": b"new", "/report.txt": b"old"}
    assert kept(world) == ["/dst/report.txt"]


async def test_a_file_item_keeps_its_file_in_a_mirror_under_another_spelling() -> None:
    world = mirror([*TREE, ("/single", "/dst/Single", None), ("/single", "/dst/Sub/Single", None)])
    world.source.write("/src/f", b"f")
    world.source.write("/single", b"new")
    world.destination.write("/dst/single", b"old")
    world.destination.write("/dst/sub/single", b"old")
    world.destination.write("/dst/sub/old", b"old")
    fold(world, without_case)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/f": b"f", "/single": b"new", "/sub/single": b"new"}


@pytest.mark.parametrize("second", ["/DST/", "/DST/sub/", "/Dst/sub/deep/er/"])
async def test_items_whose_folders_may_be_one_by_their_spelling_delete_nothing(second: str) -> None:
    world = mirror([*TREE, ("/more/", second, True)])
    world.source.write("/src/f", b"f")
    world.source.write("/more/g", b"g")
    world.destination.write("/dst/old", b"x")
    fold(world, without_case)
    assert await world.run() == "SUCCEEDED"
    assert sorted(world.destination.files("/dst").values()) == [b"f", b"g", b"x"]
    (event,) = [event for event in world.store.events if event.code == SKIPPED]
    assert "take two of the folders" in str(event.details)


# ---- two sources that fold together


def fold_anew(world: World, how: Callable[[str], str]) -> None:
    world.destination.root.children = folding(how, {})


@pytest.mark.parametrize(
    ("how", "first", "second"),
    [
        (without_case, "Report.txt", "report.txt"),
        (composed, "Müller", DECOMPOSED),
        (lambda name: name.rstrip(". "), "notes", "notes."),
    ],
)
@pytest.mark.parametrize("path", ["{}", "{}/one", "deep/{}"])
async def test_the_second_of_two_names_that_the_destination_takes_for_one_is_an_error(
    how: Callable[[str], str], first: str, second: str, path: str
) -> None:
    world = World(TREE)
    world.source.write(f"/src/{path.format(first)}", b"first")
    world.source.write(f"/src/{path.format(second)}", b"second")
    world.source.write("/src/other", b"other")
    fold_anew(world, how)
    assert await world.run() == "FAILED"
    assert world.destination.files("/dst") == {f"/{path.format(first)}": b"first", "/other": b"other"}
    assert any("does not distinguish" in event.description for event in world.store.events)
    assert not [name for name in world.destination.paths() if ".waybill" in name]


async def test_the_second_is_skipped_where_that_was_asked_for() -> None:
    world = World(TREE, options={"skip_source_errors": True})
    world.source.write("/src/A", b"first")
    world.source.write("/src/a", b"second")
    fold_anew(world, without_case)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/A": b"first"}
    assert world.store.totals.skipped_errors == 1


async def test_of_two_items_the_second_is_an_error() -> None:
    world = World([("/x", "/dst/A", None), ("/y", "/dst/a", None), ("/y", "/dst/b", None)])
    world.source.write("/x", b"first")
    world.source.write("/y", b"second")
    fold_anew(world, without_case)
    assert await world.run() == "FAILED"
    assert world.destination.files("/dst") == {"/A": b"first", "/b": b"second"}


@pytest.mark.parametrize("items", [TREE, [("/src/A", "/dst/A", None), ("/src/a", "/dst/a", None)]])
async def test_both_arrive_where_the_destination_distinguishes_them(items: list[ItemSpec]) -> None:
    world = World(items)
    world.source.write("/src/A", b"first")
    world.source.write("/src/a", b"second")
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/A": b"first", "/a": b"second"}
    assert not [name for name in world.destination.paths() if ".waybill" in name]


async def test_names_that_fold_together_are_found_across_the_batches_of_a_long_listing() -> None:
    world = World(TREE)
    for n in range(3000):
        world.source.write(f"/src/File{n}", b"first")
    for n in range(0, 3000, 500):
        world.source.write(f"/src/file{n}", b"second")
    fold_anew(world, without_case)
    assert await world.run() == "FAILED"
    files = world.destination.files("/dst")
    assert len(files) == 3000
    assert set(files.values()) == {b"first"}
