"""A served folder by paths, for systems whose calls take no descriptors of folders (Windows).

Each path is resolved, and must then lie inside; between that and its use somebody who can make symlinks in the served
folder could replace a part of it. On other systems `root.Root` leaves no such gap.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator

from .root import BINARY, PathLike, Root, outside, require_same_case

#: Names that Windows takes for devices, with any ending ("Naming Files, Paths, and Namespaces"): also with the
#: superscript digits of ISO 8859-1.
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"}
_DEVICES |= {f"{name}{digit}" for name in ("com", "lpt") for digit in "0123456789\u00b9\u00b2\u00b3"}
_FORBIDDEN = frozenset('<>:"|?*\\').union(map(chr, range(32)))
#: The mark of a short name (8.3), by which Windows finds a file too.
_SHORT = re.compile(rb"~[0-9]")
_WINDOWS = os.name == "nt"


class PathRoot(Root):
    """The same as `Root`, without descriptors: where that yields one of a folder, this yields None and a full path."""

    def __init__(self, folder: PathLike, *, as_windows: bool = _WINDOWS) -> None:
        self.real = os.path.realpath(os.fsencode(folder))
        self.fd = -1
        self._as_windows = as_windows
        if not stat.S_ISDIR(os.stat(self.real).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.real)

    def close(self) -> None:
        """Do nothing: no folder is open."""

    def require_writable(self, path: bytes) -> None:
        """`Root.require_writable`; on Windows the real path has the case that is on the disk."""
        require_same_case(self._joined(path), self._resolved(path))

    def open(self, path: bytes, flags: int, mode: int = 0o666) -> int:
        return os.open(self._resolved(path), flags | BINARY, mode)

    def stat(self, path: bytes) -> os.stat_result:
        return os.stat(self._resolved(path))

    def free_space(self, path: bytes) -> int:
        self.require_folder(path)
        return shutil.disk_usage(os.fsdecode(self._resolved(path))).free

    def require_folder(self, path: bytes) -> None:
        if not stat.S_ISDIR(self.stat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)

    @contextlib.contextmanager
    def opened_to_change(self, path: bytes) -> Iterator[PathLike | int]:
        yield self._resolved(path)

    @contextlib.contextmanager
    def folder(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        self.require_folder(path)
        yield None, self._resolved(path) + os.fsencode(os.sep)

    @contextlib.contextmanager
    def _above(self, path: bytes, name: bytes) -> Iterator[tuple[int | None, bytes]]:
        self._joined(path + b"/" + name)
        with self.folder(path) as found:
            yield found

    def require_link_target(self, path: bytes, target: bytes) -> None:
        if not self._as_windows:
            return
        if target.startswith(b"//"):
            raise outside()
        for part in target.split(b"/"):
            if part not in (b"", b".", b".."):
                _require_windows_name(part)

    @contextlib.contextmanager
    def behind_links(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        yield None, self._resolved(path)

    @contextlib.contextmanager
    def without_links(self, path: bytes) -> Iterator[Root]:
        full = self._joined(path)
        if os.path.normcase(os.path.realpath(full)) != os.path.normcase(full):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        yield PathRoot(full, as_windows=self._as_windows)

    def _joined(self, path: bytes) -> bytes:
        joined = self.real
        for part in filter(None, path.split(b"/")):
            if self._as_windows:
                _require_windows_name(part)
                _require_own_name(joined, part)
            joined = os.path.join(joined, part)
        return joined

    def _resolved(self, path: bytes) -> bytes:
        """The real path of a path. Raises OSError if it is outside."""
        real = os.path.realpath(self._joined(path))
        base, found = os.path.normcase(self.real), os.path.normcase(real)
        if found != base and not found.startswith(base.rstrip(os.fsencode(os.sep)) + os.fsencode(os.sep)):
            raise outside()
        return real


def open_root(folder: PathLike) -> Root:
    """One folder, in the best way that this system has. Raises OSError."""
    by_descriptor = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
    return Root(folder) if by_descriptor else PathRoot(folder)


def _require_windows_name(encoded: bytes) -> None:
    """Raises OSError for a name that Windows would take for a device, a stream, several folders or another name.

    Names of Windows are UTF-16, and Python's are UTF-8 there: other octets are no name.
    """
    try:
        name = encoded.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "Not a file name on Windows: it is not UTF-8", encoded) from None
    if name.split(".")[0].rstrip().lower() in _DEVICES or _FORBIDDEN & set(name) or name[-1] in ". ":
        raise OSError(errno.EINVAL, "Not a file name on Windows", name)


def _require_own_name(folder: bytes, name: bytes) -> None:
    """Raises OSError for the short name of a thing, which has a longer one: rules name it by that."""
    if not _SHORT.search(name) or not os.path.lexists(os.path.join(folder, name)):
        return
    names = (os.fsdecode(one).casefold() for one in os.listdir(folder))
    if os.fsdecode(name).casefold() not in names:
        raise OSError(errno.EINVAL, "Not a file name on Windows: it is the short name of another file", name)
