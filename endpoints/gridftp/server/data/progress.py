"""The markers 111 and 112 of a receiver, sent while a transfer runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from endpoints.gridftp.markers import PerfMarker, RangeMarker
from endpoints.gridftp.ranges import RangeError, RangeSet
from endpoints.gridftp.server.errors import ServerError

from .files_moved import TellOctets, tell_nobody


@dataclass
class MarkerIntervals:
    """Seconds between two markers of a kind (TREV); 0 for no markers. asked: the client has sent TREV."""

    restart: float = 5.0
    perf: float = 5.0
    asked: bool = False


class MarkerWriter:
    """The ranges of one file that are written so far. The 111 markers are incremental: each has the new ranges."""

    def __init__(
        self, say: Callable[[bytes], None], intervals: MarkerIntervals, tell_octets: TellOctets = tell_nobody
    ) -> None:
        self.octets = 0
        self._tell_octets = tell_octets
        self._say = say
        self._intervals = intervals
        self._fresh = RangeSet()
        now = time.monotonic()
        self._next_restart = now + (intervals.restart or math.inf)
        self._next_perf = now + (intervals.perf or math.inf)

    def add(self, start: int, end: int) -> None:
        """These octets are written to the file system."""
        self.octets += end - start
        try:
            self._fresh.add(start, end)
        except RangeError as error:
            raise ServerError(451, f"The blocks of this file are in too many pieces: {error}.") from error
        self._tell_octets(self.octets, None)

    def tick(self, now: float) -> float:
        """Send the markers that are due; return when the next is due, in monotonic seconds."""
        if now >= self._next_perf:
            self._next_perf = now + self._intervals.perf
            self._tell_performance()
        if now >= self._next_restart:
            self._next_restart = now + self._intervals.restart
            self._tell_ranges()
        return min(self._next_perf, self._next_restart)

    def finish(self) -> None:
        """Send the last markers before the final reply, also before an error."""
        if self._intervals.perf:
            self._tell_performance()
        if self._intervals.restart:
            self._tell_ranges()

    def _tell_performance(self) -> None:
        self._say(PerfMarker(time.time(), 0, 1, self.octets).format())

    def _tell_ranges(self) -> None:
        if self._fresh:
            self._say(RangeMarker(self._fresh).format())
            self._fresh = RangeSet()
