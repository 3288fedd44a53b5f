"""Sync by checksum: files of equal size are compared beside the scan, which goes on finding new ones meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from endpoints.gridftp.faults import Fault, FaultError, Scope, Side

from .checksums import common_algorithm
from .desk import Desk, UnreachableError
from .ports import Found, ItemRow, Session, TaskStore

#: Files that are asked about at once, and octets at which fewer will do; and how many such batches: while one comes to
#: its end the other is under way.
BATCH = 100
BATCH_OCTETS = 1 << 30
BATCHES = 2
#: Files that wait; the scan pauses while there are more.
BACKLOG = 30_000
#: Times that a file is asked about when the connection is lost meanwhile.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """found: skipped when the contents agree. fault: they could not be compared."""

    item: ItemRow
    found: Found
    fault: Fault | None = None


class Contents:
    """Takes files of which something of equal size is at the destination, and delivers what became of each.

    desk: sessions that nobody else uses, since a server makes one checksum after the other. backlog: files that may
    wait (BACKLOG if nobody says). What an earlier scan has found is not compared again, or a task that takes longer
    than a slice would never end.
    """

    def __init__(
        self,
        store: TaskStore,
        desk: Desk,
        deliver: Callable[[Sequence[Compared]], Awaitable[None]],
        backlog: int | None = None,
    ) -> None:
        self._store = store
        self._desk = desk
        self._deliver = deliver
        self._backlog = backlog or BACKLOG
        self._waiting: deque[Compared] = deque()
        self._hands: set[asyncio.Task[None]] = set()
        self._taken = asyncio.Event()
        self._closed_to_new = False
        self._error: BaseException | None = None

    async def put(self, item: ItemRow, found: Found) -> None:
        """Compare this one when its turn comes. Raises what made an earlier one impossible for all."""
        while len(self._waiting) >= self._backlog and not self._error:
            self._taken.clear()
            await self._taken.wait()
        self._check()
        self._waiting.append(Compared(item, found))
        if len(self._hands) < BATCHES and not self._closed_to_new:
            hand = asyncio.create_task(self._work())
            self._hands.add(hand)
            hand.add_done_callback(self._hands.discard)

    async def finish(self) -> None:
        """Wait until all are delivered. Raises as `put`."""
        await self._hands_done()
        self._check()
        if self._waiting:
            await asyncio.get_running_loop().create_future()  # closed to new ones: the slice is about to end

    async def last(self) -> None:
        """Begin nothing more, and wait for what is under way, which another slice would have to begin anew."""
        self._closed_to_new = True
        await self._hands_done()

    async def stop(self) -> None:
        """End at once, whatever is under way."""
        self._waiting.clear()
        self._error = None
        hands = list(self._hands)
        for hand in hands:
            hand.cancel()
        await asyncio.gather(*hands, return_exceptions=True)

    async def _hands_done(self) -> None:
        while self._hands:
            await asyncio.wait(self._hands)

    def _check(self) -> None:
        if self._error:
            raise self._error

    async def _work(self) -> None:
        try:
            while self._waiting and not (self._error or self._closed_to_new):
                await self._deliver(await self._compare_new(self._batch()))
        except Exception as error:
            # Whoever puts the next one, or waits for the end, is told.
            self._error = error
            self._taken.set()

    def _batch(self) -> Sequence[Compared]:
        """Few large files, or many small ones."""
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
        """Those that were under way when a connection was lost are asked about again, and only those."""
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
            self._desk.ask(Side.SOURCE, _algorithms), self._desk.ask(Side.DESTINATION, _algorithms)
        )
        return common_algorithm(source, destination)

    async def _compare_one(self, one: Compared, algorithm: str) -> Compared:
        """A file that one side cannot read is sent: its lane will say what is wrong, and what then becomes of it."""
        if one.found.checksummed:
            return one
        source, destination = await asyncio.gather(
            self._checksum(Side.SOURCE, one.found.source_path, algorithm),
            self._checksum(Side.DESTINATION, one.found.destination_path or "", algorithm),
        )
        for answer in (source, destination):
            if isinstance(answer, Fault) and answer.scope is not Scope.FILE:
                return replace(one, fault=answer)
        if isinstance(source, Fault) or isinstance(destination, Fault):
            return one
        return replace(one, found=replace(one.found, skipped=source == destination, checksummed=one.found.size))

    async def _checksum(self, side: Side, path: str, algorithm: str) -> str | Fault:
        try:
            return await self._desk.ask(side, lambda session: session.checksum(path, algorithm))
        except UnreachableError:
            raise
        except FaultError as error:
            return error.fault


async def _algorithms(session: Session) -> Sequence[str]:
    return session.algorithms
