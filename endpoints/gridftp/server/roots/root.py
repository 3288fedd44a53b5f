"""The served folder: a client's paths are opened beneath it, in one step without a race against renames and symlinks.

A path is first normalized (`normalize`): absolute in the served tree, without ".", ".." or empty components. It is then
opened by openat2(2) with RESOLVE_BENEATH where the kernel has it (Linux 5.6), else component by component with
O_NOFOLLOW. Symlinks are followed as long as they stay inside; an absolute one that points into the served folder is
inside, any other is refused. We read the text of a symlink only after openat2 has refused the path.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import stat
import sys
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Union

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_OPENAT2 = 437  # the same number on every architecture
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
#: The kernel's own limit (path_resolution(7)).
_MAX_LINKS = 40
_MAX_PATH = 4095
#: Linux and macOS have all of them but O_PATH, Windows has O_BINARY alone.
_PATH: int = getattr(os, "O_PATH", 0)
_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
BINARY: int = getattr(os, "O_BINARY", 0)
#: Opening a pipe would wait for its other end.
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FOLDER = _PATH | _DIRECTORY
#: fcntl(2) of macOS: the path of a descriptor.
_F_GETPATH = 50

PathLike = Union[str, bytes, "os.PathLike[str]"]


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW_SIZE = ctypes.sizeof(_OpenHow)
#: None on other systems than Linux.
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@lru_cache(maxsize=None)
def _how(flags: int, mode: int, resolve: int = 0) -> _OpenHow:
    # openat2 refuses a mode without O_CREAT.
    return _OpenHow(flags | _CLOEXEC, mode if flags & os.O_CREAT else 0, _BENEATH | _NO_MAGICLINKS | resolve)


def _openat2(folder: int, path: bytes, how: _OpenHow) -> int:
    assert LIBC is not None
    while True:
        fd: int = LIBC.syscall(_OPENAT2, folder, path, ctypes.byref(how), ctypes.c_size_t(_HOW_SIZE))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


#: A path that `normalize` leaves as it is, as nearly all are: absolute, no component empty, ".", ".." or a first "~".
_NORMAL = re.compile(rb"/(?!~(?:/|\Z))(?:(?!\.\.?(?:/|\Z))[^/]+(?:/(?=[^/])|\Z))+", re.DOTALL)


def normalize(path: bytes, current: bytes = b"/") -> bytes:
    """A client's path as an absolute one of the served tree; `/~/` and `~` are its root. Never leaves "/"."""
    if _NORMAL.fullmatch(path):
        return path
    if path == b"~" or path.startswith((b"~/", b"/~/")) or path == b"/~":
        path = b"/" + path.lstrip(b"/")[1:]
    elif not path.startswith(b"/"):
        path = current + b"/" + path
    parts: list[bytes] = []
    for part in path.split(b"/"):
        if part == b"..":
            del parts[-1:]
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/" + b"/".join(parts)


class Root:
    """The served folder. All paths are normalized; all errors are OSErrors with the kernel's number."""

    #: Whether names that differ by their case only may be one name.
    folds_case = sys.platform == "darwin"

    def __init__(self, folder: PathLike, *, use_openat2: bool = True) -> None:
        self.real = os.path.realpath(os.fsencode(folder))
        self.fd = os.open(self.real, _FOLDER | _CLOEXEC)
        self._openat2 = use_openat2 and LIBC is not None and self._has_openat2()

    def close(self) -> None:
        os.close(self.fd)

    def beneath(self, folder: int) -> Root:
        """A folder of this tree as a root of its own. The caller closes the descriptor."""
        inner = Root.__new__(Root)
        inner.fd = folder
        inner.real = _path_of(folder)
        inner._openat2 = self._openat2
        return inner

    def is_top(self, path: bytes) -> bool:
        """Whether the client can see nothing above this path."""
        return path == b"/"

    def may_change(self, path: bytes) -> bool:
        """Whether something may be changed at or below this path, if its mode allows it."""
        return True

    def require_writable(self, path: bytes) -> None:
        """Raises OSError where nothing may be changed at or below this path, whatever its mode is."""
        if self.folds_case:
            require_same_case(self.real + path, self._true_path(path))

    def _true_path(self, path: bytes) -> bytes:
        """The path as the disk has it; a last component that is not there, or cannot be opened, as it was given."""
        folder, _, name = path.rpartition(b"/")
        for known, rest in ((path, b""), (folder or b"/", b"/" + name)):
            with contextlib.suppress(OSError), self.opened(known, _PATH or _NO_WAIT) as fd:
                return _path_of(fd) + rest
        return self.real + path

    def require_replaceable(self, path: bytes) -> None:
        """Raises OSError where the thing of this name must remain, although its folder may be changed."""

    def require_link_target(self, path: bytes, target: bytes) -> None:
        """Raises OSError for a text that no new symlink may have, whoever follows it.

        On Windows: one that names a drive or a machine, where Windows would sign in with this account.
        """

    def _has_openat2(self) -> bool:
        """Whether openat2 works: old kernels lack it, and containers may forbid it (ENOSYS, EPERM)."""
        try:
            os.close(_openat2(self.fd, b".", _how(_FOLDER, 0)))
        except OSError:
            return False
        return True

    def open(self, path: bytes, flags: int, mode: int = 0o666) -> int:
        """open(2) beneath the root; symlinks are followed inside it. The caller closes the descriptor."""
        if len(path) > _MAX_PATH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path[:255])
        if self._openat2:
            try:
                return _openat2(self.fd, path[1:] or b".", _how(flags, mode))
            except OSError as error:
                # EXDEV: a symlink led out, perhaps back in by an absolute path. EAGAIN: something was renamed.
                if error.errno not in (errno.EXDEV, errno.EAGAIN):
                    raise
        with contextlib.closing(_Walk(self.fd, self.real, path)) as walk:
            return walk.open(flags | _CLOEXEC, mode)

    def open_without_links(self, path: bytes) -> int:
        """Open a folder; no component may be a symlink (ELOOP, ENOTDIR). The caller closes the descriptor."""
        if self._openat2:
            return _openat2(self.fd, path[1:] or b".", _how(_FOLDER, 0, _NO_SYMLINKS))
        folder = os.dup(self.fd)
        for name in filter(None, path.split(b"/")):
            above = folder
            try:
                folder = os.open(name, _FOLDER | _NOFOLLOW | _CLOEXEC, dir_fd=above)
            finally:
                os.close(above)
        return folder

    def stat(self, path: bytes) -> os.stat_result:
        with self.opened(path, _PATH or _NO_WAIT) as fd:
            return os.fstat(fd)

    def free_space(self, path: bytes) -> int:
        """Octets that may still be written in a folder."""
        with self.opened(path, os.O_RDONLY | _DIRECTORY) as folder:
            found = os.fstatvfs(folder)
        return found.f_bavail * found.f_frsize

    @contextlib.contextmanager
    def opened(self, path: bytes, flags: int) -> Iterator[int]:
        fd = self.open(path, flags)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def opened_file(self, path: bytes, flags: int) -> Iterator[tuple[int, os.stat_result]]:
        """A regular file only: opening a pipe or a device may block, or have effects."""
        with self.opened(path, flags | _NO_WAIT) as fd:
            status = os.fstat(fd)
            require_file(status)
            yield fd, status

    @contextlib.contextmanager
    def opened_to_change(self, path: bytes) -> Iterator[PathLike | int]:
        """A file for os.chmod and os.utime, opened or by its path; its owner may lack read permission."""
        try:
            fd = self.open(path, os.O_RDONLY | _NO_WAIT)
        except PermissionError:
            fd = self.open(path, os.O_WRONLY | _NO_WAIT)
        try:
            yield fd
        finally:
            os.close(fd)

    def require_folder(self, path: bytes) -> None:
        os.close(self.open(path, _FOLDER))

    def children(self, path: bytes) -> Iterator[tuple[str, os.stat_result, str | None]]:
        """Name, own status and, of a symlink, its text. Raises OSError."""
        with self.folder(path) as (folder, prefix), os.scandir(prefix if folder is None else folder) as entries:
            for entry in entries:
                # str or bytes, as the folder was given.
                name = os.fsdecode(entry.name)
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    found = entry.stat(follow_symlinks=False)
                    target = _target(os.fsencode(name), folder, prefix) if stat.S_ISLNK(found.st_mode) else None
                    yield name, found, target

    def look(self, path: bytes) -> tuple[os.stat_result, str | None]:
        """The own status of one thing and, of a symlink, its text. Raises OSError."""
        with self.parent(path) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            return found, _target(name, folder, b"") if stat.S_ISLNK(found.st_mode) else None

    @contextlib.contextmanager
    def folder(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        """A descriptor for `dir_fd` and b"", or None and a prefix for the names in it. Raises OSError."""
        with self.opened(path, os.O_RDONLY | _DIRECTORY) as fd:
            yield fd, b""

    @contextlib.contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        """The folder of the last component (`dir_fd`), and that component there, which need not exist."""
        folder, _, name = path.rpartition(b"/")
        if not name:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        with self._above(folder or b"/", name) as (fd, prefix):
            yield fd, prefix + name

    @contextlib.contextmanager
    def _above(self, path: bytes, name: bytes) -> Iterator[tuple[int | None, bytes]]:
        """A folder to look at, make, rename or remove `name` in: a descriptor for `dir_fd` and b"", or None and a
        prefix. Raises OSError, also for a name that is none on this system."""
        with self.opened(path, _FOLDER) as fd:
            yield fd, b""

    @contextlib.contextmanager
    def behind_links(self, path: bytes) -> Iterator[tuple[int | None, bytes]]:
        """As `parent`, for what `open` would open or make: a symlink at the end is followed, inside the root."""
        with contextlib.closing(_Walk(self.fd, self.real, path)) as walk:
            yield walk.last()

    @contextlib.contextmanager
    def without_links(self, path: bytes) -> Iterator[Root]:
        """A folder of this tree as a root of its own; no component may be a symlink (ELOOP, ENOTDIR)."""
        fd = self.open_without_links(path)
        try:
            yield self.beneath(fd)
        finally:
            os.close(fd)


class _Walk:
    """Opens a path one component at a time; `_folder` is open, `_taken` are the components from the root to it."""

    def __init__(self, root: int, real: bytes, path: bytes) -> None:
        self._root, self._real = root, real
        self._pending = deque(path.split(b"/"))
        self._taken: list[bytes] = []
        self._folder = os.dup(root)
        self._links = 0

    def close(self) -> None:
        os.close(self._folder)

    def open(self, flags: int, mode: int) -> int:
        while (name := self._next_last()) is not None:
            if (fd := self._final(name, flags, mode)) is not None:
                return fd
        return os.open(b".", flags & ~os.O_CREAT, dir_fd=self._folder)

    def last(self) -> tuple[int, bytes]:
        """The folder of the last component, which is open until `close`, and that component: never a symlink."""
        while (name := self._next_last()) is not None:
            if not self._follow(name):
                return self._folder, name
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    def _next_last(self) -> bytes | None:
        """Enter all folders before the last component, and return that one; None where none is left to open."""
        while self._pending:
            name = self._pending.popleft()
            if name == b"..":
                self._up()
            elif name in (b"", b"."):
                continue
            elif any(part not in (b"", b".") for part in self._pending):
                self._enter(name)
            else:
                return name
        return None

    def _move(self, folder: int) -> None:
        os.close(self._folder)
        self._folder = folder

    def _up(self) -> None:
        """ "..", only in the target of a symlink. From the root again, because the parent may have been renamed."""
        if not self._taken:
            raise outside()
        self._pending.extendleft(reversed(self._taken[:-1]))
        self._back_to_root()

    def _back_to_root(self) -> None:
        self._taken.clear()
        self._move(os.dup(self._root))

    def _enter(self, name: bytes) -> None:
        try:
            self._move(os.open(name, _FOLDER | _NOFOLLOW, dir_fd=self._folder))
        except NotADirectoryError:
            if not self._follow(name):
                raise
        else:
            self._taken.append(name)

    def _final(self, name: bytes, flags: int, mode: int) -> int | None:
        """Open the last component; None when it is a symlink, whose target then comes next."""
        try:
            fd = os.open(name, flags | _NOFOLLOW, mode, dir_fd=self._folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR) or not self._follow(name):
                raise
            return None
        if flags & _PATH and stat.S_ISLNK(os.fstat(fd).st_mode):
            os.close(fd)
            if not self._follow(name):
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)
            return None
        return fd

    def _follow(self, name: bytes) -> bool:
        """Put a symlink's target before the rest of the path; False when it is no symlink."""
        try:
            target = os.readlink(name, dir_fd=self._folder)
        except OSError:
            return False
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        if target.startswith(b"/"):
            if target != self._real and not target.startswith(self._real.rstrip(b"/") + b"/"):
                raise outside()
            target = target[len(self._real) :]
            self._back_to_root()
        self._pending.extendleft(reversed(target.split(b"/")))
        return True


def require_same_case(wanted: bytes, found: bytes) -> None:
    """Raises OSError where the path leads to a thing whose name differs by its case: it is another file's."""
    if wanted != found and os.fsdecode(wanted).casefold() == os.fsdecode(found).casefold():
        raise OSError(errno.EINVAL, "The name differs from another one by its case only", wanted)


def require_file(status: os.stat_result) -> None:
    """Raises OSError when this is no regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file")


def _target(name: bytes, folder: int | None, prefix: bytes) -> str | None:
    with contextlib.suppress(OSError):
        return os.fsdecode(os.readlink(prefix + name, dir_fd=folder))
    return None


def _path_of(folder: int) -> bytes:
    if LIBC is not None:
        return os.readlink(b"/proc/self/fd/%d" % folder)
    assert fcntl is not None
    return fcntl.fcntl(folder, _F_GETPATH, bytes(1024)).split(b"\0")[0]


def outside() -> OSError:
    return PermissionError(errno.EACCES, "Permission denied: the path leads out of the served folder")
