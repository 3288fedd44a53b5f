"""A file of keys that is read again when it changes, so that a new key needs no restart."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

Value = TypeVar("Value")
log = logging.getLogger(__name__)


class WatchedFile(Generic[Value]):
    """The content of a private file. what: its name in the log, in the plural.

    An unreadable file is logged once per change; until it is readable again, the previous content stays in use.
    """

    def __init__(self, what: str, parse: Callable[[str], Value]) -> None:
        self._what, self._parse = what, parse
        self._lock = threading.Lock()
        self._seen: tuple[object, ...] = ()
        self._value: Value | None = None

    def read(self, path: Path, at_start: Value) -> Value:
        """at_start: the content that the process read when it started."""
        with self._lock:
            look = (path, at_start, *_stamp(path))
            if look != self._seen or self._value is None:
                if look[:2] != self._seen[:2] or self._value is None:
                    self._value = at_start
                self._seen = look
                self._value = self._read(path, self._value)
            return self._value

    def _read(self, path: Path, previous: Value) -> Value:
        try:
            found = self._parse(path.read_text(encoding="utf-8"))
            if path.stat().st_mode & stat.S_IROTH and not is_given(path):
                log.warning("Every account of this machine can read the %s in %s: chmod 600 it", self._what, path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            log.error("The %s in %s cannot be read, the previous ones stay in use: %s", self._what, path, reason)
            return previous
        return found


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def is_given(path: Path) -> bool:
    """Whether the file, or its folder, is mounted from elsewhere, and cannot be written here, as in a container.

    Its mode says nothing then: outside the folder above decides who reads it, and here nobody else is.
    """
    # Path.is_mount is for folders only.
    is_mount = os.path.ismount(path) or os.path.ismount(path.parent)
    return is_mount and bool(os.statvfs(path).f_flag & os.ST_RDONLY)
