"""Credentials of a slice: it begins with valid ones only, notices their expiry, and continues with new ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.gridftp.faults import FaultScope, Kind, Side, make_fault
from tests.engine_fakes import State
from tests.unit.engine.world import World, each_in_virtual_time
from workers.engine.credentials import CHECK_INTERVAL, MARGIN
from workers.engine.slice import SliceResult

pytestmark = pytest.mark.virtual_time

AUTH = replace(make_fault(Kind.AUTH), scope=FaultScope.ENDPOINT)
LARGE = bytes(range(250))


def world_of(files: int = 0, *, large: bool = False, **more: Any) -> World:
    """Small files, or a large one that takes long: a chunk in each round of 0.5 s."""
    slow: dict[str, Any] = {"chunk": 2, "latency": 0.5} if large else {}
    world = World([("/src/", "/dst/", True)], **slow, **more)
    world.source.folder("/src")
    for number in range(files):
        world.source.write(f"/src/f{number:05}", b"%d" % number)
    if large:
        world.source.write("/src/large", LARGE)
    return world


both = pytest.mark.parametrize("side", [Side.SOURCE, Side.DESTINATION])


@pytest.fixture
async def world() -> World:
    return world_of(3, large=True)


async def begun(world: World) -> asyncio.Task[str]:
    """A part of the large file has arrived."""
    task = asyncio.create_task(world.run())
    await world.until(lambda: any(row.file.ranges for row in world.store.rows.values()))
    return task


@both
async def test_without_a_credential_nothing_is_begun(world: World, side: Side) -> None:
    world.credential_provider.take_away(side, "none was given")
    assert await world.run() == "INACTIVE"
    fault = world.store.suspended
    assert fault is not None
    assert (fault.kind, fault.side, fault.advice) == (Kind.NO_CREDENTIALS, side, "none was given")
    assert world.sessions.most_taken == 0
    assert not world.store.rows


@both
async def test_one_that_is_about_to_end_is_not_used(world: World, side: Side) -> None:
    world.credential_provider.give(side, world.clock.now() + MARGIN / 2)
    assert await world.run() == "INACTIVE"
    assert world.sessions.most_taken == 0


@both
async def test_when_it_ends_in_mid_transfer_the_task_waits_and_keeps_what_has_arrived(world: World, side: Side) -> None:
    end = world.clock.now() + timedelta(seconds=30)
    world.credential_provider.give(side, end)
    assert await world.run() == "INACTIVE"
    assert world.outcomes == [SliceResult.SUSPENDED]
    assert world.ended_at is not None
    assert world.store.suspended_at is not None
    assert world.store.suspended_at < end, "what is under way needs a moment"
    assert world.store.totals.transferred == 3
    assert world.store.file("/src/large").state is State.PENDING
    had = world.store.file("/src/large").file.ranges
    assert had
    world.credential_provider.give(side)
    world.store.status = "ACTIVE"
    rest = asyncio.create_task(world.run())
    await world.until(lambda: world.store.file("/src/large").file.ranges != had)
    assert len(world.store.file("/src/large").file.ranges) >= len(had), "it goes on from there"
    assert await rest == "SUCCEEDED"
    assert world.destination.files("/dst")["/large"] == LARGE


@both
async def test_a_deactivation_is_noticed_within_ten_seconds(world: World, side: Side) -> None:
    task = await begun(world)
    before = world.clock.now()
    world.credential_provider.take_away(side)
    await world.until(lambda: world.store.status == "INACTIVE")
    assert world.clock.now() - before < timedelta(seconds=CHECK_INTERVAL + 3)
    assert await task == "INACTIVE"


@both
async def test_a_credential_that_is_renewed_in_time_lets_the_slice_go_on_without_a_break(
    world: World, side: Side
) -> None:
    world.credential_provider.give(side, world.clock.now() + timedelta(seconds=30))
    task = await begun(world)
    world.credential_provider.give(side, world.clock.now() + timedelta(hours=1))
    assert await task == "SUCCEEDED"
    assert world.outcomes == [SliceResult.FINISHED]
    assert world.destination.files("/dst")["/large"] == LARGE


@both
async def test_a_login_that_is_refused_with_a_valid_credential_waits_for_another(world: World, side: Side) -> None:
    world.script.add("open", "", AUTH, -1)
    assert await world.run() == "INACTIVE"
    assert world.store.suspended is not None
    assert world.store.suspended.kind is Kind.AUTH
    statuses = world.credential_provider.credential_statuses
    assert world.store.had_credential == statuses[world.store.suspended.side].stored_at


@both
async def test_a_refusal_of_the_old_credential_does_not_suspend_a_task_that_has_a_new_one(
    world: World, side: Side
) -> None:
    task = await begun(world)
    world.credential_provider.give(side)
    # Sessions with the old credential cannot continue; the server refuses this file for that reason.
    world.script.add("midway", "/src/large", replace(make_fault(Kind.NO_CREDENTIALS), side=side))
    assert await task == "SUCCEEDED"
    assert world.outcomes == [SliceResult.RELEASED, SliceResult.FINISHED]
    assert world.destination.files("/dst")["/large"] == LARGE


@both
async def test_a_new_credential_that_is_refused_too_suspends_the_task(world: World, side: Side) -> None:
    task = await begun(world)
    world.credential_provider.give(side)
    world.script.add("midway", "/src/large", AUTH)
    world.script.add("open", "", AUTH, -1)
    assert await task == "INACTIVE"
    assert world.outcomes[-1] is SliceResult.SUSPENDED
    assert len(world.outcomes) <= 2


@pytest.mark.parametrize("kind", [Kind.AUTH, Kind.NO_CREDENTIALS])
async def test_an_anonymous_login_that_is_refused_is_tried_again(kind: Kind) -> None:
    """Nothing can be renewed there: full servers answer 530, too."""
    world = world_of(5)
    world.credential_provider.credential_statuses.clear()
    world.script.add("open", "", replace(make_fault(kind), scope=FaultScope.ENDPOINT), 4)
    assert await world.run() == "SUCCEEDED"
    assert str(kind) in world.store.codes()


@pytest.mark.parametrize("kind", ["GSI_DN_MISMATCH", "INVALID_SERVICE_CREDENTIAL"])
async def test_a_server_that_cannot_prove_its_name_is_tried_again_until_the_deadline(kind: str) -> None:
    world = world_of(5, deadline=timedelta(minutes=20))
    world.script.add("open", "", replace(make_fault(Kind(kind)), scope=FaultScope.ENDPOINT), -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal is not None
    assert world.store.fatal[0] == "EXPIRED"
    assert kind in world.store.codes()


async def test_a_credential_that_lasts_for_ever_is_looked_for_now_and_again_only() -> None:
    world = world_of(large=True)
    assert await world.run() == "SUCCEEDED"
    assert world.credential_provider.reads <= 2 + world.seconds() / CHECK_INTERVAL


async def test_where_nothing_is_needed_nobody_looks() -> None:
    world = world_of(large=True)
    world.credential_provider.credential_statuses.clear()
    assert await world.run() == "SUCCEEDED"
    assert world.credential_provider.reads == 1


async def test_a_deletion_whose_credential_ends_waits_and_goes_on() -> None:
    world = World([("/old", None, True)], delete=True, latency=0.5, options={"recursive": True})
    for number in range(300):
        world.source.write(f"/old/f{number}", b"x")
    world.credential_provider.give(Side.SOURCE, world.clock.now() + timedelta(seconds=40))
    assert await world.run() == "INACTIVE"
    assert world.source.find("/old") is not None
    world.credential_provider.give(Side.SOURCE)
    world.store.status = "ACTIVE"
    assert await world.run() == "SUCCEEDED"
    assert world.source.find("/old") is None


async def test_a_task_that_is_canceled_while_it_goes_to_bed_is_over() -> None:
    world = world_of(large=True)
    task = await begun(world)
    world.store.cancel_requested = True
    world.credential_provider.take_away(Side.SOURCE)
    assert await task == "FAILED"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    moments=st.lists(
        st.tuples(
            st.floats(0.1, 40),
            st.sampled_from([Side.SOURCE, Side.DESTINATION]),
            st.sampled_from(["give", "short", "take"]),
        ),
        max_size=8,
    ),
    refusals=st.lists(st.sampled_from(["open", "lane", "midway", "retr", "stat", "list"]), max_size=4),
    deaths=st.lists(st.integers(1, 60), max_size=2),
)
@each_in_virtual_time
async def test_whatever_becomes_of_credentials_all_arrives_once_there_are_good_ones(
    moments: list[tuple[float, Side, str]], refusals: list[str], deaths: list[int]
) -> None:
    world = world_of(20, large=True)
    for step in refusals:
        world.script.add(step, "", replace(make_fault(Kind.NO_CREDENTIALS), scope=FaultScope.ENDPOINT))
    user = asyncio.create_task(act(world, moments))
    for steps in deaths:
        if world.store.status == "ACTIVE":
            await world.killed_slice(steps)
    for _ in range(50):
        if world.store.status == "INACTIVE":
            await asyncio.sleep(1)
            for side in Side.SOURCE, Side.DESTINATION:
                world.credential_provider.give(side)
            world.store.status = "ACTIVE"
        if await world.run() == "SUCCEEDED":
            break
    user.cancel()
    there = world.destination.files("/dst")
    assert there["/large"] == LARGE
    assert {path: there[path] for path in there if path.startswith("/f")} == {
        f"/f{number:05}": b"%d" % number for number in range(20)
    }
    assert world.store.totals.failed == 0


async def act(world: World, moments: list[tuple[float, Side, str]]) -> None:
    """Act as the user: do each deed after its number of seconds."""
    for seconds, side, deed in moments:
        await asyncio.sleep(seconds)
        if deed == "take":
            world.credential_provider.take_away(side)
        else:
            world.credential_provider.give(side, world.clock.now() + timedelta(seconds=25) if deed == "short" else None)
