"""Facts that this process has found out about servers, by host and port, for an hour."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Server = tuple[str, int]
#: Seconds for which something is remembered, and the most servers.
REMEMBERED, MOST_SERVERS = 3600.0, 1000


class ServerMemory(Generic[T]):
    """One fact about each server. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: OrderedDict[Server, tuple[float, T]] = OrderedDict()

    def note(self, server: Server, fact: T) -> None:
        self._found[server] = self._clock() + REMEMBERED, fact
        self._found.move_to_end(server)
        if len(self._found) > MOST_SERVERS:
            self._found.popitem(last=False)

    def forget(self, server: Server) -> None:
        self._found.pop(server, None)

    def get(self, server: Server) -> T | None:
        """The fact; None where nothing is known, or not any more."""
        known = self._found.get(server)
        return known[1] if known and known[0] > self._clock() else None
