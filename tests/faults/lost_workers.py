"""A worker is lost at one step of what it says to two real servers, another one ends the task, and the user goes on.

The first worker runs in a thread of its own, so that its loop can stand still. Its servers work off what they have
while the second one, which goes to them at once, ends the task. After SUCCEEDED the user writes some of the same names,
or fills the folder that was deleted; only then the first worker, or what was frozen, goes on. Its clock says then that
its lease has been over for long.
"""

from __future__ import annotations

import asyncio
import enum
import hashlib
import os
import shutil
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from endpoints.gridftp.faults import Side
from endpoints.gridftp.login import Login
from endpoints.gridftp.wire.fence import Fence
from tests.engine_fakes import MemoryCredentials, MemoryLease, MemoryStore
from tests.engine_fakes.clock import FastClock
from tests.engine_fakes.pool import end_pool
from tests.faults.engine_matrix import MortalPool, impatient
from tests.faults.scenes import Arena
from tests.faults.stations import Station
from tests.fences import LASTS, open_fence
from tests.gridftp.proxy import Deed, MisbehavingProxy, Plan, Step
from tests.gridftp.toolkit import hand_over
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.records import TaskEndpoint, TaskSpec
from workers.engine.ports import TaskStore
from workers.engine.slice import run_slice
from workers.session_factory import RealSessions
from workers.sessions.pool import Address, SessionKey, SessionPool
from workers.sessions.server_addresses import Place, ServersBySide

#: Seconds, ours, for a whole run, whatever happens.
HANG = 60.0
#: Seconds, at most, that the fence of a worker is open whose database is cut off: it lives until then.
CUT_FENCE = 0.3
#: Seconds for an answer of the first worker's database: it does not know at once that it has lost its lease.
LATENCY = 0.003
#: Seconds after which a frozen server that serves everybody goes on.
FROZEN = 0.1
#: Seconds by which the clock of a worker that stood still has gone on.
SLEPT = 60.0
SLICES = 30
#: Seconds by which the times of replaced sources are later.
LATER = 10.0
#: Octets of the files of a transfer. Every second one lies at the destination already, with other octets.
SIZES = (5000, 0, 300_000, 300_000, 70_000, 70_000, 1, 1_500_000)
#: Number of files of a deletion, in two folders: several windows of DELE.
MANY = 700


class Loss(enum.Enum):
    """How the first worker is lost, or what changes with it."""

    WORKER_KILLED = "SIGKILL to the worker"
    WORKER_FROZEN = "the worker stands still, and goes on when all is over"
    HOST_GONE = "its host is without power or network: no FIN, and a RST when all is over"
    SERVER_FROZEN = "the server stands still with what it has, the worker is killed, and the server goes on later"
    DATABASE_CUT = "the worker lives, and the database does not answer it"
    SOURCE_NEWER = "the worker is killed, and the sources are replaced: the same sizes, later times"
    SOURCE_LONGER = "the worker is killed, and the sources are replaced: other sizes"

    @property
    def kills(self) -> bool:
        return self not in (Loss.WORKER_FROZEN, Loss.HOST_GONE, Loss.DATABASE_CUT)

    @property
    def of_source(self) -> bool:
        return self in (Loss.SOURCE_NEWER, Loss.SOURCE_LONGER)


@dataclass
class Outcome:
    """wrong: names of files that are not what they must be. amiss: what else must not be. litter: own names left.

    known: wrong files of what remains: a server of others that stands still executes a STOR or a DELE of a client that
    has disconnected since, on a name that is not our own (docs/decisions/settlement.md).
    """

    loss: Loss | None
    step: Step | None
    at_source: bool
    wrong: list[str] = field(default_factory=list)
    amiss: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    litter: int = 0
    came_true: bool = False
    seconds: float = 0.0
    steps: list[tuple[bool, Step]] = field(default_factory=list)

    def __str__(self) -> str:
        where = f"{'source' if self.at_source else 'destination'}'s {self.step}"
        return f"{self.loss.name if self.loss else 'nothing'} at the {where}: wrong {self.wrong}, amiss {self.amiss}"


async def run_lost(
    arena: Arena,
    loss: Loss | None = None,
    at: tuple[bool, Step] | None = None,
    *,
    delete: bool = False,
    fenced: bool = True,
) -> Outcome:
    """One task with this loss at this step (at the source or not); without them a good run, which has all steps.

    fenced: False: the first worker's fence stays open, to show that the run would see what a fence prevents.
    """
    at_source, step = at or (False, None)
    outcome = Outcome(loss, step, at_source)
    begun = time.monotonic()
    run = (_Deletion if delete else _Transfer)(arena, outcome)
    run.fenced = fenced
    await arena.ready()
    with impatient():
        try:
            async with asyncio.timeout(HANG):
                await run.play()
        except TimeoutError:
            outcome.amiss.append("it hangs")
        finally:
            arena.thaw()
    await arena.left_over()
    run.judge()
    outcome.seconds = time.monotonic() - begun
    return outcome


class _CutLease(MemoryLease):
    """The database does not answer any more once `cut` is set; the store gives up with the lease, as the real one."""

    cut: Fence | None = None

    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[MemoryStore]:
        if self.cut:
            while not self.cut.closed:  # noqa: ASYNC110 (a clock)
                await asyncio.sleep(0.01)
            raise LeaseLostError(UUID(int=0), self.epoch)
        async with super()._call(name) as store:
            yield store


class _FirstWorker:
    """One slice in a thread of its own. slice_of: makes it, from its pool and its fence."""

    def __init__(self) -> None:
        self._slept = 0.0
        self.fence = Fence(LASTS, lambda: time.monotonic() + self._slept)
        self.pool = MortalPool()
        self._loop = asyncio.new_event_loop()
        self._still, self._go_on = threading.Event(), threading.Event()
        self._slice: asyncio.Task[Any] | None = None
        self._thread: threading.Thread | None = None
        #: The error that it raised, but for its end by `die`.
        self.error: BaseException | None = None

    def start(self, work: Callable[[SessionPool, Fence], Any]) -> None:
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[SessionPool, Fence], Any]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._work(work))

    async def _work(self, work: Callable[[SessionPool, Fence], Any]) -> None:
        self._slice = asyncio.ensure_future(work(self.pool, self.fence))
        try:
            await self._slice
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self.error = error
        self.pool.forget("")
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    async def stand_still(self) -> None:
        """Return when its loop does not run any more, or it is through."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stand)
        while self.is_alive and not self._still.is_set():  # noqa: ASYNC110 (another thread)
            await asyncio.sleep(0.001)

    def _stand(self) -> None:
        self._still.set()
        self._go_on.wait()

    def let_pass(self, seconds: float) -> None:
        """These seconds pass at once by the clock of its fence."""
        self._slept += seconds

    def go_on(self) -> None:
        """Its clock went on meanwhile."""
        self.let_pass(SLEPT)
        self._go_on.set()

    async def die(self) -> None:
        """SIGKILL: the kernel closes its connections, and it says nothing more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)
        await self.is_through()

    def _end(self) -> None:
        self.pool.die()
        for transport in list(self._loop._transports.values()):  # type: ignore[attr-defined]
            transport.abort()
        if self._slice:
            self._slice.cancel()

    async def is_through(self) -> None:
        while self.is_alive:  # noqa: ASYNC110 (another thread)
            await asyncio.sleep(0.002)


class _Run(ABC):
    """A task of two workers. `play` runs it, `judge` looks at the disk when nobody writes any more."""

    delete = False
    fenced = True

    def __init__(self, arena: Arena, outcome: Outcome) -> None:
        self.arena = arena
        self.outcome = outcome
        self.clock = FastClock()
        self.marks: list[str] = []
        self.lost: list[str] = []
        self.suspect_up_to = 0
        self.stations = {Side.SOURCE: arena.source, Side.DESTINATION: arena.destination}
        if self.delete:
            del self.stations[Side.DESTINATION]
        self.set_up()
        self.store = self.new_store()

    # ---- what differs

    @abstractmethod
    def set_up(self) -> None: ...

    @abstractmethod
    def new_store(self) -> MemoryStore: ...

    def replace_sources(self) -> None:
        raise AssertionError("a deletion reads no file")

    @abstractmethod
    def use(self) -> None:
        """The user's part after SUCCEEDED."""

    @abstractmethod
    def judge(self) -> None: ...

    # ---- the story

    async def play(self) -> None:
        outcome = self.outcome
        struck = asyncio.Event()
        first = _FirstWorker()
        async with AsyncExitStack() as stack:
            proxies = {
                side: await stack.enter_async_context(self.proxy(side, station, first, struck))
                for side, station in self.stations.items()
            }
            lease = _CutLease(self.store, self.next_lease(), latency=LATENCY)
            ports = {side: proxy.port for side, proxy in proxies.items()}
            spec = self.spec()
            first.start(
                lambda pool, fence: self.slice(spec, lease, ports, pool, fence if self.fenced else open_fence())
            )
            waiting = asyncio.ensure_future(struck.wait())
            while first.is_alive and not struck.is_set():  # noqa: ASYNC110 (another thread)
                await asyncio.sleep(0.002)
            waiting.cancel()
            try:
                if struck.is_set():
                    await self.lose(first, lease, proxies)
                await self.end_task()
                self.use()
            finally:
                await self.go_on(first, proxies)
            outcome.came_true = struck.is_set()
            outcome.steps = [(side is Side.SOURCE, step) for side, proxy in proxies.items() for step in proxy.steps]
        if first.error is not None:
            outcome.amiss.append(f"the first worker raised {first.error!r}")

    def proxy(self, side: Side, station: Station, first: _FirstWorker, struck: asyncio.Event) -> MisbehavingProxy:
        outcome = self.outcome
        plan = Plan(outcome.step, Deed.CALL) if outcome.step and outcome.at_source is (side is Side.SOURCE) else None

        async def strike(_: int) -> None:
            if outcome.loss in (Loss.WORKER_FROZEN, Loss.HOST_GONE):
                await first.stand_still()
            elif outcome.loss is Loss.SERVER_FROZEN:
                for port in proxy.upstream_ports():
                    station.freeze(port)
            struck.set()

        proxy = MisbehavingProxy(station.port, plan, strike, opaque=station.opaque)
        return proxy

    async def lose(self, first: _FirstWorker, lease: _CutLease, proxies: Mapping[Side, MisbehavingProxy]) -> None:
        loss = self.outcome.loss
        assert loss is not None
        if loss is Loss.HOST_GONE:
            for proxy in proxies.values():
                proxy.fall_silent()
        if loss is Loss.DATABASE_CUT:
            lease.cut = first.fence
            first.let_pass(LASTS - CUT_FENCE)
            while first.is_alive and not first.fence.closed:  # noqa: ASYNC110 (another thread)
                await asyncio.sleep(0.005)
        if loss.kills:
            # Nobody writes for a dead worker: its lease is over before it is cleared up.
            self.store.epoch += 1
            await first.die()
        if loss is Loss.SERVER_FROZEN and self.stations[self.side].serves_all:
            await asyncio.sleep(FROZEN)
            self.arena.thaw()
        if loss.of_source:
            self.replace_sources()
        if self.store.status == "ACTIVE":
            self.lost, self.suspect_up_to = [*self.marks], max(self.store.rows, default=0)
            self.store.next_run_at = self.clock.now()

    @property
    def side(self) -> Side:
        return Side.SOURCE if self.outcome.at_source else Side.DESTINATION

    async def go_on(self, first: _FirstWorker, proxies: Mapping[Side, MisbehavingProxy]) -> None:
        self.arena.thaw()
        if self.outcome.loss is Loss.HOST_GONE:
            for proxy in proxies.values():
                await proxy.hang_up()
        first.go_on()
        await first.is_through()

    async def end_task(self) -> None:
        """Slices of other workers until the task is over."""
        for _ in range(SLICES):
            if self.store.status != "ACTIVE":
                return
            wait = (self.store.next_run_at - self.clock.now()).total_seconds()
            await self.clock.sleep(max(0.0, wait))
            lease = MemoryLease(self.store, self.next_lease(), suspect_up_to=self.suspect_up_to)
            pool = MortalPool()
            ports = {side: station.port for side, station in self.stations.items()}
            await self.slice(self.spec(), lease, ports, pool, open_fence())
            await end_pool(pool)

    def next_lease(self) -> int:
        """The epoch of a new lease, with a mark of its own."""
        self.store.epoch += 1
        self.store.held = True
        self.marks.append(hashlib.blake2b(self.store.epoch.to_bytes(4), digest_size=16).hexdigest())
        return self.store.epoch

    async def slice(
        self, spec: TaskSpec, lease: TaskStore, ports: Mapping[Side, int], pool: SessionPool, fence: Fence
    ) -> None:
        places = ServersBySide({side: [Place("127.0.0.1", port)] for side, port in ports.items()})

        def session_key(side: Side, address: Address, place: Place) -> SessionKey:
            login = self.stations[side].login

            async def log_in() -> Login:
                return login

            return SessionKey(address, login.key, log_in)

        sessions = RealSessions(
            spec,
            places,
            pool,
            fence,
            session_key=session_key,
            resolve=lambda host, _: [host],
            accept_address=lambda _: True,
        )
        await run_slice(
            spec,
            lease,
            sessions,
            MemoryCredentials(self.clock),
            self.clock,
            slice_seconds=300.0,
            stop=asyncio.Event(),
        )

    def spec(self) -> TaskSpec:
        return TaskSpec(
            task_id="t",
            is_delete=self.delete,
            source=TaskEndpoint("1", "go#ep1"),
            destination=None if self.delete else TaskEndpoint("2", "go#ep2"),
            options={"recursive": True} if self.delete else {"tuning": "paper"},
            max_sessions=4,
            suspect_up_to=self.suspect_up_to,
            mark=self.marks[-1],
            lost_marks=tuple(self.lost),
            started="STARTED" in self.store.codes(),
            connection_failures=self.store.connection_failures,
            troubled=self.store.trouble is not None,
            warned=frozenset(self.store.codes()),
        )

    def note_wrong(self, name: str, *, in_place: bool) -> None:
        """in_place: commands name the file itself, where the server is not ours."""
        station = self.stations[Side.SOURCE if self.delete else Side.DESTINATION]
        frozen = self.outcome.loss is Loss.SERVER_FROZEN and not station.serves_all
        (self.outcome.known if frozen and in_place else self.outcome.wrong).append(name)

    def check_books(self) -> None:
        store, amiss = self.store, self.outcome.amiss
        amiss += store.violations
        if "INTERNAL_ERROR" in store.codes():
            amiss += [str(event.details) for event in store.events if event.code == "INTERNAL_ERROR"]
        if store.status != "SUCCEEDED":
            amiss.append(f"the task ended as {store.status}: {store.totals}, {store.fatal}")


class _Transfer(_Run):
    def set_up(self) -> None:
        self.here, self.there = self.arena.root / "sources", self.arena.root / "there"
        self.contents = {f"f{number}": _content(f"f{number}", size) for number, size in enumerate(SIZES)}
        #: The first contents of sources that were replaced.
        self.older: dict[str, bytes] = {}
        #: The content that the user wrote after SUCCEEDED.
        self.users: dict[str, bytes] = {}
        for folder in (self.here, self.there):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o777)
            folder.chmod(0o777)
        for number, (name, content) in enumerate(self.contents.items()):
            (self.here / name).write_bytes(content)
            if number % 2:
                (self.there / name).write_bytes(b"old" * number * 1000)
                (self.there / name).chmod(0o666)
        hand_over(self.there, stop_at=self.there)

    def new_store(self) -> MemoryStore:
        source = self.arena.source.path(self.here).decode()
        destination = self.arena.destination.path(self.there).decode()
        return MemoryStore(self.clock, [(f"{source}/", f"{destination}/", True)])

    def replace_sources(self) -> None:
        self.older = self.contents
        more = 1000 if self.outcome.loss is Loss.SOURCE_LONGER else 0
        self.contents = {name: _content(f"new {name}", len(old) + more) for name, old in self.older.items()}
        # Whole seconds are compared: a version of the same second is not promised to be found out.
        later = time.time() + LATER
        for name, content in self.contents.items():
            (self.here / "new").write_bytes(content)
            os.utime(self.here / "new", (later, later))
            (self.here / "new").replace(self.here / name)

    def use(self) -> None:
        """Write over one file, and replace another one, of each sort."""
        for name in ("f2", "f3"):
            self.users[name] = _content(f"user {name}", 50_000)
            (self.there / name).write_bytes(self.users[name])
        for name in ("f4", "f5"):
            self.users[name] = _content(f"user {name}", 50_000)
            (self.arena.root / "users").write_bytes(self.users[name])
            (self.arena.root / "users").replace(self.there / name)

    def judge(self) -> None:
        self.check_books()
        if self.store.totals.transferred != len(SIZES) and self.store.status == "SUCCEEDED":
            self.outcome.amiss.append(f"{self.store.totals.transferred} of {len(SIZES)} were counted")
        for name, content in self.contents.items():
            path = self.there / name
            right = [self.users[name]] if name in self.users else [content, self.older.get(name, content)]
            if not path.is_file() or path.read_bytes() not in right:
                self.note_wrong(name, in_place=int(name[1:]) % 2 == 1)
        self.outcome.litter = sum(path.name not in self.contents for path in self.there.iterdir())


class _Deletion(_Run):
    delete = True

    def set_up(self) -> None:
        self.folder = self.arena.root / "area" / "there"
        shutil.rmtree(self.folder.parent, ignore_errors=True)
        self.names = [f"sub/f{number}" if number % 2 else f"f{number}" for number in range(MANY)]
        self.fill("old ")

    def fill(self, before: str) -> None:
        (self.folder / "sub").mkdir(parents=True)
        for name in self.names:
            (self.folder / name).write_text(before + name)
        for path in (self.folder.parent, self.folder, self.folder / "sub"):
            path.chmod(0o777)
        hand_over(self.folder.parent, stop_at=self.folder.parent)

    def new_store(self) -> MemoryStore:
        return MemoryStore(self.clock, [(self.arena.source.path(self.folder).decode(), None, True)])

    def use(self) -> None:
        if self.folder.exists():
            self.outcome.amiss.append("SUCCEEDED, and the folder is there")
            shutil.rmtree(self.folder)
        self.fill("new ")

    def judge(self) -> None:
        self.check_books()
        paths = {name: self.folder / name for name in self.names}
        for name, path in paths.items():
            if not path.is_file() or path.read_text() != f"new {name}":
                self.note_wrong(name, in_place=True)


def losses_of(delete: bool) -> Sequence[Loss]:
    """A deletion has no source that is replaced."""
    return [loss for loss in Loss if not (delete and loss.of_source)]


def _content(name: str, size: int) -> bytes:
    """Different from the content of other files in every part, so that misplaced octets are noticed."""
    seed = hashlib.sha256(name.encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]
