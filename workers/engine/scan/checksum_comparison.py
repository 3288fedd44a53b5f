"""Sync by checksum: files of equal size are compared in the background, while the scan continues."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Side
from transferapi.tasks.records import FoundFile, ItemRow
from workers.engine.control_sessions import ControlSessions, UnreachableError
from workers.engine.ports import TaskStore
from workers.engine.settle.checksums import common_algorithm
from workers.engine.work import cancel_all

#: Files of one batch; octets at which a smaller batch is enough; and batches in parallel: while one ends, the other
#: keeps the servers busy.
BATCH = 100
BATCH_OCTETS = 1 << 30
BATCHES = 2
#: Files that wait; the scan pauses while there are more.
BACKLOG = 30_000
#: Tries for one file when the connection is lost.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """found: skipped when the contents agree. fault: they could not be compared."""

    item: ItemRow
    found: FoundFile
    fault: Fault | None = None


class ChecksumComparison:
    """Compares source files with files of equal size at the destination, and delivers each result.

    control_sessions: used by no other part, because a server makes one checksum after the other. backlog: number of
    files that may wait (default: BACKLOG). Files that an earlier scan has written are not compared again; otherwise a
    task that takes longer than a slice would never end.
    """

    def __init__(
        self,
        store: TaskStore,
        control_sessions: ControlSessions,
        deliver: Callable[[Sequence[Compared]], Awaitable[None]],
        backlog: int | None = None,
    ) -> None:
        self._store = store
        self._control_sessions = control_sessions
        self._deliver = deliver
        self._backlog = backlog or BACKLOG
        self._waiting: deque[Compared] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._taken = asyncio.Event()
        self._closed_to_new = False
        self._error: BaseException | None = None

    async def put(self, item: ItemRow, found: FoundFile) -> None:
        """Add a file to the queue. Raises the error that ended the comparison."""
        while len(self._waiting) >= self._backlog and not self._error:
            self._taken.clear()
            await self._taken.wait()
        self._check()
        self._waiting.append(Compared(item, found))
        if len(self._workers) < BATCHES and not self._closed_to_new:
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def finish(self) -> None:
        """Wait until all results are delivered. Raises as `put`."""
        await self._workers_done()
        self._check()
        if self._waiting:
            await asyncio.get_running_loop().create_future()  # nothing is started any more: the slice is about to end

    async def drain(self) -> None:
        """Start nothing more, and wait for comparisons that another slice would have to begin again."""
        self._closed_to_new = True
        await self._workers_done()

    async def stop(self) -> None:
        """Stop at once."""
        self._waiting.clear()
        self._error = None
        await cancel_all(self._workers)

    async def _workers_done(self) -> None:
        while self._workers:
            await asyncio.wait(self._workers)

    def _check(self) -> None:
        if self._error:
            raise self._error

    async def _work(self) -> None:
        try:
            while self._waiting and not (self._error or self._closed_to_new):
                await self._deliver(await self._compare_new(self._batch()))
        except Exception as error:
            # The next `put`, or `finish`, raises it.
            self._error = error
            self._taken.set()

    def _batch(self) -> Sequence[Compared]:
        """A few large files, or many small ones."""
        batch: list[Compared] = []
        octets = 0
        while self._waiting and len(batch) < BATCH and octets < BATCH_OCTETS:
            batch.append(self._waiting.popleft())
            octets += batch[-1].found.size
        self._taken.set()
        return batch

    async def _compare_new(self, batch: Sequence[Compared]) -> Sequence[Compared]:
        known = set(await self._store.known([one.found.destination_path or "" for one in batch]))
        fresh = [one for one in batch if one.found.destination_path not in known]
        old = [one for one in batch if one.found.destination_path in known]
        return [*old, *(await self._compare(fresh))] if fresh else old

    async def _compare(self, batch: Sequence[Compared]) -> Sequence[Compared]:
        """Compare these; files whose connection was lost are tried again."""
        for tries_left in reversed(range(TRIES)):
            try:
                algorithm = await self._algorithm()
            except UnreachableError:
                raise
            except FaultError as error:
                return [replace(one, fault=error.fault) for one in batch]
            batch = await asyncio.gather(*(self._compare_one(one, algorithm) for one in batch))
            if not tries_left or not any(one.fault for one in batch):
                break
            batch = [replace(one, fault=None) for one in batch]
        return batch

    async def _algorithm(self) -> str:
        source, destination = await asyncio.gather(
            self._control_sessions.session(Side.SOURCE), self._control_sessions.session(Side.DESTINATION)
        )
        return common_algorithm(source.algorithms, destination.algorithms)

    async def _compare_one(self, one: Compared, algorithm: str) -> Compared:
        """Compare one file. If one side cannot read it, the file is sent: its lane then reports the fault."""
        if one.found.checksummed:
            return one
        path, there = one.found.source_path, one.found.destination_path or ""
        source, destination = await asyncio.gather(
            self._control_sessions.answer(Side.SOURCE, lambda session: session.checksum(path, algorithm)),
            self._control_sessions.answer(Side.DESTINATION, lambda session: session.checksum(there, algorithm)),
        )
        for answer in (source, destination):
            if isinstance(answer, Fault) and answer.scope is not FaultScope.FILE:
                return replace(one, fault=answer)
        if isinstance(source, Fault) or isinstance(destination, Fault):
            return one
        found = one.found._replace(skipped=source == destination, checksummed=one.found.size)
        return replace(one, found=found)
