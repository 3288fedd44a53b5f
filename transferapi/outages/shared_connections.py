"""The connections to PostgreSQL of this process: a thread has one while it has work, and then another thread has it.

So a process needs as many connections as threads work at one time, and not as many as it has threads. Where PostgreSQL
allows no further one (SQLSTATE 53300), or the process has as many as it may, a thread waits until another one gives its
connection back.
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

#: Seconds after which a connection that nobody uses is closed.
IDLE_SECONDS = 15.0
#: Seconds after which a connection that nobody used is asked whether it still works. One whose end the server has
#: written is known without that. Longer than the pauses of a process without work, which would double its statements.
CHECK_SECONDS = 6.0


class SocketConnection(Protocol):
    """A connection, as far as it is handled here."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=SocketConnection)


class SharedConnections(Generic[C]):
    """works: asks the server; it returns False where the connection is broken."""

    def __init__(self, works: Callable[[C], bool]) -> None:
        self._works = works
        self._changed = threading.Condition()
        #: The connections that nobody uses, the one that was used last at the end, and when that was.
        self._idle: list[tuple[C, float]] = []

    def give_back(self, connection: C) -> None:
        """The caller uses it no more."""
        with self._changed:
            self._idle.append((connection, time.monotonic()))
            self._changed.notify()

    def take(self, seconds: float = 0.0) -> C | None:
        """A connection that works, and belongs to the caller from now on. seconds: how long to wait for one."""
        until = time.monotonic() + seconds
        while (found := self._next(until)) is not None:
            connection, since = found
            if not _has_ended(connection) and (time.monotonic() - since < CHECK_SECONDS or self._works(connection)):
                return connection
            with contextlib.suppress(Exception):
                connection.close()
        return None

    def _next(self, until: float) -> tuple[C, float] | None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._idle), max(0.0, until - time.monotonic()))
            return self._idle.pop() if self._idle else None

    def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Close those that nobody has used for so long."""
        before = time.monotonic() - seconds
        with self._changed:
            old = [connection for connection, since in self._idle if since <= before]
            self._idle = [one for one in self._idle if one[1] > before]
        for connection in old:
            with contextlib.suppress(Exception):
                connection.close()


def _has_ended(connection: SocketConnection) -> bool:
    """Whether the server has sent something since the last answer, which is its farewell, or the line is cut."""
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except Exception:
        # A connection that is closed has no descriptor.
        return True
