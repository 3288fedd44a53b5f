"""Verification: both sides make the checksum of an arrived file, while other files are still on their way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side
from transferapi.tasks.records import Checksum, FileRow, SettledFile
from workers.engine.control_sessions import ControlSessions, UnreachableError
from workers.engine.tuning.plan import MB, SizeClass, size_class
from workers.engine.work import Failed, SliceContext, cancel_all

from .arrival import complete_ranges, size_of
from .checksums import common_algorithm, mismatch

#: Checksums requested at once on one session. Replies come in order: many small files hide each other's round trips,
#: and for large ones it is enough that the next request waits at the server.
DEPTH = 100
DEPTH_OCTETS = 100 * MB
#: With so many more small files here than in the last queue, small files use that one while it has no large file.
IMBALANCE = 20


class NoteFault(Protocol):
    """Records the decision about a file that met a fault."""

    def __call__(
        self, file: FileRow, fault: Fault, *, ranges: str = "", new_size: int | None = None, checksummed: int = 0
    ) -> None: ...


class ChecksumQueue:
    """A session to each side that only makes checksums, and the files that wait for it."""

    def __init__(self, work: SliceContext) -> None:
        self.control_sessions = ControlSessions(work.sessions, trace=work.trace)
        self.pending: deque[SettledFile] = deque()
        self.under_way: dict[asyncio.Task[None], SettledFile] = {}
        self.octets_under_way = 0
        #: Large files in this queue.
        self.large = 0

    @property
    def waiting(self) -> int:
        """Files that are being compared here, or wait for it."""
        return len(self.pending) + len(self.under_way)

    @property
    def ready(self) -> bool:
        """Whether the next file should be requested now."""
        busy = len(self.under_way) > 1 and self.octets_under_way >= DEPTH_OCTETS
        return bool(self.pending) and len(self.under_way) < DEPTH and not busy


class Verifier:
    """agreed: called with each file that is the same on both sides. fault: called with the others. file_done: called
    after either.

    Large files have a queue of their own, if the task may have so many sessions: the checksum of 100 GB takes minutes.
    A queue gives its sessions back when it is empty.
    """

    def __init__(
        self, work: SliceContext, agreed: Callable[[SettledFile], None], fault: NoteFault, file_done: Callable[[], None]
    ) -> None:
        self._work = work
        self._agreed = agreed
        self._fault = fault
        self._file_done = file_done
        #: The last one is for large files.
        self._queues = [ChecksumQueue(work) for _ in range(max(1, work.spec.check_sessions))]
        self._prepared = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Files that are being compared, or wait for it."""
        return sum(queue.waiting for queue in self._queues)

    @property
    def moving(self) -> int:
        """Files that are being compared."""
        return sum(len(queue.under_way) for queue in self._queues)

    async def is_possible(self) -> bool:
        """Whether the endpoints have a common algorithm; else the task is ended. Nothing is written before.

        It asks the sessions that the scan needs as well. Endpoints that cannot be reached are for the scan to report.
        """
        sessions = self._work.control_sessions
        try:
            source, destination = await sessions.session(Side.SOURCE), await sessions.session(Side.DESTINATION)
            common_algorithm(source.algorithms, destination.algorithms)
        except UnreachableError:
            return True
        except FaultError as error:
            self._end(error.fault)
            return False
        return True

    def prepare(self) -> None:
        """Open the sessions: files are about to arrive."""
        if not self._prepared:
            self._prepared = True
            self._work.spawn(self._prepare())

    def take(self, arrived: SettledFile) -> None:
        """Add a file to the queue."""
        first, last = self._queues[0], self._queues[-1]
        large = is_large(arrived)
        queue = last if large or (not last.large and first.waiting > last.waiting + IMBALANCE) else first
        queue.large += large
        queue.pending.append(arrived)
        self._start(queue)
        self._work.resume_after_backoff()

    def resume(self) -> None:
        """Continue after a backoff of the endpoints."""
        for queue in self._queues:
            self._start(queue)

    async def drain(self) -> None:
        """Start no more checksums, and wait for those under way: a part of one is worth nothing."""
        self._closed = True
        under_way = [task for queue in self._queues for task in queue.under_way]
        if under_way:
            await asyncio.wait(under_way)

    async def abort(self) -> Sequence[SettledFile]:
        """Stop at once. Returns the files that are not compared."""
        self._closed = True
        left: list[SettledFile] = []
        for queue in self._queues:
            tasks = [task for task in queue.under_way if not task.done()]
            left += [*(queue.under_way[task] for task in tasks), *queue.pending]
            queue.pending.clear()
            await cancel_all(tasks)
            await queue.control_sessions.close()
        return left

    # ---- inside

    async def _prepare(self) -> None:
        """End the task before files move if the endpoints have no common algorithm."""
        queue = self._queues[0]
        try:
            await self._algorithm(queue, None)
        except FaultError as error:
            if error.fault.kind is Kind.UNSUPPORTED:
                self._end(error.fault)
        await self._put_away(queue)

    async def _put_away(self, queue: ChecksumQueue) -> None:
        """Give the sessions back: servers close unused ones, and the factory keeps them warm for a while."""
        if not queue.waiting:
            await queue.control_sessions.put_away()

    def _end(self, fault: Fault) -> None:
        self._work.end(Failed(fault.kind, fault.advice, drain=True))

    def _start(self, queue: ChecksumQueue) -> None:
        while queue.ready and not (self._closed or self._work.is_blocked()):
            arrived = queue.pending.popleft()
            queue.octets_under_way += size_of(arrived)
            task = self._work.spawn(self._verify(queue, arrived))
            queue.under_way[task] = arrived
            task.add_done_callback(lambda done: self._done(queue, done))

    def _done(self, queue: ChecksumQueue, task: asyncio.Task[None]) -> None:
        queue.octets_under_way -= size_of(queue.under_way.pop(task))
        if task.cancelled():
            return
        self._start(queue)
        self._work.resume_after_backoff()
        if not queue.waiting:
            self._work.spawn(self._put_away(queue))
        self._file_done()

    async def _verify(self, queue: ChecksumQueue, arrived: SettledFile) -> None:
        file = arrived.file
        try:
            with self._work.trace.work("verify", 1, size_of(arrived)):
                algorithm, source, destination = await self._checksums(queue, file)
        except UnreachableError as error:
            queue.pending.append(arrived)
            await self._work.unreachable(error.fault)
        except FaultError as error:
            self._checksum_failed(queue, arrived, error.fault)
        else:
            queue.large -= is_large(arrived)
            self._compared(arrived, algorithm, source.lower(), destination.lower())

    async def _checksums(self, queue: ChecksumQueue, file: FileRow) -> tuple[str, str, str]:
        """The algorithm, and the checksums at the source and at the destination. Raises FaultError."""
        algorithm = await self._algorithm(queue, file.checksum)
        source, destination = await asyncio.gather(
            queue.control_sessions.ask(Side.SOURCE, lambda session: session.checksum(file.source_path, algorithm)),
            queue.control_sessions.ask(
                Side.DESTINATION, lambda session: session.checksum(file.destination_path or "", algorithm)
            ),
        )
        return algorithm, source, destination

    async def _algorithm(self, queue: ChecksumQueue, wanted: Checksum | None) -> str:
        queue.control_sessions.open_ahead(Side.DESTINATION)
        source = await queue.control_sessions.session(Side.SOURCE)
        destination = await queue.control_sessions.session(Side.DESTINATION)
        return common_algorithm(source.algorithms, destination.algorithms, wanted and wanted.algorithm)

    def _compared(self, arrived: SettledFile, algorithm: str, source: str, destination: str) -> None:
        if self._work.endpoints.failures:
            self._work.endpoints.succeeded()
        file, size = arrived.file, size_of(arrived)
        fault = mismatch(file.checksum, algorithm, source, destination)
        if fault is None:
            self._agreed(arrived._replace(checksum=Checksum(algorithm, destination), checksummed=size))
        else:
            self._fault(file, fault, new_size=arrived.new_size, checksummed=size)

    def _checksum_failed(self, queue: ChecksumQueue, arrived: SettledFile, fault: Fault) -> None:
        """The file that was read when a connection was lost gets the fault; the others wait for a new connection."""
        if fault.scope is not FaultScope.FILE and not self._work.connection_failed():
            queue.pending.append(arrived)
            return
        queue.large -= is_large(arrived)
        gone = fault.kind is Kind.FILE_NOT_FOUND and fault.side is not Side.SOURCE
        self._fault(arrived.file, fault, ranges="" if gone else complete_ranges(arrived), new_size=arrived.new_size)
        if fault.kind is Kind.UNSUPPORTED and not fault.retryable and not arrived.file.checksum:
            self._end(fault)


def is_large(arrived: SettledFile) -> bool:
    """Whether its checksum takes so long that small files should not wait for it."""
    return size_class(size_of(arrived)) is not SizeClass.SMALL
