"""Max-min fair shares under limits of tasks, endpoints and pairs, and by priority."""

from __future__ import annotations

import random

import pytest

from transferapi.tasks.fair_rates import FLOOR, LEAST, FairRate, Flow, Limit, fair_rates

A, B, C, D = "a", "b", "c", "d"
MB = 1_000_000


def rates(flows: list[Flow], *limits: Limit) -> dict[str, float]:
    return {id_: round(rate.octets, 3) for id_, rate in fair_rates(flows, limits).items()}


def test_nothing_limits_nothing() -> None:
    assert fair_rates([], []) == {}
    assert fair_rates([Flow("1", A, B)], []) == {}
    assert fair_rates([Flow("1", A, B), Flow("2", A, B, background=True)], [Limit(C, MB)]).keys() == {"2"}


def test_an_endpoint_is_shared_equally() -> None:
    assert rates([Flow("1", A, B), Flow("2", C, A), Flow("3", B, C)], Limit(A, 10 * MB)) == {"1": 5 * MB, "2": 5 * MB}


def test_what_one_may_not_use_the_others_get() -> None:
    flows = [Flow("1", A, B, limit=MB), Flow("2", A, C), Flow("3", A, D)]
    assert rates(flows, Limit(A, 10 * MB)) == {"1": MB, "2": 4.5 * MB, "3": 4.5 * MB}


def test_the_textbook_example_of_a_network() -> None:
    """Two limits in a row: the transfer that passes both is held by the tighter one, and leaves the rest to others."""
    flows = [Flow("long", A, B), Flow("at a", A, C), Flow("at b 1", D, B), Flow("at b 2", D, B)]
    found = rates(flows, Limit(A, 10 * MB), Limit(B, 6 * MB))
    assert found == {"long": 2 * MB, "at b 1": 2 * MB, "at b 2": 2 * MB, "at a": 8 * MB}


def test_it_is_said_what_limits() -> None:
    flows = [Flow("1", A, B), Flow("2", C, A), Flow("3", C, D, limit=500_000), Flow("4", C, D, background=True)]
    found = fair_rates(flows, [Limit(A, 1_000_000)])
    assert {id_: rate.by for id_, rate in found.items()} == {
        "1": "source", "2": "destination", "3": "task", "4": "priority",
    }  # fmt: skip
    assert found["3"] == FairRate(500_000, "task")


def test_a_limit_for_a_peer_holds_for_that_pair_in_both_directions() -> None:
    flows = [Flow("1", A, B), Flow("2", B, A), Flow("3", A, C)]
    assert rates(flows, Limit(A, 4 * MB, peer=B)) == {"1": 2 * MB, "2": 2 * MB}


def test_a_peer_may_be_a_shared_endpoint() -> None:
    flows = [Flow("1", A, B, names=(A, "share of b")), Flow("2", A, B)]
    assert rates(flows, Limit(A, 4 * MB, peer="share of b")) == {"1": 4 * MB}


def test_the_background_gives_way_only_at_an_endpoint_with_a_normal_transfer() -> None:
    flows = [Flow("1", A, B), Flow("2", B, C, background=True), Flow("3", C, D, background=True)]
    assert rates(flows) == {"2": FLOOR}
    assert rates(flows[1:]) == {}
    found = rates([*flows, Flow("4", A, D, background=True)], Limit(A, 10 * MB))
    assert (found["4"], found["1"]) == (FLOOR, 10 * MB - FLOOR)


def test_the_background_does_not_take_a_small_limit_from_the_others() -> None:
    found = rates([Flow("1", A, B), Flow("2", A, C, background=True)], Limit(A, 1_100_000))
    assert found == {"1": 1_000_000, "2": 100_000}


def test_each_transfer_has_a_little_where_many_share_a_low_limit() -> None:
    flows = [Flow(str(number), A, B) for number in range(10)]
    assert rates(flows, Limit(A, 100_000)) == dict.fromkeys((flow.id for flow in flows), LEAST)


def test_an_endpoint_that_is_both_sides_counts_once() -> None:
    assert rates([Flow("1", A, A)], Limit(A, MB)) == {"1": MB}


@pytest.mark.parametrize("seed", range(30))
def test_no_limit_is_exceeded_and_each_transfer_meets_one_that_is_reached(seed: int) -> None:
    dice = random.Random(seed)
    ends = "abcdef"
    flows = [
        Flow(str(n), dice.choice(ends), dice.choice(ends), limit=dice.choice([None, None, 3 * MB]),
             background=dice.random() < 0.3)
        for n in range(dice.randint(1, 12))
    ]  # fmt: skip
    limits = [Limit(end, dice.randint(5, 20) * MB) for end in ends]
    found = fair_rates(flows, limits)
    assert found.keys() == {flow.id for flow in flows}
    for flow in flows:
        assert flow.limit is None or found[flow.id].octets <= flow.limit + 1
    full = set()
    for limit in limits:
        there = [flow.id for flow in flows if limit.endpoint in (flow.source, flow.destination)]
        used = sum(found[id_].octets for id_ in there)
        assert used <= limit.rate * 1.000001
        if used >= limit.rate * 0.999999:
            full.update(there)
    for flow in flows:
        own = found[flow.id].octets in (flow.limit, FLOOR)
        assert own or flow.id in full
