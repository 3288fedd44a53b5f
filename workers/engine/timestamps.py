"""preserve_timestamp: files that are certain get the modification times of their sources, before they are settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side, make_fault

from .desk import UnreachableError
from .ports import Settled
from .work import Work

#: Files whose times are set at once.
BATCH = 300
#: Connections that may be lost over one batch before its files are settled without.
TRIES = 3
#: The warning that a task gives once: no time is worth a file.
WARNING = "PRESERVE_TIMESTAMP_SKIPPED"


class Timestamps:
    """One batch at a time, on the sessions of the desk: what arrives meanwhile is the next one.

    settle: told of each file when there is no more to be done for it, whether its time could be set or not.
    """

    def __init__(self, work: Work, settle: Callable[[Settled], None]) -> None:
        self._work = work
        self._settle = settle
        self._waiting: list[Settled] = []
        self._task: asyncio.Task[None] | None = None
        self._lost = 0
        self._warned = WARNING in work.spec.warned

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def moving(self) -> bool:
        return self._task is not None

    def take(self, settled: Settled) -> None:
        """This file is certain."""
        self._waiting.append(settled)
        self.go_on()
        self._wake_if_blocked()

    def go_on(self) -> None:
        """Begin, unless it has begun or the endpoints are to be left alone."""
        if self._waiting and self._task is None and not self._work.is_blocked():
            self._task = self._work.spawn(self._run())
            self._task.add_done_callback(self._done)

    async def leave(self) -> Sequence[Settled]:
        """End at once; the files whose times are not set."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        left, self._waiting = self._waiting, []
        return left

    # ---- inside

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            self.go_on()
            self._wake_if_blocked()

    def _wake_if_blocked(self) -> None:
        """Somebody has to come back when the endpoints may be reached again."""
        if self._work.is_blocked():
            self._work.wake.set()

    async def _run(self) -> None:
        """What is under way stays in the list until it is through: so nothing is forgotten, whenever this ends."""
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

    async def _set(self, batch: Sequence[Settled]) -> Sequence[Fault | None]:
        """None where it went well. Raises FaultError when a connection is lost or none can be had."""
        found = await asyncio.gather(*(self._modified(settled) for settled in batch))
        known = [
            (settled.file.destination_path or "", modified)
            for settled, modified in zip(batch, found, strict=True)
            if isinstance(modified, datetime)
        ]
        faults = iter(await self._work.desk.ask(Side.DESTINATION, lambda session: session.set_modified(known)))
        return [modified if isinstance(modified, Fault) else next(faults) for modified in found]

    async def _modified(self, settled: Settled) -> datetime | Fault:
        """As the scan saw it, unless the file was changed since then."""
        file = settled.file
        if file.modified is not None and settled.new_size is None:
            return file.modified
        try:
            entry = await self._work.desk.ask(Side.SOURCE, lambda session: session.stat(file.source_path))
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            return error.fault
        unknown = make_fault(Kind.UNSUPPORTED, "The server tells no modification time.", side=Side.SOURCE)
        return entry.modified or unknown

    async def _give_up(self, error: FaultError) -> bool:
        """Whether the connection was lost over this batch so often that it has to do without."""
        if isinstance(error, UnreachableError):
            await self._work.unreachable(error.fault)
            return False
        if error.fault.scope is not Scope.FILE:
            self._work.connection_failed()
            self._lost += 1
            if self._lost < TRIES:
                return False
        self._lost = 0
        return True

    async def _warn(self, batch: Sequence[Settled], faults: Sequence[Fault | None]) -> None:
        refused = [(settled.file, fault) for settled, fault in zip(batch, faults, strict=True) if fault]
        if not refused or self._warned:
            return
        self._warned = True
        file, fault = refused[0]
        text = f"{fault.kind} at the {fault.side}: {fault.raw or fault.advice}\nFile: {file.destination_path}"
        await self._work.store.event(WARNING, "Some modification times could not be kept; the files are there.", text)
