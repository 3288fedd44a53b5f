"""Numbers that only grow, of all workers together: files, octets, faults, retries, takeovers, slices.

A worker adds in memory, and writes the sums with its report (every 5 s): what a worker that is killed has counted since
its last report is lost. No permission and no decision depends on these numbers; those of a task are its own columns.
"""

from __future__ import annotations

import threading
from collections import Counter

from identity.database_rows import execute

_lock = threading.Lock()
_counts: Counter[str] = Counter()


def add(name: str, *labels: str, by: int = 1) -> None:
    """Count. labels: words of the code (kinds of faults, schemes); never text of a user or a server."""
    with _lock:
        _counts[" ".join((name, *labels))] += by


def flush() -> None:
    """Add to the table what was counted since the last call. Where the database fails, it is kept for the next call.

    Keys are written in order, so that two workers never wait for each other's rows in a circle.
    """
    with _lock:
        taken = Counter({key: value for key, value in _counts.items() if value})
        _counts.clear()
    if not taken:
        return
    try:
        keys = sorted(taken)
        execute(_ADD, [keys, [float(taken[key]) for key in keys]])
    except BaseException:
        with _lock:
            _counts.update(taken)
        raise


_ADD = """
    INSERT INTO tasks_tally (key, value) SELECT * FROM unnest(%s::varchar[], %s::float8[])
    ON CONFLICT (key) DO UPDATE SET value = tasks_tally.value + excluded.value"""
