"""The measured plans of earlier tasks between two endpoints: plans and their goodput, by file size. Pure.

They come from a database and may be of another version, or damaged: a value that is not valid is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .meter import Rate
from .plan import MAX_PARALLELISM, MAX_PIPELINING, Plan, SizeClass

VERSION = 1
#: How much better than the rules a plan must have been.
BETTER = 1.10
#: Number of tasks after which a goodput is too old. The rules are then measured again.
TASKS = 20
#: A goodput outside these factors of the recorded one means that the network changed: the other records are deleted.
CHANGED = (0.7, 1.4)
#: Maximum number of file sizes (decades within a class), and of plans for each: under 4 KB of JSON.
SIZES = 12
PLANS = 5
MAX_CONCURRENCY = 512
MAX_TASKS = 10**9
#: In seconds; a longer value is not a round trip.
LONGEST_ROUND_TRIP = 60.0
MAX_WORK = 1e15

Numbers = tuple[int, int, int]


def numbers(plan: Plan) -> Numbers:
    """Concurrency, parallelism, pipelining."""
    return plan.concurrency, plan.parallelism, plan.pipelining


def decade(kind: SizeClass, size: int) -> str:
    """The key for files of about this average size: files of other sizes need other plans."""
    return f"{int(kind)}:{len(str(max(0, size)))}"


@dataclass(frozen=True, slots=True)
class MeasuredPlan:
    """work: that of its `Rate`, octets a second with a weight for each file. task: the last task with it."""

    work: float
    task: int


class Experience:
    """The content of `knowledge`; it is valid whatever the database returned."""

    def __init__(self, knowledge: Mapping[str, object]) -> None:
        right = knowledge.get("version") == VERSION
        content = knowledge if right else {}
        self.round_trip = _round_trip(content.get("round_trip"))
        #: Lanes that the last task used at its beginning.
        self.lanes = _number(content.get("lanes"), MAX_CONCURRENCY)
        self._lanes_now = 0
        #: Whether these were by ports of the relay.
        self.relayed = content.get("relayed") is True
        self._relayed_now = False
        #: The number of this task between the endpoints, from 1.
        self.task = 1 + _number(content.get("tasks"), MAX_TASKS)
        self._plans = self._read(content.get("plans"))

    def better(self, key: str, rule: Plan, fits: Callable[[Numbers], bool]) -> tuple[Numbers, float] | None:
        """The best plan that fits, and by which factor it was better than the rule; None when none was."""
        measured = self._plans.get(key, {})
        own = measured.get(numbers(rule))
        best = max((one for one in measured if fits(one)), key=lambda one: measured[one].work, default=None)
        if own is None or best is None or measured[best].work < BETTER * own.work:
            return None
        return best, measured[best].work / own.work

    def chunk_begun(self, plan: Plan, files: int) -> None:
        """A chunk of so many files begins with this plan."""
        lanes = min(plan.concurrency, files)
        if lanes >= self._lanes_now:
            self._lanes_now, self._relayed_now = lanes, plan.relayed

    def record(self, key: str, plan: Plan, rate: Rate) -> None:
        """This plan has just reached this goodput."""
        if not 0 < rate.work <= MAX_WORK:
            return
        measured = self._plans.pop(key, {})
        before = measured.pop(numbers(plan), None)
        work = rate.work
        if before is not None:
            low, high = CHANGED
            if low * before.work < work < high * before.work:
                work = (work + before.work) / 2
            else:
                measured.clear()
        measured[numbers(plan)] = MeasuredPlan(work, self.task)
        # The newest are last; the first are dropped.
        self._plans[key] = dict(list(measured.items())[-PLANS:])
        self._plans = dict(list(self._plans.items())[-SIZES:])

    def content(self, round_trip: float | None) -> dict[str, object]:
        """The knowledge as JSON values."""
        plans = {
            key: [[*plan, round(one.work), one.task] for plan, one in measured.items()]
            for key, measured in self._plans.items()
        }
        lanes, relayed = (self._lanes_now, self._relayed_now) if self._lanes_now else (self.lanes, self.relayed)
        content: dict[str, object] = {"version": VERSION, "tasks": self.task, "lanes": lanes, "plans": plans}
        if relayed:
            content["relayed"] = True
        trip = round_trip or self.round_trip
        return content if trip is None else {**content, "round_trip": round(trip, 6)}

    def _read(self, plans: object) -> dict[str, dict[Numbers, MeasuredPlan]]:
        if not isinstance(plans, Mapping):
            return {}
        keys = {f"{int(kind)}:{digits}" for kind in SizeClass for digits in range(1, 20)}
        read = {key: self._read_plans(plans[key]) for key in plans if key in keys}
        return dict(list(read.items())[-SIZES:])

    def _read_plans(self, rows: object) -> dict[Numbers, MeasuredPlan]:
        if not isinstance(rows, list):
            return {}
        good = [row for row in rows[-PLANS:] if isinstance(row, list) and len(row) == 5 and self._valid(*row)]
        return {(row[0], row[1], row[2]): MeasuredPlan(float(row[3]), row[4]) for row in good}

    def _valid(self, lanes: object, streams: object, depth: object, work: object, task: object) -> bool:
        plan = (
            _whole(lanes, 1, MAX_CONCURRENCY)
            and _whole(streams, 1, MAX_PARALLELISM)
            and _whole(depth, 1, MAX_PIPELINING)
        )
        return plan and _whole(work, 1, MAX_WORK) and _whole(task, self.task - TASKS, self.task - 1)


def _whole(value: object, least: float, most: float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _number(value: object, most: int) -> int:
    return value if isinstance(value, int) and _whole(value, 0, most) else 0


def _round_trip(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 < value <= LONGEST_ROUND_TRIP else None
