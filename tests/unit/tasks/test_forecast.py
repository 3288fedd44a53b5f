"""Forecasts in worlds whose law is known, and at the edges."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import exp
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transferapi.tasks.forecast.model import ENOUGH, Forecast, ForecastWork, Model, Past

Law = Callable[[Past], float]
GB = 10**9


def run(files: int, octets: int, seconds: float = 0.0, *, faults: int = 0, rtt: float | None = 0.06) -> Past:
    return Past(seconds, ForecastWork(files, octets), faults, rtt, 4, 2, 20)


def sum_of_parts(past: Past) -> float:
    files, octets = past.work
    return 0.3 + 8 * (past.round_trip or 0) + 0.004 * files + octets / 60e6


def the_slower_of_two(past: Past) -> float:
    """Files or bytes, whatever takes longer: a law that is none of ours."""
    files, octets = past.work
    return 0.5 + max(files * 0.01, octets / 110e6)


def small_windows(past: Past) -> float:
    files, octets = past.work
    streams = min(files, past.concurrency) * past.parallelism
    return 0.2 + octets * (past.round_trip or 0) / streams / 1e6 + 0.001 * files


def world(law: Law, count: int, *, seed: int = 1, noise: float = 0.05, rtt: float = 0.06) -> list[Past]:
    """Runs of 1 to 400 files of 1 KB to 16 MB, at most 400 MB each; the time of each is off by so much."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        files = int(2 ** rng.uniform(0, 8.6))
        octets = min(400_000_000, int(files * 2 ** rng.uniform(10, 24)))
        past = run(files, octets, rtt=rtt)
        found.append(past._replace(seconds=law(past) * exp(rng.gauss(0, noise))))
    return found


def errors(model: Model, held_out: Sequence[Past]) -> float:
    """The mean absolute error, relative to what it took."""
    return fmean(abs(model.whole(one.work).expected - one.seconds) / one.seconds for one in held_out)


@pytest.mark.parametrize("law", [sum_of_parts, the_slower_of_two, small_windows])
@pytest.mark.parametrize("count", [40, 200])
def test_what_was_not_seen_is_forecast_within_a_tenth(law: Law, count: int) -> None:
    off = [errors(Model(world(law, count, seed=seed)), world(law, 40, seed=seed + 100)) for seed in range(5)]
    assert fmean(off) < (0.12 if law is the_slower_of_two else 0.1)


@pytest.mark.parametrize("law", [sum_of_parts, the_slower_of_two, small_windows])
def test_eight_runs_in_ten_are_within_the_range(law: Law) -> None:
    hits = []
    for seed in range(10):
        model = Model(world(law, 60, seed=seed))
        for one in world(law, 40, seed=seed + 100):
            found = model.whole(one.work)
            hits.append(found.low <= one.seconds <= found.high)
    assert 0.7 < fmean(hits) < 0.92


def test_runs_that_stalled_spoil_nothing() -> None:
    past = world(sum_of_parts, 40)
    stalled = [one._replace(seconds=one.seconds * 30) if number % 7 == 0 else one for number, one in enumerate(past)]
    assert errors(Model(stalled), world(sum_of_parts, 40, seed=9)) < 0.1


def test_a_way_that_became_slower_is_believed_after_some_runs() -> None:
    now = world(lambda past: 3 * sum_of_parts(past), 40)
    assert (
        errors(Model([*now, *world(sum_of_parts, 40, seed=3)]), world(lambda past: 3 * sum_of_parts(past), 40)) < 0.35
    )


def test_busy_hours_last() -> None:
    """The last dozen runs took a third longer than those before: so will the next."""
    busy = [one._replace(seconds=one.seconds * 4 / 3) for one in world(sum_of_parts, 12, seed=2)]
    foretold = Model([*busy, *world(sum_of_parts, 60)]).whole(ForecastWork(50, GB)).expected
    assert foretold == pytest.approx(4 / 3 * sum_of_parts(run(50, GB)), rel=0.12)


def test_the_noisier_the_past_the_wider_the_range() -> None:
    calm, wild = (Model(world(sum_of_parts, 100, noise=noise)).whole(ForecastWork(50, GB)) for noise in (0.02, 0.4))
    assert calm.high / calm.low < 1.2 < wild.high / wild.low


# ---- when little is known


def test_without_any_run_it_is_a_rule_of_thumb_and_says_so() -> None:
    found = Model([]).whole(ForecastWork(100, GB))
    assert (found.basis, found.runs) == ("from a rule of thumb: nothing has run here yet", 0)
    assert 2 < found.expected < 100
    assert found.high / found.low > 10


def test_before_it_has_runs_enough_a_pair_is_judged_by_similar_ones() -> None:
    others = world(sum_of_parts, 60)
    found = Model([], others).whole(ForecastWork(100, GB))
    assert found.basis == "from 60 runs between other endpoints"
    assert found.expected == pytest.approx(sum_of_parts(run(100, GB)), rel=0.1)
    assert found.high / found.low > 3


def test_few_runs_of_its_own_count_more_than_those_of_others() -> None:
    own = world(lambda past: 3 * sum_of_parts(past), ENOUGH - 1)
    far = world(sum_of_parts, 60, rtt=0.2)
    found = Model(own, [*world(sum_of_parts, 10), *far])
    assert found.whole(ForecastWork(100, GB)).basis == (
        "from 4 runs between these endpoints and 10 runs between others with a similar round trip"
    )
    alone = Model([], world(sum_of_parts, 10)).whole(ForecastWork(100, GB)).expected
    assert found.whole(ForecastWork(100, GB)).expected > 1.5 * alone


def test_with_runs_enough_others_are_not_asked() -> None:
    own = world(sum_of_parts, ENOUGH)
    others = world(lambda past: 50 * sum_of_parts(past), 60)
    assert Model(own, others).whole(ForecastWork(9, GB)) == Model(own).whole(ForecastWork(9, GB))
    assert Model(own).whole(ForecastWork(9, GB)).basis == "from 5 runs between these endpoints"
    assert Model(own[:1]).whole(ForecastWork(9, GB)).basis == "from only 1 run between these endpoints"


# ---- while it runs


def during(model: Model, law: Law, whole: ForecastWork, share: float) -> tuple[Forecast, float]:
    """Return the forecast after this share of a task that follows the law, and the true number of seconds left."""
    done = ForecastWork(int(whole.files * share), int(whole.bytes * share))
    left = ForecastWork(whole.files - done.files, whole.bytes - done.bytes)
    begin = law(run(0, 0))
    total = law(run(*whole))
    seconds = begin + (total - begin) * share
    return model.rest(done, left, seconds), total - seconds


def test_a_task_that_goes_as_others_did_is_forecast_to_its_end() -> None:
    model = Model(world(sum_of_parts, 60))
    for share in (0.1, 0.5, 0.9):
        found, truth = during(model, sum_of_parts, ForecastWork(200, 4 * GB), share)
        assert found.expected == pytest.approx(truth, rel=0.1)


def test_a_task_that_is_slower_than_others_is_believed_the_more_the_further_it_is() -> None:
    model = Model(world(sum_of_parts, 60))
    off = []
    for share in (0.02, 0.1, 0.5, 0.9):
        found, truth = during(model, lambda past: 4 * sum_of_parts(past), ForecastWork(200, 4 * GB), share)
        off.append(abs(found.expected - truth) / truth)
    assert off == sorted(off, reverse=True)
    assert off[-1] < 0.25


def test_the_range_narrows_as_the_task_proceeds() -> None:
    model = Model(world(sum_of_parts, 60, noise=0.3))
    found = [during(model, sum_of_parts, ForecastWork(200, 4 * GB), share)[0] for share in (0.0, 0.1, 0.5, 0.9)]
    assert [one.high / one.low for one in found] == sorted((one.high / one.low for one in found), reverse=True)


def test_while_the_scan_goes_on_the_range_is_wider_and_says_why() -> None:
    model = Model(world(sum_of_parts, 60))
    work = (ForecastWork(10, GB), ForecastWork(20, GB), 20.0)
    known, scanning = model.rest(*work), model.rest(*work, scanning=True)
    assert scanning.high > 2 * known.high
    assert scanning.basis == f"{known.basis}; the scan goes on and may find more"


def test_who_has_waited_long_for_a_first_file_may_wait_as_long_again() -> None:
    found = Model(world(sum_of_parts, 60)).rest(ForecastWork(0, 0), ForecastWork(10, GB), 3600.0)
    assert found.high >= 3600
    assert found.expected < 60


# ---- the edges

NUMBERS = st.integers(0, 2**63 - 1)
PASTS = st.lists(
    st.builds(
        Past,
        st.floats(0, 1e9),
        st.builds(ForecastWork, NUMBERS, NUMBERS),
        st.integers(0, 10**6),
        st.none() | st.floats(0, 1000),
        *[st.integers(0, 100)] * 3,
    ),
    max_size=12,
)


def assert_in_order(found: Forecast) -> None:
    assert 0 < found.low <= found.expected <= found.high < float("inf")
    rates = found.bytes_per_second
    assert 0 <= rates[0] <= rates[1] <= rates[2] < float("inf")


@settings(deadline=None)
@given(
    PASTS,
    PASTS,
    st.builds(ForecastWork, NUMBERS, NUMBERS),
    st.builds(ForecastWork, NUMBERS, NUMBERS),
    st.floats(0, 1e9),
)
def test_a_range_is_in_order_whatever_came_before(
    own: list[Past], others: list[Past], one: ForecastWork, other: ForecastWork, seconds: float
) -> None:
    model = Model(own, others)
    assert_in_order(model.whole(one))
    assert_in_order(model.rest(one, other, seconds))
    assert_in_order(model.rest(ForecastWork(0, 0), other, seconds, scanning=True))


@pytest.mark.parametrize(
    "past",
    [
        [run(1, 1, 1.0)],
        [run(10, GB, 20.0)] * 30,
        [run(0, 0, 0.0)] * 30,
        [run(10, 0, 1.0)] * 30,
        [run(10**9, 10**18, 1e7)] * 30,
        [run(10, GB, 20.0, rtt=None)] * 30,
        [run(10, GB, 20.0, rtt=0.0)] * 30,
    ],
)
@pytest.mark.parametrize(
    "work", [ForecastWork(0, 0), ForecastWork(1, 0), ForecastWork(10, GB), ForecastWork(10**9, 10**18)]
)
def test_runs_that_are_all_alike_or_odd_give_a_range_in_order(past: list[Past], work: ForecastWork) -> None:
    assert_in_order(Model(past).whole(work))


def test_what_has_always_been_so_is_forecast_as_it_was() -> None:
    found = Model([run(10, GB, 20.0)] * 30).whole(ForecastWork(10, GB))
    assert found.expected == pytest.approx(20, rel=0.05)
    assert found.low > 18
    assert found.high < 22


@pytest.mark.parametrize("seed", range(5))
def test_more_work_takes_longer(seed: int) -> None:
    model = Model(world(sum_of_parts, 60, seed=seed, noise=0.3))
    works = [ForecastWork(files, files * size) for files in (1, 20, 400) for size in (1000, 10**6, 10**8)]
    for less in works:
        for more in works:
            if less.files <= more.files and less.bytes <= more.bytes:
                assert model.whole(less).expected <= model.whole(more).expected


def test_the_rate_is_that_of_the_same_range() -> None:
    found = Forecast(ForecastWork(1, 1000), 1.0, 2.0, 4.0, "", 0)
    assert found.bytes_per_second == (250, 500, 1000)
