"""A lane (ports.Lane) whose files wait for the rate of their slice. Large ones go in parts, one after the other.

This service does not see the octets between two servers: it asks for them later (docs/limits.md). A part is what the
rate allows for half a second, so that the mean over some seconds is the rate, and a lower rate holds half a second
later. Nothing else goes through the lane beside a part: after a refused one, the cached data connections could bring
the octets of another one to its place (endpoints/gridftp/third_party/pair.py, rule 1).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from endpoints.gridftp.faults import FaultError, Kind
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party.slots import HEAD, FileEvent, FileProgress, FileRefused, FileReturned
from transferapi.tasks.records import FileRow
from workers.engine.settle.arrival import octets, readable
from workers.engine.work import cancel_all
from workers.streaming.pacer import Pacer

from .parts import FilePart, PartedFile
from .pooled_lane import PooledLane

#: Seconds of the rate that one part has.
PART_SECONDS = 0.5
#: Octets of a part: the least at a low rate, the least and the most where nothing limits the task now, and the first.
LEAST, LEAST_FREE, MOST, FIRST = 16 * 2**10, 4 * 2**20, 2**30, 16 * 2**20
#: How the files of a slice are paced: `Pacer.how`.
IN_PARTS, WHOLE = "parts", "files"


class PacedLane:
    """lane: opened already. pacer: of the slice.

    in_parts: both servers move parts of files (ERET and ESTO). head: octets at the beginning of an interrupted file
    that are not trusted (`slots.HEAD`).
    """

    def __init__(self, lane: PooledLane, pacer: Pacer, *, in_parts: bool, head: int = HEAD) -> None:
        self.protection = lane.protection
        self.data_way = lane.data_way
        self.transport = lane.transport
        self._lane = lane
        self._pacer = pacer
        self._in_parts = in_parts
        self._head = head
        #: Files that were not fed to the lane yet, and the number of whole ones that were.
        self._queue: deque[FileRow] = deque()
        self._whole = 0
        self._parted: PartedFile | None = None
        #: Octets a second of the last part, while it was on its way.
        self._speed = FIRST / PART_SECONDS
        self._events: list[FileEvent] = []
        self._ready, self._changed = asyncio.Event(), asyncio.Event()
        self._lost = False
        self._loop = asyncio.get_running_loop()
        self._tasks = [self._loop.create_task(part) for part in (self._feed_all(), self._hear_all())]
        pacer.begin(IN_PARTS if in_parts else WHOLE)

    # ---- ports.Lane

    @property
    def alive(self) -> bool:
        """`ports.Lane.alive`."""
        return not self._lost and self._lane.alive

    @property
    def renaming(self) -> int:
        """`ports.Lane.renaming`."""
        return self._lane.renaming

    @property
    def begun(self) -> Sequence[FileRow]:
        """`ports.Lane.begun`."""
        one = self._parted
        return [*self._lane.begun, *([one.file] if one and not one.file.temporary_path else [])]

    def use_streams(self, parallelism: int) -> None:
        """`ports.Lane.use_streams`."""
        self._lane.use_streams(parallelism)

    def feed(self, file: FileRow) -> None:
        """`ports.Lane.feed`."""
        if self.alive:
            self._queue.append(readable(file))
            self._changed.set()
        else:
            self._tell(FileReturned(file, suspect=False))

    async def events(self) -> Sequence[FileEvent]:
        """`ports.Lane.events`."""
        await self._ready.wait()
        self._ready.clear()
        events, self._events = self._events, []
        return events

    async def close(self) -> None:
        """`ports.Lane.close`."""
        self._lost = True
        try:
            await cancel_all(self._tasks)
        finally:
            await self._lane.close()

    # ---- feeding

    async def _feed_all(self) -> None:
        while not self._lost:
            if not self._queue:
                await self._change()
            elif self._goes_in_parts(self._queue[0]):
                if self._whole:
                    await self._change()
                else:
                    await self._move_in_parts(self._queue.popleft())
            else:
                await self._pacer.take(_missing(self._queue[0]))
                # None is there any more when the lane was lost meanwhile.
                if self._queue:
                    self._whole += 1
                    self._lane.feed(self._queue.popleft())

    def _goes_in_parts(self, file: FileRow) -> bool:
        """Not after a part of another length: the server may not know parts."""
        return self._in_parts and file.last_fault != Kind.FILE_SIZE_CHANGED and _missing(file) > self._part_octets()

    async def _move_in_parts(self, file: FileRow) -> None:
        one = self._parted = PartedFile(file, 1)
        anew = not one.had
        while not one.done and not self._lost:
            length = one.length_of_next(self._part_octets())
            await self._pacer.take(length)
            part = one.next(length) if self._lane.alive else None
            if part is None:
                break
            begun_at = self._loop.time()
            self._lane.feed_part(part, anew=anew)
            anew = False
            while one.under_way:
                await self._change()
            self._speed = length / max(self._loop.time() - begun_at, 0.001)
        if not one.done:
            one.give_up()
        await self._end(one)

    async def _end(self, one: PartedFile) -> None:
        """Give the file its name where it is complete, and report its end."""
        event = one.outcome()
        if one.arrived and self.alive:
            try:
                await self._lane.complete(one.file, None if self._head else one.file.size)
            except FaultError as error:
                event = FileRefused(one.file, error.fault, one.on_disk, unnamed=one.file.temporary_path is not None)
        elif one.arrived:
            # Without its name, or without the certainty of it.
            one.give_up()
            event = one.outcome()
        if isinstance(event, FileRefused | FileReturned) and one.file.temporary_path:
            event = event._replace(begun=False)
        if isinstance(event, FileRefused):
            if event.fault.kind is Kind.FILE_SIZE_CHANGED:
                self._in_parts = False
                self._pacer.how = WHOLE
            event = event._replace(trusted=self._trusted(event.trusted) or None)
        self._parted = None
        self._tell(event)

    def _part_octets(self) -> int:
        rate, free = self._pacer.rate, min(max(int(self._speed * PART_SECONDS), LEAST_FREE), MOST)
        return free if rate is None else max(LEAST, min(free, int(rate * PART_SECONDS)))

    async def _change(self) -> None:
        await self._changed.wait()
        self._changed.clear()

    # ---- events

    async def _hear_all(self) -> None:
        while True:
            for event in await self._lane.events():
                self._hear(event)
            if not self._lane.alive and not self._lost:
                self._lost = True
                waiting, self._queue = list(self._queue), deque()
                self._tell(*(FileReturned(file, suspect=False) for file in waiting))
            self._changed.set()

    def _hear(self, event: FileEvent) -> None:
        if not isinstance(event.tag, FilePart):
            self._whole -= not isinstance(event, FileProgress)
            self._tell(event)
            return
        one = self._parted
        assert one is not None
        if one.take(event.tag, event) and (on_disk := self._trusted(one.on_disk)):
            self._tell(FileProgress(one.file, on_disk))

    def _trusted(self, ranges: RangeSet | None) -> RangeSet:
        """The ranges that are continued after an interruption: a lost server process may spoil the head of the file."""
        return ranges.beyond(self._head) if ranges else RangeSet()

    def _tell(self, *events: FileEvent) -> None:
        self._events += events
        self._ready.set()


def _missing(file: FileRow) -> int:
    return max(0, file.size - octets(file.ranges))
