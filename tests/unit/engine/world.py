"""Two endpoints, a task and workers, all in memory: what the tests of the engine play with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, ClassVar, ParamSpec

from endpoints.gridftp.faults import Side
from endpoints.gridftp.ranges import RangeSet
from tests.engine_fakes import (
    STALE_WRITE_AFTER,
    FaultScript,
    Fuse,
    ManualClock,
    MemoryCredentials,
    MemoryLease,
    MemorySessions,
    MemoryStore,
    MemoryTree,
    State,
    VirtualLoop,
    run,
)
from tests.fences import virtual_fence
from transferapi.tasks.records import ItemRow, TaskEndpoint, TaskSpec
from workers.engine.slice import SliceResult, run_slice

SOURCE = TaskEndpoint("1", "go#ep1")
DESTINATION = TaskEndpoint("2", "go#ep2")

P = ParamSpec("P")

ItemSpec = tuple[str, str | None, bool | None] | ItemRow


def each_in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run each example of a property test on a virtual loop of its own; other tests have the marker `virtual_time`."""

    @wraps(test)
    def example(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return example


@dataclass
class World:
    """Make it, fill `source`, then `await run()`; must be made inside a running loop, whose time is virtual."""

    items: Sequence[ItemSpec]
    source: MemoryTree = field(default_factory=MemoryTree)
    destination: MemoryTree = field(default_factory=MemoryTree)
    options: dict[str, object] = field(default_factory=dict)
    deadline: timedelta = timedelta(days=1)
    delete: bool = False
    stream_only: bool = False
    same_endpoint: bool = False
    #: The servers of both endpoints may show one storage.
    near: bool = False
    #: The destination is a shared endpoint.
    to_share: bool = False
    max_sessions: int = 5
    slice_seconds: float = 300.0
    chunk: int | None = None
    trusted: bool = True
    latency: float = 0.001
    #: Whether there is work for longer than a slice.
    may_time_out: bool = False

    #: Makes the sessions of the simulated servers.
    servers: ClassVar[Callable[..., MemorySessions]] = MemorySessions

    def __post_init__(self) -> None:
        assert isinstance(asyncio.get_running_loop(), VirtualLoop), "the test needs the marker `virtual_time`"
        self.clock = ManualClock()
        self.credential_provider = MemoryCredentials(
            self.clock, (Side.SOURCE,) if self.delete else (Side.SOURCE, Side.DESTINATION)
        )
        self.store = MemoryStore(self.clock, self.items, deadline=self.deadline)
        self.script = FaultScript()
        self.stop = asyncio.Event()
        self.outcomes: list[SliceResult] = []
        self.suspect_up_to = 0
        #: `TaskSpec.mark` of the last slice, and those of killed workers.
        self.mark = ""
        self.lost_marks: list[str] = []
        self.began_at = self.clock.now()
        self.ended_at: datetime | None = None
        self.sessions = self.new_sessions(None)
        self.lease: MemoryLease | None = None

    def new_sessions(self, fuse: Fuse | None) -> MemorySessions:
        destination = self.source if self.same_endpoint or self.delete else self.destination
        sessions = self.servers(
            self.source,
            destination,
            faults=self.script,
            fuse=fuse,
            chunk=self.chunk,
            trusted=self.trusted,
            latency=self.latency,
        )
        sessions.near = self.near
        return sessions

    def spec(self) -> TaskSpec:
        root = "" if self.to_share else None
        destination = SOURCE if self.same_endpoint else TaskEndpoint("2", "go#ep2", self.stream_only, root=root)
        return TaskSpec(
            task_id="t",
            is_delete=self.delete,
            source=SOURCE,
            destination=None if self.delete else destination,
            # The plans of the tuner have tests of their own; here the numbers are those of the paper.
            options={"tuning": "paper"} | self.options,
            max_sessions=self.max_sessions,
            suspect_up_to=self.suspect_up_to,
            mark=self.mark,
            lost_marks=tuple(self.lost_marks),
            started="STARTED" in self.store.codes(),
            connection_failures=self.store.connection_failures,
            troubled=self.store.trouble is not None,
            warned=frozenset(self.store.codes()),
        )

    async def slice(self, fuse: Fuse | None = None) -> SliceResult:
        """One slice, by a worker of its own."""
        self.lease = self.store.lease(fuse)
        self.lease.suspect_up_to = self.suspect_up_to
        self.mark = f"{self.store.epoch:032x}"[::-1]
        self.sessions.fence = virtual_fence()
        outcome = await run_slice(
            self.spec(),
            self.lease,
            self.sessions,
            self.credential_provider,
            self.clock,
            slice_seconds=self.slice_seconds,
            stop=self.stop,
            jitter=lambda: 0.5,
        )
        self.outcomes.append(outcome)
        self.check_ranges()
        return outcome

    async def run(self, most_slices: int = 1000) -> str:
        """Slices as the workers would take them, until the task is over or suspended; its status."""
        for _ in range(most_slices):
            if self.store.status != "ACTIVE":
                break
            wait = (self.store.next_run_at - self.clock.now()).total_seconds()
            if wait > 0:
                await asyncio.sleep(wait)
            began = self.clock.now()
            await self.slice()
            lasted = (self.clock.now() - began).total_seconds()
            # A small task that is still held at the end of a slice is stuck, and only another slice frees it.
            assert self.may_time_out or lasted < self.slice_seconds, "nothing happened until the slice was over"
        self.ended_at = self.clock.now()
        # Wait until a server that still writes after its connection was lost has finished.
        await asyncio.sleep(2 * STALE_WRITE_AFTER)
        self.check()
        return self.store.status

    async def killed_slice(self, steps: int) -> bool:
        """A slice whose worker is killed at this step; whether it came so far."""
        fuse = Fuse(steps)
        self.sessions = self.new_sessions(fuse)
        worker = asyncio.create_task(self.slice(fuse))
        death = asyncio.create_task(fuse.dead.wait())
        await asyncio.wait((worker, death), return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        killed = not worker.done()
        if killed:
            # Nobody writes for a dead worker: the lease is taken away before its coroutines are cleared up.
            self.store.lease()
            self.sessions.kill()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            self.store.held = False
            self.store.next_run_at = self.clock.now()
            self.suspect_up_to = max(self.store.rows, default=0)
            self.lost_marks.append(self.mark)
        self.sessions = self.new_sessions(None)
        self.check_ranges()
        return killed

    def seconds(self) -> float:
        """Since the beginning, until now or until `run` was through."""
        return ((self.ended_at or self.clock.now()) - self.began_at).total_seconds()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that a running slice will do."""
        while not condition():  # noqa: ASYNC110 (virtual time; there is nothing else to wait for)
            await asyncio.sleep(0.01)

    def check_ranges(self) -> None:
        """The ranges in the store are on the destination's disk with the right content, if the file is there."""
        for row in self.store.pending.values():
            file = row.file
            source = self.source.find(file.source_path)
            there = self.destination.find(file.temporary_path or file.destination_path or "")
            if file.ranges and source and there and source.size == file.size:
                for start, end in RangeSet.parse(file.ranges):
                    part = slice(start // source.scale, end // source.scale)
                    assert there.content[part] == source.content[part], f"{file.ranges} of {file.source_path}"

    def check(self) -> None:
        """Check the invariants that hold after every task."""
        assert self.store.violations == []
        totals = self.store.totals
        if self.store.status in ("SUCCEEDED", "FAILED") and self.store.fatal is None:
            assert totals.files == totals.transferred + totals.skipped + totals.failed
            assert not self.store.count(State.PENDING)
        assert self.sessions.taken == 0, "sessions are given back"
