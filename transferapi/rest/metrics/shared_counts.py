"""Numbers of the web processes of one server, in memory that they share (docs/decisions/metrics-and-traces.md).

The master maps it before it forks. Each process writes to a slot of its own, so no process waits for another, and one
that is killed spoils nothing. The slot of a dead process is given to the next one, which goes on counting there: sums
over all slots never fall, and the memory does not grow with restarts.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Collection
from dataclasses import dataclass

#: Processes of one server that are counted; one more counts for itself, and is not shown.
SLOTS = 64
#: Routes that are counted apart; others count as the first one.
MOST_ROUTES = 768
OTHER = "(other)"
#: Upper bounds in seconds; the last bucket has none.
BUCKETS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0)
CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx")
#: Numbers of one histogram: its buckets, each for itself, and the sum of seconds.
_CELL = len(BUCKETS) + 2
#: The first numbers of a slot.
_ALIVE, _IN_PROGRESS, _STATEMENTS, _STATEMENT_SECONDS, _REDIS, _DISK_FULL = range(6)
#: After them, requests that were refused by their head alone, by status; others count as the last.
REFUSALS = ("401", "411", "413", "429", "503", "other")
_REFUSED = 8
_HEAD = 16
_SLOT = _HEAD + MOST_ROUTES * len(CLASSES) * _CELL


@dataclass(slots=True)
class Histogram:
    """buckets: the number in each, not cumulative."""

    buckets: list[float]
    seconds: float


@dataclass(slots=True)
class Sums:
    """The sums over all processes."""

    processes: float = 0.0
    in_progress: float = 0.0
    statements: float = 0.0
    statement_seconds: float = 0.0
    redis: float = 0.0
    disk_full: float = 0.0


class SharedCounts:
    """Make it before the fork. Without `take_slot`, a process counts in slot 0."""

    def __init__(self) -> None:
        # Anonymous and shared; pages that nobody writes take no memory.
        self._numbers = memoryview(mmap.mmap(-1, SLOTS * _SLOT * 8)).cast("d")
        self._routes: dict[str, int] = {OTHER: 0}
        self._lock = threading.Lock()
        self._used = memoryview(mmap.mmap(-1, SLOTS))
        self._used[0] = 1
        self._mine = self._numbers[:_SLOT]

    def name_routes(self, routes: Collection[str]) -> None:
        """Before the fork: the routes that are counted apart."""
        for route in routes:
            if len(self._routes) < MOST_ROUTES:
                self._routes.setdefault(route, len(self._routes))

    # ---- the master

    def free_slot(self, taken: Collection[int]) -> int:
        """A slot of no living process; -1: there is none."""
        return next((slot for slot in range(SLOTS) if slot not in taken), -1)

    def leave(self, slot: int) -> None:
        """The process of this slot is gone: what it had in progress is, too."""
        if slot >= 0:
            self._numbers[slot * _SLOT + _ALIVE] = self._numbers[slot * _SLOT + _IN_PROGRESS] = 0.0

    # ---- the process

    def take_slot(self, slot: int) -> None:
        """After the fork. A lock that another thread held at the fork would never be free."""
        self._lock = threading.Lock()
        if slot < 0:
            self._mine = memoryview(bytearray(_SLOT * 8)).cast("d")
            return
        self._mine = self._numbers[slot * _SLOT : (slot + 1) * _SLOT]
        self._used[slot] = 1
        self.leave(slot)
        self._mine[_ALIVE] = 1.0

    def begin(self) -> None:
        with self._lock:
            self._mine[_IN_PROGRESS] += 1.0

    def end(self) -> None:
        with self._lock:
            self._mine[_IN_PROGRESS] -= 1.0

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        kind = min(max(status // 100 - 1, 0), len(CLASSES) - 1)
        at = _HEAD + (self._routes.get(route, 0) * len(CLASSES) + kind) * _CELL
        bucket = next((number for number, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))
        numbers = self._mine
        with self._lock:
            numbers[at + bucket] += 1.0
            numbers[at + _CELL - 1] += seconds

    def statement(self, seconds: float) -> None:
        with self._lock:
            self._mine[_STATEMENTS] += 1.0
            self._mine[_STATEMENT_SECONDS] += seconds

    def redis(self) -> None:
        with self._lock:
            self._mine[_REDIS] += 1.0

    def disk_full(self) -> None:
        """Count a statement for which PostgreSQL had no room on its disk."""
        with self._lock:
            self._mine[_DISK_FULL] += 1.0

    def refused(self, status: str) -> None:
        """Count a request that was refused by its head alone."""
        at = _REFUSED + REFUSALS.index(status if status in REFUSALS else "other")
        with self._lock:
            self._mine[at] += 1.0

    # ---- the scrape

    def refusals(self) -> dict[tuple[str, ...], float]:
        """By status, also those that there were none of."""
        slots = [self._slot(slot, _REFUSED, _REFUSED + len(REFUSALS)) for slot in self._slots()]
        return {(status,): sum(numbers) for status, numbers in zip(REFUSALS, zip(*slots, strict=True), strict=True)}

    def sums(self) -> Sums:
        heads = [self._slot(slot, 0, _HEAD) for slot in self._slots()]
        return Sums(*(sum(numbers) for numbers in list(zip(*heads, strict=True))[: _DISK_FULL + 1]))

    def histograms(self) -> dict[tuple[str, str], Histogram]:
        """By route and class of status; those without an answer are left out."""
        slots = [self._slot(slot, _HEAD, _HEAD + len(self._routes) * len(CLASSES) * _CELL) for slot in self._slots()]
        total = [sum(numbers) for numbers in zip(*slots, strict=True)]
        found = {}
        for number, route in enumerate(self._routes):
            for kind, class_ in enumerate(CLASSES):
                at = (number * len(CLASSES) + kind) * _CELL
                cell = total[at : at + _CELL]
                if any(cell[:-1]):
                    found[route, class_] = Histogram(cell[:-1], cell[-1])
        return found

    def _slots(self) -> list[int]:
        return [slot for slot in range(SLOTS) if self._used[slot]]

    def _slot(self, slot: int, begin: int, end: int) -> list[float]:
        return [float(one) for one in self._numbers[slot * _SLOT + begin : slot * _SLOT + end]]


#: Of this process, and of those that it forks.
COUNTS = SharedCounts()
