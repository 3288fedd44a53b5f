"""A small linear regression that is robust against outliers. Pure, without a matrix library.

Measurements are positive, and their errors are relative: a run of an hour may be minutes off, one of a second may not.
So the squares of `log(measured / predicted)` are minimized by Gauss-Newton, with a ridge towards prior coefficients,
none of which is negative. Rows that fit badly get smaller weights in each round (Huber, 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

Vector = Sequence[float]
Matrix = list[list[float]]

ROUNDS = 12
#: The weight of the prior coefficients against one measurement: errors of 0.2, priors wrong by a factor of 2.
RIDGE = 0.01
STEADY = 1e-9
#: Errors up to 1.345 deviations count in full (95 % efficiency where there are no outliers).
HUBER = 1.345
MAD_TO_DEVIATION = 1.4826
LEAST_DEVIATION = 0.02
#: The largest step of one round, and the largest error of a row: logarithms.
LONGEST_STEP = 0.8
FARTHEST = 3.0


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of a fit. ratios: measured / predicted of each row, by a fit without that row."""

    coefficients: tuple[float, ...]
    ratios: tuple[float, ...]


def fit(rows: Sequence[Vector], measured: Vector, prior: Vector, weights: Vector) -> Fit:
    """Coefficients for the columns of `rows`.

    measured and weights: positive, one a row. prior: positive, one a column; kept where the rows do not determine it.
    """
    if not rows:
        return Fit(tuple(prior), ())
    scale = exp(median(_errors(rows, measured, prior)))
    prior = coefficients = [scale * one for one in prior]
    for _ in range(ROUNDS):
        errors = _errors(rows, measured, coefficients)
        limit = HUBER * max(LEAST_DEVIATION, MAD_TO_DEVIATION * median(map(abs, errors)))
        trust = [
            weight * min(1.0, limit / (abs(error) or limit)) for weight, error in zip(weights, errors, strict=True)
        ]
        slopes = [
            [exp(error) / value * part for part in _times(row, prior)]
            for row, value, error in zip(rows, measured, errors, strict=True)
        ]
        aims = [1.0 + max(-LONGEST_STEP, min(LONGEST_STEP, error)) for error in errors]
        factors, inverse = _least_squares(slopes, aims, trust)
        coefficients = _times(factors, prior)
    errors = _errors(rows, measured, coefficients)
    ratios = [
        _ratio(error, weight * _dot(row, _through(inverse, row)))
        for row, error, weight in zip(slopes, errors, trust, strict=True)
    ]
    return Fit(tuple(coefficients), tuple(ratios))


def _errors(rows: Sequence[Vector], measured: Vector, coefficients: Vector) -> list[float]:
    """log(measured / predicted) of each row."""
    least = exp(-FARTHEST)
    ratios = [_dot(row, coefficients) / value for row, value in zip(rows, measured, strict=True)]
    return [-log(min(1 / least, max(least, ratio))) for ratio in ratios]


def quantile(ascending: Vector, share: float) -> float:
    """The quantile, interpolated between the two nearest values."""
    place = share * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (ascending[above] - ascending[below]) * (place - below)


def _ratio(error: float, leverage: float) -> float:
    """The ratio of a row by a fit without it, computed from its leverage."""
    without = error / max(1.0 - leverage, 0.05)
    return exp(max(-FARTHEST, min(FARTHEST, without)))


def _least_squares(rows: Sequence[Vector], aims: Vector, weights: Vector) -> tuple[list[float], Matrix]:
    """Factors of the prior coefficients, none negative, and the inverse of their normal equations.

    A column whose factor would be negative is left out, the worst first.
    """
    size = len(rows[0])
    columns = list(range(size))
    while True:
        factors, inverse = _solve(rows, aims, weights, columns)
        worst = min(range(len(columns)), key=factors.__getitem__, default=None)
        if worst is None or factors[worst] >= 0.0:
            return _spread(factors, inverse, columns, size)
        del columns[worst]


def _solve(rows: Sequence[Vector], aims: Vector, weights: Vector, columns: Sequence[int]) -> tuple[list[float], Matrix]:
    """Solve the normal equations over these columns, each with a ridge towards a factor of 1."""
    normal = [[RIDGE * (a == b) for b in columns] for a in columns]
    right = [RIDGE for _ in columns]
    for row, aim, weight in zip(rows, aims, weights, strict=True):
        few = [row[column] for column in columns]
        for line, value in zip(normal, few, strict=True):
            for place, other in enumerate(few):
                line[place] += weight * value * other
        right = [sum_ + weight * aim * value for sum_, value in zip(right, few, strict=True)]
    for place in range(len(columns)):
        # Where two columns are equal in all rows, the difference must be more than a rounding error.
        normal[place][place] *= 1.0 + STEADY
    inverse = _inverse(normal)
    return _through(inverse, right), inverse


def _spread(factors: Vector, inverse: Matrix, columns: Sequence[int], size: int) -> tuple[list[float], Matrix]:
    """Expand the result to all columns, with 0 for those that were left out."""
    whole, square = [0.0] * size, [[0.0] * size for _ in range(size)]
    for i, column in enumerate(columns):
        whole[column] = factors[i]
        for j, other in enumerate(columns):
            square[column][other] = inverse[i][j]
    return whole, square


def _inverse(matrix: Matrix) -> Matrix:
    """Invert by Gauss-Jordan. The ridge keeps the diagonal of these matrices positive, so no pivoting is needed."""
    size = len(matrix)
    wide = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        wide[i] = [value / wide[i][i] for value in wide[i]]
        for j in range(size):
            if i != j:
                wide[j] = [one - wide[j][i] * other for one, other in zip(wide[j], wide[i], strict=True)]
    return [row[size:] for row in wide]


def _through(matrix: Matrix, vector: Vector) -> list[float]:
    return [_dot(row, vector) for row in matrix]


def _times(one: Vector, other: Vector) -> list[float]:
    return [a * b for a, b in zip(one, other, strict=True)]


def _dot(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
