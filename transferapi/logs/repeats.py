"""A bound for lines that repeat: an outage writes some of each kind and then their number, not one for each request."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

#: Records of one kind in PERIOD seconds that are written: the same logger, level, line of code and exception.
MOST, PERIOD = 20, 60.0
#: The attribute of a record with the number of those like it that were left out before it.
LEFT_OUT = "left_out"
#: Kinds that are remembered; the oldest are forgotten.
MOST_KINDS = 1000


@dataclass(slots=True)
class _Kind:
    began: float
    count: int = 0


class BoundRepeats(logging.Filter):
    """Passes the first MOST warnings and errors of a kind in each PERIOD; the next one says how many were left out.

    Lines of the level INFO are about single requests and tasks: all are written.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kinds: dict[tuple[object, ...], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        raised = record.exc_info[0] if record.exc_info else None
        left_out = self._count((record.name, record.levelno, record.pathname, record.lineno, raised))
        if left_out is None:
            return False
        if left_out:
            # For the formats; other handlers of the record find its message as it was.
            setattr(record, LEFT_OUT, left_out)
        return True

    def _count(self, key: tuple[object, ...]) -> int | None:
        """How many were left out before this one; None: this one is left out, too."""
        now = time.monotonic()
        with self._lock:
            kind = self._kinds.get(key)
            if kind is not None and now - kind.began < PERIOD:
                kind.count += 1
                return 0 if kind.count <= MOST else None
            if kind is None and len(self._kinds) >= MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]
            self._kinds[key] = _Kind(now, 1)
            return max(0, kind.count - MOST) if kind is not None else 0
