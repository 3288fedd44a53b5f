"""How long a transfer will take, as a range, from what has run before. Pure: no database, no clock.

The time of a run is a sum of what each part of it costs, with coefficients that regression finds (`regression.py`):

    seconds = a + b * rtt                                    to begin and to end
            + c * rtt * log2(1 + bytes / streams / window)   the slow start of each stream
            + d * files                                      what servers do for each file
            + e * files * rtt / requests                     waves of requests, as many at a time as are under way
            + f * bytes                                      the line, the disks
            + g * bytes * rtt / streams                      the window of each stream

rtt: the round trip in seconds; requests: concurrency * pipelining; streams: concurrency * parallelism.

Servers and networks have busy hours: by how much the latest runs were off, so is the next one likely to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log, log2
from statistics import median
from typing import NamedTuple

from .regression import Fit, fit, quantile

#: Runs of a pair of endpoints that make a forecast its own.
ENOUGH = 5
#: What one run of the pair counts among runs of others, while there are fewer.
OWN_WEIGHT = 8.0
#: Runs after which an older one counts half.
HALF_LIFE = 60
#: Round trips up to so many times longer or shorter are similar.
SIMILAR = 2.0
#: Seconds of a round trip below which all are alike.
NEAR = 1e-3
#: Seconds of one that nobody has measured.
ROUND_TRIP = 0.02
#: Of how many runs the latest errors are looked at, after how many one counts half, and what weighs against them.
LATEST, LATEST_HALF_LIFE, LATEST_DOUBT = 20, 4, 1.0
#: An error counts up to so many times the median of them.
BELIEVED = 2.0
#: The paper's rule for an ordinary chunk.
PLAN = (2, 4, 10)
#: The coefficients while nothing is known: half a second and ten round trips, 2 ms a file, 100 MB/s, windows of 4 MB.
RULE_OF_THUMB = (0.5, 10.0, 1.0, 2e-3, 1.0, 1e-8, 2.5e-7)
#: How many of them are of the beginning and the end.
BEGINNING = 3
#: Octets that a stream sends before it first hears of the other side (RFC 6928).
FIRST_WINDOW = 14_600
#: No shorter than this: clocks tell no less.
INSTANT = 1e-3
#: Of the range: a run in ten is shorter, and one in ten longer.
LOW, HIGH = 0.1, 0.9
#: How far off it may be, either way: where a few runs tell, those of other pairs, and none.
FEW_OFF, OTHERS_OFF, NOTHING_OFF = 2.0, 2.0, 4.0
NO_BASIS = "from a rule of thumb: nothing has run here yet"
#: What a scan that goes on may still find.
SCAN_OFF = 4.0
#: The progress at which what this task does itself counts as much as what others did.
EVEN = 0.15
#: Seconds: what has been done is known a moment later, which is much of the first seconds.
LATE = 2.0
#: How much of the uncertainty goes with the progress.
SETTLED = 0.7


class Work(NamedTuple):
    """What there is to move."""

    files: int
    bytes: int


class Past(NamedTuple):
    """A run, as `models.Run` has it."""

    seconds: float
    work: Work
    faults: int
    round_trip: float | None
    concurrency: int
    parallelism: int
    pipelining: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """Seconds in which `work` is done: in one case of ten it takes less than `low`, in one more than `high`.

    basis: what it is made from, in words. runs: how many of this pair of endpoints are among them.
    """

    work: Work
    low: float
    expected: float
    high: float
    basis: str
    runs: int

    @property
    def bytes_per_second(self) -> tuple[float, float, float]:
        """low, expected, high: of the same cases, the other way round."""
        low, expected, high = (
            self.work.bytes / max(INSTANT, seconds) for seconds in (self.high, self.expected, self.low)
        )
        return low, expected, high


class Model:
    """What a pair of endpoints needs for this and that. own: its runs, the latest first; others: those of all pairs."""

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

    def whole(self, work: Work) -> Forecast:
        """From the beginning to the end."""
        begin, moving = self._parts(work)
        return self._forecast(work, max(INSTANT, begin + moving))

    def rest(self, done: Work, left: Work, seconds: float, *, scanning: bool = False) -> Forecast:
        """What is left of a task that has done so much in so many seconds. scanning: more may be found."""
        begin, _ = self._parts(Work(done.files + left.files, done.bytes + left.bytes))
        behind, ahead = (self._parts(work)[1] for work in (done, left))
        progress = behind / (behind + ahead) if behind else 0.0
        weight = progress / (progress + EVEN) * seconds / (seconds + LATE)
        foretold = max(ahead, INSTANT if behind else begin + ahead - seconds, INSTANT)
        measured = max(seconds - begin, seconds / 2, INSTANT) * ahead / behind if behind else foretold
        found = self._forecast(left, foretold ** (1 - weight) * max(measured, INSTANT) ** weight, 1 - SETTLED * weight)
        if not behind:
            found = replace(found, high=max(found.high, seconds))  # who has waited for so long may wait as long again
        return _wider(found) if scanning else found

    def at_pace(self, done: Work, left: Work, seconds: float) -> float | None:
        """Seconds for what is left, if it goes as what was done in so many seconds; None: nothing was.

        History says only how files and octets weigh against each other, and that within what both of them allow.
        """
        found = at_pace(done, left, seconds)
        behind, ahead = (self._parts(work)[1] for work in (done, left))
        return min(max(found), max(min(found), seconds * ahead / behind)) if found and behind else None

    def _parts(self, work: Work) -> tuple[float, float]:
        """Seconds to begin and to end, and seconds of moving."""
        costs = [
            one * value for one, value in zip(self._coefficients, _row(self._like(work), self._round_trip), strict=True)
        ]
        return sum(costs[:BEGINNING]), sum(costs[BEGINNING:])

    def _like(self, work: Work) -> Past:
        """This work, with the plan that the most similar run had."""
        runs = [*self._own, *self._others]
        plan = min(runs, key=lambda run: _distance(run.work, work), default=None)
        numbers = (plan.concurrency, plan.parallelism, plan.pipelining) if plan else PLAN
        return Past(0.0, work, 0, self._round_trip, *numbers)

    def _forecast(self, work: Work, seconds: float, exponent: float = 1.0) -> Forecast:
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
        """How many times the expected the low and the high end are. The fewer runs, the wider.

        errors: logarithms, the latest first; each is judged by what was known before it.
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


def at_pace(done: Work, left: Work, seconds: float) -> list[float]:
    """Seconds for what is left, by files and by octets; of neither nothing may have been done yet."""
    return [seconds * ahead / behind for behind, ahead in zip(done, left, strict=True) if behind]


def _row(run: Past, round_trip: float) -> list[float]:
    """What the coefficients are of. round_trip: in the place of one that was not measured."""
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
    """How far off the latest runs were: a mean of logarithms, drawn towards none; one that stalled moves it little."""
    latest = errors[:LATEST]
    weights = [0.5 ** (age / LATEST_HALF_LIFE) for age in range(len(latest))]
    most = BELIEVED * median(map(abs, latest)) if latest else 0.0
    total = sum(weight * max(-most, min(most, error)) for weight, error in zip(weights, latest, strict=True))
    return float(total / (sum(weights) + LATEST_DOUBT))


def _weight(run: Past, age: int) -> float:
    """Later ones count more, and those with faults less: they tell of the faults."""
    return float(0.5 ** (age / HALF_LIFE)) / (1 + max(0, run.faults))


def _distance(one: Work, other: Work) -> float:
    """Between two works: of their counts, and of their average sizes."""
    counts = log(max(1, one.files) / max(1, other.files))
    return abs(counts) + abs(log((1 + one.bytes) / (1 + other.bytes)) - counts)


def _round_trip(runs: Sequence[Past]) -> float | None:
    known = [run.round_trip for run in runs if run.round_trip is not None]
    return median(known) if known else None


def _similar(runs: Sequence[Past], round_trip: float | None) -> list[Past]:
    """Of a pair that has not run yet nobody knows the round trip: then all are as similar."""
    if round_trip is None:
        return list(runs)
    least, most = round_trip / SIMILAR, max(round_trip, NEAR) * SIMILAR
    return [run for run in runs if run.round_trip is not None and least <= max(run.round_trip, NEAR) <= most]


def _wider(found: Forecast) -> Forecast:
    basis = f"{found.basis}; the scan goes on and may find more"
    return replace(found, high=found.high * SCAN_OFF, basis=basis)


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
