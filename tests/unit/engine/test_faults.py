"""Faults of every kind, and a worker that dies at any time: each file arrives intact or is reported as failed, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.gridftp.faults import Fault, FaultScope, Kind, make_fault
from tests.engine_fakes import State, run
from tests.unit.engine.world import World, each_in_virtual_time

pytestmark = pytest.mark.virtual_time

NAMES = st.sampled_from(["a", "b", "c", "d e", "é", "#%25", "f'\""])
FOLDERS = st.lists(NAMES, max_size=3).map(lambda names: "".join(f"/{name}" for name in names))
FILES = st.dictionaries(
    st.tuples(FOLDERS, st.integers(0, 40)).map(lambda pair: f"{pair[0]}/file{pair[1]}"),
    st.binary(max_size=12),
    max_size=30,
)
STEPS = st.sampled_from(["open", "lane", "stat", "list", "mkdir", "retr", "stor", "midway"])
KINDS = st.sampled_from(
    [
        (Kind.FILE_NOT_FOUND, FaultScope.FILE),
        (Kind.PERMISSION_DENIED, FaultScope.FILE),
        (Kind.NO_SPACE_LEFT, FaultScope.FILE),
        (Kind.UNKNOWN, FaultScope.FILE),
        (Kind.CONNECTION_BROKEN, FaultScope.SESSION),
        (Kind.TIMEOUT, FaultScope.SESSION),
        (Kind.CONNECT_FAILED, FaultScope.ENDPOINT),
        (Kind.ENDPOINT_TOO_BUSY, FaultScope.ENDPOINT),
    ]
)


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, str, Fault, int]:
    """A step, where it fails, how, and how often: never for ever, and always mendable."""
    kind, scope = draw(KINDS)
    path = draw(st.sampled_from(["", "/src", "/src/a", "/dst", "/dst/b", "/src/file1"]))
    return draw(STEPS), path, replace(make_fault(kind), scope=scope), draw(st.integers(1, 6))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files=FILES, faults=st.lists(rules(), max_size=6), chunk=st.sampled_from([None, 3]), trusted=st.booleans())
@each_in_virtual_time
async def test_every_file_arrives_however_often_mendable_faults_strike(
    files: dict[str, bytes], faults: list[tuple[str, str, Fault, int]], chunk: int | None, trusted: bool
) -> None:
    world = World([("/src/", "/dst/", None)], chunk=chunk, trusted=trusted)
    fill(world, files)
    for rule in faults:
        world.script.add(*rule)
    assert await world.run() == "SUCCEEDED"
    assert_arrived(world, files)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=FILES,
    faults=st.lists(rules(), max_size=3),
    hopeless=st.sets(st.integers(0, 40), max_size=5),
    chunk=st.sampled_from([None, 3]),
)
@each_in_virtual_time
async def test_a_hopeless_file_is_reported_to_have_failed_and_all_others_arrive(
    files: dict[str, bytes], faults: list[tuple[str, str, Fault, int]], hopeless: set[int], chunk: int | None
) -> None:
    world = World([("/src/", "/dst/", True)], chunk=chunk)
    fill(world, files)
    lost = {path for path in files if int(path.rpartition("file")[2]) in hopeless}
    for rule in faults:
        world.script.add(*rule)
    for path in lost:
        fault = make_fault(Kind.INVALID_PATH_NAME, retryable=False)
        world.script.rules.insert(0, ("retr", f"/src{path}", fault, -1))
    status = await world.run()
    failed = {row.file.source_path for row in world.store.rows.values() if row.state is State.FAILED}
    assert {path.removeprefix("/src") for path in failed} >= lost
    there = world.destination.files("/dst")
    assert all(there[path] == content for path, content in files.items() if f"/src{path}" not in failed)
    assert status == ("FAILED" if failed else "SUCCEEDED")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=FILES,
    faults=st.lists(rules(), max_size=4),
    deaths=st.lists(st.integers(1, 150), min_size=1, max_size=4),
    chunk=st.sampled_from([None, 3]),
    trusted=st.booleans(),
)
@each_in_virtual_time
async def test_every_file_arrives_whatever_fails_and_whenever_workers_die(
    files: dict[str, bytes],
    faults: list[tuple[str, str, Fault, int]],
    deaths: list[int],
    chunk: int | None,
    trusted: bool,
) -> None:
    world = World([("/src/", "/dst/", None)], chunk=chunk, trusted=trusted)
    fill(world, files)
    for rule in faults:
        world.script.add(*rule)
    for step in deaths:
        if world.store.status == "ACTIVE":
            await world.killed_slice(step)
    assert await world.run() == "SUCCEEDED"
    assert_arrived(world, files)


async def killed_at(step: int, chunk: int | None, trusted: bool, deaths: int, latency: float = 0.001) -> bool:
    """A task of two folders and two files whose worker dies at this step, and again so many steps later."""
    items = [("/src/", "/dst/", None), ("/one", "/new/folder/one", None), ("/gone", "/new/gone", None)]
    world = World(items, chunk=chunk, trusted=trusted, latency=latency)
    files = {f"/{folder}/file{index}": b"%d" % (index * 12345) for folder in "ab" for index in range(8)}
    fill(world, files)
    world.source.write("/one", b"one")
    world.script.add("retr", "/src/a/file3", replace(make_fault(Kind.CONNECTION_BROKEN)), 1)
    world.script.add("stor", "/dst/b/file5", make_fault(Kind.PERMISSION_DENIED), 1)
    world.script.add("stat", "/gone", make_fault(Kind.INVALID_PATH_NAME, retryable=False), -1)
    killed = False
    for _ in range(deaths):
        killed = await world.killed_slice(step) or killed
        if world.store.status != "ACTIVE":
            break
    assert await world.run() == "FAILED"
    assert_arrived(world, files)
    assert world.destination.files("/new") == {"/folder/one": b"one"}
    assert (world.store.totals.files, world.store.totals.failed) == (len(files) + 2, 1)
    return killed


@pytest.mark.parametrize(
    ("chunk", "trusted", "latency"), [(None, True, 0.001), (2, True, 0.001), (2, True, 0.4), (2, False, 0.4)]
)
def test_a_worker_may_be_killed_at_any_step(chunk: int | None, trusted: bool, latency: float) -> None:
    step = 1
    while run(killed_at(step, chunk, trusted, 1, latency)):
        step += 1
    assert step > 40


@pytest.mark.parametrize("step", range(20, 90, 7))
def test_a_worker_may_be_killed_again_and_again(step: int) -> None:
    assert run(killed_at(step, 2, True, deaths=5))


def fill(world: World, files: dict[str, bytes]) -> None:
    world.source.folder("/src")
    for path, content in files.items():
        world.source.write(f"/src{path}", content)


def assert_arrived(world: World, files: dict[str, bytes]) -> None:
    """These, with this content, and nothing besides but what a lost worker left under its own names."""
    there = world.destination.files("/dst")
    assert {path: content for path, content in there.items() if "/.waybill-" not in path} == files
