"""The tuner: what a chunk is begun with, what measurement changes, what is remembered, and that it comes to rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transferapi.tasks.records import TaskEndpoint, TaskSpec
from workers.engine.tuning.lane_backoff import QUIET, QUIET_FACTOR, LaneLimit
from workers.engine.tuning.meter import Sample
from workers.engine.tuning.opening import Caps
from workers.engine.tuning.plan import MB, ChunkSummary, Plan, SizeClass, make_plan, size_class
from workers.engine.tuning.tuner import Tuner, TuningMode

from .tuner_world import Crew, Network, Report

SMALL, MEDIUM, LARGE = SizeClass.SMALL, SizeClass.MEDIUM, SizeClass.LARGE
CAPS = Caps(lanes=31)
HOUR = 3600.0
#: Files in 256 MB, and round trips, of the table in bench/wan.
SETS = {"DS1": 1, "DS2": 4, "DS3": 16, "DS4": 64, "DS5": 256, "DS6": 2560}
ROUND_TRIPS = (0.0006, 0.015, 0.03, 0.06, 0.2)


def tuner(knowledge: Mapping[str, object] | None = None, caps: Caps = CAPS, **options: Any) -> Tuner:
    return Tuner(options, caps, knowledge or {})


def chunk(count: int, size: int) -> ChunkSummary:
    return ChunkSummary(count, count * size, size if count else 0)


def numbers(plan: Plan | None) -> tuple[int, int, int]:
    assert plan is not None
    return plan.concurrency, plan.parallelism, plan.pipelining


def opening(count: int, size: int, round_trip: float | None, caps: Caps = CAPS, **options: Any) -> Plan:
    one = tuner(caps=caps, **options)
    if round_trip is not None:
        one.note_round_trip(round_trip)
    return one.plan(size_class(size), chunk(count, size))


def moved(network: Network, files: int, total: int, caps: Caps = CAPS, **options: Any) -> Report:
    return Crew(network, files, total // files).move(tuner(caps=caps, **options))


# ---- the model

LANES_OF_ONE_STREAM: dict[str, Any] = {"perf_cc": 4, "perf_p": 1, "perf_pp": 100}
OF_THE_PAPER: dict[str, Any] = {"perf_cc": 2, "perf_p": 2, "perf_pp": 10}


@pytest.mark.parametrize(
    ("files", "total", "round_trip", "setup", "options", "measured"),
    [
        (2560, 256, 0.06, 8, LANES_OF_ONE_STREAM, 65),
        (2560, 256, 0.2, 8, LANES_OF_ONE_STREAM, 31),
        # Figures of globus-url-copy, which needs more round trips to begin.
        (1, 256, 0.06, 12, {"perf_p": 8}, 63),
        (1, 256, 0.2, 12, {"perf_p": 4}, 28),
        (1, 1000, 0.06, 12, {"perf_p": 8}, 97),
        (2560, 256, 0.06, 12, OF_THE_PAPER, 27),
        (2560, 256, 0.2, 12, OF_THE_PAPER, 8),
    ],
)
def test_the_model_is_within_15_percent_of_what_real_servers_did(
    files: int, total: int, round_trip: float, setup: int, options: dict[str, Any], measured: float
) -> None:
    network = Network(round_trip, setup=setup)
    assert moved(network, files, total * MB, tuning="fixed", **options).rate == pytest.approx(measured, rel=0.15)


# ---- paper and fixed


@given(st.lists(st.integers(0, 10**10), max_size=300), st.booleans(), st.integers(1, 40), st.integers(1, 64))
def test_paper_is_the_rules_of_the_paper_and_what_was_asked_for(
    sizes: list[int], stream_only: bool, lanes: int, asked: int
) -> None:
    known = ChunkSummary()
    for size in sizes:
        known.add(size)
    one = tuner(caps=Caps(lanes, stream_only=stream_only), tuning="paper", perf_p=asked)
    one.note_round_trip(0.2)
    rule = make_plan(known, {"perf_p": asked}, stream_only=stream_only, max_sessions=lanes + 1)
    assert one.plan(SMALL, known) == rule


@pytest.mark.parametrize("mode", ["paper", "fixed"])
def test_paper_and_fixed_never_change(mode: str) -> None:
    network = Network(0.06, others=32, most_lanes=1)
    report = Crew(network, 10**9, 100_000).move(tuner(tuning=mode, perf_cc=3), seconds=HOUR)
    assert numbers(report.plans[0][1])[0] == 3
    assert not report.changes


def test_a_mode_nobody_knows_is_adaptive() -> None:
    assert [TuningMode.of({"tuning": value}) for value in ("paper", "fixed", None, 7)] == [
        "paper",
        "fixed",
        *["adaptive"] * 2,
    ]


# ---- what a chunk is begun with


def test_small_files_far_away_get_deep_lanes_of_one_stream_and_the_reason_says_why() -> None:
    plan = opening(2560, 100_000, 0.06)
    assert numbers(plan) == (4, 1, 100)
    assert "a round trip takes 60 ms and a file has 100 KB on average" in plan.reason
    assert "100 files under way in each lane instead of 20" in plan.reason


def test_without_a_round_trip_the_paper_is_all_there_is() -> None:
    assert numbers(opening(2560, 100_000, None)) == (2, 2, 20)


def test_a_round_trip_that_becomes_known_later_changes_a_plan_not_yet_measured() -> None:
    one = tuner()
    assert numbers(one.plan(SMALL, chunk(200, 100_000))) == (2, 2, 20)
    one.note_round_trip(0.06)
    assert numbers(one.plan(SMALL, chunk(300, 100_000))) == (4, 1, 100)


def test_a_plan_is_not_announced_again_for_files_that_are_a_little_larger() -> None:
    one = tuner()
    one.note_round_trip(0.06)
    first = one.plan(SMALL, chunk(200, 100_000))
    assert one.plan(SMALL, chunk(400, 130_000)) is first
    assert numbers(one.plan(SMALL, chunk(400, 400_000))) != numbers(first)


@pytest.mark.parametrize("files", SETS.values())
def test_near_servers_get_no_more_lanes_than_the_paper_says(files: int) -> None:
    assert opening(files, 256 * MB // files, 0.0006).concurrency == 2


@given(st.integers(1, 10**6), st.integers(1, 10**11), st.sampled_from([None, *ROUND_TRIPS]), st.integers(1, 40))
def test_every_opening_can_be_carried_out(count: int, size: int, round_trip: float | None, lanes: int) -> None:
    caps = Caps(lanes, parallelism=6, pipelining=50)
    plan = opening(count, size, round_trip, caps)
    assert 1 <= plan.concurrency <= lanes
    assert 1 <= plan.parallelism <= 6
    assert 1 <= plan.pipelining <= 50
    assert plan.reason


@given(st.integers(101, 10**6), st.integers(1, 10**11), st.sampled_from(ROUND_TRIPS))
def test_not_too_much_is_queued_behind_a_lanes_head(count: int, size: int, round_trip: float) -> None:
    plan = opening(count, size, round_trip)
    assert (plan.pipelining - 2) * size <= 256 * MB


def test_what_the_endpoints_prefer_comes_before_the_rules_and_what_they_allow_before_everything() -> None:
    ends = (
        TaskEndpoint("1", "a", preferred_concurrency=6, max_concurrency=12),
        TaskEndpoint("2", "b", max_parallelism=3),
    )
    caps = Caps.of(TaskSpec("t", False, *ends, {}, 32))
    assert numbers(opening(2, 10**9, 0.06, caps)) == (6, 3, 5)
    assert numbers(opening(2, 10**9, None, caps, tuning="paper"))[:2] == (2, 3)
    plan = opening(2, 10**9, 0.06, caps, perf_cc=40)
    assert plan.concurrency == 12
    assert "perf_cc as asked; concurrency 12 instead of 40" in plan.reason
    assert opening(2, 10**9, None, Caps(1), perf_pp=40).reason.count("instead of") == 1


def test_without_a_word_of_the_endpoints_the_sessions_are_the_limit() -> None:
    caps = Caps.of(TaskSpec("t", True, TaskEndpoint("1", "a"), None, {}, 9))
    assert (caps.lanes, caps.parallelism, caps.stream_only) == (8, 64, False)


@pytest.mark.parametrize("round_trip", [None, 0.06])
def test_mode_s_has_one_stream_and_one_file(round_trip: float | None) -> None:
    caps = Caps(31, stream_only=True, preferred_parallelism=4)
    assert numbers(opening(500, 1000, round_trip, caps, perf_pp=9)) == (8, 1, 1)


# ---- the table


@pytest.mark.parametrize("total", [256 * MB, 1000 * MB])
@pytest.mark.parametrize("name", SETS)
def test_adaptive_is_never_five_percent_slower_than_the_paper(name: str, total: int) -> None:
    for round_trip in ROUND_TRIPS:
        adaptive, paper = (moved(Network(round_trip), SETS[name], total, tuning=mode) for mode in ("adaptive", "paper"))
        assert adaptive.rate >= 0.95 * paper.rate, round_trip


@pytest.mark.parametrize(("round_trip", "factor"), [(0.03, 1.25), (0.06, 1.25), (0.2, 1.5)])
def test_many_small_files_far_away_are_much_faster_than_by_the_paper(round_trip: float, factor: float) -> None:
    adaptive, paper = (moved(Network(round_trip), 2560, 256 * MB, tuning=mode) for mode in ("adaptive", "paper"))
    assert adaptive.rate >= factor * paper.rate


# ---- measurement


def long(network: Network, size: int = 100_000, seconds: float = 600.0, seed: int = 0, **more: Any) -> Report:
    events = more.pop("events", None)
    return Crew(network, 10**15 // size, size, seed).move(tuner(**more), seconds=seconds, events=events)


def mean(goodput: list[float], begin: float, end: float) -> float:
    part = goodput[int(begin * 2) : int(end * 2)]
    return sum(part) / len(part)


def test_lanes_are_added_while_they_pay_and_the_reason_has_the_figures() -> None:
    report = long(Network(0.06, others=32))
    assert numbers(report.plans[-1][1])[0] == 31
    assert "lanes moved" in report.plans[1][1].reason
    assert "MB/s: trying 8 lanes" in report.plans[1][1].reason
    assert report.goodput[-1] > 3 * mean(report.goodput, 2, 5)


def test_a_step_that_brings_nothing_is_undone_and_the_reason_has_the_figures() -> None:
    report = long(Network(0.0006), seconds=30)
    assert [numbers(plan)[0] for _, plan in report.plans[:3]] == [2, 4, 2]
    assert report.plans[2][1].reason.startswith("4 lanes moved 125 MB/s, 2 lanes 125 MB/s before")


def test_servers_that_suffer_from_many_lanes_get_fewer() -> None:
    report = long(Network(0.06, toll=lambda lanes: 1 / lanes**2))
    assert numbers(report.plans[-1][1])[0] == 1
    assert report.goodput[-1] > 2 * mean(report.goodput, 5, 8)


def test_files_too_small_to_speak_of_octets_are_counted() -> None:
    report = long(Network(0.2, others=8), size=500, seconds=60)
    assert "files a second" in report.plans[1][1].reason


@pytest.mark.parametrize(("option", "index"), [("perf_cc", 0), ("perf_p", 1), ("perf_pp", 2)])
def test_a_number_the_user_gave_stays_and_the_others_adapt(option: str, index: int) -> None:
    wish: dict[str, Any] = {option: 3}
    report = long(Network(0.06, capacity=1.25e9, others=32), size=20 * MB, **wish)
    assert {numbers(plan)[index] for _, plan in report.plans} == {3}
    assert report.changes


NETWORKS = st.builds(
    Network,
    st.sampled_from([0.0006, 0.015, 0.06, 0.2]),
    st.sampled_from([1e7, 125e6, 1.25e9]),
    others=st.sampled_from([0, 4, 32]),
    noise=st.sampled_from([0.0, 0.02, 0.1, 0.2]),
    window=st.sampled_from([2**20, 2**22]),
    lumps=st.booleans(),
    most_lanes=st.sampled_from([3, 6, 1000]),
    toll=st.sampled_from([lambda lanes: 1.0, lambda lanes: 1 / (1 + 0.1 * lanes)]),
)


@settings(deadline=None, max_examples=12)
@given(NETWORKS, st.sampled_from([1000, 10**5, 10**6, 10**7, 10**8, 10**9]), st.integers(0, 100))
def test_in_a_network_that_stays_as_it_is_the_plan_comes_to_rest(network: Network, size: int, seed: int) -> None:
    changes = [at for at, _ in long(network, size, HOUR, seed).changes]
    assert len(changes) <= 12
    assert sum(at > HOUR / 2 for at in changes) <= 1


def others_come(network: Network) -> None:
    network.others = 32


def half_is_lost(network: Network) -> None:
    network.capacity /= 2


@pytest.mark.parametrize("size", [100_000, 10**6, 10**8])
@pytest.mark.parametrize("round_trip", [0.0006, 0.06])
def test_others_that_come_are_answered_within_a_minute(round_trip: float, size: int) -> None:
    network = Network(round_trip, noise=0.05, lumps=size > MB)
    report = long(network, size, 660.0, events={600.0: others_come})
    assert any(at > 600 for at, _ in report.changes)
    assert report.goodput[-1] >= 1.3 * mean(report.goodput, 602, 608)


@pytest.mark.parametrize("size", [100_000, 10**8])
def test_half_a_network_is_still_used_in_full(size: int) -> None:
    report = long(Network(0.06, noise=0.05), size, 1200.0, events={600.0: half_is_lost})
    assert mean(report.goodput, 660, 1200) >= 0.9 * 62.5e6
    assert any(600 < at <= 660 for at, _ in report.changes)


def sample(at: float, octets: int = 50 * MB, files: int = 500, lanes: int = 99, faults: int = 0) -> Sample:
    return Sample(at, octets, files, lanes, waiting=100_000, faults=faults)


def begun(round_trip: float = 0.06, **options: Any) -> Tuner:
    one = tuner(**options)
    one.note_round_trip(round_trip)
    one.plan(SMALL, chunk(10**6, 100_000))
    return one


def test_lanes_are_given_up_at_once_when_servers_are_busy_and_come_back_when_it_is_quiet() -> None:
    one = begun(0.2)
    assert numbers(one.measured(sample(1, faults=3))) == (4, 1, 100)
    assert one.measured(sample(1.5, faults=3)) is None, "the same outage"
    plan = one.measured(sample(9, faults=1))
    assert numbers(plan) == (2, 1, 100)
    assert plan is not None
    assert "connections are refused or lost: 2 lanes instead of 4" in plan.reason
    assert one.measured(sample(20, faults=1)) is None, "never under the paper's"
    again = [plan for at in range(21, 120) if (plan := one.measured(sample(at))) is not None]
    assert [numbers(plan)[0] for plan in again[:2]] == [4, 8]
    assert "no connection was refused or lost in 30 s" in again[0].reason


def test_a_server_that_takes_few_lanes_is_asked_ever_more_seldom() -> None:
    report = long(Network(0.2, most_lanes=3), seconds=HOUR)
    times = [at for at, plan in report.plans if plan.concurrency > 3]
    gaps = [after - before for before, after in pairwise(times[1:])]
    assert gaps == sorted(gaps)
    assert len(times) <= 5


def test_what_is_being_tried_is_undone_when_files_of_another_class_come() -> None:
    one = begun()
    steps = (one.measured(sample(at * 0.5)) for at in range(1, 100))
    tried = next(plan for plan in steps if plan is not None)
    assert numbers(tried)[0] == 8
    one.plan(LARGE, chunk(10, 10**9))
    assert numbers(one.plan(SMALL, chunk(10**6, 100_000)))[0] == 4


def test_classes_that_take_turns_do_not_make_the_plan_swing() -> None:
    one = begun()
    changes = 0
    for at in range(7200):
        if at % 20 == 0:
            one.plan(LARGE if at % 40 else SMALL, chunk(10**6, 10**9 if at % 40 else 100_000))
        changes += one.measured(sample(at * 0.5)) is not None
    assert changes <= 16


def test_chunks_of_one_class_go_on_with_what_was_learned() -> None:
    one = begun()
    octets = {4: 10 * MB, 8: 20 * MB, 16: 21 * MB}
    plan = one.plan(SMALL, chunk(10**6, 100_000))
    for at in range(1, 60):
        plan = one.measured(sample(at * 0.5, octets[plan.concurrency])) or plan
    assert numbers(plan)[0] == 8
    assert one.plan(SMALL, chunk(2 * 10**6, 110_000)) == plan


def test_a_silence_is_not_taken_for_slowness() -> None:
    one = begun(0.0006)
    for at in range(1, 200):
        assert one.measured(sample(3.0 * at, 1000, 1)) is None


def test_before_a_chunk_there_is_nothing_to_change() -> None:
    assert tuner().measured(sample(1.0)) is None


SAMPLES = st.builds(
    lambda octets, files, lanes, waiting, faults: (octets, files, lanes, waiting, faults),
    st.sampled_from([0, 1, 10**6, 10**8, 10**12]),
    st.sampled_from([0, 1, 30, 10**5]),
    st.integers(0, 40),
    st.sampled_from([0, 1, 30, 5000]),
    st.sampled_from([0, 0, 0, 0, 0, 1, 5]),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(SAMPLES, min_size=1, max_size=40), st.sampled_from(ROUND_TRIPS), st.integers(1, 40))
def test_whatever_is_measured_a_plan_can_be_carried_out_and_changes_are_few(
    told: list[tuple[int, int, int, int, int]], round_trip: float, lanes: int
) -> None:
    one = tuner(caps=Caps(lanes, parallelism=9))
    one.note_round_trip(round_trip)
    one.plan(SMALL, chunk(10**5, 10**6))
    changes = 0
    for tick in range(2000):
        octets, files, busy, waiting, faults = told[tick % len(told)]
        plan = one.measured(Sample(0.5 * tick, octets, files, busy, waiting, faults))
        if plan is not None:
            changes += 1
            assert 1 <= plan.concurrency <= lanes
            assert 1 <= plan.parallelism <= 9
            assert 1 <= plan.pipelining <= 200
            assert plan.reason
    assert changes <= 100
    json.dumps(one.knowledge())


# ---- what is remembered


def after_a_task(
    knowledge: Mapping[str, object], network: Network, size: int = 100_000
) -> tuple[dict[str, object], Plan]:
    one = tuner(knowledge)
    report = Crew(network, 10**15 // size, size).move(one, seconds=60)
    return json.loads(json.dumps(one.knowledge())), report.plans[0][1]


CROWDED = Network(0.06, others=32)


def test_the_next_task_begins_with_the_best_plan_known() -> None:
    knowledge, first = after_a_task({}, CROWDED)
    assert numbers(first) == (4, 1, 100)
    _, second = after_a_task(knowledge, CROWDED)
    assert numbers(second) == (31, 1, 100)
    assert "times as fast" in second.reason


def test_the_next_task_knows_the_round_trip_and_the_lanes_before_it_has_seen_any() -> None:
    knowledge, _ = after_a_task({}, Network(0.06))
    one = tuner(knowledge)
    assert one.round_trip is None
    assert one.expected_lanes == 4
    assert numbers(one.plan(SMALL, chunk(2560, 100_000))) == (4, 1, 100)
    assert tuner().expected_lanes == 0


def test_the_next_task_knows_that_its_small_files_go_by_the_relay() -> None:
    caps = Caps(lanes=15, stream_only=True, parted=True, relay_rate=0)
    one = tuner({"version": 1, "round_trip": 0.06}, caps)
    assert not one.expects_relay
    assert one.plan(SMALL, chunk(2560, 100_000)).relayed
    knowledge = json.loads(json.dumps(one.knowledge()))
    assert tuner(knowledge, caps).expects_relay
    assert tuner(tuner(knowledge, caps).knowledge(), caps).expects_relay, "a task without files changes nothing"
    assert not tuner(knowledge).expects_relay, "it is not to an agent"
    other = tuner(knowledge, caps)
    other.plan(LARGE, chunk(20, 10**9))
    assert not tuner(other.knowledge(), caps).expects_relay


def test_what_is_known_of_files_of_another_size_says_nothing() -> None:
    knowledge, _ = after_a_task({}, CROWDED)
    _, plan = after_a_task(knowledge, CROWDED, size=10**6)
    assert plan.concurrency == 4


def test_what_is_known_does_not_outdo_caps_or_wishes() -> None:
    knowledge, _ = after_a_task({}, CROWDED)
    small = tuner(knowledge, Caps(10))
    assert small.plan(SMALL, chunk(2560, 100_000)).concurrency == 8
    wish = tuner(knowledge, perf_cc=5)
    assert wish.plan(SMALL, chunk(2560, 100_000)).concurrency == 5


def test_a_changed_network_is_noticed_and_the_rules_are_measured_anew() -> None:
    knowledge, _ = after_a_task({}, CROWDED)
    knowledge, _ = after_a_task(knowledge, Network(0.06, capacity=20e6))
    _, plan = after_a_task(knowledge, CROWDED)
    assert numbers(plan) == (4, 1, 100)


def test_what_is_known_does_not_last_for_ever() -> None:
    knowledge, _ = after_a_task({}, CROWDED)
    plans = []
    for _ in range(25):
        knowledge, plan = after_a_task(knowledge, CROWDED)
        plans.append(numbers(plan)[0])
    assert plans[0] == 31
    assert 4 in plans


def test_knowledge_stays_small() -> None:
    knowledge: dict[str, object] = {}
    for size in (1, 50, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9):
        for others in (0, 32):
            knowledge, _ = after_a_task(knowledge, Network(0.06, others=others), size)
    assert len(json.dumps(knowledge)) < 4096


GOOD = {
    "version": 1,
    "round_trip": 0.06,
    "tasks": 7,
    "lanes": 4,
    "plans": {"0:6": [[4, 1, 100, 10, 7], [9, 1, 9, 99, 7]]},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=20,
)
ROWS = st.lists(st.lists(st.integers(-5, 300) | JSON, max_size=6), max_size=9) | JSON
BROKEN = st.builds(
    lambda changes: {**GOOD, **changes},
    st.dictionaries(st.sampled_from(["version", "round_trip", "tasks", "lanes", "relayed", "plans"]), JSON, max_size=3)
    | st.fixed_dictionaries({"plans": st.dictionaries(st.sampled_from(["0:6", "0:3", "9:9", "x"]), ROWS)}),
)


@settings(deadline=None)
@given(BROKEN)
def test_knowledge_may_be_anything(knowledge: dict[str, object]) -> None:
    one = tuner(knowledge)
    plan = one.plan(SMALL, chunk(2560, 100_000))
    assert 1 <= plan.concurrency <= 31
    assert 1 <= plan.parallelism <= 64
    assert 1 <= plan.pipelining <= 200
    assert 0 <= one.expected_lanes <= 31
    assert len(json.dumps(one.knowledge(), allow_nan=False)) < 4096


def test_knowledge_of_another_version_is_passed_over() -> None:
    assert tuner(GOOD).plan(SMALL, chunk(2560, 100_000)).concurrency == 9
    assert tuner({**GOOD, "version": 2}).plan(SMALL, chunk(2560, 100_000)).concurrency == 2


def test_near_its_end_a_task_tries_nothing_any_more() -> None:
    one = begun()
    for at in range(1, 200):
        last = replace(sample(at * 0.5), waiting=3000)
        assert one.measured(last) is None


# ---- lanes to a server that takes few connections


def test_a_server_that_was_never_full_takes_all_lanes() -> None:
    assert LaneLimit().allowed(0.0, 8) == 8


def test_a_full_server_keeps_the_lanes_that_are_open() -> None:
    limit = LaneLimit()
    assert limit.refused(1.0, 2)
    assert not limit.refused(1.1, 2), "lanes are refused together"
    assert (limit.allowed(2.0, 8), limit.allowed(2.0, 1)) == (2, 1)


def test_one_more_lane_is_tried_at_longer_and_longer_intervals() -> None:
    limit, at = LaneLimit(), 0.0
    limit.refused(at, 1)
    for quiet in (QUIET, QUIET * QUIET_FACTOR, QUIET * QUIET_FACTOR**2):
        assert limit.allowed(at + quiet - 1, 8) == 1
        at += quiet
        assert limit.allowed(at, 8) == 2
        assert limit.refused(at, 1)


def test_a_server_with_still_fewer_connections_takes_fewer_lanes() -> None:
    limit = LaneLimit()
    limit.refused(1.0, 3)
    assert limit.refused(2.0, 1)
    assert limit.allowed(3.0, 8) == 1
