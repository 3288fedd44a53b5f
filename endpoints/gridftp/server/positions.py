"""Reading and writing at an offset, also where the system has no pread(2) and pwrite(2) (Windows).

A descriptor is used by one thread only.
"""

from __future__ import annotations

import os


def _seek_and_read(fd: int, length: int, offset: int) -> bytes:
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, length)


def _seek_and_write(fd: int, data: bytes | memoryview, offset: int) -> int:
    os.lseek(fd, offset, os.SEEK_SET)
    return os.write(fd, data)


#: (descriptor, length, offset) -> octets, fewer than `length` at the end of the file. Raises OSError.
read_at = getattr(os, "pread", _seek_and_read)
#: (descriptor, octets, offset) -> number of octets written. Raises OSError.
write_at = getattr(os, "pwrite", _seek_and_write)
