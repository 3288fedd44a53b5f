"""preserve_timestamp: settled files get the modification times of their sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import SettledFile
from workers.engine.control_sessions import UnreachableError
from workers.engine.work import SliceContext, cancel_all

#: Files whose times are set in one batch.
BATCH = 300
#: Lost connections after which a batch is settled without its times.
TRIES = 3
#: The warning is given once a task: a missing modification time does not fail a file.
WARNING = "PRESERVE_TIMESTAMP_SKIPPED"


class Timestamps:
    """Sets times for one batch at a time, on the control sessions; files that arrive meanwhile are the next batch.

    settle: called with each file when its time is set, or cannot be set.
    """

    def __init__(self, work: SliceContext, settle: Callable[[SettledFile], None]) -> None:
        self._work = work
        self._settle = settle
        self._waiting: list[SettledFile] = []
        self._task: asyncio.Task[None] | None = None
        self._lost = 0
        self._warned = WARNING in work.spec.warned

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def moving(self) -> bool:
        return self._task is not None

    def take(self, settled: SettledFile) -> None:
        """Take a file whose content is certain."""
        self._waiting.append(settled)
        self.resume()
        self._work.resume_after_backoff()

    def resume(self) -> None:
        """Start, unless it has started or the endpoints are in a backoff."""
        if self._waiting and self._task is None and not self._work.is_blocked():
            self._task = self._work.spawn(self._run())
            self._task.add_done_callback(self._done)

    async def abort(self) -> Sequence[SettledFile]:
        """Stop at once. Returns the files whose times are not set."""
        if self._task is not None:
            await cancel_all([self._task])
        left, self._waiting = self._waiting, []
        return left

    # ---- inside

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            self.resume()
            self._work.resume_after_backoff()

    async def _run(self) -> None:
        """Set the times of all waiting files. A batch stays in the list until it is done, for `abort` to return it."""
        while self._waiting and not self._work.is_blocked():
            batch = self._waiting[:BATCH]
            try:
                faults = await self._set(batch)
            except FaultError as error:
                if not await self._give_up(error):
                    return
                faults = [error.fault] * len(batch)
            else:
                self._lost = 0
            await self._warn(batch, faults)
            del self._waiting[: len(batch)]
            for settled in batch:
                self._settle(settled)

    async def _set(self, batch: Sequence[SettledFile]) -> Sequence[Fault | None]:
        """Returns a fault, or None, for each file. Raises FaultError when the connection fails."""
        found = await asyncio.gather(*(self._modified(settled) for settled in batch))
        known = [
            (settled.file.destination_path or "", modified)
            for settled, modified in zip(batch, found, strict=True)
            if isinstance(modified, datetime)
        ]
        faults = iter(
            await self._work.control_sessions.ask(Side.DESTINATION, lambda session: session.set_modified(known))
        )
        return [modified if isinstance(modified, Fault) else next(faults) for modified in found]

    async def _modified(self, settled: SettledFile) -> datetime | Fault:
        """The time that the scan saw, unless the file has changed since then."""
        file = settled.file
        if file.modified is not None and settled.new_size is None:
            return file.modified
        try:
            entry = await self._work.control_sessions.stat(Side.SOURCE, file.source_path)
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            return error.fault
        unknown = make_fault(Kind.UNSUPPORTED, "The server reports no modification time.", side=Side.SOURCE)
        return entry.modified or unknown

    async def _give_up(self, error: FaultError) -> bool:
        """Whether the connection was lost so often with this batch that it is settled without times."""
        if isinstance(error, UnreachableError):
            await self._work.unreachable(error.fault)
            return False
        if error.fault.scope is not FaultScope.FILE:
            self._work.connection_failed()
            self._lost += 1
            if self._lost < TRIES:
                return False
        self._lost = 0
        return True

    async def _warn(self, batch: Sequence[SettledFile], faults: Sequence[Fault | None]) -> None:
        refused = [(settled.file, fault) for settled, fault in zip(batch, faults, strict=True) if fault]
        if not refused or self._warned:
            return
        self._warned = True
        file, fault = refused[0]
        text = f"{fault.kind} at the {fault.side}: {fault.raw or fault.advice}\nFile: {file.destination_path}"
        await self._work.store.event(
            WARNING, Sentence("Some modification times could not be set; the files were transferred."), text
        )
