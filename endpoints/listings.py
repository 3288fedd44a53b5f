"""What the listings that people ask for may cost this process: each, and all together (`patience`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager
from sys import getsizeof

from . import patience
from .gridftp.facts import Entry
from .gridftp.listing import Allowance, too_long
from .patience import Seat

#: Entries of one listing; a longer one is refused (the Transfer API's limit, ExternalError.DirListingFailed.SizeLimit).
MAX_ENTRIES = 100_000
#: What servers send for so many is below these: lines, and octets.
MAX_LINES, MAX_OCTETS = 2 * MAX_ENTRIES, 64 * 10**6
#: Octets of an entry without its texts: the object, its size, its time, and its places in lists.
ENTRY = 112 + 32 + 48 + 4 * 8
#: A listing that held more leaves memory behind that nobody else uses.
TRIM_FROM = 10 * 10**6

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


class Kept(Allowance):
    """A listing that is kept until its request has been answered. Raises TooManyWaitingError besides."""

    def __init__(self, seat: Seat, limit: int = MAX_ENTRIES) -> None:
        super().__init__(MAX_LINES, MAX_OCTETS)
        self._seat = seat
        self._left = self._limit = limit
        self._texts: tuple[str, ...] = ()

    def turn(self) -> AbstractContextManager[object]:
        return patience.turn

    def keep(self, entries: Sequence[Entry]) -> None:
        self._left -= len(entries)
        if self._left < 0:
            raise too_long(f"This folder has more than {self._limit} entries.")
        octets = sum(map(self._memory, entries))
        if self._seat.held + octets > patience.MEMORY.of_one:
            raise too_long(f"This folder's listing takes more than {patience.MEMORY.of_one // 10**6} MB.")
        self._seat.hold(octets)

    def _memory(self, entry: Entry) -> int:
        """Most entries share some of their texts with the one before."""
        texts = (entry.kind, entry.mode, entry.owner, entry.group, entry.perm, entry.unique)
        found = ENTRY + getsizeof(entry.name) + (getsizeof(entry.link_target) if entry.link_target else 0)
        if texts != self._texts:
            found += sum(map(getsizeof, texts))
            self._texts = texts
        return found


def give_back(octets: int) -> None:
    """The C library keeps what is freed, in pieces; after a long listing the system gets it."""
    if _trim is not None and octets > TRIM_FROM:
        _trim(0)
