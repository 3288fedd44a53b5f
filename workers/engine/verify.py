"""Verification: both sides make the checksum of what has arrived, while other files are still on their way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side

from .arrival import kept, size_of
from .checksums import common_algorithm, mismatch
from .desk import Desk, UnreachableError
from .plan import MB, SizeClass, size_class
from .ports import Checksum, FileRow, Session, SessionFactory, Settled
from .work import Failed, Work

#: Checksums that one session is asked for at once: the answers come in order, so small files hide each other's round
#: trips; of many octets it is enough that the next one is there when the server has time.
DEPTH = 100
DEPTH_OCTETS = 100 * MB
#: With so many more small files waiting here than there, they go there, if no large one is there.
UNEVEN = 20


class NoteFault(Protocol):
    """What becomes of a file that met a fault is decided and written down."""

    def __call__(
        self, file: FileRow, fault: Fault, *, ranges: str = "", new_size: int | None = None, checksummed: int = 0
    ) -> None: ...


class Bench:
    """A session to each side that only makes checksums, and the files that wait for them."""

    def __init__(self, sessions: SessionFactory) -> None:
        self.desk = Desk(sessions)
        self.queue: deque[Settled] = deque()
        self.under_way: dict[asyncio.Task[None], Settled] = {}
        self.octets_under_way = 0
        #: Large files that are here.
        self.large = 0

    @property
    def waiting(self) -> int:
        """Files that are being compared here, or wait for it."""
        return len(self.queue) + len(self.under_way)

    @property
    def ready(self) -> bool:
        """There is another file, and it should be asked for now."""
        busy = len(self.under_way) > 1 and self.octets_under_way >= DEPTH_OCTETS
        return bool(self.queue) and len(self.under_way) < DEPTH and not busy


class Verifier:
    """agreed: told of each file that is the same on both sides. fault: told of all others. left: when one is through.

    Large files have a bench of their own, if the task may have so many sessions: the checksum of 100 GB takes minutes.
    A bench gives its sessions back when it has nothing to do.
    """

    def __init__(
        self, work: Work, agreed: Callable[[Settled], None], fault: NoteFault, left: Callable[[], None]
    ) -> None:
        self._work = work
        self._agreed = agreed
        self._fault = fault
        self._left = left
        #: The last one is for large files.
        self._benches = [Bench(work.sessions) for _ in range(max(1, work.spec.check_sessions))]
        self._prepared = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Files that are being compared, or wait for it."""
        return sum(bench.waiting for bench in self._benches)

    @property
    def moving(self) -> int:
        """Files that are being compared."""
        return sum(len(bench.under_way) for bench in self._benches)

    def prepare(self) -> None:
        """Files are about to arrive: open the sessions meanwhile."""
        if not self._prepared:
            self._prepared = True
            self._work.spawn(self._prepare())

    def take(self, arrived: Settled) -> None:
        """Compare this file when its turn comes."""
        first, last = self._benches[0], self._benches[-1]
        large = is_large(arrived)
        bench = last if large or (not last.large and first.waiting > last.waiting + UNEVEN) else first
        bench.large += large
        bench.queue.append(arrived)
        self._start(bench)
        self._wake_if_blocked()

    def go_on(self) -> None:
        """The endpoints may be reached again."""
        for bench in self._benches:
            self._start(bench)

    async def last(self) -> None:
        """Begin no more checksums, and wait for those that are being made: half a one is worth nothing."""
        self._closed = True
        under_way = [task for bench in self._benches for task in bench.under_way]
        if under_way:
            await asyncio.wait(under_way)

    async def leave(self) -> Sequence[Settled]:
        """End all at once; the files that are not compared."""
        self._closed = True
        left: list[Settled] = []
        for bench in self._benches:
            tasks = [task for task in bench.under_way if not task.done()]
            left += [*(bench.under_way[task] for task in tasks), *bench.queue]
            bench.queue.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await bench.desk.close()
        return left

    # ---- inside

    async def _prepare(self) -> None:
        """Where nothing can be compared, nothing need be moved."""
        bench = self._benches[0]
        try:
            await self._algorithm(bench, None)
        except FaultError as error:
            if error.fault.kind is Kind.UNSUPPORTED:
                self._end(error.fault)
        await self._put_away(bench)

    async def _put_away(self, bench: Bench) -> None:
        """Servers hang up on sessions that nobody uses; the factory keeps them warm for a while."""
        if not bench.waiting:
            await bench.desk.close()

    def _end(self, fault: Fault) -> None:
        self._work.end(Failed(fault.kind, fault.advice, drain=True))

    def _start(self, bench: Bench) -> None:
        while bench.ready and not (self._closed or self._work.is_blocked()):
            arrived = bench.queue.popleft()
            bench.octets_under_way += size_of(arrived)
            task = self._work.spawn(self._verify(bench, arrived))
            bench.under_way[task] = arrived
            task.add_done_callback(lambda done: self._done(bench, done))

    def _done(self, bench: Bench, task: asyncio.Task[None]) -> None:
        bench.octets_under_way -= size_of(bench.under_way.pop(task))
        if task.cancelled():
            return
        self._start(bench)
        self._wake_if_blocked()
        if not bench.waiting:
            self._work.spawn(self._put_away(bench))
        self._left()

    def _wake_if_blocked(self) -> None:
        """Somebody has to come back when the endpoints may be reached again."""
        if self._work.is_blocked():
            self._work.wake.set()

    async def _verify(self, bench: Bench, arrived: Settled) -> None:
        file = arrived.file
        try:
            algorithm = await self._algorithm(bench, file.checksum)
            source, destination = await asyncio.gather(
                bench.desk.ask(Side.SOURCE, lambda session: session.checksum(file.source_path, algorithm)),
                bench.desk.ask(
                    Side.DESTINATION, lambda session: session.checksum(file.destination_path or "", algorithm)
                ),
            )
        except UnreachableError as error:
            bench.queue.append(arrived)
            await self._work.unreachable(error.fault)
        except FaultError as error:
            self._not_made(bench, arrived, error.fault)
        else:
            bench.large -= is_large(arrived)
            self._compared(arrived, algorithm, source.lower(), destination.lower())

    async def _algorithm(self, bench: Bench, wanted: Checksum | None) -> str:
        bench.desk.open_ahead(Side.DESTINATION)
        source = await bench.desk.ask(Side.SOURCE, _algorithms)
        destination = await bench.desk.ask(Side.DESTINATION, _algorithms)
        return common_algorithm(source, destination, wanted and wanted.algorithm)

    def _compared(self, arrived: Settled, algorithm: str, source: str, destination: str) -> None:
        if self._work.endpoints.failures:
            self._work.endpoints.succeeded()
        file, size = arrived.file, size_of(arrived)
        fault = mismatch(file.checksum, algorithm, source, destination)
        if fault is None:
            self._agreed(replace(arrived, checksum=Checksum(algorithm, destination), checksummed=size))
        else:
            self._fault(file, fault, new_size=arrived.new_size, checksummed=size)

    def _not_made(self, bench: Bench, arrived: Settled, fault: Fault) -> None:
        """A connection that is lost is the fault of the file that was being read; the others wait for another one."""
        if fault.scope is not Scope.FILE and not self._work.connection_failed():
            bench.queue.append(arrived)
            return
        bench.large -= is_large(arrived)
        gone = fault.kind is Kind.FILE_NOT_FOUND and fault.side is not Side.SOURCE
        self._fault(arrived.file, fault, ranges="" if gone else kept(arrived), new_size=arrived.new_size)
        if fault.kind is Kind.UNSUPPORTED and not fault.retryable and not arrived.file.checksum:
            self._end(fault)


def is_large(arrived: Settled) -> bool:
    """Whether its checksum takes so long that small files should not wait for it."""
    return size_class(size_of(arrived)) is not SizeClass.SMALL


async def _algorithms(session: Session) -> Sequence[str]:
    return session.algorithms
