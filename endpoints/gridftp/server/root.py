"""The served folder: every path of a client is opened beneath it, in one step that no rename or symlink can outrun.

A path is first made plain (`normalize`): absolute in the served tree, without ".", ".." or empty components. It is then
opened by openat2(2) with RESOLVE_BENEATH where the kernel has it (Linux 5.6), else component by component with
O_NOFOLLOW. Symlinks are followed as long as they stay inside; an absolute one that points into the served folder is
inside, any other is refused. What a symlink says is read by us only after the kernel refused the short way.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from functools import cache

_OPENAT2 = 437  # the same number on every architecture
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
#: As the kernel's own bound (path_resolution(7)).
_MAX_LINKS = 40
_MAX_PATH = 4095
_FOLDER = os.O_PATH | os.O_DIRECTORY


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_HOW_SIZE = ctypes.sizeof(_OpenHow)
_libc = ctypes.CDLL(None, use_errno=True)


@cache
def _how(flags: int, mode: int, resolve: int = 0) -> _OpenHow:
    # openat2 refuses a mode where nothing can be created.
    return _OpenHow(flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, _BENEATH | _NO_MAGICLINKS | resolve)


def _openat2(folder: int, path: bytes, how: _OpenHow) -> int:
    while True:
        fd: int = _libc.syscall(_OPENAT2, folder, path, ctypes.byref(how), ctypes.c_size_t(_HOW_SIZE))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number), path)


def normalize(path: bytes, current: bytes = b"/") -> bytes:
    """A client's path as an absolute one of the served tree; `/~/` and `~` are its root. Never leaves "/"."""
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
    """A folder that is served. All paths are normalized ones; all errors are OSError with the kernel's number."""

    def __init__(self, folder: str | os.PathLike[str], *, use_openat2: bool = True) -> None:
        self.real = os.path.realpath(os.fsencode(folder))
        self.fd = os.open(self.real, _FOLDER | os.O_CLOEXEC)
        self._openat2 = use_openat2 and self._has_openat2()

    def close(self) -> None:
        os.close(self.fd)

    def beneath(self, folder: int) -> Root:
        """A folder of this tree as a root of its own. The descriptor stays the caller's."""
        inner = Root.__new__(Root)
        inner.fd = folder
        inner.real = os.readlink(b"/proc/self/fd/%d" % folder)
        inner._openat2 = self._openat2
        return inner

    def is_top(self, path: bytes) -> bool:
        """Whether nothing above this path is to be seen."""
        return path == b"/"

    def require_writable(self, path: bytes) -> None:
        """-> OSError where nothing may be changed below this path, whatever its mode says"""

    def require_replaceable(self, path: bytes) -> None:
        """Raises OSError where what has this name must stay, though the folder that it is in may be changed."""

    def _has_openat2(self) -> bool:
        """Old kernels lack it, and containers may forbid it (ENOSYS, EPERM)."""
        try:
            os.close(_openat2(self.fd, b".", _how(_FOLDER, 0)))
        except OSError:
            return False
        return True

    def open(self, path: bytes, flags: int, mode: int = 0o666) -> int:
        """open(2) beneath the root; symlinks are followed inside it. The descriptor is the caller's to close."""
        if len(path) > _MAX_PATH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path[:255])
        if self._openat2:
            try:
                return _openat2(self.fd, path[1:] or b".", _how(flags, mode))
            except OSError as error:
                # EXDEV: a symlink led out, perhaps back in by an absolute path. EAGAIN: something was renamed.
                if error.errno not in (errno.EXDEV, errno.EAGAIN):
                    raise
        return self._walk(path, flags, mode)

    def open_without_links(self, path: bytes) -> int:
        """The folder at this path, of which no name is a symlink (ELOOP, ENOTDIR). The descriptor is the caller's."""
        if self._openat2:
            return _openat2(self.fd, path[1:] or b".", _how(_FOLDER, 0, _NO_SYMLINKS))
        folder = os.dup(self.fd)
        for name in filter(None, path.split(b"/")):
            above = folder
            try:
                folder = os.open(name, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
            finally:
                os.close(above)
        return folder

    def stat(self, path: bytes) -> os.stat_result:
        with self.opened(path, os.O_PATH) as fd:
            return os.fstat(fd)

    @contextlib.contextmanager
    def opened(self, path: bytes, flags: int) -> Iterator[int]:
        fd = self.open(path, flags)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def opened_file(self, path: bytes, flags: int) -> Iterator[tuple[int, os.stat_result]]:
        """A regular file, and never anything else: opening a pipe or a device may wait, or do something."""
        # O_NONBLOCK: to open a pipe would wait for somebody at its other end.
        fd = self.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            status = os.fstat(fd)
            require_file(status)
            yield fd, status
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def opened_to_change(self, path: bytes) -> Iterator[int]:
        """For fchmod and futimens, which need an owner and not a reader."""
        try:
            fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except PermissionError:
            fd = self.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            yield fd
        finally:
            os.close(fd)

    def require_folder(self, path: bytes) -> None:
        os.close(self.open(path, _FOLDER))

    @contextlib.contextmanager
    def parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """The folder that holds the last component, and that component, which is not looked at."""
        folder, _, name = path.rpartition(b"/")
        if not name:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        with self.opened(folder or b"/", _FOLDER) as fd:
            yield fd, name

    def _walk(self, path: bytes, flags: int, mode: int) -> int:
        walk = _Walk(self.fd, self.real, path)
        try:
            return walk.open(flags | os.O_CLOEXEC, mode)
        finally:
            walk.close()


class _Walk:
    """A path taken one component at a time; `folder` is open, `taken` are the components from the root to it."""

    def __init__(self, root: int, real: bytes, path: bytes) -> None:
        self._root, self._real = root, real
        self._pending = deque(path.split(b"/"))
        self._taken: list[bytes] = []
        self._folder = os.dup(root)
        self._links = 0

    def close(self) -> None:
        os.close(self._folder)

    def open(self, flags: int, mode: int) -> int:
        while self._pending:
            name = self._pending.popleft()
            if name == b"..":
                self._up()
            elif name in (b"", b"."):
                continue
            elif any(part not in (b"", b".") for part in self._pending):
                self._enter(name)
            elif (fd := self._final(name, flags, mode)) is not None:
                return fd
        return os.open(b".", flags & ~os.O_CREAT, dir_fd=self._folder)

    def _move(self, folder: int) -> None:
        os.close(self._folder)
        self._folder = folder

    def _up(self) -> None:
        """Only in the target of a symlink. From the root again, since the parent may have been renamed since."""
        if not self._taken:
            raise _outside()
        self._pending.extendleft(reversed(self._taken[:-1]))
        self._back_to_root()

    def _back_to_root(self) -> None:
        self._taken.clear()
        self._move(os.dup(self._root))

    def _enter(self, name: bytes) -> None:
        try:
            self._move(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._folder))
        except NotADirectoryError:
            if not self._follow(name):
                raise
        else:
            self._taken.append(name)

    def _final(self, name: bytes, flags: int, mode: int) -> int | None:
        """The last component opened, or None when it is a symlink whose target now lies ahead."""
        try:
            fd = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=self._folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR) or not self._follow(name):
                raise
            return None
        if flags & os.O_PATH and stat.S_ISLNK(os.fstat(fd).st_mode):
            os.close(fd)
            if not self._follow(name):
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)
            return None
        return fd

    def _follow(self, name: bytes) -> bool:
        """Put a symlink's target before the rest of the path; False when it is none."""
        try:
            target = os.readlink(name, dir_fd=self._folder)
        except OSError:
            return False
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        if target.startswith(b"/"):
            if target != self._real and not target.startswith(self._real.rstrip(b"/") + b"/"):
                raise _outside()
            target = target[len(self._real) :]
            self._back_to_root()
        self._pending.extendleft(reversed(target.split(b"/")))
        return True


def require_file(status: os.stat_result) -> None:
    """-> OSError when this is no regular file"""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file")


def _outside() -> OSError:
    return PermissionError(errno.EACCES, "Permission denied: the path leads out of the served folder")
