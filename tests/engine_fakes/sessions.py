"""Sessions between two trees, and the lanes of both."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from tests.fences import open_fence
from transferapi.tasks.records import CLEAR, DataProtection
from workers.engine.ports import TCP, Session, Transport
from workers.engine.queue.write_names import is_temporary

from .fuse import Fuse
from .lane import MemoryLane, check_name
from .tree import MemoryTree, Node

#: (step, side, path) -> its fault, or None. Steps: open, lane, stat, list, mkdir, remove, rename, retr, stor,
#: read, checksum, utime, symlink, and midway: after a chunk of a file.
FaultSource = Callable[[str, Side, str], Fault | None]


@dataclass
class FaultScript:
    """A FaultSource: each rule applies so many times, in any order."""

    rules: list[tuple[str, str, Fault, int]] = field(default_factory=list)
    met: int = 0

    def add(self, step: str, path: str, fault: Fault, times: int = 1) -> None:
        """Give this step on paths with this prefix this fault, so many times; -1: always."""
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
    round, with a range marker after each. burst: files that a lane moves in one round. trusted: whether octets that
    arrived before a connection was lost are reported as surely those of the file.
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
        #: A slice has one of its own.
        self.fence = open_fence()
        self.trees = {Side.SOURCE: source, Side.DESTINATION: destination}
        self.faults = faults
        self.fuse = fuse
        self.latency = latency
        self.chunk = chunk
        self.burst = burst
        self.trusted = trusted
        #: The checksum algorithms of the servers of each side, the preferred one first.
        self.algorithms: dict[Side, Sequence[str]] = dict.fromkeys(Side, ("MD5", "SHA1", "SHA256"))
        #: Whether the destination replaces files (`ports.Session.replaces`).
        self.replaces = False
        #: Whether the servers of both sides may show one storage.
        self.near = False
        #: Whether servers answer about a path behind the listing that is under way, as those of plain FTP may.
        self.in_order = False
        #: Whether the servers report the final target of a symlink instead of its text, as the toolkit's does.
        self.resolves_links = False
        #: Sessions taken and not given back, those of lanes included, and the maximum so far.
        self.taken = 0
        #: The servers list no symlink without a target, as the toolkit's.
        self.hides_dangling = False
        self.most_taken = 0
        self.lanes: list[MemoryLane] = []
        #: Of each lane that was opened, whether it was for a plan that is relayed.
        self.relayed: list[bool] = []
        self.transport = TCP
        #: The protection of lanes opened from now on.
        self.protection = DataProtection(CLEAR, Side.SOURCE, "is reached in clear text")
        #: Whether the servers allow transports other than TCP.
        self.allows_any_transport = True
        #: Streams of each lane, in the order in which they were set.
        self.streams: list[int] = []
        #: Source paths in the order in which they were moved.
        self.moved: list[str] = []

    async def may_share_storage(self) -> bool:
        return self.near

    @property
    def round_trip(self) -> float | None:
        return self.latency

    async def session(self, side: Side) -> MemorySession:
        await self.step("open", side, "")
        self._take(1)
        return MemorySession(self, side)

    async def give_back(self, session: Session) -> None:
        self._take(-1)

    async def lane(self, *, transport: Transport = TCP, relayed: bool = False) -> MemoryLane:
        await self.step("lane", Side.DESTINATION, "")
        self._take(2)
        self.relayed.append(relayed)
        self.transport = transport if self.allows_any_transport else TCP
        lane = MemoryLane(self)
        self.lanes.append(lane)
        return lane

    def kill(self) -> None:
        """Kill the worker: its connections are lost, and files under way may still be written."""
        for lane in self.lanes:
            lane.lose_connection()
        self.lanes.clear()

    async def step(self, step: str, side: Side, path: str) -> None:
        """A request to a server: it takes time, may raise a fault, and may be the last of the worker."""
        await asyncio.sleep(self.latency)
        if self.fuse:
            await self.fuse.burn()
        self.check(step, side, path)

    def check(self, step: str, side: Side, path: str) -> None:
        """Raise the fault that a test set for this step. Nothing leaves the worker when its fence is closed."""
        if self.fence.closed:
            raise FaultError(replace(make_fault(Kind.CONNECTION_RESET, side=side), scope=FaultScope.SESSION))
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
    """A Session; it fails after a fault of scope SESSION."""

    def __init__(self, sessions: MemorySessions, side: Side) -> None:
        self._sessions = sessions
        self._side = side
        self._tree = sessions.trees[side]
        self._dead = False
        self._listing_now = asyncio.Lock()

    async def _step(self, step: str, path: str) -> None:
        if self._dead:
            raise FaultError(make_fault(Kind.CONNECTION_BROKEN, side=self._side))
        try:
            await self._sessions.step(step, self._side, path)
        except FaultError as error:
            self._dead = error.fault.scope is not FaultScope.FILE
            raise

    def _get(self, path: str, *, follow: bool = True) -> Node:
        try:
            return self._tree.get(path, follow=follow)
        except FaultError as error:
            raise FaultError(error.fault.at(self._side)) from None

    async def stat(self, path: str) -> Entry:
        await self._step("stat", path)
        if self._sessions.in_order:
            async with self._listing_now:
                pass
        node = self._get(path, follow=False)
        return self._tree.entry(path.rstrip("/").rpartition("/")[2] or "/", node)

    async def listing(self, path: str) -> AsyncGenerator[Sequence[Entry], None]:
        await self._step("list", path)
        node = self._get(path)
        if node.children is None:
            raise FaultError(make_fault(Kind.NOT_A_DIRECTORY, path, side=self._side))
        entries = [self._tree.entry(name, inner) for name, inner in node.children.items()]
        if self._sessions.hides_dangling:
            entries = [entry for entry in entries if entry.kind != "link"]
        async with self._listing_now if self._sessions.in_order else nullcontext():
            for start in range(0, len(entries), 500):
                if start:
                    await self._step("list", path)
                yield entries[start : start + 500]

    async def make_directories(self, paths: Sequence[str]) -> Sequence[bool]:
        made: list[bool] = []
        for path in paths:
            await self._step("mkdir", path)
            check_name(path, self._side)
            made.append(self._tree.find(path) is None)
            self._tree.make_directory(path)
        return made

    async def remove(self, entries: Sequence[tuple[str, bool]]) -> Sequence[Fault | None]:
        outcome: list[Fault | None] = []
        for path, directory in entries:
            try:
                if outcome and is_temporary(path.rpartition("/")[2]):
                    # Pipelined, as at real servers. A deletion is slow here, so that tests can interrupt it.
                    if self._sessions.fuse:
                        await self._sessions.fuse.burn()
                    self._sessions.check("remove", self._side, path)
                else:
                    await self._step("remove", path)
                self._tree.remove(path, directory=directory)
                outcome.append(None)
            except FaultError as error:
                if error.fault.scope is not FaultScope.FILE:
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
    def replaces(self) -> bool:
        return self._sessions.replaces

    @property
    def algorithms(self) -> Sequence[str]:
        return self._sessions.algorithms[self._side]

    async def check_readable(self, path: str) -> None:
        await self._step("read", path)

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
                if error.fault.scope is not FaultScope.FILE:
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
