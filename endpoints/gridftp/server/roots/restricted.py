"""SITE RESTRICT as in the toolkit's server: the session sees the given folders only, until it ends.

The folder is opened again for each path in it, and the path beneath it: no symlink and no rename leads out of it. The
folder itself is opened without following symlinks: one that replaces it during the session, or was in its path before,
opens nothing. Clients resolve the path first.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from endpoints.gridftp.server.errors import CommandRefusedError

from .root import Root, normalize
from .several import SeveralRoots

_ENTRY = re.compile(rb"([RWN]*)(/.*)")


class AllowedFolder(NamedTuple):
    """A folder, with all that is in it. path: normalized."""

    path: bytes
    read: bool
    write: bool


def parse_allowed(argument: bytes) -> list[AllowedFolder]:
    """`RW/a/b,R/c%2Cd`: paths are percent-encoded; no letter means RW, N no access. Raises CommandRefusedError."""
    allowed_paths = []
    for entry in argument.split(b","):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise CommandRefusedError(
                500, "Path restriction entries must be full paths, prefixed only with R, W, or N."
            )
        letters = match[1] or b"RW"
        allowed_paths.append(AllowedFolder(normalize(unquote_to_bytes(match[2])), b"R" in letters, b"W" in letters))
    return allowed_paths


class RestrictedRoot(SeveralRoots):
    """A root with some folders only. The longest folder that contains a path decides."""

    def __init__(self, whole: Root, allowed_paths: list[AllowedFolder]) -> None:
        self._whole = whole
        self._allowed_paths = sorted(allowed_paths, key=lambda allowed_path: -len(allowed_path.path))

    def close(self) -> None:
        """Do nothing: the whole root stays open for the other sessions."""

    @contextlib.contextmanager
    def at(self, path: bytes, *, changing: bool = False) -> Iterator[tuple[Root, bytes]]:
        allowed_path = self._allowed_path(path)
        if not (allowed_path.write if changing else allowed_path.read or allowed_path.write):
            raise _refused(path)
        if allowed_path.path == b"/":
            yield self._whole, path
            return
        with contextlib.ExitStack() as entered:
            try:
                folder = entered.enter_context(self._whole.without_links(allowed_path.path))
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise _refused(allowed_path.path) from None
                raise
            yield folder, path[len(allowed_path.path) :] or b"/"

    def is_top(self, path: bytes) -> bool:
        return any(path == allowed_path.path for allowed_path in self._allowed_paths) or self._whole.is_top(path)

    def may_change(self, path: bytes) -> bool:
        return self._allowed_path(path).write and self._whole.may_change(path)

    def require_writable(self, path: bytes) -> None:
        if not self._allowed_path(path).write:
            raise _refused(path)
        self._whole.require_writable(path)

    def require_replaceable(self, path: bytes) -> None:
        """Raise OSError for a symlink that leads out, as the toolkit's server; one without a target may be replaced."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self.stat(path)

    def _allowed_path(self, path: bytes) -> AllowedFolder:
        inside = path.rstrip(b"/") + b"/"
        for allowed_path in self._allowed_paths:
            if inside.startswith(allowed_path.path.rstrip(b"/") + b"/"):
                return allowed_path
        raise _refused(path)


def _refused(path: bytes) -> OSError:
    return PermissionError(errno.EACCES, "Path not allowed", path)
