"""Whether a file grows at its destination while no reply reports it.

In MODE S servers say nothing between 150 and 226 (RFC 959 section 5.4), however long that takes. So another session
asks for the size of the file. Some servers do not report it before the end: they write under another name, or update
the size in the folder later. Then the file gets the time that the slowest line takes, since the data may well flow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from .slots import Transfer

#: Asks the destination, on another session, for the octets of a path; None if it does not report them now.
SizeOf = Callable[[bytes], Awaitable[int | None]]
#: Seconds of silence after which the size is asked for, and again.
ASK_AFTER = 30.0
#: A file that cannot be watched may take so many stall limits, or the time of this rate, in octets a second.
UNWATCHED, SLOWEST = 10.0, 5_000


class GrowthWatch:
    """The growth of the file that is under way. stall_timeout: seconds without growth, once it was seen to grow."""

    def __init__(self, stall_timeout: float, size_of: SizeOf | None) -> None:
        self._stall_timeout = stall_timeout
        self._size_of = size_of
        self._transfer: Transfer | None = None
        self._size: int | None = None
        self._asked_at = 0.0
        self._longest_pause = 0.0
        #: When it was seen to have grown, by the loop's clock; 0: never.
        self.grown_at = 0.0

    def due(self, transfer: Transfer, now: float, silent: float) -> bool:
        """Whether the size is to be asked for now."""
        if transfer is not self._transfer:
            self._transfer, self._size = transfer, None
            self.grown_at = self._asked_at = self._longest_pause = 0.0
        pause = min(ASK_AFTER, self._stall_timeout / 3)
        return self._size_of is not None and min(silent, now - self._asked_at) >= pause

    async def ask(self, now: float) -> None:
        """Ask for the size."""
        assert self._size_of is not None
        transfer, self._asked_at = self._transfer, now
        assert transfer is not None
        size = await self._size_of(transfer.write_path)
        if transfer is not self._transfer:
            return
        if size is not None and self._size is not None and size > self._size:
            self._longest_pause = max(self._longest_pause, now - self.grown_at if self.grown_at else 0.0)
            self.grown_at = now
        self._size = size

    def limit(self, transfer: Transfer) -> float:
        """Seconds of silence after which the file is given up."""
        if self._transfer is transfer and self.grown_at and self._size is not None:
            # Servers write in blocks of their own size.
            return max(self._stall_timeout, 3 * self._longest_pause)
        return max(UNWATCHED * self._stall_timeout, transfer.size / SLOWEST)
