"""The rules of the paper at their edges, what a user may ask for instead, and how files are dealt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transferapi.tasks.records import FileRow
from workers.engine.queue.file_queue import CAPACITY, FileQueue
from workers.engine.tuning.opening import Caps, opening_plan, paper_plan
from workers.engine.tuning.plan import MB, ChunkSummary, Plan, SizeClass, lane_share, make_plan, size_class

SMALL, LARGE, OTHER = (2, 2, 20), (2, 8, 5), (2, 4, 10)


def summary(*sizes: int) -> ChunkSummary:
    chunk = ChunkSummary()
    for size in sizes:
        chunk.add(size)
    return chunk


def numbers(plan: Plan) -> tuple[int, int, int]:
    return plan.concurrency, plan.parallelism, plan.pipelining


def plan_for(chunk: ChunkSummary, *, stream_only: bool = False, max_sessions: int = 32, **options: object) -> Plan:
    return make_plan(chunk, options, stream_only=stream_only, max_sessions=max_sessions)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1] * 101, SMALL),
        ([1] * 100, OTHER),
        ([0] * 101, SMALL),
        ([50 * MB - 1] * 101, SMALL),
        ([50 * MB] * 101, OTHER),
        ([1] * 100 + [4000 * MB], SMALL),
        ([1] * 100 + [6000 * MB], OTHER),
        ([250 * MB + 1], LARGE),
        ([250 * MB], OTHER),
        ([250 * MB + 1] * 1000, LARGE),
        ([250 * MB + 1] * 1000 + [250 * MB], OTHER),
        ([1], OTHER),
        ([], OTHER),
        ([100 * MB] * 500, OTHER),
    ],
)
def test_the_rules_hold_at_their_edges(sizes: list[int], expected: tuple[int, int, int]) -> None:
    assert numbers(plan_for(summary(*sizes))) == expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([1] * 101, (8, 1, 1)), ([1] * 100, (2, 1, 1)), ([300 * MB], (2, 1, 1))],
)
def test_a_destination_in_mode_s_gets_only_concurrency(sizes: list[int], expected: tuple[int, int, int]) -> None:
    plan = plan_for(summary(*sizes), stream_only=True)
    assert numbers(plan) == expected
    assert "mode S" in plan.reason


def test_what_the_user_asks_for_takes_the_place_of_the_rules() -> None:
    plan = plan_for(summary(1), perf_cc=4, perf_p=3, perf_pp=7)
    assert numbers(plan) == (4, 3, 7)
    assert "perf_cc, perf_p, perf_pp as asked" in plan.reason
    assert numbers(plan_for(summary(1), perf_pp=1)) == (2, 4, 1)


@pytest.mark.parametrize("nonsense", [0, -1, "4", True, None, 2.5])
def test_a_wish_that_is_no_positive_number_is_none(nonsense: object) -> None:
    assert numbers(plan_for(summary(1), perf_cc=nonsense, perf_p=nonsense, perf_pp=nonsense)) == OTHER


def test_in_mode_s_no_wish_makes_more_than_one_stream() -> None:
    assert numbers(plan_for(summary(1), stream_only=True, perf_p=8, perf_pp=20, perf_cc=3)) == (3, 1, 1)


def test_wishes_without_measure_are_cut() -> None:
    assert numbers(plan_for(summary(1), perf_p=10_000, perf_pp=10_000)) == (2, 64, 200)


@pytest.mark.parametrize(("max_sessions", "lanes"), [(3, 2), (4, 3), (2, 1), (1, 1), (100, 16)])
def test_one_session_to_each_side_is_kept_for_the_scan(max_sessions: int, lanes: int) -> None:
    plan = plan_for(summary(1), max_sessions=max_sessions, perf_cc=16)
    assert plan.concurrency == lanes
    assert ("sessions allowed" in plan.reason) == (lanes < 16)


@given(st.lists(st.integers(0, 10**12)), st.booleans(), st.integers(1, 40))
def test_every_plan_can_be_carried_out_and_has_its_reason(sizes: list[int], stream_only: bool, sessions: int) -> None:
    plan = plan_for(summary(*sizes), stream_only=stream_only, max_sessions=sessions)
    assert min(numbers(plan)) >= 1
    assert plan.concurrency <= max(1, sessions - 1)
    assert plan.reason


def test_classes_of_size_are_those_of_the_rules() -> None:
    sizes = [0, 50 * MB - 1, 50 * MB, 250 * MB, 250 * MB + 1]
    small, medium, large = SizeClass.SMALL, SizeClass.MEDIUM, SizeClass.LARGE
    assert [size_class(size) for size in sizes] == [small, small, medium, medium, large]


@pytest.mark.parametrize(
    ("files", "expected"),
    [(1, 1), (2, 1), (3, 2), (9, 5), (10, 5), (11, 5), (1000, 5), (0, 0)],
)
def test_few_large_files_are_spread_over_the_lanes(files: int, expected: int) -> None:
    assert lane_share(Plan(2, 8, 5, ""), files) == expected


# ---- the queue of files


def row(number: int, size: int = 1, ranges: str = "") -> FileRow:
    return FileRow(number, 1, f"/s{number}", f"/d{number}", size, ranges=ranges)


def file_queue() -> FileQueue:
    dealt = FileQueue(lambda _, chunk: plan_for(chunk))
    dealt.decided = True
    return dealt


def test_the_smallest_files_are_dealt_first_and_equals_as_found() -> None:
    deal = file_queue()
    deal.admit([row(4, 3), row(3, 5), row(2, 3), row(1, 9)])
    plan = deal.plan()
    assert plan
    dealt = [one.id for _ in range(9) for one in deal.take_for_lane(0, plan.parallelism, 0)]
    assert dealt == [2, 4, 3, 1]
    assert deal.plan() is None


def test_three_large_files_go_to_two_lanes() -> None:
    deal = file_queue()
    deal.admit([row(number, 300 * MB) for number in range(3)])
    plan = deal.plan()
    assert plan
    assert (len(deal.take_for_lane(0, plan.parallelism, 0)), len(deal.take_for_lane(0, plan.parallelism, 0))) == (2, 1)


def test_a_lane_of_another_plan_gets_nothing() -> None:
    deal = file_queue()
    deal.admit([row(number) for number in range(200)])
    assert not deal.take_for_lane(0, 8, 0)


def test_few_small_files_wait_until_it_is_known_that_they_are_few() -> None:
    deal = file_queue()
    deal.decided = False
    deal.admit([row(number) for number in range(100)])
    assert deal.plan() is None
    deal.admit([row(100)])
    assert numbers(deal.plan() or Plan(0, 0, 0, "")) == SMALL


def test_medium_files_do_not_wait_for_small_ones() -> None:
    deal = file_queue()
    deal.decided = False
    deal.admit([row(1), row(2, 100 * MB)])
    plan = deal.plan()
    assert plan
    assert [one.id for one in deal.take_for_lane(0, plan.parallelism, 0)] == [2]
    assert deal.plan() is None


def test_a_chunk_keeps_its_plan_when_only_few_are_left() -> None:
    deal = file_queue()
    deal.admit([row(number) for number in range(150)])
    plan = deal.plan()
    assert plan
    while deal.take_for_lane(0, plan.parallelism, 0):
        pass
    deal.put_back([row(3)])
    assert deal.plan() == plan


def test_a_file_is_in_hand_only_once() -> None:
    deal = file_queue()
    deal.admit([row(1), row(2)])
    deal.admit([row(2), row(3)])
    assert sorted(deal.loaded) == [1, 2, 3]
    assert deal.waiting == 3
    deal.release([2])
    deal.admit([row(2)])
    assert deal.waiting == 4


def test_memory_has_an_end() -> None:
    deal = file_queue()
    assert deal.admit([row(number) for number in range(CAPACITY)])
    assert not deal.admit([row(CAPACITY)])
    assert (len(deal.loaded), deal.room) == (CAPACITY, 0)


def test_a_begun_file_is_not_dealt_before_somebody_has_looked() -> None:
    deal = file_queue()
    deal.admit([row(1, 9, "0-4")])
    assert deal.plan() is None
    (begun,) = deal.take_partial()
    assert not deal.take_partial()
    deal.put_back([begun])
    plan = deal.plan()
    assert plan
    assert list(deal.take_for_lane(0, plan.parallelism, 0)) == [begun]


@pytest.mark.parametrize(
    ("sizes", "numbers"),
    [
        ([100_000] * 2560, (8, 1)),
        ([256 * MB], (2, 4)),
        ([100 * MB] * 3, (2, 4)),
        ([MB] * 10, (2, 1)),
    ],
)
def test_files_to_an_agent_have_the_lanes_of_the_paper_or_go_in_parts(
    sizes: list[int], numbers: tuple[int, int]
) -> None:
    """In mode S each file has one stream, and the sessions are no more than for other plans."""
    chunk = ChunkSummary()
    for size in sizes:
        chunk.add(size)
    plan = paper_plan(chunk, {}, Caps(lanes=8, stream_only=True, parted=True))
    assert (plan.concurrency, plan.parallelism) == numbers
    assert plan.concurrency * plan.parallelism <= 8


@pytest.mark.parametrize(
    ("trip", "lanes", "files", "most"),
    [(0.001, 8, 2560, 64), (0.06, 64, 2560, 64), (0.06, 15, 2560, 15), (0.06, 12, 101, 64), (0.02, 25, 2560, 64)],
)
def test_many_small_files_to_an_agent_have_more_lanes_the_farther_it_is(
    trip: float, lanes: int, files: int, most: int
) -> None:
    """Each takes its lane two and a half round trips, whatever the paper's number of lanes."""
    chunk = ChunkSummary(files, files * 100_000, 100_000)
    plan = opening_plan(chunk, {}, Caps(lanes=most, stream_only=True, parted=True), trip)
    assert (plan.concurrency, plan.parallelism, plan.pipelining) == (lanes, 1, 6)
    asked = opening_plan(chunk, {"perf_cc": 3}, Caps(lanes=most, stream_only=True, parted=True), trip)
    assert asked.concurrency == 3, "the user's number counts"
    other = opening_plan(chunk, {}, Caps(lanes=most, stream_only=True), trip)
    assert (other.concurrency, other.pipelining) == (8, 1), "through a worker nothing waits at a source"


def to_agent(rate: int | None, lanes: int = 15) -> Caps:
    return Caps(lanes=lanes, stream_only=True, parted=True, relay_rate=rate)


@pytest.mark.parametrize(
    ("rate", "size", "trip", "relayed"),
    [
        (20 * 10**6, 100_000, 0.060, True),
        (20 * 10**6, 400_000, 0.060, False),
        (0, 400_000, 0.060, True),
        (0, 100_000, 0.001, False),
        (1 * 10**6, 100_000, 0.060, False),
        (None, 100_000, 0.060, False),
    ],
)
def test_small_files_to_an_agent_are_relayed_where_the_relay_carries_more_than_a_connection_each(
    rate: int | None, size: int, trip: float, relayed: bool
) -> None:
    chunk = ChunkSummary(2000, 2000 * size, size)
    plan = opening_plan(chunk, {}, to_agent(rate), trip)
    assert plan.relayed is relayed
    assert ("the relay passes" in plan.reason) is relayed
    assert plan.concurrency <= 15
    assert plan.pipelining == (20 if relayed else 6), "what a slow lane has ahead, all wait for"


def test_numbers_that_the_user_asks_for_do_not_change_the_way() -> None:
    chunk = ChunkSummary(2000, 2 * 10**8, 10**5)
    plan = opening_plan(chunk, {"perf_cc": 3}, to_agent(0), 0.060)
    assert (plan.concurrency, plan.relayed) == (3, True)


def test_large_files_are_never_relayed_by_a_plan() -> None:
    chunk = ChunkSummary(200, 200 * 40 * 10**6, 40 * 10**6)
    assert not opening_plan(chunk, {}, to_agent(0), 0.200).relayed
