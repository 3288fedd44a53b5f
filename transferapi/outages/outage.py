"""The outage of one server, as this process sees it. Its begin is one line of the log, and its end is another one.

Outages are watched in processes that serve for a long time (`watch`): a thread asks the server until it answers, and
meanwhile nobody else need try. In commands nothing is watched, and each error is reported by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("waybill.outages")

#: Seconds between two probes: the first ones come sooner, because a restart takes less than a second.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0

_watching = False


def watch() -> None:
    """Watch outages in this process from now on. Call it after the fork."""
    global _watching
    _watching = True


def is_watching() -> bool:
    return _watching


class Outage:
    """server: its name in the log. probe: raises an exception while the server does not answer, in bounded time.

    meanwhile: what the outage means, for operators. begin: what the log says where it is not that the server is silent.
    """

    def __init__(self, server: str, probe: Callable[[], object], meanwhile: str, begin: str = "") -> None:
        self._server, self._probe, self._meanwhile, self._begin = server, probe, meanwhile, begin
        self._lock = threading.Lock()
        self._began: float | None = None
        self._count = 0
        #: Whether connecting has failed, so that nobody need try it.
        self.refuses = False
        #: Whether a probe has failed, too: a first error may have been a late answer.
        self.is_confirmed = False
        #: When the last outage ended, by the monotonic clock.
        self.ended_at = 0.0

    @property
    def is_on(self) -> bool:
        return self._began is not None

    def met(self, error: BaseException, *, refuses: bool = False) -> bool:
        """Count what failed because the server is away; the first one begins the outage. refuses: see there.

        Returns False where nothing is watched: the caller then reports the error.
        """
        if not _watching:
            return False
        with self._lock:
            self._count += 1
            self.refuses |= refuses
            begins = self._began is None
            if begins:
                self._began = time.monotonic()
        if begins:
            # The text of the error may hold the server's address, and so its password.
            begin = self._begin or f"{self._server} does not answer ({type(error).__name__})"
            log.warning("%s: %s", begin, self._meanwhile)
            threading.Thread(target=self._wait, name=f"outage of {self._server}", daemon=True).start()
        return True

    def refused(self) -> None:
        """Count what was not tried, because the server is away."""
        with self._lock:
            self._count += 1

    def _wait(self) -> None:
        """Probe until the server answers."""
        pause = FIRST_PAUSE
        while True:
            time.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)
            try:
                self._probe()
            except Exception:
                self.is_confirmed = True
                log.debug("%s does not answer yet", self._server)
            else:
                break
        with self._lock:
            seconds, count = time.monotonic() - (self._began or 0.0), self._count
            self._began, self._count, self.refuses, self.is_confirmed = None, 0, False, False
            self.ended_at = time.monotonic()
        ended = f"{self._server} accepts connections again" if self._begin else f"{self._server} answers again"
        log.warning("%s after %.1f s; operations that met the outage: %d", ended, seconds, count)
