"""The steps between the arrival of a file and its settlement.

With verify_checksum, or where the user gave a checksum: the comparison of checksums (`verify`). With
preserve_timestamp: the modification time (`timestamps`). docs/decisions/verification-and-deletions.md gives the
reasons.
"""

from __future__ import annotations

import asyncio

from transferapi.tasks.records import PartialFile, SettledFile
from workers.engine.work import LONGEST_WAIT, SliceContext

from .arrival import complete_ranges, size_of
from .settlement_writer import SettlementWriter
from .timestamps import Timestamps
from .verify import NoteFault, Verifier, is_large

#: Number of files in these steps above which the lanes get no more.
MOST_WAITING = 1000


class PostTransfer:
    """Takes files that have arrived, and settles them or has them sent again.

    A file that waits here when the slice ends is recorded as complete on the destination's disk: the next slice
    continues it without sending anything, and then verifies it.
    """

    def __init__(self, work: SliceContext, settlement_writer: SettlementWriter, fault: NoteFault) -> None:
        self._work = work
        self._settlement_writer = settlement_writer
        self._verify_all = bool(work.spec.options.get("verify_checksum"))
        self._verifier = Verifier(work, self._agreed, fault, self._file_done)
        self._timestamps = Timestamps(work, self._settle) if work.spec.options.get("preserve_timestamp") else None
        self._room = asyncio.Event()

    @property
    def idle(self) -> bool:
        """No file is in these steps, or all of them wait for a long backoff of the endpoints."""
        if self._verifier.moving or (self._timestamps and self._timestamps.moving):
            return False
        return not self._waiting or self._work.seconds_blocked() > LONGEST_WAIT

    @property
    def full(self) -> bool:
        """No more files should arrive for the moment."""
        return self._waiting >= MOST_WAITING

    @property
    def _waiting(self) -> int:
        return self._verifier.waiting + (self._timestamps.waiting if self._timestamps else 0)

    async def wait_for_room(self) -> None:
        """Wait until there is room for more files."""
        while self.full:
            self._room.clear()
            await self._room.wait()

    async def is_possible(self) -> bool:
        """See `Verifier.is_possible`."""
        return not self._verify_all or await self._verifier.is_possible()

    def prepare(self) -> None:
        """Open sessions: files are about to be moved."""
        if self._verify_all:
            self._verifier.prepare()

    def accept(self, arrived: SettledFile) -> None:
        """Take a file that has arrived completely, as far as sizes and replies show."""
        if arrived.file.temporary_path:
            # It has its final name by now, where the next slice must look for it.
            arrived = arrived._replace(file=arrived.file.under(None))
        if not (self._verify_all or (arrived.file.checksum and arrived.file.checksum.value)):
            self._agreed(arrived)
        elif not is_large(arrived):
            self._verifier.take(arrived)
        else:
            self._note(arrived)
            self._verifier.take(arrived)

    def resume(self) -> None:
        """Continue after a backoff of the endpoints."""
        self._verifier.resume()
        if self._timestamps:
            self._timestamps.resume()

    async def drain(self) -> None:
        """Start nothing more, and wait for work that another slice cannot continue."""
        await self._verifier.drain()

    async def abort(self) -> None:
        """Stop at once: the next slice continues files that are not settled."""
        left = [*await self._verifier.abort(), *(await self._timestamps.abort() if self._timestamps else ())]
        for arrived in left:
            self._note(arrived)

    # ---- inside

    def _note(self, arrived: SettledFile) -> None:
        """Record that the file is complete on the destination's disk: if the worker dies it is not sent again."""
        ranges = complete_ranges(arrived)
        if ranges:
            self._settlement_writer.progress(PartialFile(arrived.file, ranges, size_of(arrived)), last=True)

    def _agreed(self, certain: SettledFile) -> None:
        if self._timestamps:
            self._timestamps.take(certain)
        else:
            self._settlement_writer.settle(certain)

    def _settle(self, certain: SettledFile) -> None:
        self._settlement_writer.settle(certain)
        self._file_done()

    def _file_done(self) -> None:
        """A file has passed these steps."""
        self._room.set()
        if not self._waiting:
            self._settlement_writer.flush_soon()
