"""Which transport a task uses: what history must say, and what history learns."""

from __future__ import annotations

import pytest

from tests.unit.engine.world import World
from transferapi.tasks.records import SliceMeasurement
from workers.engine.lanes.lane_pool import NO_UDT
from workers.engine.ports import TCP, UDT, Transport
from workers.engine.tuning.transport import KEY, MIN_OCTETS, MOST, TASKS, choose, learned, wanted

pytestmark = pytest.mark.virtual_time


def knowing(task: int = 10, **rates: object) -> dict[str, object]:
    return {"version": 1, "tasks": task, KEY: {name.replace("_", ":"): row for name, row in rates.items()}}


def run(rate: int, **other: object) -> SliceMeasurement:
    facts: dict[str, object] = {
        "seconds": 100.0, "files": 2, "bytes": rate * 100, "faults": 0, "round_trip": None, "concurrency": 2,
        "parallelism": 4, "pipelining": 10, "whole": True,
    }  # fmt: skip
    return SliceMeasurement(**(facts | other))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("knowledge", "transport"),
    [
        ({}, TCP),
        (knowing(tcp=[100, 9]), TCP),
        (knowing(udt=[10**9, 9]), TCP),  # better than what?
        (knowing(tcp=[100, 9], udt=[119, 9]), TCP),
        (knowing(tcp=[100, 9], udt=[120, 9]), UDT),
        (knowing(tcp=[100, 9], udt=[10, 9]), TCP),
        (knowing(30, tcp=[100, 30], udt=[200, 30 - TASKS]), TCP),  # too long ago
        (knowing(30, tcp=[100, 30 - TASKS], udt=[200, 30]), TCP),
        (knowing(3, tcp=[100, 9], udt=[200, 9]), TCP),  # of a history that was begun anew since
        (knowing(tcp=[100, 9], tcp_4194304=[130, 9]), Transport(buffer=4194304)),
        (knowing(tcp=[100, 9], tcp_4194304=[130, 9], udt=[131, 9]), UDT),
    ],
)
def test_only_what_was_measured_and_is_clearly_better_is_used(
    knowledge: dict[str, object], transport: Transport
) -> None:
    assert choose(knowledge) == transport


@pytest.mark.parametrize(
    "rows",
    [None, 7, [], "udt", {"udt": 7}, {"udt": [1]}, {"udt": [True, 9]}, {"udt": [9.5, 9]}, {"udt": [10**20, 9]},
     {"quic": [200, 9]}, {"tcp:x": [200, 9]}, {"tcp:-5": [200, 9]}, {"tcp:99999999999": [200, 9]}, {"udt": [-5, 9]}],
)  # fmt: skip
def test_what_a_database_may_hold_is_believed_only_when_it_makes_sense(rows: object) -> None:
    knowledge = {"version": 1, "tasks": 10, KEY: rows}
    assert choose(knowledge) == TCP
    if isinstance(rows, dict):
        assert choose({**knowledge, KEY: {"tcp": [100, 9], **rows}}) == TCP


def test_a_user_who_asks_for_udt_gets_it_whatever_history_says() -> None:
    assert wanted({"perf_udt": True}, knowing(tcp=[100, 9], udt=[10, 9])) == UDT
    assert wanted({"perf_udt": False}, {}) == TCP


def test_a_run_is_remembered_with_its_transport_and_the_next_task_chooses_by_it() -> None:
    knowledge: dict[str, object] = {}
    for number, (used, rate) in enumerate([(TCP, 10**7), (UDT, 2 * 10**7)], 1):
        knowledge = {"tasks": number, **learned(knowledge, used, run(rate))}
    assert knowledge[KEY] == {"tcp": [10**7, 1], "udt": [2 * 10**7, 2]}
    assert choose(knowledge) == UDT
    knowledge = {"tasks": 3, **learned(knowledge, UDT, run(10**7))}
    assert choose(knowledge) == TCP


@pytest.mark.parametrize(
    "facts", [{"whole": False}, {"faults": 1}, {"bytes": MIN_OCTETS - 1}, {"files": 10**6}, {"seconds": 0.0}]
)
def test_a_run_that_measures_other_things_is_not_remembered(facts: dict[str, object]) -> None:
    before = knowing(tcp=[100, 9])
    assert learned(before, TCP, run(10**7, **facts)) == {KEY: {"tcp": [100, 9]}}
    assert learned({}, TCP, run(10**7, **facts)) == {}


def test_the_oldest_go_when_there_are_too_many() -> None:
    knowledge: dict[str, object] = {}
    for number in range(MOST + 5):
        knowledge = {"tasks": number + 1, **learned(knowledge, Transport(buffer=1000 + number), run(10**7))}
    rows = knowledge[KEY]
    assert isinstance(rows, dict)
    assert list(rows) == [f"tcp:{1000 + number}" for number in range(5, MOST + 5)]


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_user_who_asked_for_udt_gets_one_event_when_it_is_not_used(allowed: bool) -> None:
    world = World([("/src", "/dst", True)], options={"perf_udt": True})
    for index in range(30):
        world.source.write(f"/src/{index}", b"content")
    world.sessions.allows_any_transport = allowed
    assert await world.run() == "SUCCEEDED"
    assert world.sessions.transport == (UDT if allowed else TCP)
    assert world.store.codes().count(NO_UDT) == (not allowed)
