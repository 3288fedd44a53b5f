"""The expected duration of a transfer, as a range, from earlier runs. Pure: no database, no clock.

The duration of a run is a sum of the costs of its parts, with coefficients from a regression (`regression.py`):

    seconds = a + b * rtt                                    to begin and to end
            + c * rtt * log2(1 + bytes / streams / window)   the slow start of each stream
            + d * files                                      the servers' work for each file
            + e * files * rtt / requests                     rounds of pipelined requests
            + f * bytes                                      the line, the disks
            + g * bytes * rtt / streams                      the window of each stream

rtt: the round trip in seconds; requests: concurrency * pipelining; streams: concurrency * parallelism.

Servers and networks have busy hours: the error of the latest runs is the likely error of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, log2
from statistics import median
from typing import NamedTuple

from .regression import Fit, fit, quantile

#: Runs of a pair of endpoints from which a forecast uses that pair alone.
ENOUGH = 5
#: The weight of a run of the pair among runs of others, while there are fewer.
OWN_WEIGHT = 8.0
#: The number of newer runs that halves the weight of a run.
HALF_LIFE = 60
#: Round trips are similar up to this factor.
SIMILAR = 2.0
#: Seconds below which all round trips count as equal.
NEAR = 1e-3
#: Seconds of a round trip that was not measured.
ROUND_TRIP = 0.02
#: The latest errors: the number of runs, the number that halves a weight, and the weight of an error of zero.
LATEST, LATEST_HALF_LIFE, LATEST_DOUBT = 20, 4, 1.0
#: An error counts up to this multiple of the median error.
BELIEVED = 2.0
#: The paper's rule for an ordinary chunk.
PLAN = (2, 4, 10)
#: The coefficients without runs: half a second and ten round trips, 2 ms a file, 100 MB/s, windows of 4 MB.
RULE_OF_THUMB = (0.5, 10.0, 1.0, 2e-3, 1.0, 1e-8, 2.5e-7)
#: The number of coefficients for the beginning and the end.
BEGINNING = 3
#: Octets that a stream sends before the first acknowledgment (RFC 6928).
FIRST_WINDOW = 14_600
#: The shortest duration in seconds: clocks measure no less.
INSTANT = 1e-3
#: The range: one run in ten is shorter, and one in ten is longer.
LOW, HIGH = 0.1, 0.9
#: The factor of uncertainty in both directions: with a few runs, with runs of other pairs only, with none.
FEW_OFF, OTHERS_OFF, NOTHING_OFF = 2.0, 2.0, 4.0
NO_BASIS = "from a rule of thumb: nothing has run here yet"
#: The factor for files that an unfinished scan may still find.
SCAN_OFF = 4.0
#: The progress at which the task's own pace counts as much as the history.
EVEN = 0.15
#: Seconds of delay until work is counted, which matters in the first seconds.
LATE = 2.0
#: The part of the uncertainty that disappears with the progress.
SETTLED = 0.7


class ForecastWork(NamedTuple):
    """The work of a transfer."""

    files: int
    bytes: int


class Past(NamedTuple):
    """An earlier run (`models.Run`)."""

    seconds: float
    work: ForecastWork
    faults: int
    round_trip: float | None
    concurrency: int
    parallelism: int
    pipelining: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """The duration of `work` in seconds: in one case of ten it is below `low`, in one of ten above `high`.

    basis: the source of the forecast, in words. runs: the number of runs of this pair of endpoints in it.
    """

    work: ForecastWork
    low: float
    expected: float
    high: float
    basis: str
    runs: int

    @property
    def bytes_per_second(self) -> tuple[float, float, float]:
        """(low, expected, high) rates of the same cases."""
        low, expected, high = (
            self.work.bytes / max(INSTANT, seconds) for seconds in (self.high, self.expected, self.low)
        )
        return low, expected, high

    def at_most(self, rate: int | None) -> Forecast:
        """The forecast for a transfer that may move so many octets a second; None if nothing limits it."""
        if not rate:
            return self
        least = self.work.bytes / rate
        low, expected, high = (max(seconds, least) for seconds in (self.low, self.expected, self.high))
        return replace(self, low=low, expected=expected, high=high)


class Model:
    """The model of a pair of endpoints. own: its runs, the latest first; others: those of all pairs."""

    def __init__(self, own: Sequence[Past], others: Sequence[Past] = ()) -> None:
        self._own = own
        measured = _round_trip(own)
        self._others = _similar(others, measured) if len(own) < ENOUGH else []
        self._kin = "other endpoints" if measured is None else "others with a similar round trip"
        self._round_trip = measured or _round_trip(self._others) or ROUND_TRIP
        known = self._fit()
        errors = [log(ratio) for ratio in known.ratios]
        busy = exp(_lately(errors)) if len(own) >= ENOUGH else 1.0
        self._coefficients = [busy * one for one in known.coefficients]
        self._off = self._spread(errors)

    def whole(self, work: ForecastWork) -> Forecast:
        """The forecast of a whole transfer."""
        begin, moving = self._parts(work)
        return self._forecast(work, max(INSTANT, begin + moving))

    def rest(self, done: ForecastWork, left: ForecastWork, seconds: float, *, scanning: bool = False) -> Forecast:
        """The forecast of the rest of a task. seconds: the time for `done`. scanning: the scan may find more."""
        begin, _ = self._parts(ForecastWork(done.files + left.files, done.bytes + left.bytes))
        behind, ahead = (self._parts(work)[1] for work in (done, left))
        progress = behind / (behind + ahead) if behind else 0.0
        weight = progress / (progress + EVEN) * seconds / (seconds + LATE)
        foretold = max(ahead, INSTANT if behind else begin + ahead - seconds, INSTANT)
        measured = max(seconds - begin, seconds / 2, INSTANT) * ahead / behind if behind else foretold
        found = self._forecast(left, foretold ** (1 - weight) * max(measured, INSTANT) ** weight, 1 - SETTLED * weight)
        if not behind:
            found = replace(
                found, high=max(found.high, seconds)
            )  # a task that has waited this long may wait as long again
        return _wider(found) if scanning else found

    def at_pace(self, done: ForecastWork, left: ForecastWork, seconds: float) -> float | None:
        """Seconds for the rest at the pace of `done` in `seconds`; None: nothing was done.

        The history gives only the ratio of the costs of files and octets, within the limits that both allow.
        """
        found = at_pace(done, left, seconds)
        behind, ahead = (self._parts(work)[1] for work in (done, left))
        return min(max(found), max(min(found), seconds * ahead / behind)) if found and behind else None

    def _parts(self, work: ForecastWork) -> tuple[float, float]:
        """Seconds for the beginning and the end, and seconds for moving."""
        costs = [
            one * value for one, value in zip(self._coefficients, _row(self._like(work), self._round_trip), strict=True)
        ]
        return sum(costs[:BEGINNING]), sum(costs[BEGINNING:])

    def _like(self, work: ForecastWork) -> Past:
        """This work with the plan of the most similar run."""
        runs = [*self._own, *self._others]
        plan = min(runs, key=lambda run: _distance(run.work, work), default=None)
        numbers = (plan.concurrency, plan.parallelism, plan.pipelining) if plan else PLAN
        return Past(0.0, work, 0, self._round_trip, *numbers)

    def _forecast(self, work: ForecastWork, seconds: float, exponent: float = 1.0) -> Forecast:
        low, high = (ratio**exponent for ratio in self._off)
        return Forecast(work, seconds * low, seconds, seconds * high, self._basis(), len(self._own))

    def _fit(self) -> Fit:
        runs = [*self._own, *self._others]
        weights = [_weight(run, age) for age, run in enumerate(self._own)]
        if self._others:
            weights = [OWN_WEIGHT * weight for weight in weights]
            weights += [_weight(run, age) for age, run in enumerate(self._others)]
        rows = [_row(run, self._round_trip) for run in runs]
        return fit(rows, [max(INSTANT, run.seconds) for run in runs], RULE_OF_THUMB, weights)

    def _spread(self, errors: Sequence[float]) -> tuple[float, float]:
        """The factors from the expected duration to the low and the high end; wider with fewer runs.

        errors: logarithms, the latest first; each from a forecast by the runs before it.
        """
        if len(self._own) < ENOUGH:
            off = OTHERS_OFF if self._others else NOTHING_OFF / FEW_OFF
        else:
            off = 1.0
            errors = [error - _lately(errors[age + 1 :]) for age, error in enumerate(errors)]
        few = sorted([-log(FEW_OFF), *errors, log(FEW_OFF)])
        return exp(min(0.0, quantile(few, LOW))) / off, exp(max(0.0, quantile(few, HIGH))) * off

    def _basis(self) -> str:
        own, others = _runs(len(self._own)), _runs(len(self._others))
        if len(self._own) >= ENOUGH:
            return f"from {own} between these endpoints"
        if self._others:
            few = f"{own} between these endpoints and " if self._own else ""
            return f"from {few}{others} between {self._kin}"
        return f"from only {own} between these endpoints" if self._own else NO_BASIS


def at_pace(done: ForecastWork, left: ForecastWork, seconds: float) -> list[float]:
    """Seconds for the rest, by files and by octets; some of both must be done already."""
    return [seconds * ahead / behind for behind, ahead in zip(done, left, strict=True) if behind]


def _row(run: Past, round_trip: float) -> list[float]:
    """The factors of the coefficients for a run. round_trip: used where none was measured."""
    rtt = round_trip if run.round_trip is None else run.round_trip
    files, octets = run.work
    lanes = max(1, min(run.concurrency, files))
    streams = lanes * max(1, run.parallelism)
    return [
        1.0,
        rtt,
        rtt * log2(1 + octets / streams / FIRST_WINDOW),
        files,
        files * rtt / (lanes * max(1, run.pipelining)),
        octets,
        octets * rtt / streams,
    ]


def _lately(errors: Sequence[float]) -> float:
    """The mean logarithmic error of the latest runs, shrunk towards zero; an outlier changes it little."""
    latest = errors[:LATEST]
    weights = [0.5 ** (age / LATEST_HALF_LIFE) for age in range(len(latest))]
    most = BELIEVED * median(map(abs, latest)) if latest else 0.0
    total = sum(weight * max(-most, min(most, error)) for weight, error in zip(weights, latest, strict=True))
    return float(total / (sum(weights) + LATEST_DOUBT))


def _weight(run: Past, age: int) -> float:
    """The weight of a run: larger for later ones, smaller for those with faults."""
    return float(0.5 ** (age / HALF_LIFE)) / (1 + max(0, run.faults))


def _distance(one: ForecastWork, other: ForecastWork) -> float:
    """The distance between two works, by their counts and their average sizes."""
    counts = log(max(1, one.files) / max(1, other.files))
    return abs(counts) + abs(log((1 + one.bytes) / (1 + other.bytes)) - counts)


def _round_trip(runs: Sequence[Past]) -> float | None:
    known = [run.round_trip for run in runs if run.round_trip is not None]
    return median(known) if known else None


def _similar(runs: Sequence[Past], round_trip: float | None) -> list[Past]:
    """Runs with a similar round trip; all, where the round trip of the pair is not known yet."""
    if round_trip is None:
        return list(runs)
    least, most = round_trip / SIMILAR, max(round_trip, NEAR) * SIMILAR
    return [run for run in runs if run.round_trip is not None and least <= max(run.round_trip, NEAR) <= most]


def _wider(found: Forecast) -> Forecast:
    basis = f"{found.basis}; the scan goes on and may find more"
    return replace(found, high=found.high * SCAN_OFF, basis=basis)


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
