"""A bounded number of log lines about logins that failed: an attacker must not fill the log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)
MOST_LINES, WINDOW = 30, 60.0


class FailureLog:
    """At most MOST_LINES lines in WINDOW seconds; the next line after that says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._lines = self._left_out = 0

    def failed(self, network: str, reason: str) -> None:
        """reason: our own words, nothing that the client sent."""
        with self._lock:
            now = self._clock()
            if now >= self._until:
                left_out, self._left_out, self._lines, self._until = self._left_out, 0, 0, now + WINDOW
            else:
                left_out = 0
            self._lines += 1
            if self._lines > MOST_LINES:
                self._left_out += 1
                return
        if left_out:
            log.warning("ssh: %d more connections ended without a sign-in", left_out)
        log.warning("ssh: a connection from %s ended without a sign-in: %s", network, reason)
