"""Servers that are left alone for a while, because what they sent took too much of this process's time.

All sessions of a worker share one event loop. A server that is put off costs one refusal for each try, and no login.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind

#: Seconds for which a server is put off: at first, and at most; each time twice as long, until it was good for so long.
FIRST, LONGEST, FORGET = 60.0, 900.0, 3600.0
#: Servers that are remembered.
MOST = 1000


class PutOffServers:
    """May be used from several threads. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: Until when, for how long, and why.
        self._servers: dict[tuple[str, int], tuple[float, float, str]] = {}

    def note(self, host: str, port: int, reason: str) -> None:
        """Put this server off. reason: for people, such as "it sent ..."."""
        now = self._clock()
        with self._lock:
            until, before, _ = self._servers.pop((host, port), (0.0, 0.0, ""))
            if until > now:
                # One cause may be found more than once.
                self._servers[host, port] = until, before, reason
                return
            seconds = min(2 * before, LONGEST) if before and now - until < FORGET else FIRST
            if len(self._servers) >= MOST:
                del self._servers[next(iter(self._servers))]
            self._servers[host, port] = now + seconds, seconds, reason

    def check(self, host: str, port: int) -> None:
        """Raises FaultError where this server is put off."""
        until, _, reason = self._servers.get((host, port), (0.0, 0.0, ""))
        left = until - self._clock()
        if left > 0:
            raise FaultError(_fault(reason, left))


def _fault(reason: str, left: float) -> Fault:
    advice = (
        f"The server was put off, because {reason}: it delays the transfers of others. The service tries it again in "
        f"{left:.0f} s. Its administrator should look at it."
    )
    return Fault(Kind.ENDPOINT_ERROR, scope=FaultScope.ENDPOINT, advice=advice, raw=reason)


#: The servers that this process has put off.
SERVERS = PutOffServers()
