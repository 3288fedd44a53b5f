"""SITE RESTRICT, as the toolkit's server has it: from then on the session sees some folders only, and for good.

Each folder is opened anew for each path in it, and the path beneath that: no symlink and no rename leads out of it.
The folder itself is opened without following a symlink: one that takes its place while the session lasts, or stood on
the way to it before, opens nothing. Clients resolve the path beforehand.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from .errors import RefusedError
from .root import Root, normalize

_ENTRY = re.compile(rb"([RWN]*)(/.*)")
_FOLDER = os.O_PATH | os.O_DIRECTORY
_CHANGING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Ground(NamedTuple):
    """A folder, with all that is in it. path: a normalized one."""

    path: bytes
    read: bool
    write: bool


def parse_grounds(argument: bytes) -> list[Ground]:
    """`RW/a/b,R/c%2Cd`: paths are percent-encoded; without a letter it is RW, with N nothing. -> RefusedError"""
    grounds = []
    for entry in argument.split(b","):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise RefusedError(500, "Path restriction entries must be full paths, prefixed only with R, W, or N.")
        letters = match[1] or b"RW"
        grounds.append(Ground(normalize(unquote_to_bytes(match[2])), b"R" in letters, b"W" in letters))
    return grounds


class Confined(Root):
    """A root of which some folders only are there. The longest one that a path lies in decides."""

    def __init__(self, whole: Root, grounds: list[Ground]) -> None:
        self._whole = whole
        self._grounds = sorted(grounds, key=lambda ground: -len(ground.path))

    def close(self) -> None:
        """The whole stays open for the other sessions."""

    def open(self, path: bytes, flags: int, mode: int = 0o666) -> int:
        ground = self._ground(path)
        if not (ground.write if flags & _CHANGING else ground.read or ground.write):
            raise _refused(path)
        rest = path[len(ground.path.rstrip(b"/")) :] or b"/"
        folder = self._enter(ground)
        try:
            return self._whole.beneath(folder).open(rest, flags, mode)
        finally:
            os.close(folder)

    def _enter(self, ground: Ground) -> int:
        try:
            return self._whole.open_without_links(ground.path)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _refused(ground.path) from None
            raise

    def is_top(self, path: bytes) -> bool:
        return any(path == ground.path for ground in self._grounds)

    def require_writable(self, path: bytes) -> None:
        if not self._ground(path).write:
            raise _refused(path)

    def require_replaceable(self, path: bytes) -> None:
        """A symlink that leads out is left alone, as the toolkit's server does; one that leads nowhere is replaced."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.close(self.open(path, os.O_PATH))

    def _ground(self, path: bytes) -> Ground:
        inside = path.rstrip(b"/") + b"/"
        for ground in self._grounds:
            if inside.startswith(ground.path.rstrip(b"/") + b"/"):
                return ground
        raise _refused(path)


def _refused(path: bytes) -> OSError:
    return PermissionError(errno.EACCES, "Path not allowed", path)
