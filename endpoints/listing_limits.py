"""Memory limits of the listings that a web request reads: per listing, and per process (`concurrency_limits`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import AbstractContextManager
from sys import getsizeof

from . import concurrency_limits
from .concurrency_limits import RequestSlot
from .gridftp.facts import Entry
from .gridftp.listing import Allowance, too_long

#: Entries of one listing; a longer one is refused (Transfer API, ExternalError.DirListingFailed.SizeLimit).
MAX_ENTRIES = 100_000
#: Lines and octets of a server's reply; the largest allowed listing needs less.
MAX_LINES, MAX_OCTETS = 2 * MAX_ENTRIES, 64 * 10**6
#: Octets of an entry without its strings: the object, its size, its time, and its slots in lists.
ENTRY = 112 + 32 + 48 + 4 * 8
#: Octets: a larger listing leaves freed memory in the C library's arenas.
TRIM_FROM = 10 * 10**6

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


class ListingAllowance(Allowance):
    """A listing whose entries stay in memory until its request is answered. Also raises TooManyWaitingError.

    only_links: of a streamed listing, whose other entries are sent at once. partial: an incomplete listing is shown,
    with a warning.
    """

    def __init__(
        self, slot: RequestSlot, limit: int = MAX_ENTRIES, *, only_links: bool = False, partial: bool = False
    ) -> None:
        super().__init__(MAX_LINES, MAX_OCTETS)
        self.partial = partial
        self._only_links = only_links
        self._slot = slot
        self._left = self._limit = limit
        self._texts: tuple[str, ...] = ()

    def turn(self) -> AbstractContextManager[object]:
        return concurrency_limits.cpu_lock

    def keep(self, entries: Sequence[Entry]) -> None:
        self._left -= len(entries)
        if self._left < 0:
            raise too_long(f"This folder has more than {self._limit} entries.")
        octets = sum(self._memory(one) for one in entries if one.is_link or not self._only_links)
        if self._slot.reserved + octets > concurrency_limits.MEMORY.per_user:
            raise too_long(f"This folder's listing takes more than {concurrency_limits.MEMORY.per_user // 10**6} MB.")
        self._slot.reserve(octets)

    def _memory(self, entry: Entry) -> int:
        """Most entries share some of their strings with the entry before."""
        texts = (entry.kind, entry.mode, entry.owner, entry.group, entry.perm, entry.unique)
        found = ENTRY + getsizeof(entry.name) + (getsizeof(entry.link_target) if entry.link_target else 0)
        if texts != self._texts:
            found += sum(map(getsizeof, texts))
            self._texts = texts
        return found


def trim_memory(octets: int) -> None:
    """Return freed memory to the operating system after a long listing; the C library would keep it."""
    if _trim is not None and octets > TRIM_FROM:
        _trim(0)
