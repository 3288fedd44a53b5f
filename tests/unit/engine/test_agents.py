"""A task of an agent that goes away waits: no file and no attempt counts, and it goes on inside the file."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints.gridftp.faults import AWAY_KINDS, FaultScope, Kind, Side, make_fault
from tests.unit.engine.world import World, each_in_virtual_time
from workers.engine.retry import AWAY_SECONDS, Policy, Wait, decide
from workers.engine.slice import SliceResult

pytestmark = pytest.mark.virtual_time

AWAY = make_fault(Kind.AGENT_AWAY)
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize("kind", sorted(AWAY_KINDS))
@pytest.mark.parametrize("attempts", [0, 100])
def test_the_task_waits_for_an_agent_however_often_and_whatever_the_options_say(kind: Kind, attempts: int) -> None:
    policy = Policy(skip_source_errors=True, fail_on_quota_errors=True)
    fault = make_fault(kind, side=Side.SOURCE, retryable=False)
    decision = decide(fault, attempts, NOW, NOW + timedelta(days=1), 0.5, policy=policy)
    assert decision == Wait(NOW + timedelta(seconds=AWAY_SECONDS))


def test_it_waits_no_longer_than_its_deadline() -> None:
    assert decide(AWAY, 0, NOW, NOW + timedelta(seconds=5), 0.5) == Wait(NOW + timedelta(seconds=5))


def large_file() -> World:
    world = World([("/src/", "/dst/", None)], chunk=5)
    world.source.write("/src/large", bytes(range(100)))
    return world


async def test_an_agent_that_is_away_is_reported_once_however_often_the_task_looks_for_it() -> None:
    world = large_file()
    world.script.add("open", "", AWAY, 6)
    assert await world.run() == "SUCCEEDED"
    told = [event for event in world.store.events if event.code == AWAY.kind]
    assert len(told) <= 2, "once for each side"
    assert not any(event.is_error for event in told)
    assert (world.store.totals.faults, world.store.trouble) == (0, None)


async def test_the_slice_ends_at_once_and_its_lease_is_free_while_the_agent_is_away() -> None:
    world = large_file()
    world.script.add("open", "", AWAY, -1)
    began = world.clock.now()
    assert await world.slice() is SliceResult.RELEASED
    assert (world.clock.now() - began).total_seconds() < 2
    assert (world.store.held, world.store.connection_failures) == (False, 0)


async def test_an_agent_that_goes_in_a_large_file_loses_none_of_it() -> None:
    world = large_file()
    world.script.add("midway", "/src/large", replace(AWAY, scope=FaultScope.SESSION), 1)
    await world.slice()
    (row,) = world.store.rows.values()
    assert (row.file.ranges, row.file.attempts, world.store.totals.faults) == ("95-100", 0, 0)
    world.store.next_run_at = world.clock.now()
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/large": bytes(range(100))}


@pytest.mark.parametrize("absences", [2, 5])
async def test_a_temporary_file_that_an_agent_keeps_when_it_goes_is_removed_when_it_is_back(absences: int) -> None:
    """From the second loss on, the file is under a temporary name, which cannot be removed while the agent is away."""
    world = World([("/src/", "/dst/", None)], chunk=5, trusted=False)
    content = bytes(range(100))
    world.source.write("/src/one", content)
    lost = replace(AWAY, scope=FaultScope.SESSION)
    for _ in range(absences):
        world.script.rules.clear()
        world.script.add("midway", "/src/one", lost, 1)
        world.script.add("remove", "", lost, -1)
        world.store.next_run_at = world.clock.now()
        await world.slice()
    world.script.rules.clear()
    world.store.next_run_at = world.clock.now()
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == {"/one": content}


async def test_a_deadline_passes_also_while_the_agent_is_away() -> None:
    world = large_file()
    world.script.add("open", "", AWAY, -1)
    assert await world.run() == "FAILED"
    assert world.store.fatal is not None
    assert world.store.fatal[0] == "EXPIRED"


STEPS = st.sampled_from(["open", "lane", "stat", "list", "mkdir", "retr", "stor", "midway", "checksum", "utime"])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(st.tuples(STEPS, st.integers(1, 4), st.sampled_from(FaultScope)), max_size=5),
    verify=st.booleans(),
    trusted=st.booleans(),
)
@each_in_virtual_time
async def test_every_file_arrives_and_no_error_counts_whenever_an_agent_goes(
    steps: list[tuple[str, int, FaultScope]], verify: bool, trusted: bool
) -> None:
    options: dict[str, object] = {"verify_checksum": verify, "preserve_timestamp": True}
    world = World([("/src/", "/dst/", None)], chunk=5, trusted=trusted, options=options)
    files = {f"/{number}": bytes([number]) * number for number in range(12)}
    for path, content in files.items():
        world.source.write(f"/src{path}", content)
    for step, times, scope in steps:
        scope = FaultScope.SESSION if scope is FaultScope.FILE else scope
        world.script.add(step, "", replace(AWAY, scope=scope), times)
    assert await world.run() == "SUCCEEDED"
    assert world.destination.files("/dst") == files
    assert world.store.totals.faults == 0
    assert not any(event.is_error for event in world.store.events)
