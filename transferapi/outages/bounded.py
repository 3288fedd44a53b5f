"""A bound for calls that have none of their own, such as the look-up of a host name."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: Runnable threads of the machine for each processor from which answers come late; the most by which a wait is
#: multiplied then, and the most seconds that it gets.
BUSY, LONGEST_FACTOR, MOST_MORE = 2.0, 5.0, 4.0


class _Call(Generic[T]):
    """One call in a thread of its own."""

    def __init__(self, work: Callable[[], T], dispose: Callable[[T], object] | None) -> None:
        self._work, self._dispose = work, dispose
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._abandoned = False
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            result = self._work()
        except BaseException as error:
            self._error = error
        else:
            with self._lock:
                if not self._abandoned:
                    self._results.append(result)
            if not self._results and self._dispose is not None:
                self._dispose(result)
        self._ended.set()

    def result(self, seconds: float) -> T:
        if not self._ended.wait(seconds):
            with self._lock:
                self._abandoned = not self._results
            if self._abandoned:
                raise TimeoutError(f"no answer within {seconds:g} s")
        if self._error is not None:
            raise self._error
        return self._results[0]


def load_factor() -> float:
    """By how much to lengthen a wait, so that a machine that has too much to do does not count as an outage.

    From 1.0 to LONGEST_FACTOR, by the load of the last minute (getloadavg(3)).
    """
    try:
        load = os.getloadavg()[0]
    except OSError:
        return 1.0
    return min(LONGEST_FACTOR, max(1.0, load / (BUSY * (os.cpu_count() or 1))))


def lengthened(seconds: float) -> float:
    """The seconds for which `within` waits now."""
    return seconds + min(MOST_MORE, seconds * (load_factor() - 1.0))


def within(seconds: float, work: Callable[[], T], dispose: Callable[[T], object] | None = None) -> T:
    """Call `work` in a thread, and wait at most so long; on a busy machine longer, by `load_factor`.

    Raises TimeoutError, and what the work raises.

    Work that is late goes on, and its result is given to `dispose`: use it for what is rare, such as new connections.
    """
    call = _Call(work, dispose)
    threading.Thread(target=call.run, name="bounded", daemon=True).start()
    return call.result(lengthened(seconds))
