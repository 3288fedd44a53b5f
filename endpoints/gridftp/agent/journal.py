"""The reports of the agent to people: a log file with dates, and lines on the terminal."""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import threading
import time

from endpoints.gridftp.server.data.files_moved import FileMoved, FileUnderWay

from .home import AgentHome

#: Octets of one log file, and how many older ones are kept.
LOG_OCTETS, LOGS_KEPT = 1 << 20, 3
#: On a terminal, at most so many lines a second for files; the rest is counted in the next line.
LINES_A_SECOND = 5.0
#: Seconds between two lines about files that are under way, of all files together.
PROGRESS_SECONDS = 1.0

log = logging.getLogger("waybill-connect")


class _PrivateLog(logging.handlers.RotatingFileHandler):
    """A log with names of files is for its owner only."""

    def _open(self):  # type: ignore[no-untyped-def]
        number = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(number, "a", encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name in `logging`
        """Leave out a line that a full disk does not take: the agent goes on, without a traceback for each line."""


def begin(home: AgentHome, *, on_terminal: bool) -> None:
    """Write to the log file from now on, and to standard error where a person reads it."""
    file = _PrivateLog(str(home.log), maxBytes=LOG_OCTETS, backupCount=LOGS_KEPT, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    handlers = [file]
    if on_terminal:
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%H:%M:%S"))
        terminal.addFilter(_Throttle())
        handlers.append(terminal)  # type: ignore[arg-type]
    for handler in handlers:
        logging.getLogger().addHandler(handler)
    log.setLevel(logging.INFO)


def moved(file: FileMoved) -> None:
    """One line for a file that was sent or received, or that failed."""
    name = printable(os.fsdecode(file.path))
    what = "sent" if file.sends else "received"
    if file.error:
        log.warning("%s: not %s: %s", name, what, file.error, extra={"is_file": True})
        return
    rate = f", {in_units(file.octets / file.seconds)}/s" if file.seconds > 0.5 else ""
    log.info("%s: %s %s%s", name, what, in_units(file.octets), rate, extra={"is_file": True})


class ProgressLines:
    """Lines for files that are under way. Used by the threads of several sessions."""

    def __init__(self) -> None:
        self._lock, self._due = threading.Lock(), 0.0

    def tell(self, file: FileUnderWay) -> None:
        """One line, unless there was one just now."""
        with self._lock:
            now = time.monotonic()
            if now < self._due:
                return
            self._due = now + PROGRESS_SECONDS
        how_far = f" of {in_units(file.size)}" if file.size is not None else " so far"
        rate = f", {in_units(file.octets / file.seconds)}/s" if file.seconds > 0.5 else ""
        what = "sending" if file.sends else "receiving"
        log.info("%s: %s, %s%s%s", printable(os.fsdecode(file.path)), what, in_units(file.octets), how_far, rate)


def in_units(octets: float) -> str:
    """ "1.5 MB" (decimal units, as the service shows them)."""
    for unit in ("B", "KB", "MB", "GB"):
        if octets < 999.5:
            return f"{octets:.0f} B" if unit == "B" else f"{octets:.3g} {unit}"
        octets /= 1000
    return f"{octets:.3g} TB"


def printable(text: str) -> str:
    """A name for a terminal: no control characters, and not longer than a line or two."""
    shown = "".join(one if one.isprintable() else "?" for one in text)
    return shown if len(shown) <= 200 else f"{shown[:99]}…{shown[-99:]}"


class _Throttle(logging.Filter):
    """Lets at most `LINES_A_SECOND` lines about files through; the next one says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._last, self._left_out = 0.0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        if not getattr(record, "is_file", False) or record.levelno >= logging.WARNING:
            return True
        now = time.monotonic()
        if now - self._last < 1 / LINES_A_SECOND:
            self._left_out += 1
            return False
        if self._left_out:
            record = logging.makeLogRecord(record.__dict__)
            sys.stderr.write(f"          and {self._left_out} more files\n")
        self._last, self._left_out = now, 0
        return True
