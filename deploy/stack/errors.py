"""Errors of the stack. Each message is one that a user can act on."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

#: Octets free in a file system below which it counts as full: PostgreSQL needs 16 MB for each part of its log.
FULL = 32 << 20


class StackError(Exception):
    """Base of all errors of the stack."""


class StartError(StackError):
    """A process ended, or did not answer in time."""

    def __init__(self, name: str, reason: str, log: Path | None = None) -> None:
        super().__init__(f"{name}: {reason}" + (f"; its log is {log}{fullness(log)}\n{tail(log)}" if log else ""))


class PassingError(StackError):
    """A failure that ends by itself: a table in use, a lost connection."""


def tail(log: Path) -> str:
    """The last eight lines of a log, for an error message; at most 8 KB are read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join("    " + line for line in text.splitlines()[-8:])


def fullness(path: Path) -> str:
    """The words for a file whose file system has hardly anything free; "" for others."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(path.parent).free < FULL:
            return f"; no space is left for {path.parent}"
    return ""


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of a write, which does not know its file, gets this path: the user has to know which disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise
