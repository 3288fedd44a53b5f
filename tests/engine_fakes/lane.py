"""A lane between two trees."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party.slots import FileEvent, FileProgress, FileRefused, FileReturned, FileSettled
from identity.gsi.printable import quoted
from transferapi.tasks.records import DataProtection, DataWay, FileRow
from workers.engine.tuning.plan import MAX_PIPELINING

from .fuse import Fuse
from .tree import MemoryTree, Node, not_found

#: Seconds after a lost connection at which its stale writers damage their files.
STALE_WRITE_AFTER = 3.0
GARBAGE = b"written by a stale writer"


class LaneServers(Protocol):
    """The servers of both sides, as a lane uses them (`MemorySessions`)."""

    trees: dict[Side, MemoryTree]
    fuse: Fuse | None
    latency: float
    chunk: int | None
    burst: int
    trusted: bool
    protection: DataProtection
    streams: list[int]
    moved: list[str]

    def check(self, step: str, side: Side, path: str) -> None:
        """Raise the fault that a test set for this step."""

    def closed(self, lane: MemoryLane) -> None:
        """The lane gave its two sessions back."""


class MemoryLane:
    """A Lane with cached data channels: files pass in order, and all later ones are returned when one is refused."""

    def __init__(self, sessions: LaneServers) -> None:
        self._sessions = sessions
        self.protection = sessions.protection
        self.data_way: DataWay | None = None
        self._streams: int | None = None
        self._queue: deque[FileRow] = deque()
        self._events: list[FileEvent] = []
        self._alive = True
        self._closed = False
        #: Octets of the first file that were moved so far, and files whose ranges were reported.
        self._moved = 0
        self._reported: set[int] = set()

    @property
    def alive(self) -> bool:
        return self._alive

    def use_streams(self, parallelism: int) -> None:
        assert not self._queue, "files are under way"
        if parallelism != self._streams:
            self._streams = parallelism
            self._sessions.streams.append(parallelism)

    @property
    def renaming(self) -> int:
        return 0

    @property
    def begun(self) -> Sequence[FileRow]:
        return [file for file in self._queue if not file.temporary_path]

    def feed(self, file: FileRow) -> None:
        assert self._streams, "use_streams was not called"
        assert len(self._queue) < MAX_PIPELINING, "more files under way than any plan allows"
        if self._alive:
            self._queue.append(file)
        else:
            self._events.append(FileReturned(file, suspect=False))

    async def events(self) -> Sequence[FileEvent]:
        while not self._events:
            if not self._queue:
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(self._sessions.latency)
            if self._sessions.fuse:
                await self._sessions.fuse.burn()
            for _ in range(self._sessions.burst):
                if not (self._queue and self._alive and self._advance()):
                    break
        events, self._events = self._events, []
        return events

    async def close(self) -> None:
        assert not self._closed, "closed twice"
        self._closed = True
        self.lose_connection()
        self._sessions.closed(self)

    def lose_connection(self) -> None:
        """Lose the connection; servers continue to write their open files for a while."""
        self._alive = False
        for file in self._queue:
            if file.id not in self._reported and not file.ranges:
                self._start_stale_writer(file)

    # ---- inside

    def _advance(self) -> bool:
        """One round for the first file. Returns False when the lane has to stop for a moment."""
        file = self._queue[0]
        try:
            node = self._source(file)
            whole = self._move(file, node)
        except FaultError as error:
            self._refuse(error.fault)
            return False
        if whole:
            self._queue.popleft()
            self._moved = 0
            self._sessions.moved.append(file.source_path)
        return whole

    def _source(self, file: FileRow) -> Node:
        check_name(file.source_path, Side.SOURCE)
        check_name(file.destination_path or "", Side.DESTINATION)
        if not self._moved:
            self._sessions.check("retr", Side.SOURCE, file.source_path)
        node = self._sessions.trees[Side.SOURCE].find(file.source_path)
        if node is None:
            raise FaultError(not_found(file.source_path).fault.at(Side.SOURCE))
        if node.is_directory:
            raise FaultError(make_fault(Kind.IS_A_DIRECTORY, file.source_path, side=Side.SOURCE))
        return node

    def _move(self, file: FileRow, node: Node) -> bool:
        """Move a chunk, or all of the file. Returns whether the file is complete."""
        tree = self._sessions.trees[Side.DESTINATION]
        path = file.temporary_path or file.destination_path or ""
        first = not self._moved
        try:
            if first:
                self._sessions.check("stor", Side.DESTINATION, path)
            target = tree.open_for_writing(path, truncate=first and not file.ranges)
        except FaultError as error:
            raise FaultError(error.fault.at(Side.DESTINATION)) from None
        target.scale = node.scale
        if self._sessions.chunk is None and not file.ranges:
            target.content = node.content
            return self._arrived(tree, file, node.size)
        had = RangeSet.parse(file.ranges)
        gaps = had.gaps(node.size)
        todo = sum(end - start for start, end in gaps)
        upto = todo if self._sessions.chunk is None else min(todo, self._moved + self._sessions.chunk)
        on_disk = _write_gaps(node, target, had, self._moved, upto)
        self._moved = upto
        if upto < todo:
            if self._sessions.trusted:
                self._reported.add(file.id)
                self._events.append(FileProgress(file, on_disk))
            self._sessions.check("midway", Side.DESTINATION, file.source_path)
            return False
        return self._arrived(tree, file, todo)

    def _arrived(self, tree: MemoryTree, file: FileRow, received: int) -> bool:
        if file.temporary_path:
            self._rename(tree, file)
        self._events.append(FileSettled(file, received))
        return True

    def _rename(self, tree: MemoryTree, file: FileRow) -> None:
        try:
            tree.rename(file.temporary_path or "", file.destination_path or "")
        except FaultError as error:
            raise FaultError(error.fault.at(Side.DESTINATION)) from None

    def _refuse(self, fault: Fault) -> None:
        """Refuse the first file, and return those behind it."""
        lost = fault.scope is not FaultScope.FILE
        file = self._queue.popleft()
        trusted = self._left_behind(file, lost=lost)
        self._moved = 0
        self._events.append(FileRefused(file, fault, trusted, begun=lost and not file.temporary_path))
        if lost:
            self.lose_connection()
        elif self._queue and self._sessions.chunk and self._sessions.trusted:
            self._overtake(self._queue[0])
        self._events += [
            FileReturned(later, suspect=lost, begun=lost and not later.temporary_path) for later in self._queue
        ]
        self._queue.clear()

    def _left_behind(self, file: FileRow, *, lost: bool) -> RangeSet | None:
        """Leave the destination as a server does after a fault; return the ranges on its disk that can be trusted."""
        if self._moved and self._sessions.trusted and self._sessions.chunk is not None:
            return self._on_disk(file)
        if lost:
            self._start_stale_writer(file)
        elif self._moved:
            path = file.temporary_path or file.destination_path or ""
            self._sessions.trees[Side.DESTINATION].remove(path, directory=False)
        return None

    def _overtake(self, file: FileRow) -> None:
        """Report that the next file has begun; when the lane is drained, its octets are removed."""
        node = self._sessions.trees[Side.SOURCE].find(file.source_path)
        tree = self._sessions.trees[Side.DESTINATION]
        path = file.temporary_path or file.destination_path or ""
        there = tree.find(path)
        if node is None or tree.find(path.rpartition("/")[0] or "/") is None or (there and there.is_directory):
            return
        begun = RangeSet([*RangeSet.parse(file.ranges), (0, min(node.size, self._sessions.chunk or 0))])
        self._events.append(FileProgress(file, begun))
        if there:
            tree.remove(path, directory=False)

    def _on_disk(self, file: FileRow) -> RangeSet:
        node = self._sessions.trees[Side.SOURCE].get(file.source_path)
        return _filled(RangeSet.parse(file.ranges), node.size, self._moved)

    def _start_stale_writer(self, file: FileRow) -> None:
        """Open the file as a server that has not noticed the loss, and damage it later."""
        tree = self._sessions.trees[Side.DESTINATION]
        try:
            node = tree.open_for_writing(file.temporary_path or file.destination_path or "", truncate=True)
        except FaultError:
            return

        def spoil() -> None:
            node.content = GARBAGE

        asyncio.get_running_loop().call_later(STALE_WRITE_AFTER, spoil)


def _filled(had: RangeSet, size: int, count: int) -> RangeSet:
    """Return `had` with `count` more octets, from the end of the file: several streams keep no order.

    A half-transferred file thus has its full size, with a hole at its beginning.
    """
    filled = had.copy()
    for start, end in reversed(had.gaps(size)):
        length = min(end - start, count)
        filled.add(end - length, end)
        count -= length
    return filled


def _write_gaps(source: Node, target: Node, had: RangeSet, done: int, upto: int) -> RangeSet:
    """Copy the octets of the gaps between `done` and `upto`, and nothing else, as the servers do."""
    before, after = (_filled(had, source.size, count) for count in (done, upto))
    content = bytearray(target.content)
    for start, end in before.gaps(source.size):
        for at in range(start // source.scale, end // source.scale):
            offset = at * source.scale
            if any(low <= offset < high for low, high in after):
                content.extend(b"\0" * (at + 1 - len(content)))
                content[at] = source.content[at]
    target.content = bytes(content)
    return after


def check_name(path: str, side: Side) -> None:
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in path):
        raise FaultError(make_fault(Kind.INVALID_PATH_NAME, quoted(path), side=side, retryable=False))
