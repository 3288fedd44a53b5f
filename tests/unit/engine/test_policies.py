"""Options of the user for faults: skip_source_errors, fail_on_quota_errors."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side, classify, make_fault
from endpoints.gridftp.replies import Reply
from tests.engine_fakes import State
from tests.unit.engine.test_retry import JITTER, LATER, NOW
from tests.unit.engine.world import World
from workers.engine.retry import SOURCE_ERRORS, Fail, PassOver, Policy, Retry, decide

pytestmark = pytest.mark.virtual_time

SKIPPING = {"skip_source_errors": True}


@given(st.sampled_from(sorted(SOURCE_ERRORS)), st.integers(1, 100), JITTER)
def test_what_the_source_refuses_is_passed_over_after_a_second_look(kind: Kind, attempts: int, jitter: float) -> None:
    fault = make_fault(kind, side=Side.SOURCE)
    asked = decide(fault, attempts, NOW, LATER, jitter, policy=Policy(skip_source_errors=True))
    assert isinstance(asked, PassOver)
    assert not isinstance(decide(fault, attempts, NOW, LATER, jitter), PassOver)


def test_a_first_fault_is_tried_again_unless_no_repetition_helps() -> None:
    policy = Policy(skip_source_errors=True)
    first = {
        kind: decide(make_fault(kind, side=Side.SOURCE), 0, NOW, LATER, 0.5, policy=policy) for kind in SOURCE_ERRORS
    }
    assert isinstance(first[Kind.FILE_NOT_FOUND], Retry)
    assert isinstance(first[Kind.PERMISSION_DENIED], Retry)
    assert isinstance(first[Kind.AMBIGUOUS_PATH], PassOver)


@pytest.mark.parametrize(
    ("kind", "side"),
    [
        (Kind.PERMISSION_DENIED, Side.DESTINATION),
        (Kind.FILE_NOT_FOUND, Side.DESTINATION),
        (Kind.TIMEOUT, Side.SOURCE),
        (Kind.UNKNOWN, Side.SOURCE),
    ],
)
def test_nothing_else_is_passed_over(kind: Kind, side: Side) -> None:
    decision = decide(make_fault(kind, side=side), 9, NOW, LATER, 0.5, policy=Policy(skip_source_errors=True))
    assert isinstance(decision, Retry)


@pytest.mark.parametrize(
    "text",
    [
        "451-GlobusError: v=1 c=QUOTA_EXCEEDED\r\n451 End.",
        "500-Command failed. : open failed.\r\n500-globus_xio: System error in open: Disk quota exceeded\r\n500 End.",
        "552-GlobusError: v=1 c=INTERNAL_ERROR\r\n552-GridFTP-Errno: 122\r\n552 End.",
        "552 You are over quota.",
    ],
)
def test_servers_say_in_many_ways_that_a_quota_is_used_up(text: str) -> None:
    lines = tuple(line.encode() for line in text.split("\r\n"))
    fault = classify(Reply(int(text[:3]), lines), Side.DESTINATION)
    assert fault.kind is Kind.QUOTA_EXCEEDED
    assert isinstance(decide(fault, 3, NOW, LATER, 0.5), Retry)
    assert isinstance(decide(fault, 0, NOW, LATER, 0.5, policy=Policy(fail_on_quota_errors=True)), Fail)


def test_a_full_disk_is_no_quota() -> None:
    fault = classify(Reply(452, (b"452-GlobusError: v=1 c=NO_SPACE_LEFT", b"452 End.")), Side.DESTINATION)
    assert fault.kind is Kind.NO_SPACE_LEFT
    assert isinstance(decide(fault, 0, NOW, LATER, 0.5, policy=Policy(fail_on_quota_errors=True)), Retry)


# ---- in a task


def tree_world(options: Mapping[str, object]) -> World:
    world = World([("/src", "/dst", True), ("/single", "/there", None)], options=dict(options))
    for n in range(20):
        world.source.write(f"/src/d{n % 3}/f{n}", b"%d" % n)
    world.source.write("/single", b"s")
    return world


async def test_files_folders_and_items_that_cannot_be_read_are_passed_over_and_reported() -> None:
    world = tree_world(SKIPPING)
    world.items = [*world.items, ("/gone", "/none", None)]
    world.__post_init__()
    denied = make_fault(Kind.PERMISSION_DENIED)
    world.script.add("list", "/src/d1", denied, -1)
    world.script.add("retr", "/src/d0/f0", denied, -1)
    assert await world.run() == "SUCCEEDED"
    totals = world.store.totals
    assert (totals.skipped_errors, totals.skipped, totals.failed) == (3, 3, 0)
    assert [(one.source_path, one.kind) for one in world.store.missed.values()] == [("/src/d1", 1)]
    assert world.store.file("/src/d0/f0").state is State.SKIPPED
    arrived = world.destination.files()
    assert set(arrived) == {"/there"} | {f"/dst/d{n % 3}/f{n}" for n in range(1, 20) if n % 3 != 1}
    assert "SKIPPED_ERRORS" in world.store.codes()


async def test_a_thousand_folders_that_cannot_be_listed_wait_together() -> None:
    world = tree_world(SKIPPING)
    for n in range(1000):
        world.source.folder(f"/src/closed{n}")
    world.script.add("list", "/src/closed", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.skipped_errors == 1000
    assert world.seconds() < 10


async def test_what_comes_back_at_the_second_look_is_moved() -> None:
    world = tree_world(SKIPPING)
    for step, path in (("list", "/src/d1"), ("retr", "/src/d0/f0"), ("stat", "/single")):
        world.script.add(step, path, make_fault(Kind.FILE_NOT_FOUND), 1)
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.skipped_errors == 0
    assert len(world.destination.files()) == 21


async def test_two_sources_for_one_destination_are_one_and_one_that_is_passed_over() -> None:
    world = World([("/a", "/dst", True), ("/b", "/dst/", True)], options=dict(SKIPPING))
    world.source.write("/a/f", b"a")
    world.source.write("/b/f", b"b")
    world.source.write("/b/g", b"g")
    assert await world.run() == "SUCCEEDED"
    assert set(world.destination.files("/dst")) == {"/f", "/g"}
    assert [one.fault.kind for one in world.store.missed.values()] == [Kind.AMBIGUOUS_PATH]


async def test_without_the_option_the_same_faults_are_tried_until_the_deadline() -> None:
    world = tree_world({})
    world.script.add("retr", "/src/d0/f0", make_fault(Kind.PERMISSION_DENIED), -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal == ("EXPIRED", "The deadline has passed.")
    assert world.store.totals.skipped_errors == 0


@pytest.mark.parametrize("death", range(1, 90, 4))
async def test_a_killed_worker_passes_nothing_over_twice(death: int) -> None:
    world = tree_world(SKIPPING)
    world.script.add("list", "/src/d1", make_fault(Kind.PERMISSION_DENIED), -1)
    world.script.add("retr", "/src/d0/f0", make_fault(Kind.FILE_NOT_FOUND), -1)
    await world.killed_slice(death)
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.skipped_errors == 2
    assert world.store.codes().count("SKIPPED_ERRORS") == 1


@pytest.mark.parametrize(("step", "path"), [("stor", "/dst/d0/"), ("mkdir", "/dst/d2")])
async def test_a_quota_that_is_used_up_ends_the_task_where_that_was_asked(step: str, path: str) -> None:
    world = tree_world({"fail_on_quota_errors": True})
    world.script.add(step, path, make_fault(Kind.QUOTA_EXCEEDED), -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal
    assert world.store.fatal[0] == "QUOTA_EXCEEDED"
    assert world.seconds() < 10


async def test_a_quota_at_the_destination_is_waited_for_where_nothing_was_asked() -> None:
    world = tree_world({})
    world.script.add("stor", "/dst/d0/", make_fault(Kind.QUOTA_EXCEEDED), 3)
    assert await world.run() == "SUCCEEDED"
    assert len(world.destination.files()) == 21


async def test_a_lost_connection_is_no_source_error() -> None:
    world = tree_world(SKIPPING)
    fault = make_fault(Kind.CONNECTION_RESET)
    assert fault.scope is FaultScope.SESSION
    world.script.add("retr", "/src/d0/f0", fault, 4)
    assert await world.run() == "SUCCEEDED"
    assert world.store.totals.skipped_errors == 0


@pytest.mark.parametrize(
    ("step", "path"),
    [("stat", "/src"), ("list", "/src/d1"), ("retr", "/src/d0/f0"), ("mkdir", "/dst/d2"), ("stor", "/dst/d0/")],
)
async def test_a_right_that_was_taken_away_ends_the_task_whatever_was_asked(step: str, path: str) -> None:
    world = tree_world(SKIPPING)
    gone = Fault(Kind.ACL_CHANGED, retryable=False, advice=f"No access rule covers {path} any more.")
    world.script.add(step, path, gone, -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal == ("ACL_CHANGED", f"No access rule covers {path} any more.")
    assert len(world.outcomes) == 1
    assert world.seconds() < 10


async def test_what_was_under_way_when_a_right_was_taken_away_arrives() -> None:
    world = tree_world({"perf_cc": 1, "perf_pp": 4})
    gone = Fault(Kind.ACL_CHANGED, retryable=False, advice="No access rule covers it any more.")
    world.script.add("stor", "/dst/d2", gone, -1)
    assert await world.run() == "FAILED"
    whole = [path for path in world.destination.files() if world.destination.get(path).content]
    assert world.store.totals.transferred == len(whole) > 0


@given(JITTER, st.integers(0, 100))
def test_a_right_that_was_taken_away_is_neither_passed_over_nor_tried_again(jitter: float, attempts: int) -> None:
    policy = Policy(skip_source_errors=True)
    fault = make_fault(Kind.ACL_CHANGED, side=Side.SOURCE)
    assert isinstance(decide(fault, attempts, NOW, LATER, jitter, policy=policy), Fail)
    assert policy.ends_task(fault)
