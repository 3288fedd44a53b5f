"""Long lists in temporary files without a name: the operating system removes them when the process ends or closes them.

A list is kept while its client sends it, and read as often as its submission needs. The octets on the disk are bounded
for each user and in all, in each process (`WAYBILL_MAX_USER_LISTS`, `WAYBILL_MAX_LISTS`).
"""

from __future__ import annotations

import os
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import IO

from django.conf import settings

from transferapi.config.limits import VARIABLES
from transferapi.tasks import request_rules
from transferapi.tasks.errors import RequestError, TooMuchError

from .rows import TransferItem

#: Octets that a list has in memory before they are written to the disk, and that are read at a time.
BLOCK = 1 << 18
_ENCODING = ("utf-8", "surrogateescape")


class Spool:
    """Records of text fields without control characters. Use it as a context manager."""

    def __init__(self, user_id: uuid.UUID) -> None:
        self._user_id = user_id
        self._file: IO[bytes] | None = None
        self._on_disk = 0
        self._in_memory = bytearray()
        self._count = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return self._count

    def add(self, *fields: str) -> None:
        """Raises RequestError after the largest number of records, TooMuchError where the disk space is used up."""
        if self._count >= settings.LIMITS.listed_items:
            raise RequestError("DATA", request_rules.too_many_lines())
        record = "\t".join(fields)
        if "\n" in record or record.count("\t") != len(fields) - 1:
            raise ValueError("a field has a control character")
        self._in_memory += record.encode(*_ENCODING)
        self._in_memory += b"\n"
        self._count += 1
        if len(self._in_memory) >= BLOCK:
            self._flush()

    def records(self) -> Iterator[list[str]]:
        """All records from the first; several iterations may go on at a time."""
        rest = b""
        for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                yield line.decode(*_ENCODING).split("\t")

    def record(self, number: int) -> list[str]:
        """One record; the first has the number 0."""
        return next(islice(self.records(), number, None))

    def close(self) -> None:
        """Remove the list. Calling it again has no effect."""
        if self._file is not None:
            self._file.close()
            self._file = None
        _disk.give_back(self._user_id, self._on_disk)
        self._on_disk = 0
        self._in_memory = bytearray()

    def _blocks(self) -> Iterator[bytes]:
        at = 0
        while self._file is not None and at < self._on_disk:
            block = os.pread(self._file.fileno(), min(BLOCK, self._on_disk - at), at)
            at += len(block)
            yield block
        yield bytes(self._in_memory)

    def _flush(self) -> None:
        size = len(self._in_memory)
        _disk.take(self._user_id, size)
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="waybill-list-", buffering=0)  # noqa: SIM115
            at = 0
            while at < size:
                at += os.pwrite(self._file.fileno(), memoryview(self._in_memory)[at:], self._on_disk + at)
        except OSError:
            _disk.give_back(self._user_id, size)
            raise TooMuchError("The disk of this service has no space for this list; try again later.") from None
        self._on_disk += size
        self._in_memory = bytearray()


class SpooledItems:
    """Items of a transfer in a spool. A record begins with the source, the destination and RECURSIVE, FILE or FIND."""

    RECURSIVE, FILE, FIND, SYMLINK = "r", "f", "", "l"
    _MEANING = {RECURSIVE: True, FILE: False, FIND: None, SYMLINK: None}  # noqa: RUF012 - never changed

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def __len__(self) -> int:
        return len(self._spool)

    def __iter__(self) -> Iterator[TransferItem]:
        for source, destination, kind, *_ in self._spool.records():
            yield TransferItem(source, destination, self._MEANING[kind], symlink=kind == self.SYMLINK)


class SpooledPaths:
    """Paths of a delete in a spool: the first field of each record."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def __len__(self) -> int:
        return len(self._spool)

    def __iter__(self) -> Iterator[str]:
        for path, *_ in self._spool.records():
            yield path


class _Disk:
    """The octets of all lists on the disk."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_user: Counter[uuid.UUID] = Counter()

    def take(self, user_id: uuid.UUID, octets: int) -> None:
        """Count octets of a list of this user. Raises TooMuchError."""
        limits = settings.LIMITS
        with self._lock:
            if self._of_user[user_id] + octets > limits.user_lists:
                text = f"The lists that you send have at most {limits.user_lists} octets together on this service"
                raise TooMuchError(f"{text} ({VARIABLES['user_lists'].name}).")
            if self._of_user.total() + octets > limits.lists:
                name = VARIABLES["lists"].name
                raise TooMuchError(f"The service holds as many lists as it has space for ({name}); try again later.")
            self._of_user[user_id] += octets

    def give_back(self, user_id: uuid.UUID, octets: int) -> None:
        with self._lock:
            self._of_user[user_id] -= octets
            self._of_user += Counter()  # drops what is zero


_disk = _Disk()
