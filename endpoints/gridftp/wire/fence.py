"""The fence of a slice: until when its octets may leave towards servers (docs/decisions/leases-and-fence.md).

The lease of a task fences the database, because each write names its epoch. A server knows no epoch: a worker that
stood still, or that cannot reach PostgreSQL, would go on there with what it had queued, beside the worker that has the
lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


def boot_time() -> float:
    """Seconds since the machine started; they count while it sleeps, too (CLOCK_BOOTTIME, clock_gettime(2))."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class FenceClosedError(ConnectionAbortedError):
    """Nothing may be sent any more: the lease of the task has not been renewed in time."""

    def __init__(self) -> None:
        super().__init__("the lease of the task was not renewed in time")


class Fence:
    """Open from the first heartbeat on, and for `lasts` seconds after the beginning of the last good one.

    Once closed, it stays closed. lasts: shorter than the lease, by the time in which octets arrive and are executed.
    clock: seconds; it must count while the machine sleeps. May be used from several threads.
    """

    def __init__(self, lasts: float, clock: Callable[[], float] = boot_time) -> None:
        self._lasts = lasts
        self._clock = clock
        #: None before the first heartbeat.
        self._end: float | None = None
        self._closed = False

    def now(self) -> float:
        """The time by the clock of this fence, for `extend`."""
        return self._clock()

    def extend(self, begun: float) -> None:
        """A heartbeat that began then was good. One whose answer comes after the end changes nothing."""
        if self._end is None:
            self._end = begun + self._lasts
        elif not self.closed:
            self._end = max(self._end, begun + self._lasts)

    def close(self) -> None:
        """The lease is lost."""
        self._closed = True

    @property
    def seconds_left(self) -> float:
        """Seconds until it closes; 0 where it is closed, or not open yet."""
        if self._closed or self._end is None:
            return 0.0
        return max(0.0, self._end - self._clock())

    @property
    def closed(self) -> bool:
        """Whether nothing may leave: reads the clock."""
        if self._end is not None and self._clock() >= self._end:
            self._closed = True
        return self._closed or self._end is None

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Sockets that are opened in this block, and in tasks begun in it, are behind this fence."""
        token = _in_force.set(self)
        try:
            yield
        finally:
            _in_force.reset(token)


_in_force: ContextVar[Fence | None] = ContextVar("fence", default=None)


def in_force() -> Fence | None:
    """The fence of the slice that runs this; None outside slices, such as in the web process."""
    return _in_force.get()
