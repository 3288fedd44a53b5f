"""A task that is refused has made nothing at the destination: what can be known is asked before folders are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from endpoints.gridftp.faults import FaultScope, Kind, make_fault

from .world import World

pytestmark = pytest.mark.virtual_time

REFUSED = replace(make_fault(Kind.UNSUPPORTED, "500 PROT P?", retryable=False), scope=FaultScope.ENDPOINT)
ITEMS = [("/src/", "/there/new/", None), ("/src/f0", "/there/other/f0", None)]
#: Tasks that make the destination while the source is listed, and tasks that make it before.
WAYS: list[dict[str, Any]] = [
    {},
    {"near": True},
    {"same_endpoint": True},
    {"options": {"sync_level": 1}},
    {"options": {"recursive_symlinks": "keep"}},
    {"latency": 0.1},
]


def world(items: list[Any], **more: Any) -> World:
    made = World(items, **more)
    for number in range(3):
        made.source.write(f"/src/f{number}", b"x")
    made.source.write("/src/inner/f", b"x")
    return made


def made_in(world: World) -> set[str]:
    tree = world.source if world.same_endpoint else world.destination
    return {path for path in tree.paths() if path.startswith("/there")}


@pytest.mark.parametrize("way", WAYS)
async def test_encryption_that_a_server_cannot_give_is_found_before_folders_are_made(way: dict[str, Any]) -> None:
    one = world(ITEMS, **way | {"options": {"encrypt_data": True, **way.get("options", {})}})
    one.script.add("lane", "", REFUSED, -1)
    assert await one.run() == "FAILED"
    assert one.store.fatal is not None
    assert made_in(one) == set()


async def test_a_lane_that_opens_at_the_second_try_is_no_refusal() -> None:
    one = world(ITEMS, options={"encrypt_data": True})
    one.script.add("lane", "", replace(make_fault(Kind.ENDPOINT_TOO_BUSY), scope=FaultScope.ENDPOINT), 2)
    assert await one.run() == "SUCCEEDED"
    assert len(one.destination.files("/there")) == 5


@pytest.mark.parametrize("passed_over", [False, True])
@pytest.mark.parametrize("way", WAYS)
async def test_a_folder_that_may_not_be_listed_makes_none(way: dict[str, Any], passed_over: bool) -> None:
    options = {"skip_source_errors": passed_over, **way.get("options", {})}
    one = world([("/src/", "/there/new/", None)], **way | {"options": options, "may_time_out": True})
    one.script.add("list", "/src", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await one.run() == ("SUCCEEDED" if passed_over else "FAILED")
    assert made_in(one) == set()


@pytest.mark.parametrize("way", WAYS)
async def test_a_folder_with_nothing_in_it_is_made(way: dict[str, Any]) -> None:
    one = world([("/empty/", "/there/new/", None)], **way)
    one.source.folder("/empty")
    assert await one.run() == "SUCCEEDED"
    assert made_in(one) == {"/there", "/there/new"}


@pytest.mark.parametrize("way", WAYS)
async def test_a_folder_whose_listing_is_long_arrives_whole(way: dict[str, Any]) -> None:
    one = world([("/many/", "/there/new/", None)], **way)
    for number in range(3000):
        one.source.write(f"/many/f{number}")
    assert await one.run() == "SUCCEEDED"
    tree = one.source if one.same_endpoint else one.destination
    assert len(tree.files("/there")) == 3000


async def test_a_folder_that_exists_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both endpoints may share storage, it has been asked for already: a round trip less."""
    one = world([("/src/", "/there/", None)], near=True)
    one.destination.make_directory("/there")
    made: list[str] = []
    make_directory = one.destination.make_directory

    def noted(path: str) -> None:
        made.append(path)
        make_directory(path)

    monkeypatch.setattr(one.destination, "make_directory", noted)
    assert await one.run() == "SUCCEEDED"
    assert "/there/inner" in made
    assert not {"/there", "/there/"} & set(made)
