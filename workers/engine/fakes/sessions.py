"""Sessions and lanes between two trees."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side, make_fault
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.words import quoted
from workers.engine.plan import MAX_PIPELINING
from workers.engine.ports import (
    CLEAR,
    TCP,
    FileRow,
    LaneEvent,
    LaneProgress,
    LaneRefused,
    LaneReturned,
    LaneSettled,
    Protection,
    Session,
    Transport,
)

from .store import Fuse
from .tree import MemoryTree, Node, not_found

#: Seconds after a lost connection at which its writers do their worst.
HAUNT_AFTER = 3.0
GARBAGE = b"written by nobody's order"

#: (step, side, path) -> the fault it meets, or None. Steps: open, lane, stat, list, mkdir, remove, rename, retr, stor,
#: checksum, utime, symlink, and midway: after a chunk of a file.
FaultSource = Callable[[str, Side, str], Fault | None]


@dataclass
class FaultScript:
    """A FaultSource: each rule is met so many times, in any order."""

    rules: list[tuple[str, str, Fault, int]] = field(default_factory=list)
    met: int = 0

    def add(self, step: str, path: str, fault: Fault, times: int = 1) -> None:
        """This step on a path that begins so meets this fault, so many times; -1: always."""
        self.rules.append((step, path, fault, times))

    def __call__(self, step: str, side: Side, path: str) -> Fault | None:
        for index, (rule_step, rule_path, fault, times) in enumerate(self.rules):
            if rule_step == step and path.startswith(rule_path) and times:
                self.rules[index] = (rule_step, rule_path, fault, times - 1)
                self.met += 1
                return fault.at(side)
        return None


class MemorySessions:
    """A SessionFactory between two trees (or one, for a task within an endpoint).

    latency: seconds of each request, and of each round of a lane. chunk: octets of a file that a lane moves in one
    round, with a range marker after each. burst: files that a lane moves in one round. trusted: whether what had
    arrived before a connection was lost is told as surely the file's own.
    """

    def __init__(
        self,
        source: MemoryTree,
        destination: MemoryTree,
        *,
        faults: FaultSource | None = None,
        fuse: Fuse | None = None,
        latency: float = 0.001,
        chunk: int | None = None,
        burst: int = 10,
        trusted: bool = True,
    ) -> None:
        self.trees = {Side.SOURCE: source, Side.DESTINATION: destination}
        self.faults = faults
        self.fuse = fuse
        self.latency = latency
        self.chunk = chunk
        self.burst = burst
        self.trusted = trusted
        #: What the servers of each side can make checksums with, the best first.
        self.algorithms: dict[Side, Sequence[str]] = dict.fromkeys(Side, ("MD5", "SHA1", "SHA256"))
        #: Whether the servers tell where a symlink leads in the end rather than its text, as the toolkit's does.
        self.resolves_links = False
        #: Sessions taken and not given back, those of lanes included, and the most there ever were at once.
        self.taken = 0
        #: The servers list no symlink that leads nowhere, as the toolkit's.
        self.hides_dangling = False
        self.most_taken = 0
        self.lanes: list[MemoryLane] = []
        self.transport = TCP
        #: Of lanes that are opened from now on.
        self.protection = Protection(CLEAR, Side.SOURCE, "is reached in clear text")
        #: Whether the servers do what else is asked for.
        self.allows_any_transport = True
        #: Streams of each lane, in the order in which lanes were told.
        self.streams: list[int] = []
        #: Source paths in the order in which they were moved.
        self.moved: list[str] = []

    @property
    def round_trip(self) -> float | None:
        return self.latency

    async def session(self, side: Side) -> MemorySession:
        await self.step("open", side, "")
        self._take(1)
        return MemorySession(self, side)

    async def give_back(self, session: Session) -> None:
        self._take(-1)

    async def lane(self, *, transport: Transport = TCP) -> MemoryLane:
        await self.step("lane", Side.DESTINATION, "")
        self._take(2)
        self.transport = transport if self.allows_any_transport else TCP
        lane = MemoryLane(self)
        self.lanes.append(lane)
        return lane

    def kill(self) -> None:
        """The worker is dead: its connections are lost, and what was under way may be written still."""
        for lane in self.lanes:
            lane.lose_connection()
        self.lanes.clear()

    async def step(self, step: str, side: Side, path: str) -> None:
        """A request to a server: takes its time, may meet a fault, may be the worker's last."""
        await asyncio.sleep(self.latency)
        if self.fuse:
            await self.fuse.burn()
        self.check(step, side, path)

    def check(self, step: str, side: Side, path: str) -> None:
        """Raise the fault that a test wants here."""
        fault = self.faults(step, side, path) if self.faults else None
        if fault:
            raise FaultError(fault)

    def _take(self, count: int) -> None:
        self.taken += count
        self.most_taken = max(self.most_taken, self.taken)

    def closed(self, lane: MemoryLane) -> None:
        """A lane gave its two sessions back."""
        self._take(-2)
        if lane in self.lanes:
            self.lanes.remove(lane)


class MemorySession:
    """A Session; dead after a fault of scope SESSION."""

    def __init__(self, sessions: MemorySessions, side: Side) -> None:
        self._sessions = sessions
        self._side = side
        self._tree = sessions.trees[side]
        self._dead = False

    async def _step(self, step: str, path: str) -> None:
        if self._dead:
            raise FaultError(make_fault(Kind.CONNECTION_BROKEN, side=self._side))
        try:
            await self._sessions.step(step, self._side, path)
        except FaultError as error:
            self._dead = error.fault.scope is not Scope.FILE
            raise

    def _get(self, path: str, *, follow: bool = True) -> Node:
        try:
            return self._tree.get(path, follow=follow)
        except FaultError as error:
            raise FaultError(error.fault.at(self._side)) from None

    async def stat(self, path: str) -> Entry:
        await self._step("stat", path)
        node = self._get(path, follow=False)
        return self._tree.entry(path.rstrip("/").rpartition("/")[2] or "/", node)

    async def listing(self, path: str) -> AsyncIterator[Sequence[Entry]]:
        await self._step("list", path)
        node = self._get(path)
        if node.children is None:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path, side=self._side))
        entries = [self._tree.entry(name, inner) for name, inner in node.children.items()]
        if self._sessions.hides_dangling:
            entries = [entry for entry in entries if entry.kind != "link"]
        for start in range(0, len(entries), 500):
            if start:
                await self._step("list", path)
            yield entries[start : start + 500]

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        made: list[bool] = []
        for path in paths:
            await self._step("mkdir", path)
            _check_name(path, self._side)
            made.append(self._tree.find(path) is None)
            self._tree.make_directory(path)
        return made

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        outcome: list[Fault | None] = []
        for path, directory in entries:
            try:
                await self._step("remove", path)
                self._tree.remove(path, directory=directory)
                outcome.append(None)
            except FaultError as error:
                if error.fault.scope is not Scope.FILE:
                    raise
                outcome.append(error.fault)
        return outcome

    async def remove_unlisted(self, path: str) -> None:
        await self._step("remove", path)
        if not self._sessions.hides_dangling:
            raise FaultError(make_fault(Kind.UNSUPPORTED, "SITE RDEL", side=self._side))
        self._get(path, follow=False).children = {}
        self._tree.remove(path, directory=True)

    async def rename(self, old: str, new: str) -> None:
        await self._step("rename", new)
        self._tree.rename(old, new)

    @property
    def algorithms(self) -> Sequence[str]:
        return self._sessions.algorithms[self._side]

    async def checksum(self, path: str, algorithm: str) -> str:
        await self._step("checksum", path)
        if algorithm not in self.algorithms:
            raise FaultError(make_fault(Kind.UNSUPPORTED, algorithm, side=self._side))
        node = self._tree.get(path)
        if node.is_directory:
            raise FaultError(make_fault(Kind.IS_A_DIRECTORY, path, side=self._side))
        return hashlib.new(algorithm.lower(), node.content).hexdigest()

    async def set_modified(self, files: Sequence[tuple[str, datetime]]) -> Sequence[Fault | None]:
        outcome: list[Fault | None] = []
        for path, modified in files:
            try:
                await self._step("utime", path)
                self._tree.get(path).modified = modified
                outcome.append(None)
            except FaultError as error:
                if error.fault.scope is not Scope.FILE:
                    raise
                outcome.append(error.fault)
        return outcome

    @property
    def tells_links(self) -> bool:
        return True

    @property
    def resolves_links(self) -> bool:
        return self._sessions.resolves_links

    async def make_symlink(self, target: str, path: str) -> None:
        await self._step("symlink", path)
        there = self._tree.find(path, follow=False)
        if there is not None and there.target != target:
            raise FaultError(make_fault(Kind.PATH_EXISTS, path, side=self._side))
        self._tree.link(path, target)


class MemoryLane:
    """A Lane with cached data channels: in order, and all later files come back when one is refused."""

    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions = sessions
        self.protection = sessions.protection
        self._streams: int | None = None
        self._queue: deque[FileRow] = deque()
        self._events: list[LaneEvent] = []
        self._alive = True
        self._closed = False
        #: Octets of the first file that were moved by now, and files whose ranges were told.
        self._moved = 0
        self._told: set[int] = set()

    @property
    def alive(self) -> bool:
        return self._alive

    def use_streams(self, parallelism: int) -> None:
        assert not self._queue, "files are under way"
        if parallelism != self._streams:
            self._streams = parallelism
            self._sessions.streams.append(parallelism)

    @property
    def begun(self) -> Sequence[FileRow]:
        return [file for file in self._queue if not file.temporary_path]

    def feed(self, file: FileRow) -> None:
        assert self._streams, "nobody said how many streams"
        assert len(self._queue) < MAX_PIPELINING, "more files under way than any plan allows"
        if self._alive:
            self._queue.append(file)
        else:
            self._events.append(LaneReturned(file, suspect=False))

    async def events(self) -> Sequence[LaneEvent]:
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
        """Servers that were at work on a file go on for a while, and nobody knows with what."""
        self._alive = False
        for file in self._queue:
            if file.id not in self._told and not file.ranges:
                self._haunt(file)

    # ---- inside

    def _advance(self) -> bool:
        """One round for the first file. False when the lane has to stop for a moment."""
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
        _check_name(file.source_path, Side.SOURCE)
        _check_name(file.destination_path or "", Side.DESTINATION)
        if not self._moved:
            self._sessions.check("retr", Side.SOURCE, file.source_path)
        node = self._sessions.trees[Side.SOURCE].find(file.source_path)
        if node is None:
            raise FaultError(not_found(file.source_path).fault.at(Side.SOURCE))
        if node.is_directory:
            raise FaultError(make_fault(Kind.IS_A_DIRECTORY, file.source_path, side=Side.SOURCE))
        return node

    def _move(self, file: FileRow, node: Node) -> bool:
        """Move a chunk, or all of it; whether the file is whole now."""
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
                self._told.add(file.id)
                self._events.append(LaneProgress(file, on_disk.format(), on_disk.total))
            self._sessions.check("midway", Side.DESTINATION, file.source_path)
            return False
        return self._arrived(tree, file, todo)

    def _arrived(self, tree: MemoryTree, file: FileRow, received: int) -> bool:
        if file.temporary_path:
            self._rename(tree, file)
        self._events.append(LaneSettled(file, received))
        return True

    def _rename(self, tree: MemoryTree, file: FileRow) -> None:
        try:
            tree.rename(file.temporary_path or "", file.destination_path or "")
        except FaultError as error:
            raise FaultError(error.fault.at(Side.DESTINATION)) from None

    def _refuse(self, fault: Fault) -> None:
        """The first file is refused; what is behind it comes back."""
        lost = fault.scope is not Scope.FILE
        file = self._queue.popleft()
        ranges = ""
        if self._moved and self._sessions.trusted and self._sessions.chunk is not None:
            ranges = self._on_disk(file).format()
        elif lost:
            self._haunt(file)
        elif self._moved:
            self._sessions.trees[Side.DESTINATION].remove(
                file.temporary_path or file.destination_path or "", directory=False
            )
        self._moved = 0
        self._events.append(LaneRefused(file, fault, ranges, begun=lost and not file.temporary_path))
        if lost:
            self.lose_connection()
        elif self._queue and self._sessions.chunk and self._sessions.trusted:
            self._overtake(self._queue[0])
        self._events += [
            LaneReturned(later, suspect=lost, begun=lost and not later.temporary_path) for later in self._queue
        ]
        self._queue.clear()

    def _overtake(self, file: FileRow) -> None:
        """The next file had begun already, and told so; when the lane is drained, its octets are removed."""
        node = self._sessions.trees[Side.SOURCE].find(file.source_path)
        tree = self._sessions.trees[Side.DESTINATION]
        path = file.temporary_path or file.destination_path or ""
        there = tree.find(path)
        if node is None or tree.find(path.rpartition("/")[0] or "/") is None or (there and there.is_directory):
            return
        begun = RangeSet([*RangeSet.parse(file.ranges), (0, min(node.size, self._sessions.chunk or 0))])
        self._events.append(LaneProgress(file, begun.format(), begun.total))
        if there:
            tree.remove(path, directory=False)

    def _on_disk(self, file: FileRow) -> RangeSet:
        node = self._sessions.trees[Side.SOURCE].get(file.source_path)
        return _filled(RangeSet.parse(file.ranges), node.size, self._moved)

    def _haunt(self, file: FileRow) -> None:
        """Open the file as a server would that has not noticed yet, and spoil it later."""
        tree = self._sessions.trees[Side.DESTINATION]
        try:
            node = tree.open_for_writing(file.temporary_path or file.destination_path or "", truncate=True)
        except FaultError:
            return

        def spoil() -> None:
            node.content = GARBAGE

        asyncio.get_running_loop().call_later(HAUNT_AFTER, spoil)


def _filled(had: RangeSet, size: int, count: int) -> RangeSet:
    """`had`, and `count` octets of what it lacks, from the end: several streams keep no order either.

    So a file that is half there has its full size, with a hole at its beginning.
    """
    filled = had.copy()
    for start, end in reversed(had.gaps(size)):
        length = min(end - start, count)
        filled.add(end - length, end)
        count -= length
    return filled


def _write_gaps(source: Node, target: Node, had: RangeSet, done: int, upto: int) -> RangeSet:
    """Copy what of the source is in the gaps between `done` and `upto`, and nothing else: as the wire does."""
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


def _check_name(path: str, side: Side) -> None:
    if any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in path):
        raise FaultError(make_fault(Kind.INVALID_PATH_NAME, quoted(path), side=side, retryable=False))
