"""Hill climbing on measured goodput: one step at a time, kept only when it clearly pays. Pure.

Why it cannot oscillate: a step is kept only when goodput grew by KEEP, so in a network that stays as it is only so
many steps can be kept, whatever their order; after each step that was undone the pause before the next grows by
PATIENCE. Pauses begin anew only when goodput itself has shifted, which counts ever more seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .meter import Level, Meter, Rate, Sample, mean, settling, shortest
from .opening import counted
from .plan import Plan
from .retreat import Retreat

#: A step is kept when goodput grew by this factor; it is undone at first sight when it did not reach PROMISE.
KEEP = 1.10
PROMISE = 1.05
#: Three windows within this of each other are a goodput to compare with; so many, or so many seconds, are in any case.
STEADY = 0.05
WINDOWS = 8
SECONDS = 15.0
#: Seconds before the next step after one that was undone, growing by the factor.
PAUSE = 20.0
PATIENCE = 6.0
#: Seconds between two shifts that count at least, doubling.
SHIFT_PAUSE = 30.0
#: Seconds that a step may take to be measured: lanes that are replaced end their files first.
TRIAL = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """One number of the plan, multiplied within bounds."""

    name: str
    factor: float
    least: int
    most: int

    def number(self, plan: Plan) -> int:
        """What it becomes; the same when there is nowhere to go."""
        now: int = getattr(plan, self.name)
        wanted = int(now * self.factor)
        return max(now, min(wanted, self.most)) if self.factor > 1 else min(now, max(wanted, self.least))

    def taken(self, plan: Plan) -> Plan:
        """The plan after this step."""
        changes: dict[str, Any] = {self.name: self.number(plan)}
        return replace(plan, **changes)

    def possible(self, plan: Plan, sample: Sample) -> bool:
        """Whether it leads anywhere, and there are files for it."""
        number, now = self.number(plan), int(getattr(plan, self.name))
        files = {"concurrency": 2 * (number - now), "parallelism": plan.concurrency, "pipelining": number - now}
        return number != now and sample.waiting >= files[self.name]

    def words(self, plan: Plan) -> str:
        """This number of the plan, for people."""
        number = int(getattr(plan, self.name))
        thing = {"concurrency": "lane", "parallelism": "stream", "pipelining": "file"}[self.name]
        where = {"concurrency": "", "parallelism": " in each lane", "pipelining": " under way in each lane"}[self.name]
        return f"{counted(number, thing)}{where}"


@dataclass(slots=True)
class _Trial:
    before: Plan
    rate: Rate
    step: Step
    until: float
    first: Rate | None = None


class Climb:
    """The plan of one class of files as it changes.

    steps: what may be tried, in this order. least_lanes: kept whatever faults there are. record: is told each goodput
    worth remembering.
    """

    def __init__(
        self, plan: Plan, steps: Sequence[Step], least_lanes: int, record: Callable[[Plan, Rate], None]
    ) -> None:
        self.plan = plan
        #: Whether a step was kept.
        self.climbed = False
        self._order = list(steps)
        self._steps = list(steps)
        self._least_lanes = least_lanes
        self._record = record
        self._meter = Meter()
        self._retreat = Retreat()
        self._level = Level()
        #: By which factor a number of the plan was changed for good: back the same way leads nowhere.
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
        """Files of another class come next: what was being tried will not be known."""
        if self._trial:
            self.plan, self._trial = self._trial.before, None
            self._wait(self._at)

    def measured(self, sample: Sample, round_trip: float) -> Plan | None:
        """The plan to go on with, when it is another one."""
        self._at = sample.at
        if sample.faults:
            self._meter.restart(sample.at + settling(round_trip))
            return self._fault(sample.at, round_trip)
        lanes = self._retreat.more(sample.at, self.plan.concurrency)
        if lanes != self.plan.concurrency:
            reason = f"no connection was refused or lost in {self._retreat.quiet:.0f} s: {counted(lanes, 'lane')} again"
            return self._lanes(lanes, reason, sample.at, round_trip)
        if self._trial and sample.at >= self._trial.until:
            return self._undo(self._trial, "could not be measured", sample.at, round_trip)
        rate = self._meter.add(sample, self.plan.concurrency, round_trip)
        if rate is None:
            return None
        if self._trial:
            return self._judge(self._trial, rate, sample, round_trip)
        self._look(rate, sample.at, round_trip)
        if self._base and sample.at >= self._next_at and self._retreat.lanes is None:
            return self._try(self._base, sample, round_trip)
        return None

    # ---- the goodput to compare with

    def _look(self, rate: Rate, at: float, round_trip: float) -> None:
        if self._level.shifted(rate, at, round_trip) and at >= self._shift_at:
            self._begin_anew(at)
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

    def _begin_anew(self, at: float) -> None:
        """The network is another one by now: what was tried before says nothing any more."""
        self._shift_at = at + self._shift_pause
        self._shift_pause *= 2
        self._pause, self._next_at = PAUSE, at
        self._kept.clear()
        self._steps = list(self._order)
        self._forget()

    def _forget(self) -> None:
        self._base = None
        self._level.restart()
        self._windows.clear()

    # ---- steps

    def _try(self, base: Rate, sample: Sample, round_trip: float) -> Plan | None:
        if _nearly_over(base, sample, round_trip):
            return None
        for index, step in enumerate(self._steps):
            if self._kept.get(step.name, step.factor) == step.factor and step.possible(self.plan, sample):
                # After one that is undone come the others, then this one again.
                self._steps = self._steps[index + 1 :] + self._steps[: index + 1]
                return self._begin(step, base, sample.at, round_trip)
        return None

    def _begin(self, step: Step, base: Rate, at: float, round_trip: float) -> Plan:
        before = self.plan
        after = step.taken(before)
        self._trial = _Trial(before, base, step, at + TRIAL + 40 * round_trip)
        reason = f"{step.words(before)} moved {base}: trying {step.words(after)}"
        return self._change(replace(after, reason=reason), at, round_trip)

    def _judge(self, trial: _Trial, rate: Rate, sample: Sample, round_trip: float) -> Plan | None:
        if trial.first is None and rate.work >= PROMISE * trial.rate.work:
            trial.first = rate
            return None
        rate = mean([trial.first, rate]) if trial.first else rate
        self._record(self.plan, rate)
        if rate.work < KEEP * trial.rate.work:
            return self._undo(trial, f"moved {rate}", sample.at, round_trip)
        self.climbed = True
        self._kept[trial.step.name] = trial.step.factor
        self._forget()
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
        reason = f"{step.words(self.plan)} {what}, {step.words(before)} {trial.rate} before: back to these"
        return self._change(replace(before, reason=reason), at, round_trip)

    def _wait(self, at: float) -> None:
        self._next_at = at + self._pause
        self._pause *= PATIENCE

    def _change(self, plan: Plan, at: float, round_trip: float) -> Plan:
        self.plan = plan
        self._meter.restart(at + settling(round_trip))
        return plan

    # ---- faults

    def _fault(self, at: float, round_trip: float) -> Plan | None:
        if not self._retreat.news(at, settling(round_trip)):
            return None
        if self._trial:
            return self._undo(self._trial, "met refused or lost connections", at, round_trip)
        lanes = self._retreat.fewer(at, self.plan.concurrency, self._least_lanes)
        if lanes == self.plan.concurrency:
            return None
        reason = f"connections are refused or lost: {counted(lanes, 'lane')} instead of {self.plan.concurrency}"
        return self._lanes(lanes, reason, at, round_trip)

    def _lanes(self, lanes: int, reason: str, at: float, round_trip: float) -> Plan:
        self._forget()
        return self._change(replace(self.plan, concurrency=lanes, reason=reason), at, round_trip)


def _nearly_over(rate: Rate, sample: Sample, round_trip: float) -> bool:
    """Whether the files will be through before a step could have paid for itself."""
    return sample.waiting < rate.files * 2 * (settling(round_trip) + 2 * shortest(round_trip))


def _spread(rates: Sequence[Rate]) -> float:
    work = [rate.work for rate in rates]
    return max(work) / min(work) if min(work) > 0 else float("inf")
