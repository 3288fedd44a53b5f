"""The tuner: which plan a chunk is begun with, and how measured goodput changes it. Pure.

It is asked (`plan`) when a chunk begins and told (`measured`) what has happened since; it has no clock of its own.
docs/decisions/0008-tuner.md says what it does and why.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from .climb import Climb, Step
from .experience import LONGEST_ROUND_TRIP, Experience, Numbers, decade, numbers
from .meter import Rate, Sample
from .opening import BLOCK, Caps, asked, depth_limit, opening_plan, paper_plan, pinned
from .plan import Plan, SizeClass, Summary

__all__ = ["Caps", "Mode", "Sample", "Tuner"]

#: Seconds of a round trip when nobody has told it: what settling and windows are made for then.
UNKNOWN = 0.05
#: A plan is begun anew when the files' average size or the round trip has changed by this factor; when measurement has
#: changed the plan, by its square.
OTHER = 2.0
#: Streams of a lane at most, and blocks of a file for each of them at least, when more are tried.
MOST_STREAMS = 32
BLOCKS = 8


class Mode(enum.StrEnum):
    """paper and fixed: the rules and what the user asked for, never changed. adaptive: rules, then measurement."""

    PAPER = "paper"
    ADAPTIVE = "adaptive"
    FIXED = "fixed"

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Mode:
        """The user's choice; adaptive when there is none."""
        return next((mode for mode in cls if mode == options.get("tuning")), cls.ADAPTIVE)


@dataclass(slots=True)
class _Course:
    """A class of files on its way. key, size, round_trip, rule: what its plan was begun for."""

    climb: Climb
    key: str
    size: int
    round_trip: float | None
    rule: Numbers


class Tuner:
    """One for each slice of a task.

    options: of the task, by wire name (tuning, perf_cc, perf_p, perf_pp). knowledge: what an earlier tuner of the same
    pair of endpoints left; anything that is not understood is passed over. now: seconds, on the clock of the samples.
    """

    def __init__(self, options: Mapping[str, object], caps: Caps, knowledge: Mapping[str, object], now: float) -> None:
        self.mode = Mode.of(options)
        #: Seconds to the farther endpoint, as seen when sessions were opened.
        self.round_trip: float | None = None
        self._options = options
        self._caps = caps
        self._experience = Experience(knowledge)
        self._courses: dict[SizeClass, _Course] = {}
        self._kind: SizeClass | None = None

    @property
    def lanes_before(self) -> int:
        """Lanes to open before anything is known of the files; 0 when no earlier task tells."""
        return min(self._experience.lanes, self._caps.lanes)

    @property
    def most_lanes(self) -> int:
        """What the endpoints and the lease allow."""
        return self._caps.lanes

    def saw_round_trip(self, seconds: float) -> None:
        """The longer one of both endpoints', by the best that the caller knows so far."""
        if 0 < seconds <= LONGEST_ROUND_TRIP:
            self.round_trip = seconds

    def plan(self, kind: SizeClass, chunk: Summary) -> Plan:
        """The plan to begin a chunk of this class with; asked again when more of the class is known."""
        if self._kind is not None and self._kind is not kind:
            self._courses[self._kind].climb.interrupted()
        self._kind = kind
        course = self._course(kind, chunk)
        known = self._courses.get(kind)
        if known is None or _other(known, course):
            self._courses[kind] = known = course
            self._experience.begun(known.climb.plan, chunk.count)
        return known.climb.plan

    def measured(self, sample: Sample) -> Plan | None:
        """A changed plan for the chunk under way, or None. Called about every second, and when a chunk ends."""
        if self._kind is None:
            return None
        return self._courses[self._kind].climb.measured(sample, self._distance or UNKNOWN)

    def knowledge(self) -> dict[str, object]:
        """To begin the next task on this pair with: JSON, under 4 KB."""
        return self._experience.content(self.round_trip)

    @property
    def _distance(self) -> float | None:
        return self._experience.round_trip if self.round_trip is None else self.round_trip

    def _course(self, kind: SizeClass, chunk: Summary) -> _Course:
        size = chunk.total // chunk.count if chunk.count else 0
        key = decade(kind, size)
        rule = paper_plan(chunk, self._options, self._caps)
        plan = self._opening(key, chunk) if self.mode is Mode.ADAPTIVE else rule
        least = plan.concurrency if self._fixed("perf_cc") else rule.concurrency

        def record(plan: Plan, rate: Rate) -> None:
            self._experience.saw(key, plan, rate)

        climb = Climb(plan, self._steps(max(1, size)), least, record)
        return _Course(climb, key, size, self._distance, numbers(rule))

    def _opening(self, key: str, chunk: Summary) -> Plan:
        rule = opening_plan(chunk, self._options, self._caps, self._distance)
        better = self._experience.better(key, rule, self._fits)
        if better is None:
            return rule
        (lanes, streams, depth), factor = better
        reason = f"{rule.reason}; this plan was {factor:.2g} times as fast as that for these endpoints' last tasks"
        return asked(Plan(lanes, streams, depth, reason), self._options, self._caps)

    def _fits(self, plan: Numbers) -> bool:
        lanes, streams, _ = plan
        return lanes <= self._caps.lanes and streams <= self._caps.parallelism

    def _steps(self, size: int) -> list[Step]:
        """What may be tried for files of this size, the likeliest first."""
        caps = self._caps
        most_streams = min(caps.parallelism, MOST_STREAMS, size // (BLOCKS * BLOCK))
        steps = [
            ("perf_cc", Step("concurrency", 2, 1, caps.lanes)),
            ("perf_p", Step("parallelism", 2, 1, most_streams)),
            ("perf_pp", Step("pipelining", 4, 1, depth_limit(size, caps))),
            ("perf_cc", Step("concurrency", 0.5, 1, caps.lanes)),
        ]
        return [step for option, step in steps if not self._fixed(option)]

    def _fixed(self, option: str) -> bool:
        one_stream = self._caps.stream_only and option != "perf_cc"
        return self.mode is not Mode.ADAPTIVE or one_stream or pinned(self._options, option, self._caps)


def _other(known: _Course, now: _Course) -> bool:
    """Whether a chunk is so different from what the plan was begun for that it is begun anew."""
    if numbers(known.climb.plan) == numbers(now.climb.plan):
        return False
    factor = OTHER**2 if known.climb.climbed else OTHER
    if known.rule != now.rule and not known.climb.climbed:
        return True
    if now.round_trip is not None and (known.round_trip is None or _apart(known.round_trip, now.round_trip) >= factor):
        return True
    return _apart(max(1, known.size), max(1, now.size)) >= factor


def _apart(one: float, other: float) -> float:
    return max(one / other, other / one)
