"""A lane (ports.Lane) of several pairs of sessions in MODE S: small files go side by side, large ones in parts.

With one pair, small files wait behind each other at the source (`third_party.listening_source`). With several a large
file has all of them, and no other file goes behind a part: it would wait as long as the part takes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from endpoints.gridftp.faults import Fault, FaultError, Kind, make_fault
from endpoints.gridftp.third_party.slots import FileEvent, FileProgress, FileRefused, FileReturned
from transferapi.tasks.records import DataProtection, DataWay, FileRow
from workers.engine.settle.arrival import readable
from workers.engine.work import cancel_all

from .parts import FilePart, PartedFile, in_parts

#: Files that one stream may have at once: more than any plan has for it.
MOST_FILES = 16


class Stream(Protocol):
    """One pair of sessions, which moves one part at a time, or some files (`workers.pooled_lane.PooledLane`)."""

    protection: DataProtection
    data_way: DataWay | None

    @property
    def alive(self) -> bool: ...
    @property
    def begun(self) -> Sequence[FileRow]: ...
    def feed(self, file: FileRow) -> None: ...
    def feed_part(self, part: FilePart) -> None: ...
    async def events(self) -> Sequence[FileEvent]: ...
    async def complete(self, file: FileRow, size: int) -> None:
        """Cut the file to this size, and give it its final name. Raises FaultError."""

    def lose(self, fault: Fault) -> None:
        """Close the connections; what is under way comes back with this fault."""

    async def close(self) -> None: ...


class PartedLane:
    """first: opened already. open_more: opens another; when it fails, those that are open go on."""

    def __init__(self, first: Stream, open_more: Callable[[], Awaitable[Stream]]) -> None:
        self.protection = first.protection
        self.data_way = first.data_way
        self._open_more = open_more
        self._streams: list[Stream] = [first]
        self._wanted = 1
        #: Whole files that wait for a stream, and large ones by their ids.
        self._whole: deque[FileRow] = deque()
        self._parted: dict[int, PartedFile] = {}
        #: Numbers of files and parts that each stream has; none for those that have nothing.
        self._busy: Counter[Stream] = Counter()
        self._events: list[FileEvent] = []
        self._ready = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening = 0
        self._lost = False
        #: With what the other streams end when one is lost.
        self._loss = make_fault(Kind.CONNECTION_BROKEN, "another stream of the lane was lost")
        self._spawn(self._listen(first))

    # ---- ports.Lane

    @property
    def alive(self) -> bool:
        """`ports.Lane.alive`: one lost stream ends the lane, and its files come back."""
        return not self._lost and all(stream.alive for stream in self._streams)

    @property
    def renaming(self) -> int:
        """`ports.Lane.renaming`: nothing waits behind a name here."""
        return 0

    @property
    def begun(self) -> Sequence[FileRow]:
        """`ports.Lane.begun`."""
        whole = [file for stream in self._streams for file in stream.begun]
        return [*whole, *(one.file for one in self._parted.values() if not one.file.temporary_path)]

    def use_streams(self, parallelism: int) -> None:
        """`ports.Lane.use_streams`: so many pairs of sessions, opened when there is something for them to do."""
        self._wanted = max(1, parallelism)

    def feed(self, file: FileRow) -> None:
        """`ports.Lane.feed`."""
        file = readable(file)
        if not self.alive:
            self._tell(FileReturned(file, suspect=False))
            return
        if not in_parts(file):
            self._whole.append(file)
        else:
            one = self._parted[file.id] = PartedFile(file, self._wanted)
            if one.done:
                self._spawn(self._complete(self._streams[0], one))
        self._advance()

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
            await asyncio.gather(*(stream.close() for stream in self._streams), return_exceptions=True)

    # ---- inside

    @property
    def _most(self) -> int:
        """The most files that one stream may have."""
        return MOST_FILES if self._wanted == 1 and not self._parted else 1

    def _advance(self) -> None:
        """Give the streams something to do, and open another one where something waits."""
        for stream in self._streams:
            while self._busy[stream] < self._most and self._give(stream):
                pass
        waits = self._whole or any(one.waiting for one in self._parted.values())
        if waits and len(self._streams) + self._opening < self._wanted:
            self._opening += 1
            self._spawn(self._open())

    def _give(self, stream: Stream) -> bool:
        """Whether there was something for it. Parts go first: they are of files that came earlier."""
        for one in self._parted.values():
            if part := one.next():
                self._busy[stream] += 1
                stream.feed_part(part)
                return True
        if not self._whole:
            return False
        self._busy[stream] += 1
        stream.feed(self._whole.popleft())
        return True

    async def _open(self) -> None:
        try:
            stream = await self._open_more()
        except FaultError:
            self._wanted = len(self._streams)  # the server allows no more, or is about to be lost
            return
        finally:
            self._opening -= 1
        if self._lost:
            await stream.close()
            return
        self._streams.append(stream)
        self._spawn(self._listen(stream))
        self._advance()

    async def _listen(self, stream: Stream) -> None:
        while stream.alive or self._busy[stream]:
            for event in await stream.events():
                self._hear(stream, event)
            if self.alive:
                self._advance()
            elif not self._lost:
                self._lose()

    def _hear(self, stream: Stream, event: FileEvent) -> None:
        if not isinstance(event, FileProgress):
            self._busy[stream] -= 1
        if isinstance(event, FileRefused) and not stream.alive:
            self._loss = event.fault
        if isinstance(event.tag, FilePart):
            self._hear_of_part(stream, event.tag, event)
        else:
            self._tell(event)

    def _hear_of_part(self, stream: Stream, part: FilePart, event: FileEvent) -> None:
        one = self._parted[part.file.id]
        if one.take(part, event):
            self._tell(FileProgress(one.file, one.on_disk))
        if not one.done:
            return
        if one.arrived and stream.alive:
            self._spawn(self._complete(stream, one))
        else:
            self._end(one, one.outcome())

    async def _complete(self, stream: Stream, one: PartedFile) -> None:
        """All parts are there: what an older file had behind them is cut off."""
        try:
            await stream.complete(one.file, one.file.size)
        except FaultError as error:
            unnamed = one.file.temporary_path is not None
            self._end(one, FileRefused(one.file, error.fault, one.on_disk or None, unnamed=unnamed))
        else:
            self._end(one, one.outcome())

    def _end(self, one: PartedFile, event: FileEvent) -> None:
        self._parted.pop(one.file.id, None)
        self._tell(event)

    def _lose(self) -> None:
        """A stream is lost: nothing more begins. The others are ended, and give back the files that they have."""
        self._lost = True
        waiting, self._whole = list(self._whole), deque()
        self._tell(*(FileReturned(file, suspect=False) for file in waiting))
        for one in list(self._parted.values()):
            one.give_up()
            if one.done:
                self._end(one, one.outcome())
        for stream in self._streams:
            stream.lose(self._loss)

    def _tell(self, *events: FileEvent) -> None:
        self._events += events
        if events:
            self._ready.set()

    def _spawn(self, part: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(part)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
