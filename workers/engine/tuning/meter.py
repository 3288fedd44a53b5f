"""Goodput, measured over windows in which nothing but the plan limits it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Weight of one file in octets: for files of 1 KB to 1 MB neither octets nor files alone measure progress.
FILE_WEIGHT = 64 * 2**10
#: A window has at least so many seconds or round trips, and so many files unless it has LONGEST seconds: markers
#: of large files come once a second and lane, and files too small for markers count only when they are settled.
SHORTEST = 1.0
ROUND_TRIPS = 5
FILES = 20
LONGEST = 5.0
#: Maximum number of seconds between two samples: in a longer pause the lanes had no work.
SILENCE = 2.5
#: Seconds and round trips of goodput that make a level; the factors of a shift; and how often in a row it must show.
LEVEL_SECONDS = 5.0
LEVEL_ROUND_TRIPS = 20
LEVEL_MEMORY = 10
SHIFT = (0.7, 1.4)
SHIFTED = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts of the current chunk since the last sample."""

    #: Seconds on any steady clock.
    at: float
    #: Octets that arrived, those in markers of large files included.
    bytes: int
    #: Files that were settled.
    files: int
    #: Lanes of the current plan that had work all the time.
    lanes: int
    #: Files that are in no lane yet.
    waiting: int
    #: Refused connections, busy servers, resets.
    faults: int


@dataclass(frozen=True, slots=True)
class Rate:
    """Octets and files in a second."""

    bytes: float
    files: float

    @property
    def work(self) -> float:
        """The measure by which plans are compared: octets, with a weight for each file."""
        return self.bytes + FILE_WEIGHT * self.files

    def __str__(self) -> str:
        if self.bytes < FILE_WEIGHT * self.files:
            return f"{self.files:,.0f} files a second"
        return f"{self.bytes / 1e6:.3g} MB/s"


def mean(rates: Sequence[Rate]) -> Rate:
    """The mean of windows of about the same length."""
    return Rate(sum(rate.bytes for rate in rates) / len(rates), sum(rate.files for rate in rates) / len(rates))


def settling(round_trip: float) -> float:
    """Seconds until new lanes and streams reach their speed: slow start takes about ten round trips."""
    return max(0.5, 10 * round_trip)


def shortest(round_trip: float) -> float:
    """Minimum number of seconds of a window."""
    return max(SHORTEST, ROUND_TRIPS * round_trip)


class Meter:
    """Adds samples up to windows. A plan is measured while all its lanes have work, and have had it for a while."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._from = 0.0
        self._clear()

    def restart(self, until: float) -> None:
        """Something has changed: samples before `until` do not count."""
        self._from = until
        self._clear()

    def add(self, sample: Sample, lanes: int, round_trip: float) -> Rate | None:
        """The goodput of a window that ends with this sample; None if it does not end yet. lanes: those of the plan."""
        seconds = 0.0 if self._last is None else sample.at - self._last
        began = sample.at - seconds
        self._last = sample.at
        if sample.lanes < lanes or sample.waiting <= 0 or seconds > SILENCE:
            self.restart(sample.at + settling(round_trip))
            return None
        if began < self._from or seconds <= 0:
            return None
        self._seconds += seconds
        self._bytes += sample.bytes
        self._files += sample.files
        enough = self._files >= FILES or self._seconds >= LONGEST
        if not enough or self._seconds < shortest(round_trip):
            return None
        rate = Rate(self._bytes / self._seconds, self._files / self._seconds)
        self._clear()
        return rate

    def _clear(self) -> None:
        self._seconds = 0.0
        self._bytes = self._files = 0


class GoodputLevel:
    """The long-term mean of goodput, to notice that the network has changed. Single windows vary too much."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """The plan has changed."""
        self._work = 0.0
        self._count = 0
        self._shifted = 0
        self.pause()

    def pause(self) -> None:
        """The plan was another one for a while."""
        self._since: float | None = None
        self._windows: list[float] = []

    def shifted(self, rate: Rate, at: float, round_trip: float) -> bool:
        """Whether goodput, with this window, has left its level."""
        if self._since is None:
            self._since = at
        self._windows.append(rate.work)
        if at - self._since < LEVEL_SECONDS + LEVEL_ROUND_TRIPS * round_trip:
            return False
        work = sum(self._windows) / len(self._windows)
        self.pause()
        low, high = SHIFT
        if self._count and not low * self._work <= work <= high * self._work:
            self._shifted += 1
            return self._shifted >= SHIFTED
        self._shifted = 0
        self._count = min(self._count + 1, LEVEL_MEMORY)
        self._work += (work - self._work) / self._count
        return False
