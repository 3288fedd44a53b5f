"""The tuner: the plan that a chunk begins with, and its changes by measured goodput. Pure.

The engine calls `plan` when a chunk begins and `measured` with each sample; the tuner has no clock of its own.
docs/decisions/tuning-and-forecasts.md describes what it does and why.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from identity.gsi.sentences import Sentence

from .experience import LONGEST_ROUND_TRIP, Experience, Numbers, decade, numbers
from .hill_climb import ClimbStep, HillClimb
from .meter import Rate, Sample
from .opening import BLOCK, Caps, asked_within, depth_limit, opening_plan, paper_plan
from .plan import ChunkSummary, Plan, SizeClass, wish

#: Seconds of a round trip that is not known: settling times and windows are computed with it.
DEFAULT_ROUND_TRIP = 0.05
#: A plan is made again when the average file size or the round trip has changed by this factor; after a measured
#: change of the plan, by its square.
CHANGE_FACTOR = 2.0
#: Maximum number of streams of a lane, and minimum number of blocks of a file for each, when more are tried.
MOST_STREAMS = 32
BLOCKS = 8


class TuningMode(enum.StrEnum):
    """paper and fixed: the rules and the user's options, never changed. adaptive: rules, then measurement."""

    PAPER = "paper"
    ADAPTIVE = "adaptive"
    FIXED = "fixed"

    @classmethod
    def of(cls, options: Mapping[str, object]) -> TuningMode:
        """The user's choice; adaptive when there is none."""
        return next((mode for mode in cls if mode == options.get("tuning")), cls.ADAPTIVE)


@dataclass(slots=True)
class _ClassPlan:
    """The plan of one class of files. key, size, round_trip, rule: the facts that its plan was made for."""

    climb: HillClimb
    key: str
    size: int
    round_trip: float | None
    rule: Numbers


class Tuner:
    """One tuner for each slice of a task.

    options: of the task, by wire name (tuning, perf_cc, perf_p, perf_pp). knowledge: what an earlier tuner of the same
    pair of endpoints returned; values that are not valid are ignored.
    """

    def __init__(self, options: Mapping[str, object], caps: Caps, knowledge: Mapping[str, object]) -> None:
        self.mode = TuningMode.of(options)
        #: Seconds to the farther endpoint and back, measured when sessions were opened.
        self.round_trip: float | None = None
        self._options = options
        self._caps = caps
        self._experience = Experience(knowledge)
        self._class_plans: dict[SizeClass, _ClassPlan] = {}
        self._kind: SizeClass | None = None

    @property
    def expected_lanes(self) -> int:
        """Lanes to open before the files are known; 0 without an earlier task."""
        return min(self._experience.lanes, self._caps.lanes)

    @property
    def expects_relay(self) -> bool:
        """Whether these lanes are to go by ports of the relay."""
        return self._experience.relayed and self._caps.parted

    @property
    def most_lanes(self) -> int:
        """The limit of the endpoints and the lease."""
        return self._caps.lanes

    def note_round_trip(self, seconds: float) -> None:
        """Record the longer round trip of both endpoints, the shortest measurement of each."""
        if 0 < seconds <= LONGEST_ROUND_TRIP:
            self.round_trip = seconds

    def plan(self, kind: SizeClass, chunk: ChunkSummary) -> Plan:
        """The plan to begin a chunk of this class with; called again when more of the class is known."""
        if self._kind is not None and self._kind is not kind:
            self._class_plans[self._kind].climb.interrupted()
        self._kind = kind
        class_plan = self._new_class_plan(kind, chunk)
        current = self._class_plans.get(kind)
        if current is None or _must_restart(current, class_plan):
            self._class_plans[kind] = current = class_plan
            self._experience.chunk_begun(current.climb.plan, chunk.count)
        return current.climb.plan

    def measured(self, sample: Sample) -> Plan | None:
        """A changed plan for the current chunk, or None. Called about every second, and when a chunk ends."""
        if self._kind is None:
            return None
        return self._class_plans[self._kind].climb.measured(sample, self._known_round_trip or DEFAULT_ROUND_TRIP)

    def knowledge(self) -> dict[str, object]:
        """The knowledge for the next task between these endpoints: JSON, under 4 KB."""
        return self._experience.content(self.round_trip)

    @property
    def _known_round_trip(self) -> float | None:
        return self._experience.round_trip if self.round_trip is None else self.round_trip

    def _new_class_plan(self, kind: SizeClass, chunk: ChunkSummary) -> _ClassPlan:
        size = chunk.total // chunk.count if chunk.count else 0
        key = decade(kind, size)
        rule = paper_plan(chunk, self._options, self._caps)
        plan = self._opening(key, chunk) if self.mode is TuningMode.ADAPTIVE else rule
        least = plan.concurrency if self._fixed("perf_cc") else rule.concurrency

        def record(plan: Plan, rate: Rate) -> None:
            self._experience.record(key, plan, rate)

        climb = HillClimb(plan, self._steps(max(1, size)), least, record)
        return _ClassPlan(climb, key, size, self._known_round_trip, numbers(rule))

    def _opening(self, key: str, chunk: ChunkSummary) -> Plan:
        rule = opening_plan(chunk, self._options, self._caps, self._known_round_trip)
        better = self._experience.better(key, rule, self._fits)
        if better is None:
            return rule
        (lanes, streams, depth), factor = better
        reason = Sentence(
            "%(reason)s; this plan was %(factor)s times as fast as that for these endpoints' last tasks",
            reason=rule.reason, factor=f"{factor:.2g}",
        )  # fmt: skip
        return asked_within(Plan(lanes, streams, depth, reason, rule.relayed), self._options, self._caps)

    def _fits(self, plan: Numbers) -> bool:
        lanes, streams, _ = plan
        return lanes <= self._caps.lanes and streams <= self._caps.parallelism

    def _steps(self, size: int) -> list[ClimbStep]:
        """The steps to try for files of this size, the most promising first."""
        caps = self._caps
        most_streams = min(caps.parallelism, MOST_STREAMS, size // (BLOCKS * BLOCK))
        steps = [
            ("perf_cc", ClimbStep("concurrency", 2, 1, caps.lanes)),
            ("perf_p", ClimbStep("parallelism", 2, 1, most_streams)),
            ("perf_pp", ClimbStep("pipelining", 4, 1, depth_limit(size, caps))),
            ("perf_cc", ClimbStep("concurrency", 0.5, 1, caps.lanes)),
        ]
        return [step for option, step in steps if not self._fixed(option)]

    def _fixed(self, option: str) -> bool:
        stream_only = self._caps.stream_only
        one_stream = stream_only and option != "perf_cc"
        given = wish(self._options, option, stream_only=stream_only) is not None
        return self.mode is not TuningMode.ADAPTIVE or one_stream or given


def _must_restart(current: _ClassPlan, new: _ClassPlan) -> bool:
    """Whether a chunk differs so much from the one that the plan was made for that it needs a new plan."""
    if numbers(current.climb.plan) == numbers(new.climb.plan):
        return False
    factor = CHANGE_FACTOR**2 if current.climb.climbed else CHANGE_FACTOR
    if current.rule != new.rule and not current.climb.climbed:
        return True
    if new.round_trip is not None and (
        current.round_trip is None or _ratio(current.round_trip, new.round_trip) >= factor
    ):
        return True
    return _ratio(max(1, current.size), max(1, new.size)) >= factor


def _ratio(one: float, other: float) -> float:
    return max(one / other, other / one)
