"""A bound for calls that have none of their own, such as the look-up of a host name."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TypeVar

T = TypeVar("T")

#: Runnable threads of the machine for each processor from which answers come late; the most by which a wait is
#: multiplied then, and the most seconds that it gets.
BUSY, LONGEST_FACTOR, MOST_MORE = 2.0, 5.0, 4.0


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
    call: Future[T] = Future()
    threading.Thread(target=_run, args=(call, work, dispose), name="bounded", daemon=True).start()
    longest = lengthened(seconds)
    try:
        return call.result(longest)
    except TimeoutError:
        if call.cancel():
            raise TimeoutError(f"no answer within {longest:g} s") from None
    # The call has ended: with this error of its own, or just now.
    return call.result()


def _run(call: Future[T], work: Callable[[], T], dispose: Callable[[T], object] | None) -> None:
    try:
        result = work()
    except BaseException as error:
        with contextlib.suppress(InvalidStateError):
            call.set_exception(error)
        return
    try:
        call.set_result(result)
    except InvalidStateError:
        # Nobody waits any more.
        if dispose is not None:
            dispose(result)
