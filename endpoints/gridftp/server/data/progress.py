"""The markers 111 and 112 of a receiver, sent while a transfer runs."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from endpoints.gridftp.markers import SYNCED_FROM, PerfMarker, RangeMarker
from endpoints.gridftp.ranges import RangeError, RangeSet
from endpoints.gridftp.server.errors import ServerError

from .disk_sync import DiskSync
from .files_moved import TellOctets, tell_nobody

#: Octets that are received while a sync runs; then the next one waits for it.
MOST_UNSYNCED = 256 * 2**20
#: Seconds between two looks whether a sync has ended.
_LOOK_SECONDS = 0.05


@dataclass
class MarkerIntervals:
    """Seconds between two markers of a kind (TREV); 0 for no markers. asked: the client has sent TREV."""

    restart: float = 5.0
    perf: float = 5.0
    asked: bool = False


class MarkerWriter:
    """The ranges of one file that are written so far. The 111 markers are incremental: each has the new ranges.

    Markers name ranges that are on the disk, with one exception: the only marker of a file of less than `SYNCED_FROM`
    octets, directly before its 226. part: of a file (ESTO), which has no such exception.
    """

    def __init__(
        self,
        say: Callable[[bytes], None],
        intervals: MarkerIntervals,
        disk: DiskSync,
        tell_octets: TellOctets = tell_nobody,
        *,
        part: bool = False,
    ) -> None:
        self.octets = 0
        self._tell_octets = tell_octets
        self._say = say
        self._intervals = intervals
        self._disk = disk
        #: Written; those of them that are being synced; whether a marker was sent.
        self._fresh, self._syncing = RangeSet(), RangeSet()
        self._synced = part
        #: Octets when the last sync began.
        self._octets_before = 0
        now = time.monotonic()
        self._next_restart = now + (intervals.restart or math.inf)
        self._next_perf = now + (intervals.perf or math.inf)

    def add(self, start: int, end: int) -> None:
        """Count octets that are written to the file system."""
        self.octets += end - start
        try:
            self._fresh.add(start, end)
        except RangeError as error:
            raise ServerError(451, f"The blocks of this file are in too many pieces: {error}.") from error
        self._tell_octets(self.octets, None)

    def tick(self, now: float) -> float:
        """Send the markers that are due; return when the next is due, in monotonic seconds.

        Raises OSError where the disk refuses what was written.
        """
        if now >= self._next_perf:
            self._next_perf = now + self._intervals.perf
            self._tell_performance()
        if self._disk.ended:
            self._end_sync()
        if now >= self._next_restart:
            self._next_restart = now + self._intervals.restart
            self._begin_sync()
        return min(self._next_perf, self._next_restart, now + _LOOK_SECONDS if self._disk.running else math.inf)

    def finish(self) -> None:
        """Send the last markers before 226. Raises OSError where the disk refuses what was written."""
        if self._intervals.perf:
            self._tell_performance()
        if self._intervals.restart:
            if self._synced or self._disk.running or self.octets >= SYNCED_FROM:
                self._disk.now()
            self._tell_ranges()

    def give_up(self) -> None:
        """Send the last markers before an error, without ranges that are not surely on the disk."""
        if self._intervals.perf:
            self._tell_performance()
        if self._intervals.restart and (self._fresh or self._syncing):
            with contextlib.suppress(OSError):
                self._disk.now()
                self._tell_ranges()

    def close(self) -> None:
        """Wait for a sync that runs: nothing uses the file any more when this returns."""
        with contextlib.suppress(OSError):
            self._disk.wait()

    def _begin_sync(self) -> None:
        if self._disk.running and self.octets - self._octets_before > MOST_UNSYNCED:
            # The network is faster than the disk: it waits here, so that the end of the file does not.
            self._end_sync()
        if self._fresh and not self._disk.running:
            self._syncing, self._fresh = self._fresh, RangeSet()
            self._octets_before = self.octets
            self._disk.begin()

    def _end_sync(self) -> None:
        self._disk.wait()
        self._synced = True
        self._say(RangeMarker(self._syncing).format())
        self._syncing = RangeSet()

    def _tell_performance(self) -> None:
        self._say(PerfMarker(time.time(), 0, 1, self.octets).format())

    def _tell_ranges(self) -> None:
        for ranges in filter(None, (self._syncing, self._fresh)):
            self._say(RangeMarker(ranges).format())
        self._syncing, self._fresh = RangeSet(), RangeSet()
