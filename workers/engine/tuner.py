"""The tuner: which plan a chunk is begun with, and how measured goodput changes it. Pure.

It is asked (`plan`) when a chunk begins and told (`measured`) what has happened since; it has no clock of its own.
docs/decisions/0008-tuner.md says what it does and why.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from .opening import Caps, opening_plan, paper_plan
from .plan import Plan, SizeClass, Summary

__all__ = ["Caps", "Mode", "Sample", "Tuner"]


class Mode(enum.StrEnum):
    """paper and fixed: the rules and what the user asked for, never changed. adaptive: rules, then measurement."""

    PAPER = "paper"
    ADAPTIVE = "adaptive"
    FIXED = "fixed"

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Mode:
        """The user's choice; adaptive when there is none."""
        return next((mode for mode in cls if mode == options.get("tuning")), cls.ADAPTIVE)


@dataclass(frozen=True, slots=True)
class Sample:
    """What happened to the chunk that is being moved since the last sample."""

    #: Seconds on any steady clock.
    at: float
    #: Octets that arrived, those that markers of large files tell of included.
    bytes: int
    #: Files that were settled.
    files: int
    #: Lanes that had work all the time.
    lanes: int
    #: Files that no lane has yet.
    waiting: int
    under_way: int
    #: Refused connections, busy servers, resets.
    faults: int


class Tuner:
    """One for each slice of a task.

    options: of the task, by wire name (tuning, perf_cc, perf_p, perf_pp). knowledge: what an earlier tuner of the same
    pair of endpoints left; anything that is not understood is passed over. now: seconds, on the clock of the samples.
    """

    def __init__(self, options: Mapping[str, object], caps: Caps, knowledge: Mapping[str, object], now: float) -> None:
        self.mode = Mode.of(options)
        self._options = options
        self._caps = caps
        self._knowledge = dict(knowledge)
        #: Seconds to the farther endpoint, as seen when sessions were opened.
        self.round_trip: float | None = None

    @property
    def lanes_before(self) -> int:
        """Lanes to open before anything is known of the files; 0 when no earlier task tells."""
        return 0

    def saw_round_trip(self, seconds: float) -> None:
        """The longer one of both endpoints', by the best that the caller knows so far."""
        if seconds > 0:
            self.round_trip = seconds

    def plan(self, kind: SizeClass, chunk: Summary) -> Plan:
        """The plan to begin a chunk of this class with; asked again when more of the class is known."""
        if self.mode is not Mode.ADAPTIVE:
            return paper_plan(chunk, self._options, self._caps)
        return opening_plan(chunk, self._options, self._caps, self.round_trip)

    def measured(self, sample: Sample) -> Plan | None:
        """A changed plan for the chunk under way, or None. Called about every second, and when a chunk ends."""
        return None

    def knowledge(self) -> dict[str, object]:
        """To begin the next task on this pair with: JSON, under 4 KB."""
        return dict(self._knowledge)
