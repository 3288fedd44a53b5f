"""Hill climbing on measured goodput: one step at a time, kept only when it clearly pays. Pure.

It cannot oscillate: a step is kept only when goodput grew by KEEP, so in a stable network only a limited number of
steps can be kept, in any order; after each step that was undone the pause before the next grows by PAUSE_FACTOR. The
pauses are reset only when goodput itself has shifted, and shifts count ever more rarely.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from identity.gsi.sentences import Sentence

from .lane_backoff import LaneBackoff
from .meter import GoodputLevel, Meter, Rate, Sample, mean, settling, shortest
from .opening import amount
from .plan import Plan

#: A step is kept when goodput grew by this factor; it is undone at once when it did not reach PROMISE.
KEEP = 1.10
PROMISE = 1.05
#: Three windows within this of each other are stable enough to compare with; so many windows or seconds always are.
STEADY = 0.05
WINDOWS = 8
SECONDS = 15.0
#: Seconds before the next step after one that was undone, multiplied by the factor each time.
PAUSE = 20.0
PAUSE_FACTOR = 6.0
#: Minimum number of seconds between two shifts that count, doubled each time.
SHIFT_PAUSE = 30.0
#: Seconds in which a step must be measured: lanes that are replaced first finish their files.
TRIAL = 60.0


@dataclass(frozen=True, slots=True)
class ClimbStep:
    """A change of one number of the plan: a factor, within bounds."""

    name: str
    factor: float
    least: int
    most: int

    def number(self, plan: Plan) -> int:
        """The new number; the same when the bounds allow no change."""
        now: int = getattr(plan, self.name)
        wanted = int(now * self.factor)
        return max(now, min(wanted, self.most)) if self.factor > 1 else min(now, max(wanted, self.least))

    def apply(self, plan: Plan) -> Plan:
        """The plan after this step."""
        changes: dict[str, Any] = {self.name: self.number(plan)}
        return replace(plan, **changes)

    def possible(self, plan: Plan, sample: Sample) -> bool:
        """Whether the step changes anything, and there are enough files for it."""
        number, now = self.number(plan), int(getattr(plan, self.name))
        files = {"concurrency": 2 * (number - now), "parallelism": plan.concurrency, "pipelining": number - now}
        return number != now and sample.waiting >= files[self.name]

    def describe(self, plan: Plan) -> str:
        """This number of the plan as text for users."""
        return amount(self.name, int(getattr(plan, self.name)))


@dataclass(slots=True)
class _Trial:
    before: Plan
    rate: Rate
    step: ClimbStep
    until: float
    first: Rate | None = None


class HillClimb:
    """The plan of one class of files as it changes.

    steps: the steps to try, in this order. least_lanes: kept whatever faults occur. record: called with each goodput
    that is worth remembering.
    """

    def __init__(
        self, plan: Plan, steps: Sequence[ClimbStep], least_lanes: int, record: Callable[[Plan, Rate], None]
    ) -> None:
        self.plan = plan
        #: Whether a step was kept.
        self.climbed = False
        self._order = list(steps)
        self._steps = list(steps)
        self._least_lanes = least_lanes
        self._record = record
        self._meter = Meter()
        self._lane_backoff = LaneBackoff()
        self._level = GoodputLevel()
        #: The factor by which each number of the plan was changed for good: steps in the other direction are useless.
        self._kept: dict[str, float] = {}
        self._windows: list[Rate] = []
        self._windows_since = 0.0
        self._base: Rate | None = None
        self._trial: _Trial | None = None
        self._pause = PAUSE
        self._next_at = 0.0
        self._at = 0.0
        self._shift_pause = SHIFT_PAUSE
        self._shift_at = 0.0

    def interrupted(self) -> None:
        """Files of another class come next: the current trial cannot be measured."""
        if self._trial:
            self.plan, self._trial = self._trial.before, None
            self._wait(self._at)

    def measured(self, sample: Sample, round_trip: float) -> Plan | None:
        """The plan to continue with, when it changes."""
        self._at = sample.at
        if sample.faults:
            self._meter.restart(sample.at + settling(round_trip))
            return self._fault(sample.at, round_trip)
        lanes = self._lane_backoff.more(sample.at, self.plan.concurrency)
        if lanes != self.plan.concurrency:
            reason = Sentence(
                "no connection was refused or lost in %(seconds)s s: %(lanes)s again",
                seconds=f"{self._lane_backoff.quiet:.0f}",
                lanes=amount("concurrency", lanes),
            )
            return self._lanes(lanes, reason, sample.at, round_trip)
        if self._trial and sample.at >= self._trial.until:
            return self._undo(self._trial, Sentence("could not be measured"), sample.at, round_trip)
        rate = self._meter.add(sample, self.plan.concurrency, round_trip)
        if rate is None:
            return None
        if self._trial:
            return self._evaluate(self._trial, rate, sample, round_trip)
        self._add_window(rate, sample.at, round_trip)
        if self._base and sample.at >= self._next_at and self._lane_backoff.lanes is None:
            return self._start_trial(self._base, sample, round_trip)
        return None

    # ---- the goodput to compare with

    def _add_window(self, rate: Rate, at: float, round_trip: float) -> None:
        if self._level.shifted(rate, at, round_trip) and at >= self._shift_at:
            self._restart(at)
        if not self._windows:
            self._windows_since = at
        self._windows = [*self._windows, rate][-WINDOWS:]
        last = self._windows[-3:]
        steady = len(last) == 3 and _spread(last) <= 1 + STEADY
        enough = len(self._windows) >= WINDOWS or (len(last) == 3 and at >= self._windows_since + SECONDS)
        if self._base is None and not (steady or enough):
            return
        if self._base is None:
            self._record(self.plan, mean(last))
        self._base = mean(last if steady else self._windows)

    def _restart(self, at: float) -> None:
        """The network has changed: the results of earlier steps do not count any more."""
        self._shift_at = at + self._shift_pause
        self._shift_pause *= 2
        self._pause, self._next_at = PAUSE, at
        self._kept.clear()
        self._steps = list(self._order)
        self._clear_windows()

    def _clear_windows(self) -> None:
        self._base = None
        self._level.restart()
        self._windows.clear()

    # ---- steps

    def _start_trial(self, base: Rate, sample: Sample, round_trip: float) -> Plan | None:
        if _nearly_over(base, sample, round_trip):
            return None
        for index, step in enumerate(self._steps):
            if self._kept.get(step.name, step.factor) == step.factor and step.possible(self.plan, sample):
                # After a step that is undone the others are tried first.
                self._steps = self._steps[index + 1 :] + self._steps[: index + 1]
                return self._begin(step, base, sample.at, round_trip)
        return None

    def _begin(self, step: ClimbStep, base: Rate, at: float, round_trip: float) -> Plan:
        before = self.plan
        after = step.apply(before)
        self._trial = _Trial(before, base, step, at + TRIAL + 40 * round_trip)
        reason = Sentence(
            "%(before)s moved %(rate)s: trying %(after)s",
            before=step.describe(before), rate=str(base), after=step.describe(after),
        )  # fmt: skip
        return self._change(replace(after, reason=reason), at, round_trip)

    def _evaluate(self, trial: _Trial, rate: Rate, sample: Sample, round_trip: float) -> Plan | None:
        if trial.first is None and rate.work >= PROMISE * trial.rate.work:
            trial.first = rate
            return None
        rate = mean([trial.first, rate]) if trial.first else rate
        self._record(self.plan, rate)
        if rate.work < KEEP * trial.rate.work:
            return self._undo(trial, Sentence("moved %(rate)s", rate=str(rate)), sample.at, round_trip)
        self.climbed = True
        self._kept[trial.step.name] = trial.step.factor
        self._clear_windows()
        self._trial, self._base = None, rate
        if trial.step.possible(self.plan, sample) and not _nearly_over(rate, sample, round_trip):
            return self._begin(trial.step, rate, sample.at, round_trip)
        return None

    def _undo(self, trial: _Trial, what: str, at: float, round_trip: float) -> Plan:
        step, before = trial.step, trial.before
        self._trial = None
        self._level.pause()
        self._windows.clear()
        self._wait(at)
        reason = Sentence(
            "%(tried)s %(what)s, %(before)s %(rate)s before: back to these",
            tried=step.describe(self.plan), what=what, before=step.describe(before), rate=str(trial.rate),
        )  # fmt: skip
        return self._change(replace(before, reason=reason), at, round_trip)

    def _wait(self, at: float) -> None:
        self._next_at = at + self._pause
        self._pause *= PAUSE_FACTOR

    def _change(self, plan: Plan, at: float, round_trip: float) -> Plan:
        self.plan = plan
        self._meter.restart(at + settling(round_trip))
        return plan

    # ---- faults

    def _fault(self, at: float, round_trip: float) -> Plan | None:
        if not self._lane_backoff.is_new_outage(at, settling(round_trip)):
            return None
        if self._trial:
            return self._undo(self._trial, Sentence("met refused or lost connections"), at, round_trip)
        lanes = self._lane_backoff.fewer(at, self.plan.concurrency, self._least_lanes)
        if lanes == self.plan.concurrency:
            return None
        reason = Sentence(
            "connections are refused or lost: %(now)s instead of %(before)s",
            now=amount("concurrency", lanes), before=self.plan.concurrency,
        )  # fmt: skip
        return self._lanes(lanes, reason, at, round_trip)

    def _lanes(self, lanes: int, reason: str, at: float, round_trip: float) -> Plan:
        self._clear_windows()
        return self._change(replace(self.plan, concurrency=lanes, reason=reason), at, round_trip)


def _nearly_over(rate: Rate, sample: Sample, round_trip: float) -> bool:
    """Whether the files will be transferred before a step could have paid for itself."""
    return sample.waiting < rate.files * 2 * (settling(round_trip) + 2 * shortest(round_trip))


def _spread(rates: Sequence[Rate]) -> float:
    work = [rate.work for rate in rates]
    return max(work) / min(work) if min(work) > 0 else float("inf")
