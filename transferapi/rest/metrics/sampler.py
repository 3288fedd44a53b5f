"""The figures of the database for scrapes: read by one thread at a time, and kept for some seconds.

However often somebody scrapes, the database is asked once in FRESH seconds. A database that hangs keeps one thread; it
is asked again by another one after AGAIN, because a connection may hang for ever while new ones work, and never by more
than MOST.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from django.db import connections

from transferapi.tasks.upkeep.figures import Figures

#: Seconds for which figures count, and for which a scrape waits.
FRESH, TIMEOUT = 5.0, 2.5
#: Seconds after which another thread asks, and the most threads.
AGAIN, MOST = 30.0, 3

#: Figures, and which questions were answered.
Sample = tuple[Figures, dict[str, bool]]


class Sampler:
    """One for each process."""

    def __init__(self, read: Callable[[], Sample]) -> None:
        self._read = read
        self._changed = threading.Condition()
        self._sample: Sample | None = None
        #: When its thread began and ended.
        self._began_at = self._ended_at = float("-inf")
        #: When its running threads began.
        self._running: list[float] = []

    def sample(self, timeout: float = TIMEOUT) -> Sample | None:
        """The figures, not older than FRESH seconds; None where the database gave none in `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._changed:
            self._start_if_due()
            while (
                not self._is_fresh()
                and self._running
                # One that has been running for longer is not waited for: the threads of the web server would be.
                and time.monotonic() - self._running[-1] < timeout
                and (left := until - time.monotonic()) > 0
            ):
                self._changed.wait(left)
            return self._sample if self._is_fresh() else None

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._ended_at < FRESH

    def _start_if_due(self) -> None:
        now = time.monotonic()
        if self._is_fresh() or (self._running and (now - self._running[-1] < AGAIN or len(self._running) >= MOST)):
            return
        self._running.append(now)
        threading.Thread(target=self._run, args=(now,), name="metrics", daemon=True).start()

    def _run(self, began: float) -> None:
        sample = None
        try:
            sample = self._read()
        finally:
            connections.close_all()
            with self._changed:
                self._running.remove(began)
                # An older thread that ends late knows less. A failure counts for a while, too: a flood of scrapes
                # makes no flood of connections.
                if began > self._began_at:
                    self._sample, self._began_at, self._ended_at = sample, began, time.monotonic()
                self._changed.notify_all()
