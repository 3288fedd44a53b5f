"""Ends a process one of whose loops stands still, with the tracebacks of all threads: its supervisor starts it again.

A loop calls `moved` at least once in a few seconds. The timer is one of faulthandler, a thread in C: it also ends a
process whose interpreter hangs, which no thread of Python could do. Each look sets it to the end of the loop that has
not moved for longest. Waits for servers are bounded far below the limit, so that an outage ends no process.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time

#: Seconds after which a loop that has not moved ends the process; a statement of the database may take 60 s.
LIMIT = 120.0

_moved_at: dict[str, float] = {}
_stop = threading.Event()


def moved(loop: str) -> None:
    """This loop has moved; it is watched from the first call on."""
    _moved_at[loop] = time.monotonic()


def watch() -> None:
    """Watch the loops of this process until `stop`. Call it after the fork."""
    threading.Thread(target=_run, args=(LIMIT,), name="watchdog", daemon=True).start()


def stop() -> None:
    """The loops may end now: the supervisor has a time limit of its own for that."""
    _stop.set()


def _run(limit: float) -> None:
    while not _stop.is_set():
        name, at = min([*_moved_at.items(), ("", time.monotonic())], key=lambda one: one[1])
        left = at + limit - time.monotonic()
        if left < limit / 2:
            sys.stderr.write(f"watchdog: {name} stands still; this process ends in {max(left, 0.0):.0f} s\n")
        faulthandler.dump_traceback_later(max(left, 0.1), exit=True)
        _stop.wait(limit / 10)
    faulthandler.cancel_dump_traceback_later()
