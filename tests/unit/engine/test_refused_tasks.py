"""A task that is refused has made nothing at the destination: what can be known is asked before folders are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from endpoints.gridftp.faults import FaultScope, Kind, Side, make_fault
from transferapi.tasks.records import Checksum, ItemRow

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


async def test_the_folder_of_a_probe_is_removed_by_a_server_that_was_away_meanwhile() -> None:
    """As one that was started again: the files of the walk arrive afterwards, and nothing else stays."""
    one = world([("/src/", "/there/", None)], near=True)
    one.script.add("remove", "/there/.waybill-", make_fault(Kind.CONNECTION_BROKEN), 7)
    assert await one.run() == "SUCCEEDED"
    assert one.script.met == 7
    assert not [path for path in one.destination.paths() if "/.waybill-" in path]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Kind.PERMISSION_DENIED, Kind.UNKNOWN])
async def test_a_file_that_may_not_be_read_leaves_no_folder(way: dict[str, Any], kind: Kind) -> None:
    """Where the server gives any other answer, the transfer itself must show what is wrong."""
    one = world([("/src/f0", "/there/new/f0", None)], **way | {"may_time_out": True})
    one.script.add("read", "/src/f0", make_fault(kind), -1)
    one.script.add("retr", "/src/f0", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await one.run() == "FAILED"
    assert made_in(one) == (set() if kind is Kind.PERMISSION_DENIED else {"/there", "/there/new"})


async def test_of_a_folder_with_one_file_that_may_be_read_only_the_others_fail() -> None:
    items: list[Any] = [(f"/src/f{number}", f"/there/new/f{number}", None) for number in range(3)]
    one = world(items, may_time_out=True)
    for step in ("read", "retr"):
        for name in ("/src/f0", "/src/f2"):
            one.script.add(step, name, make_fault(Kind.PERMISSION_DENIED), -1)
    assert await one.run() == "FAILED"
    assert set(one.destination.files("/there")) == {"/new/f1"}


async def test_a_folder_that_exists_is_neither_made_nor_asked_whether_files_can_be_read() -> None:
    one = world([("/src/f0", "/there/f0", None)])
    one.destination.make_directory("/there")
    for step in ("read", "mkdir"):
        one.script.add(step, "/", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await one.run() == "SUCCEEDED"
    assert one.script.met == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given", [False, True])
async def test_a_checksum_that_a_server_cannot_make_is_found_before_folders_are_made(
    way: dict[str, Any], given: bool
) -> None:
    item = ItemRow(0, "/src/f0", "/there/new/f0", None, 0, Checksum("SHA512", "0" * 128))
    options = {"verify_checksum": not given, **way.get("options", {})}
    one = world([item] if given else ITEMS, **way | {"options": options, "may_time_out": given})
    one.sessions.algorithms = {Side.SOURCE: ("MD5",), Side.DESTINATION: ("SHA512",)}
    assert await one.run() == "FAILED"
    assert made_in(one) == set()
