"""Writes a file that is received to the disk, so that what a range marker names survives a power failure."""

from __future__ import annotations

import errno
import os
import threading

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: macOS: fsync alone leaves the octets in the memory of the disk (fsync(2) there).
_F_FULLFSYNC = getattr(fcntl, "F_FULLFSYNC", None)
_sync = getattr(os, "fdatasync", os.fsync)
#: The file system has no such call for this file: nothing more can be done.
_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def sync(fd: int) -> None:
    """Return when the octets and the size of this file are on the disk. Raises OSError."""
    try:
        if _F_FULLFSYNC is not None:
            try:
                fcntl.fcntl(fd, _F_FULLFSYNC)
                return
            except OSError:  # not a disk of Apple's own file systems
                pass
        _sync(fd)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise


class DiskSync:
    """Syncs one file in a thread of its own, while more of it is received. Its methods are called in one thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None

    @property
    def running(self) -> bool:
        """Whether a sync has begun, and `wait` has not returned since its end."""
        return self._thread is not None

    @property
    def ended(self) -> bool:
        """Whether `wait` returns at once."""
        return self._thread is not None and not self._thread.is_alive()

    def begin(self) -> None:
        """Begin to sync what is written so far."""
        self._thread = threading.Thread(target=self._work, name="gridftp-sync", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end of what has begun. Raises OSError where the disk has refused it."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def now(self) -> None:
        """Sync all that is written. Raises OSError."""
        self.wait()
        sync(self._fd)

    def _work(self) -> None:
        try:
            sync(self._fd)
        except OSError as error:
            self._error = error
