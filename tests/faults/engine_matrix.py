"""One fault at one step of all that a task says to two real servers; or the worker is killed there.

Slices run as the workers take them, with real sessions and the store in memory, on a clock that is faster than ours,
until the task is over. Then every file must be right, and counted once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.connection import ControlConnection
from endpoints.gridftp.faults import Kind, Side
from endpoints.gridftp.third_party.lane import ThirdPartyLane
from endpoints.gridftp.wire.fence import Fence
from endpoints.sessions.remote import RemoteSession
from tests.engine_fakes import MemoryCredentials, MemoryStore
from tests.engine_fakes.clock import FastClock
from tests.engine_fakes.pool import end_pool
from tests.faults.lane_matrix import Case, Trouble, Verdict
from tests.faults.scenes import SCENES, Arena
from tests.faults.stations import Station
from tests.fences import open_fence
from tests.gridftp.proxy import Deed, MisbehavingProxy, Plan
from transferapi.tasks.records import TaskEndpoint, TaskSpec
from workers.engine.slice import run_slice
from workers.session_factory import RealSessions
from workers.sessions.pool import SessionKey, SessionPool
from workers.sessions.server_addresses import Place, ServersBySide

#: Seconds, ours, for a whole task, whatever happens.
HANG = 60.0
STALL = 1.0
#: Tries of a file that can never be moved before the user gives up and cancels.
ENOUGH = 3
SLICES = 30


class MortalPool(SessionPool):
    """Knows all of its sessions, to end them as the kernel does when their process is killed."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[GridFTPSession] = []

    async def take(self, door: SessionKey, fence: Fence) -> RemoteSession:
        session = await super().take(door, fence)
        if isinstance(session, GridFTPSession):
            self.all.append(session)
        return session

    def die(self) -> None:
        for session in self.all:
            session.connection.listener = None
            if session.connection._transport:
                session.connection._transport.abort()


@contextmanager
def impatient() -> Iterator[None]:
    """Servers that say nothing are given up soon. The limits are defaults that nobody else sets."""
    opening = GridFTPSession.open.__func__.__kwdefaults__  # type: ignore[attr-defined]
    with (
        patch.dict(opening, {"timeout": 2 * STALL}),
        patch.dict(ControlConnection.__init__.__kwdefaults__, {"stall_timeout": STALL}),
        patch.dict(ThirdPartyLane.__init__.__kwdefaults__, {"stall_timeout": STALL}),
    ):
        yield


async def run_case(arena: Arena, case: Case) -> Verdict:
    """A task that moves the scene's folder, and one fault."""
    return await _run(arena, case, None)


async def run_killed(arena: Arena, case: Case) -> Verdict:
    """The worker that holds the task is killed at the step, and another one takes it."""
    return await _run(arena, case, asyncio.Event() if case.step else None)


async def _run(arena: Arena, case: Case, death: asyncio.Event | None) -> Verdict:
    await arena.ready()
    arena.set_up(case.scene)
    verdict = Verdict(case)
    begun = time.monotonic()
    with impatient():
        try:
            async with (
                asyncio.timeout(HANG),
                _proxy(arena.source, case, death, at_source=True) as source,
                _proxy(arena.destination, case, death, at_source=False) as destination,
            ):
                task = _Task(arena, verdict, source, destination)
                await task.run(death)
                verdict.came_true = bool(source.deeds + destination.deeds)
                verdict.steps = {True: list(source.steps), False: list(destination.steps)}
        except TimeoutError:
            verdict.problems.append("it hangs")
    verdict.seconds = time.monotonic() - begun
    arena.thaw()
    verdict.left_over = await arena.left_over()
    _judge(arena, verdict)
    return verdict


def _proxy(station: Station, case: Case, death: asyncio.Event | None, *, at_source: bool) -> MisbehavingProxy:
    plan = None
    if case.step and case.at_source is at_source:
        plan = Plan(case.step, Deed.CALL if death else case.trouble.deed if case.trouble else Deed.CALL)
    hook: Callable[[int], object] = station.kill if case.trouble is Trouble.KILLED else station.freeze
    return MisbehavingProxy(station.port, plan, (lambda _: death.set()) if death else hook)


def _judge(arena: Arena, verdict: Verdict) -> None:
    pieces = SCENES[verdict.case.scene]
    if wrong := arena.wrong([piece for piece in pieces if piece.good]):
        verdict.problems.append(f"wrong in the end: {wrong}")
    litter = [path.name for path in arena.there.iterdir() if path.name.startswith(".waybill-")]
    if litter and verdict.case.trouble is not Trouble.FROZEN_LONG:
        verdict.problems.append(f"left behind: {litter}")


class _Task:
    """The scene's files as items of their own: those that are missing are found missing by the lane."""

    def __init__(self, arena: Arena, verdict: Verdict, source: MisbehavingProxy, destination: MisbehavingProxy) -> None:
        self.arena = arena
        self.verdict = verdict
        self.case = verdict.case
        self.clock = FastClock()
        self.ports = {Side.SOURCE: source.port, Side.DESTINATION: destination.port}
        here, there = arena.here(self.case.scene), arena.there
        names = [piece.name for piece in SCENES[self.case.scene] if piece.good]
        self.store = MemoryStore(
            self.clock, [(f"{self.path(arena.source, here)}/", f"{self.path(arena.destination, there)}/", True)]
        )
        self.good = len(names)
        self.suspect_up_to = 0
        #: `TaskSpec.mark` of the last slice, and those of killed workers.
        self.mark = ""
        self.lost_marks: list[str] = []
        self.stop = asyncio.Event()

    @staticmethod
    def path(station: Station, path: object) -> str:
        return station.path(path).decode()  # type: ignore[arg-type]

    async def run(self, death: asyncio.Event | None) -> None:
        for _ in range(SLICES):
            if self.store.status != "ACTIVE":
                break
            await self.arena.ready()
            wait = (self.store.next_run_at - self.clock.now()).total_seconds()
            await self.clock.sleep(max(0.0, wait))
            await self.slice(death)
            if self.case.trouble is Trouble.FROZEN:
                self.arena.thaw()
        self.check()

    async def slice(self, death: asyncio.Event | None) -> None:
        """One slice by a worker of its own, which may be killed."""
        pool = MortalPool()
        lease = self.store.lease()
        self.mark = f"{self.store.epoch:032x}"[::-1]
        lease.suspect_up_to = self.suspect_up_to
        worker = asyncio.create_task(
            run_slice(
                self.spec(),
                lease,
                self.sessions(pool),
                MemoryCredentials(self.clock),
                self.clock,
                slice_seconds=300.0,
                stop=self.stop,
            )
        )
        waiter = asyncio.create_task(death.wait() if death else asyncio.Event().wait())
        helper = asyncio.create_task(self.mend())
        await asyncio.wait((worker, waiter), return_when=asyncio.FIRST_COMPLETED)
        if death and death.is_set() and not worker.done():
            self.bury(pool)
            death.clear()
        for task in (waiter, helper, *(() if worker.done() else (worker,))):
            task.cancel()
        await asyncio.gather(worker, waiter, helper, return_exceptions=True)
        await end_pool(pool)

    async def mend(self) -> None:
        """Play the operator: restart servers that were killed, and cancel the task if only hopeless files are left."""
        while True:
            await asyncio.sleep(0.02)
            await self.arena.ready()
            if self.hopeless():
                self.store.cancel_requested = True

    def hopeless(self) -> bool:
        """All that is left are files that cannot be moved, and that was tried often enough."""
        left = [row.file for row in self.store.pending.values()]
        bad = {piece.name for piece in SCENES[self.case.scene] if not piece.good}
        if not bad or any(not item.scanned for item in self.store.items.values()):
            return False
        return bool(left) and all(
            file.source_path.rpartition("/")[2] in bad and file.attempts >= ENOUGH for file in left
        )

    def bury(self, pool: MortalPool) -> None:
        """SIGKILL: nothing is written any more, and the kernel closes all connections."""
        self.store.lease()
        pool.die()
        self.store.held = False
        self.store.next_run_at = self.clock.now()
        self.suspect_up_to = max(self.store.rows, default=0)
        self.lost_marks.append(self.mark)

    def spec(self) -> TaskSpec:
        return TaskSpec(
            task_id="t",
            is_delete=False,
            source=TaskEndpoint("1", "go#ep1"),
            destination=TaskEndpoint("2", "go#ep2", self.case.stream),
            options={"tuning": "paper"},
            max_sessions=4,
            suspect_up_to=self.suspect_up_to,
            mark=self.mark,
            lost_marks=tuple(self.lost_marks),
            started="STARTED" in self.store.codes(),
            connection_failures=self.store.connection_failures,
            troubled=self.store.trouble is not None,
        )

    def sessions(self, pool: SessionPool) -> RealSessions:
        places = ServersBySide({side: [Place("127.0.0.1", port)] for side, port in self.ports.items()})
        return RealSessions(
            self.spec(), places, pool, open_fence(), resolve=lambda host, _: [host], accept_address=lambda _: True
        )

    def check(self) -> None:
        """The books, once the task is over."""
        store, problems = self.store, self.verdict.problems
        problems += store.violations
        self.verdict.faults |= {
            Kind(event.code) for event in store.events if event.is_error and event.code in set(Kind)
        }
        if "INTERNAL_ERROR" in store.codes():
            problems.append(str([event.details for event in store.events if event.code == "INTERNAL_ERROR"]))
        if store.totals.transferred != self.good:
            problems.append(f"{store.totals.transferred} of {self.good} were transferred, {store.status}")
        blocked = sum(piece.blocked for piece in SCENES[self.case.scene])
        expected = ("FAILED", blocked) if blocked else ("SUCCEEDED", 0)
        if (store.status, store.totals.failed) != expected and not (blocked and store.cancel_requested):
            problems.append(f"the task ended as {store.status}: {store.totals}, {store.fatal}")
