"""Tasks between two real servers, in slices as workers run them, with the store in memory."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from endpoints.gridftp.faults import Side
from endpoints.gridftp.login import Login
from tests.engine_fakes import MemoryCredentials, MemoryStore
from tests.engine_fakes.clock import FastClock
from tests.engine_fakes.pool import end_pool
from tests.fences import open_fence
from tests.gridftp.ends import End
from tests.gridftp.ssh_grid import until
from transferapi.tasks.records import ItemRow, TaskEndpoint, TaskSpec
from workers.engine.ports import Clock
from workers.engine.slice import run_slice
from workers.session_factory import RealSessions
from workers.sessions.pool import Address, SessionKey, SessionPool
from workers.sessions.server_addresses import Place, ServersBySide
from workers.streaming.host import StreamingHost

#: Seconds for a whole task, ours.
HANG = 60.0


@dataclass
class StreamedTask:
    """One task; each call of `slice` is another worker. Without a destination it is a DELETE."""

    source: End
    destination: End | None
    items: Sequence[tuple[str, str | None, bool | None] | ItemRow]
    options: Mapping[str, object] = field(default_factory=dict)
    host: StreamingHost | None = None

    clock: Clock = field(default_factory=FastClock)
    #: Of the clock.
    deadline: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock, list(self.items), deadline=self.deadline)
        self.pool = SessionPool()
        self.host = self.host or StreamingHost()
        self.suspect_up_to = 0

    def sessions(self) -> RealSessions:
        ends = {Side.SOURCE: self.source, Side.DESTINATION: self.destination or self.source}
        places = ServersBySide({side: [Place(end.host, end.port)] for side, end in ends.items()})

        def session_key(side: Side, address: Address, place: Place) -> SessionKey:
            async def login() -> Login:
                return ends[side].login

            return SessionKey(address, ends[side].login.key, login)

        assert self.host
        return RealSessions(
            self.spec(),
            places,
            self.pool,
            open_fence(),
            session_key=session_key,
            resolve=lambda host, _: [host],
            accept_address=lambda _: True,
            streams=self.host.task("t"),
        )

    def spec(self) -> TaskSpec:
        return TaskSpec(
            task_id="t",
            is_delete=self.destination is None,
            source=TaskEndpoint("1", "go#ep1"),
            destination=TaskEndpoint("2", "go#ep2") if self.destination else None,
            options={"tuning": "paper", **self.options},
            max_sessions=8,
            suspect_up_to=self.suspect_up_to,
            started="STARTED" in self.store.codes(),
        )

    async def run(self, slices: int = 30, *, seconds: float = HANG) -> None:
        """Until the task is over, or so many slices have ended."""
        try:
            async with asyncio.timeout(seconds):
                for _ in range(slices):
                    if self.store.status != "ACTIVE":
                        break
                    await self.clock.sleep(max(0.0, (self.store.next_run_at - self.clock.now()).total_seconds()))
                    await self.slice(asyncio.Event())
        finally:
            await end_pool(self.pool)

    async def slice(self, stop: asyncio.Event) -> None:
        lease = self.store.lease()
        await run_slice(
            self.spec(),
            lease,
            self.sessions(),
            MemoryCredentials(self.clock),
            self.clock,
            slice_seconds=300.0,
            stop=stop,
        )

    async def killed_when(self, condition: Callable[[], bool]) -> None:
        """A slice of a worker that is killed at this moment: nothing is written any more, and connections end."""
        worker = asyncio.create_task(self.slice(asyncio.Event()))
        await until(lambda: condition() or worker.done())
        assert not worker.done(), "it was over before it could be killed"
        self.store.lease()
        self.suspect_up_to = max(self.store.rows, default=0)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        await end_pool(self.pool)
        self.pool = SessionPool()

    def faults(self) -> list[str]:
        """The codes of the error events."""
        return [event.code for event in self.store.events if event.is_error]


def tree(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below a folder, by its path in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
