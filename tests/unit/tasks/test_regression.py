"""The regression below the forecasts: laws are found again, odd rows do not lead it astray."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transferapi.tasks.forecast.regression import LEAST_DEVIATION, Fit, fit, quantile

PRIOR = (1.0, 0.1)


def rows(count: int) -> list[tuple[float, float]]:
    return [(1.0, float(number % 17 + 1)) for number in range(count)]


def test_a_law_is_found_again() -> None:
    measured = [2.0 + 0.5 * x for _, x in rows(100)]
    found = fit(rows(100), measured, PRIOR, [1.0] * 100)
    assert found.coefficients == pytest.approx((2.0, 0.5), rel=0.02)
    assert found.ratios == pytest.approx([1.0] * 100, abs=0.01)


def test_where_nothing_was_measured_the_prior_stands() -> None:
    assert fit([], [], PRIOR, []) == Fit(PRIOR, ())
    found = fit([(1.0, 0.0)] * 50, [3.0] * 50, PRIOR, [1.0] * 50)
    assert found.coefficients == pytest.approx((3.0, 0.3), rel=0.01)  # what is three times as slow is so throughout


def test_one_row_in_five_may_be_far_off() -> None:
    rng = random.Random(1)
    measured = [(2.0 + 0.5 * x) * (rng.choice((0.1, 10)) if i % 5 == 0 else 1) for i, (_, x) in enumerate(rows(100))]
    found = fit(rows(100), measured, PRIOR, [1.0] * 100)
    assert found.coefficients == pytest.approx((2.0, 0.5), rel=0.1)


def test_what_costs_less_than_nothing_costs_nothing() -> None:
    found = fit(rows(50), [10.0 - 0.3 * x for _, x in rows(50)], PRIOR, [1.0] * 50)
    assert found.coefficients[0] > 0
    assert found.coefficients[1] == 0


def test_rows_that_weigh_more_count_more() -> None:
    twice = [(1.0, 0.0)] * 40
    measured = [1.0] * 20 + [2.0] * 20
    light = fit(twice, measured, PRIOR, [1.0] * 20 + [0.01] * 20)
    heavy = fit(twice, measured, PRIOR, [0.01] * 20 + [1.0] * 20)
    assert light.coefficients[0] < 1.1 < 1.7 < heavy.coefficients[0]


def test_the_ratios_are_those_of_fits_without_the_row() -> None:
    """The short way by leverage against the long way; no row is odd enough to be trusted less."""
    rng = random.Random(2)
    few = rows(12)
    measured = [(2.0 + 0.5 * x) * (1 + rng.uniform(-1, 1) * LEAST_DEVIATION) for _, x in few]
    slow = []
    for number in range(12):
        rest = [i for i in range(12) if i != number]
        without = fit([few[i] for i in rest], [measured[i] for i in rest], PRIOR, [1.0] * 11).coefficients
        slow.append(measured[number] / sum(a * b for a, b in zip(without, few[number], strict=True)))
    assert fit(few, measured, PRIOR, [1.0] * 12).ratios == pytest.approx(slow, abs=0.002)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e19), st.floats(1e-3, 1e10), st.floats(1e-6, 8)),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_anything_at_all_has_a_fit(values: list[tuple[float, float, float]]) -> None:
    found = fit(
        [(1.0, x) for x, _, _ in values], [y for _, y, _ in values], (0.5, 1e-8), [weight for _, _, weight in values]
    )
    assert all(0 <= coefficient < float("inf") for coefficient in found.coefficients)
    assert len(found.ratios) == len(values)
    assert all(ratio > 0 for ratio in found.ratios)


def test_a_quantile_lies_between_its_neighbours() -> None:
    assert [quantile([1.0, 2.0, 3.0], share) for share in (0, 0.25, 0.5, 1)] == [1.0, 1.5, 2.0, 3.0]
    assert quantile([7.0], 0.9) == 7.0
