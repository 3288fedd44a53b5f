"""Settlement: what is certain is collected and written in batches, each in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from .ports import Batch, Clock, Faulted, FileRow, Progress, Settled, TaskStore
from .work import wait_for

#: Seconds between two writes, unless somebody waits for one or a batch is full. The first is written at once.
INTERVAL = 0.15
FULL = 500
#: Seconds between two notes of how far the large files are.
PROGRESS_INTERVAL = 1.0


class Ledger:
    """released: told the ids of files whose fate is written, when the engine no longer has them in hand."""

    def __init__(self, store: TaskStore, clock: Clock, released: Callable[[Collection[int]], None]) -> None:
        self._store = store
        self._clock = clock
        self._released = released
        self._batch = Batch()
        self._progress: dict[int, Progress] = {}
        self._progress_at = clock.now()
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._writing = asyncio.Lock()
        #: The earliest retry of a file given up for now, since somebody last asked.
        self.next_retry: datetime | None = None

    def settle(self, settled: Settled) -> None:
        """This file is certain."""
        self._batch.settled.append(settled)
        self._note(settled.file)

    def fault(self, faulted: Faulted) -> None:
        """This file met a fault."""
        self._batch.faulted.append(faulted)
        self._note(faulted.file)
        at = faulted.retry_at
        if at is not None and (self.next_retry is None or at < self.next_retry):
            self.next_retry = at

    def progress(self, progress: Progress, *, last: bool = False) -> None:
        """A large file is so far. last: no other word of it comes for long, so this one is not put off."""
        self._progress[progress.file.id] = progress
        if last or self._clock.now() - self._progress_at >= timedelta(seconds=PROGRESS_INTERVAL):
            self._wanted.set()

    def hurry(self) -> None:
        """Nothing else is under way: do not wait for more."""
        self._urgent.set()

    async def run(self) -> None:
        """Write whenever there is something, but not too often."""
        while True:
            await self._wanted.wait()
            await self.flush()
            await wait_for(self._clock, self._urgent, INTERVAL)

    async def flush(self) -> None:
        """Write what there is, now."""
        async with self._writing:
            self._wanted.clear()
            self._urgent.clear()
            batch, self._batch = self._batch, Batch()
            batch.progress = list(self._progress.values())
            self._progress = {}
            self._progress_at = self._clock.now()
            if not batch:
                return
            await self._store.write(batch)
            done = [one.file.id for one in batch.settled]
            done += [one.file.id for one in batch.faulted]
        self._released(done)

    async def forget(self, files: Sequence[FileRow]) -> None:
        """What was known to be on the disk of these is worth nothing any more; returns when that is written."""
        async with self._writing:
            for file in files:
                self._progress.pop(file.id, None)
            await self._store.write(Batch(progress=[Progress(file, "", 0) for file in files]))

    def _note(self, file: FileRow) -> None:
        # Ranges of a file that is settled or begins afresh must not be written after its fate.
        if self._progress:
            self._progress.pop(file.id, None)
        self._wanted.set()
        if len(self._batch.settled) + len(self._batch.faulted) >= FULL:
            self._urgent.set()
