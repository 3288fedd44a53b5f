"""The formats of log lines. A record is one line, so that nobody who chooses a name can forge another record.

A traceback follows its record, in the text format on lines of its own that are indented.

Lines that repeat are bounded: an outage writes some of each kind and then their number, not one for each request.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from . import context

#: Control characters, line and paragraph separators, and the marks that change the direction of text.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: Characters of a message, and of a traceback.
MAX_MESSAGE, MAX_TRACEBACK = 4000, 20_000


class TextFormat(logging.Formatter):
    """`2026-11-23T04:20:00.123Z INFO workers.runtime: message [task=... user=...]`."""

    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{name}={_safe(value)}" for name, value in context.current().items())
        line = f"{_time(record)} {record.levelname} {record.name}: {_safe(_message(record))}"
        line += f" [{facts}]" if facts else ""
        traceback = _traceback(self, record)
        return line + "".join(f"\n  {_safe(one)}" for one in traceback.splitlines())


class JsonFormat(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the facts of the context, and the traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
            **context.current(),
        }
        if traceback := _traceback(self, record):
            document["traceback"] = traceback
        return json.dumps(document)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]}... ({len(text)} characters)"
    left_out = getattr(record, LEFT_OUT, 0)
    return f"{text} ({left_out} more like it were left out)" if left_out else text


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The end of it, where the cause is, if it is too long."""
    text = formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
    text = "\n".join(filter(None, (text, record.stack_info or "")))
    return text if len(text) <= MAX_TRACEBACK else f"...{text[-MAX_TRACEBACK:]}"


def _safe(text: str) -> str:
    return (
        _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
        .encode("utf-8", "backslashreplace")
        .decode()
    )


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
        """How many were left out before this one; None if this one is left out, too."""
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
