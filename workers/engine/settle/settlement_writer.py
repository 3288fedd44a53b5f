"""Collects settlements and faults, and writes them in batches, each in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta

from transferapi.tasks.records import FaultedFile, FileRow, PartialFile, SettledFile, Settlement
from workers.engine.ports import Clock, TaskStore
from workers.engine.work import wait_for

#: Seconds between two writes, unless a write is urgent or the batch is full. The first is written at once.
INTERVAL = 0.15
FULL = 500
#: Seconds between two writes of the progress of large files.
PROGRESS_INTERVAL = 1.0


class SettlementWriter:
    """released: called with the ids of files whose result is written, when the engine has forgotten them."""

    def __init__(self, store: TaskStore, clock: Clock, released: Callable[[Collection[int]], None]) -> None:
        self._store = store
        self._clock = clock
        self._released = released
        self._batch = Settlement()
        self._progress: dict[int, PartialFile] = {}
        self._progress_at = clock.now()
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self._writing = asyncio.Lock()
        #: The earliest retry of a file since the slice last read this.
        self.next_retry: datetime | None = None

    def settle(self, settled: SettledFile) -> None:
        """Settle this file."""
        self._batch.settled.append(settled)
        self._note(settled.file)

    def fault(self, faulted: FaultedFile) -> None:
        """Record the fault of this file."""
        self._batch.faulted.append(faulted)
        self._note(faulted.file)
        at = faulted.retry_at
        if at is not None and (self.next_retry is None or at < self.next_retry):
            self.next_retry = at

    def progress(self, progress: PartialFile, *, last: bool = False) -> None:
        """Record progress of a large file. last: no other record follows for long, so this one is not delayed."""
        self._progress[progress.file.id] = progress
        if last or self._clock.now() - self._progress_at >= timedelta(seconds=PROGRESS_INTERVAL):
            self._wanted.set()

    def flush_soon(self) -> None:
        """Write soon: nothing else is under way to wait for."""
        self._urgent.set()

    async def run(self) -> None:
        """Write whenever there is something, with a pause between two writes."""
        while True:
            await self._wanted.wait()
            await self.flush()
            await wait_for(self._clock, self._urgent, INTERVAL)

    async def flush(self) -> None:
        """Write the current batch now."""
        async with self._writing:
            self._wanted.clear()
            self._urgent.clear()
            batch, self._batch = self._batch, Settlement()
            batch.progress = list(self._progress.values())
            self._progress = {}
            self._progress_at = self._clock.now()
            if not batch:
                return
            await self._store.write(batch)
            done = [one.file.id for one in batch.settled]
            done += [one.file.id for one in batch.faulted]
        self._released(done)

    async def delete_progress(self, files: Sequence[FileRow]) -> None:
        """Delete the recorded progress of these files; returns after that is written."""
        async with self._writing:
            for file in files:
                self._progress.pop(file.id, None)
            await self._store.write(Settlement(progress=[PartialFile(file, "", 0) for file in files]))

    def _note(self, file: FileRow) -> None:
        # Progress of a file that is settled, or sent from the start, must not be written after its result.
        if self._progress:
            self._progress.pop(file.id, None)
        self._wanted.set()
        if len(self._batch.settled) + len(self._batch.faulted) >= FULL:
            self._urgent.set()
