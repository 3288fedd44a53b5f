"""The origins whose pages may read answers of the API: those of the redirect URIs of registered applications.

A process remembers the origins that it has found: most requests need no query, and a page can read the answer also
while the database is away. It remembers registered origins only: a client that invents origins takes no memory. Lookups
count in the rate limit of their address.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict

from django.db import DatabaseError

from identity.provider import clients
from transferapi.rest.http import rate_limit

log = logging.getLogger(__name__)

#: Seconds for which a found origin counts without another query: a deleted application's origin ends after them.
FRESH = 30.0
#: Seconds for which it counts while it cannot be looked up.
STALE = 600.0
#: The most origins that one process remembers.
MOST = 1000
MAX_ORIGIN = 300
#: As browsers send it (RFC 6454 section 6.2): lower case, no path. `null`, of pages without an origin, is none.
_ORIGIN = re.compile(r"https?://[a-z0-9.\-_\[\]:]+\Z")


class RegisteredOrigins:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Origin -> the time of the last lookup that found it; the one used last at the end.
        self._found: OrderedDict[str, float] = OrderedDict()

    def allows(self, origin: str, address: str) -> bool:
        """Whether pages of this origin may read answers. address: of the client, which lookups are counted for."""
        if len(origin) > MAX_ORIGIN or not _ORIGIN.match(origin):
            return False
        age = self._age(origin)
        if age <= FRESH:
            return True
        known = self._lookup(origin, address)
        if known is None:
            return age <= STALE
        self._remember(origin, known)
        return known

    def remembers(self, origin: str) -> bool:
        """Whether the origin was allowed of late; without a query."""
        return self._age(origin) <= STALE

    def _lookup(self, origin: str, address: str) -> bool | None:
        """None: the address asks too often, or the database is away."""
        taken = rate_limit.take(None, address)
        if taken and taken.wait:
            return None
        try:
            return clients.has_pages_at(origin)
        except DatabaseError as error:
            log.warning("an origin is not looked up: %s", type(error).__name__)
            return None

    def _age(self, origin: str) -> float:
        """Seconds since the origin was found last; infinite where it was not."""
        with self._lock:
            if origin not in self._found:
                return float("inf")
            self._found.move_to_end(origin)
            return time.monotonic() - self._found[origin]

    def _remember(self, origin: str, known: bool) -> None:
        with self._lock:
            self._found.pop(origin, None)
            if known:
                self._found[origin] = time.monotonic()
            while len(self._found) > MOST:
                self._found.popitem(last=False)


#: Of this process.
origins = RegisteredOrigins()
