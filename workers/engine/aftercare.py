"""What a file still needs once both sides have said that it arrived, and before it is settled.

With verify_checksum, or where the user gave a checksum: the same on both sides (`verify`). Then, with
preserve_timestamp, its modification time (`timestamps`). docs/decisions/0007-verification.md says why so.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from .arrival import kept, size_of
from .ledger import Ledger
from .ports import Progress, Settled
from .timestamps import Timestamps
from .verify import NoteFault, Verifier, is_large
from .work import PATIENCE, Work

#: Files that may wait here; with more the lanes are fed no further.
MOST_WAITING = 1000


class Aftercare:
    """Takes files that have arrived, and settles them, or has them sent again.

    What waits here when the slice ends is written down as wholly on the destination's disk: the next slice continues
    it where there is nothing left to send, and verifies it then.
    """

    def __init__(self, work: Work, ledger: Ledger, fault: NoteFault) -> None:
        self._work = work
        self._ledger = ledger
        self._verify_all = bool(work.spec.options.get("verify_checksum"))
        self._verifier = Verifier(work, self._agreed, fault, self._left)
        self._timestamps = Timestamps(work, self._settle) if work.spec.options.get("preserve_timestamp") else None
        #: Notes of large files that are being written.
        self._notes: set[asyncio.Task[None]] = set()
        self._room = asyncio.Event()

    @property
    def idle(self) -> bool:
        """No file is being looked after, or those that are wait for endpoints that are left alone for long."""
        if self._notes or self._verifier.moving or (self._timestamps and self._timestamps.moving):
            return False
        return not self._waiting or self._work.seconds_blocked() > PATIENCE

    @property
    def full(self) -> bool:
        """No more should arrive for the moment."""
        return self._waiting >= MOST_WAITING

    @property
    def _waiting(self) -> int:
        return self._verifier.waiting + (self._timestamps.waiting if self._timestamps else 0)

    async def room(self) -> None:
        """Wait until there is room for more."""
        while self.full:
            self._room.clear()
            await self._room.wait()

    def prepare(self) -> None:
        """Files are about to be moved."""
        if self._verify_all:
            self._verifier.prepare()

    def accept(self, arrived: Settled) -> None:
        """This file has arrived whole, as far as sizes and replies can tell."""
        if not (self._verify_all or (arrived.file.checksum and arrived.file.checksum.value)):
            self._agreed(arrived)
        elif not is_large(arrived):
            self._verifier.take(arrived)
        elif arrived.file.temporary_path:
            note = self._work.spawn(self._take_renamed(arrived))
            self._notes.add(note)
            note.add_done_callback(self._notes.discard)
        else:
            self._note(arrived)
            self._verifier.take(arrived)

    def go_on(self) -> None:
        """The endpoints may be reached again."""
        self._verifier.go_on()
        if self._timestamps:
            self._timestamps.go_on()

    async def last(self) -> None:
        """Begin nothing more, and wait for what cannot be continued by another slice."""
        await self._verifier.last()

    async def leave(self) -> None:
        """End all at once: what is not settled is looked after by the next slice."""
        notes = list(self._notes)
        for note in notes:
            note.cancel()
        await asyncio.gather(*notes, return_exceptions=True)
        left = [*await self._verifier.leave(), *(await self._timestamps.leave() if self._timestamps else ())]
        for arrived in left:
            self._note(arrived)

    # ---- inside

    async def _take_renamed(self, arrived: Settled) -> None:
        """It has its real name now, and whoever continues it must look for it there."""
        file = replace(arrived.file, temporary_path=None, ranges="")
        await self._work.store.write_temporary_paths([file])
        named = replace(arrived, file=file)
        self._note(named)
        self._verifier.take(named)

    def _note(self, arrived: Settled) -> None:
        """All of it is on the destination's disk: a worker that dies now does not cost its being sent again."""
        ranges = kept(arrived)
        if ranges:
            self._ledger.progress(Progress(arrived.file, ranges, size_of(arrived)), last=True)

    def _agreed(self, certain: Settled) -> None:
        if self._timestamps:
            self._timestamps.take(certain)
        else:
            self._ledger.settle(certain)

    def _settle(self, certain: Settled) -> None:
        self._ledger.settle(certain)
        self._left()

    def _left(self) -> None:
        """A file needs nothing more."""
        self._room.set()
        if not self._waiting:
            self._ledger.hurry()
