"""One slice of one task: the parts are put together here, watched, and ended in order."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from random import SystemRandom

from endpoints.gridftp.faults import Kind, Side, make_fault

from .bounds import DEFAULT, Bounds
from .credentials import Credentials, Wallet
from .crew import Crew, Movers
from .dealer import Dealer
from .delete import DeleteScanner, Remover, delete_plan
from .extras import Extras
from .ledger import Ledger
from .ports import Clock, LeaseLostError, Pulse, Run, SessionFactory, TaskSpec, TaskStore
from .retry import delay
from .scan import Scanner
from .stock import MAX_LITTER, Stock, TemporaryNames, partials
from .transport import learned
from .tuner import Caps, Tuner
from .work import PATIENCE, Ending, Failed, Finished, Released, Suspended, Work, first_of, wait_for

log = logging.getLogger(__name__)

#: Seconds between two heartbeats.
HEARTBEAT = 1.0
#: Seconds that what is under way has to arrive when the slice ends.
DRAIN = 1.0
#: Seconds between two looks at the store for what may be done again; more when they bring nothing.
POLL = 0.5
LONG = 3600.0
#: Seconds for the removal of temporary files that nobody needs any more.
SWEEP = 5.0
#: Times that this is tried where nothing else is waited for: later nobody knows of them any more.
SWEEPS = 4


class Outcome(enum.StrEnum):
    """How a slice ended."""

    FINISHED = "finished"
    FAILED = "failed"
    SUSPENDED = "suspended"
    RELEASED = "released"
    LEASE_LOST = "lease lost"


async def run_slice(
    spec: TaskSpec,
    store: TaskStore,
    sessions: SessionFactory,
    wallet: Wallet,
    clock: Clock,
    *,
    slice_seconds: float,
    stop: asyncio.Event,
    jitter: Callable[[], float] | None = None,
    bounds: Bounds = DEFAULT,
) -> Outcome:
    """Work on the task whose lease `store` holds until it is over, or has to wait, or the slice is over.

    stop: set when the process shall end (SIGTERM): what is under way gets a moment, then the lease is given back.
    jitter: numbers 0 <= x < 1 for the backoff. Whatever goes wrong here, the task is not lost: it ends, is given
    back, or its lease runs out. Raises only what the store raises when not even giving back is possible.
    """
    credentials = Credentials(wallet, clock)
    work = Work(spec, store, sessions, credentials, clock, jitter or SystemRandom().random, bounds)
    slice_ = _Slice(work, slice_seconds, stop)
    try:
        return await slice_.run()
    except LeaseLostError:
        return Outcome.LEASE_LOST
    except Exception as error:
        log.exception("task %s: an unexpected error", spec.task_id)
        return await slice_.give_back(error)
    finally:
        await slice_.close()


class _Slice:
    def __init__(self, work: Work, seconds: float, stop: asyncio.Event) -> None:
        self.work = work
        self._seconds = seconds
        self._stop = stop
        spec = work.spec
        self._begun = work.clock.now()
        self._tuner = Tuner(spec.options, Caps.of(spec), spec.knowledge, self._begun.timestamp())
        self._dealer = Dealer(delete_plan if spec.is_delete else self._tuner.plan)
        self._ledger = Ledger(work.store, work.clock, self._written_off)
        self._stock = Stock(
            work.store, work.desk, self._dealer, TemporaryNames(), self._stocked, aside=spec.writes_aside
        )
        parts = (work, self._dealer, self._stock, self._ledger)
        self._crew = None if spec.is_delete else Crew(*parts, self._tuner)
        self._movers: Movers = self._crew or Remover(*parts)
        self._scanner = (DeleteScanner if spec.is_delete else Scanner)(work, self._stock)
        self._extras = Extras(work)
        self._scan: asyncio.Task[None] | None = None
        self._ledger_task: asyncio.Task[None] | None = None
        #: When the store has something to do again, as far as is known.
        self._due: datetime | None = None
        #: Looks at the store that brought nothing, one after another; and seconds to the next at least.
        self._fruitless = 0
        self._poll = POLL
        self._canceled = False

    async def run(self) -> Outcome:
        work = self.work
        self._hear(await work.store.heartbeat())
        if not work.ended.done() and (fault := await work.credentials.look()):
            work.end(Suspended(fault))
        if not work.ended.done():
            work.spawn(self._beat())
            work.spawn(self._watch_credentials())
            work.spawn(self._watch_time())
            self._ledger_task = work.spawn(self._ledger.run())
            work.spawn(self._supply())
        ending = await work.ended
        return await self._conclude(ending)

    async def give_back(self, error: Exception) -> Outcome:
        """Something that should not happen: it is told, what is certain is kept, and the task runs again later."""
        work = self.work
        at = work.clock.now() + timedelta(seconds=delay(work.endpoints.failures + 3, work.jitter()))
        try:
            await self._movers.leave(mark=True)
            await work.stop_parts(but=self._ledger_task)
            await self._ledger.flush()
            await work.store.endpoint_failed(_OURS, at, lanes=True)
            await work.store.release(at, work.endpoints.failures + 1)
        except LeaseLostError:
            return Outcome.LEASE_LOST
        return Outcome.RELEASED

    async def close(self) -> None:
        """Leave nothing behind, however the slice ended."""
        await self._movers.leave(mark=False)
        await self.work.stop_parts()
        await self.work.desk.close()
        if self.work.ended.done() and not self.work.ended.cancelled():
            self.work.ended.exception()  # that of a second part, which nobody awaits any more

    # ---- watching

    async def _beat(self) -> None:
        while True:
            await self.work.clock.sleep(HEARTBEAT)
            self._hear(await self.work.store.heartbeat())

    def _hear(self, pulse: Pulse) -> None:
        self.work.deadline = pulse.deadline
        if pulse.cancel_requested:
            self._canceled = True
            self.work.end(_CANCELED)
        elif self.work.clock.now() >= pulse.deadline:
            self.work.end(Failed("EXPIRED", "The deadline has passed.", drain=True))
        elif pulse.pause_requested:
            self.work.end(Released(self.work.clock.now(), drain=True))

    async def _watch_credentials(self) -> None:
        self.work.end(Suspended(await self.work.credentials.watch()))

    async def _watch_time(self) -> None:
        stopped = await wait_for(self.work.clock, self._stop, self._seconds)
        if not stopped:
            await first_of(self._last(), self._stop.wait())
        self.work.end(Released(self.work.clock.now(), drain=True))

    async def _last(self) -> None:
        """What takes longer than a slice is not cut off, or it would be begun again for ever."""
        await self._scanner.last()
        if self._crew is not None:
            await self._crew.last()
            await self._extras.last()

    # ---- supply: the scan, what is due again, and the end

    def _stocked(self) -> None:
        self._fruitless = 0
        self._poll = POLL
        self._movers.staff()

    def _written_off(self, ids: Collection[int]) -> None:
        self._dealer.release(ids)
        self._movers.staff()
        self.work.wake.set()

    async def _supply(self) -> None:
        work = self.work
        self._begin_scan()
        if work.spec.started:
            await self._stock.fetch()
        while True:
            if self._scan is None and self._dealer.empty:
                await self._at_rest()
            elif self._scan is None and self._movers.idle and work.seconds_blocked() > PATIENCE:
                # What is in hand waits for the endpoints: the place is free for other tasks meanwhile.
                work.end(Released(work.endpoints.until or work.clock.now()))
            blocked = work.seconds_blocked() or LONG
            await wait_for(work.clock, work.wake, min(self._seconds_to_due(), blocked))
            work.wake.clear()
            if self._seconds_to_due() <= 0:
                await self._look_again()
            self._movers.staff()

    def _begin_scan(self) -> None:
        if self._scan is None:
            for side in (Side.SOURCE,) if self.work.spec.is_delete else (Side.SOURCE, Side.DESTINATION):
                self.work.desk.open_ahead(side)
            self._movers.scanning(True)
            self._scan = self.work.spawn(self._scan_once())

    async def _scan_once(self) -> None:
        await self._scanner.scan()
        self._scan = None
        self._movers.scanning(False)
        self.work.wake.set()

    def _seconds_to_due(self) -> float:
        known = [at for at in (self._due, self._ledger.next_retry, self._scanner.next_retry) if at is not None]
        return max(0.0, (min(known) - self.work.clock.now()).total_seconds()) if known else LONG

    async def _look_again(self) -> None:
        """Something is due: fetch it, and learn when the next will be."""
        self._due = self._ledger.next_retry = self._scanner.next_retry = None
        self._begin_scan()
        await self._stock.fetch()
        counts = await self.work.store.counts()
        if counts.next_try_at is not None:
            self._due = max(counts.next_try_at, self.work.clock.now() + timedelta(seconds=self._poll))
            self._poll = min(PATIENCE, self._poll * 2)

    async def _at_rest(self) -> None:
        """Nothing is in hand and no scan is running: the end, or a pause, or the place is given up."""
        work = self.work
        counts = await work.store.counts()
        if not counts.items_unscanned and not counts.files_pending:
            if await self._extras.over(counts):
                work.end(Finished())
            return
        now = work.clock.now()
        # Some may be due and not in hand: looked for at once, but not again and again if that brings nothing.
        at = max(work.endpoints.until or now, now + timedelta(seconds=POLL * self._fruitless))
        if self._fruitless and counts.next_try_at is not None:
            at = max(at, counts.next_try_at)
        self._fruitless += 1
        if (at - now).total_seconds() > PATIENCE:
            work.end(Released(at))
        self._due = at

    # ---- the end

    async def _conclude(self, ending: Ending) -> Outcome:
        """In this order: nothing new, a moment for what is under way, lanes closed, all written, the last word."""
        work = self.work
        self._movers.stop_feeding()
        if not isinstance(ending, Failed | Released) or ending.drain:
            await self._drain()
        await self._movers.leave(mark=isinstance(ending, Released | Suspended))
        await work.stop_parts(but=self._ledger_task)
        await self._ledger.flush()
        if isinstance(ending, Failed):
            await self._forsake()
        elif isinstance(ending, Finished):
            await self._sweep(SWEEP, tries=SWEEPS)
        elif isinstance(ending, Suspended):
            ending = await self._unless_renewed(ending)
        outcome = await self._last_word(_CANCELED if self._canceled else ending)
        if self._crew is not None:
            await self._learn(self._crew, whole=outcome is Outcome.FINISHED and not work.spec.started)
        await self._sweep(SWEEP, tries=SWEEPS if outcome is Outcome.RELEASED else 1)
        return outcome

    async def _unless_renewed(self, ending: Suspended) -> Ending:
        """A new credential may have come: then only the sessions that were begun with the old one are over."""
        credentials = self.work.credentials
        fault = await credentials.look()
        if fault is None and credentials.renewed:
            return Released(self.work.clock.now())
        return ending

    async def _learn(self, crew: Crew, *, whole: bool) -> None:
        """What the next task on this way may begin with. After the last word: nobody waits for it."""
        gauge, plan = crew.gauge, crew.announced
        if plan is None or not gauge.files:
            return
        run = Run(
            seconds=(self.work.clock.now() - self._begun).total_seconds(),
            files=gauge.files,
            bytes=gauge.bytes,
            faults=gauge.faults,
            round_trip=self._tuner.round_trip,
            concurrency=plan.concurrency,
            parallelism=plan.parallelism,
            pipelining=plan.pipelining,
            whole=whole,
        )
        transports = learned(self.work.spec.knowledge, self.work.sessions.transport, run)
        await self.work.store.learn({**self._tuner.knowledge(), **transports}, run)

    async def _drain(self) -> None:
        """Let what is under way arrive, but not for long."""
        end = self.work.clock.now() + timedelta(seconds=DRAIN)
        while not self._movers.idle and (left := (end - self.work.clock.now()).total_seconds()) > 0:
            await self.work.clock.sleep(min(left, 0.05))

    async def _forsake(self) -> None:
        """What was begun and will not be ended is removed, while nobody else can write there for this task's sake."""
        if self._crew is not None:
            begun = await self.work.store.begun(MAX_LITTER)
            rows = [*self._crew.left_behind, *(row for row in begun if not self._stock.untouched(row))]
            self._stock.drop([path for row in rows for path in partials(row)])
            await self._sweep(DRAIN)

    async def _sweep(self, seconds: float, tries: int = 1) -> None:
        """Remove files that nobody needs any more; what the endpoint does not let us is left for the next sweep."""
        for number in range(tries):
            names, self._stock.litter = self._stock.litter, []
            if not names:
                return
            if number:
                await wait_for(self.work.clock, self._stop, delay(number - 1, self.work.jitter()))
            try:
                await self._stock.remove_within(DRAIN if self._stop.is_set() else seconds, names)
            except TimeoutError:
                if number + 1 < tries:
                    self._stock.drop(names)

    async def _last_word(self, ending: Ending) -> Outcome:
        store = self.work.store
        match ending:
            case Finished():
                await store.finish()
                return Outcome.FINISHED
            case Failed(code, description):
                await store.fail(code, description)
                return Outcome.FAILED
            case Suspended(fault):
                await store.suspend(*self.work.credentials.blame(fault))
                return Outcome.SUSPENDED
            case Released(at):
                await store.release(at, self.work.endpoints.failures)
                return Outcome.RELEASED


_CANCELED = Failed("CANCELED", "Canceled by the user.")
#: What exactly, is for the log: the words of an unexpected error may hold anything.
_OURS = replace(
    make_fault(Kind.INTERNAL_ERROR),
    advice="The task goes on later; the operator finds the cause in the worker's log, by the id of the task.",
)
