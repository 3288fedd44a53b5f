"""Runs one slice of one task: creates its parts, watches them, and ends them in order."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from random import SystemRandom

from endpoints.gridftp.faults import FaultError, Kind, Side, make_fault
from identity.gsi.sentences import Sentence
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.records import HeartbeatReply, SliceMeasurement, TaskSpec

from .bounds import DEFAULT, EngineBounds
from .credentials import CredentialProvider, Credentials
from .delete.delete_task import DeleteScanner, Remover, delete_plan
from .delete.extras import Extras
from .file_processor import FileProcessor
from .lanes.lane_manager import LaneManager
from .lease import HEARTBEAT
from .ports import Clock, SessionFactory, TaskStore
from .queue.file_queue import FileQueue
from .queue.queue_feeder import MAX_ORPHANS, QueueFeeder
from .retry import delay
from .scan.scanner import Scanner
from .settle.second_look import SecondLook
from .settle.settlement_writer import SettlementWriter
from .trace import NO_TRACE, Trace
from .tuning.opening import Caps
from .tuning.transport import learned
from .tuning.tuner import Tuner
from .work import (
    LONGEST_WAIT,
    Away,
    Ending,
    Failed,
    Finished,
    Released,
    SliceContext,
    Suspended,
    Unconfirmed,
    first_of,
    wait_for,
)

log = logging.getLogger(__name__)

#: Seconds that files under way have to arrive when the slice ends.
DRAIN = 1.0
#: Seconds between two polls of the store for due files; longer after polls that return nothing.
POLL = 0.5
LONG = 3600.0
#: Seconds for the removal of temporary files that are no longer needed.
REMOVAL_TIMEOUT = 5.0
#: Number of removal attempts while nothing else waits for the slice. No later slice knows these names.
REMOVAL_TRIES = 4


class SliceResult(enum.StrEnum):
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
    credential_provider: CredentialProvider,
    clock: Clock,
    *,
    slice_seconds: float,
    stop: asyncio.Event,
    jitter: Callable[[], float] | None = None,
    bounds: EngineBounds = DEFAULT,
    trace: Trace = NO_TRACE,
) -> SliceResult:
    """Work on the task whose lease `store` holds, until the task ends, must wait, or the slice ends.

    stop: set when the process shall end (SIGTERM): files under way get a moment, then the lease is released.
    jitter: numbers 0 <= x < 1 for the backoff. After an unexpected error the task is not lost: it ends, is released,
    or its lease expires. Raises only the errors of the store when not even the release is possible.
    """
    credentials = Credentials(credential_provider, clock)
    work = SliceContext(spec, store, sessions, credentials, clock, jitter or SystemRandom().random, bounds, trace)
    slice_ = _Slice(work, slice_seconds, stop)
    with sessions.fence.in_force():
        try:
            ending = await work.lease.while_held(slice_.run())
            return await slice_.end(ending)
        except LeaseLostError:
            work.lease.lose()
            return SliceResult.LEASE_LOST
        except Exception:
            log.exception("task %s: an unexpected error", spec.task_id)
            return await slice_.release_after_error()
        finally:
            await slice_.close()


class _Slice:
    def __init__(self, work: SliceContext, seconds: float, stop: asyncio.Event) -> None:
        self.work = work
        self._seconds = seconds
        self._stop = stop
        spec = work.spec
        self._begun = work.clock.now()
        self._tuner = Tuner(spec.options, Caps.of(spec), spec.knowledge)
        self._file_queue = FileQueue(delete_plan if spec.is_delete else self._tuner.plan)
        self._settlement_writer = SettlementWriter(work.store, work.clock, self._settlements_written)
        self._feeder = QueueFeeder(
            spec, work.store, work.control_sessions, self._file_queue, self._files_added, work.unreachable
        )
        parts = (work, self._file_queue, self._feeder, self._settlement_writer)
        self._lane_manager = None if spec.is_delete else LaneManager(*parts, self._tuner)
        self._processor: FileProcessor = self._lane_manager or Remover(*parts)
        self._scanner = (DeleteScanner if spec.is_delete else Scanner)(work, self._feeder)
        self._second_look = SecondLook(work, self._files_added)
        self._extras = Extras(work)
        self._scan: asyncio.Task[None] | None = None
        self._writer_task: asyncio.Task[None] | None = None
        self._heart: asyncio.Task[None] | None = None
        #: The time at which the store has due work again, as far as it is known.
        self._due: datetime | None = None
        #: Number of polls in a row that returned nothing, and the minimum of seconds to the next one.
        self._empty_polls = 0
        self._poll = POLL
        #: Set after work was started: the main loop checks for the end.
        self._recheck = asyncio.Event()
        self._canceled = False

    async def run(self) -> Ending:
        """Work until the slice is to end, and leave the servers. Returns the ending, which is still to be written."""
        work = self.work
        self._apply_heartbeat(await work.lease.renew())
        if not work.ended.done() and (fault := await work.credentials.check()):
            work.end(Suspended(fault))
        if not work.ended.done():
            self._heart = work.spawn(self._heartbeat_loop())
            work.spawn(self._watch_credentials())
            work.spawn(self._watch_time())
            self._writer_task = work.spawn(self._settlement_writer.run())
            work.spawn(self._start_loop())
            work.spawn(self._main_loop())
        return await self._finish(await work.ended)

    async def release_after_error(self) -> SliceResult:
        """After an unexpected error: report it, write all certain settlements, and release the task for later."""
        work = self.work
        at = work.clock.now() + timedelta(seconds=delay(work.endpoints.failures + 3, work.jitter()))
        try:
            await self._processor.abort(rename_suspects=True)
            await work.stop_parts(but=[self._writer_task])
            await self._settlement_writer.flush()
            await work.store.endpoint_failed(_UNEXPECTED_ERROR, at, lanes=True)
            await work.store.release(at, work.endpoints.failures + 1)
        except LeaseLostError:
            work.lease.lose()
            return SliceResult.LEASE_LOST
        return SliceResult.RELEASED

    async def close(self) -> None:
        """Stop all parts and close all sessions, however the slice ended; no step is left out where another fails."""
        async with AsyncExitStack() as steps:  # the last one is done first
            steps.push_async_callback(self.work.control_sessions.close)
            steps.push_async_callback(self.work.stop_parts)
            steps.push_async_callback(self._processor.abort, rename_suspects=False)
        if self.work.ended.done() and not self.work.ended.cancelled():
            self.work.ended.exception()  # the error of a second part, which nothing awaits any more

    # ---- watching

    async def _heartbeat_loop(self) -> None:
        while True:
            await self.work.clock.sleep(HEARTBEAT)
            self._apply_heartbeat(await self.work.lease.renew())

    def _apply_heartbeat(self, pulse: HeartbeatReply) -> None:
        self.work.deadline = pulse.deadline
        if pulse.cancel_requested:
            self._canceled = True
            self.work.end(_CANCELED)
        elif self.work.clock.now() >= pulse.deadline:
            self.work.end(Failed("EXPIRED", Sentence("The deadline has passed."), drain=True))
        elif pulse.pause_requested:
            self.work.end(Released(self.work.clock.now(), drain=True))

    async def _watch_credentials(self) -> None:
        self.work.end(Suspended(await self.work.credentials.watch()))

    async def _watch_time(self) -> None:
        stopped = await wait_for(self.work.clock, self._stop, self._seconds)
        if not stopped:
            await first_of(self._drain_long_work(), self._stop.wait())
        # After its slice a task goes behind the other tasks of its owner. A task whose worker stops keeps its place.
        self.work.end(Released(None if self._stop.is_set() else self.work.clock.now(), drain=True))

    async def _drain_long_work(self) -> None:
        """Wait for work that takes longer than a slice: if it were stopped, each slice would begin it again."""
        await self._scanner.drain()
        if self._lane_manager is not None:
            await self._lane_manager.drain()
            await self._extras.drain()

    # ---- the main loop: the scan, due files, and the end

    def _files_added(self) -> None:
        self._empty_polls = 0
        self._poll = POLL
        self.work.more_to_do()

    def _settlements_written(self, ids: Collection[int]) -> None:
        self._file_queue.release(ids)
        self.work.more_to_do()

    async def _start_loop(self) -> None:
        """Start work whenever there may be more of it, also while the main loop waits for the store."""
        while True:
            await self.work.wait_for_more()
            self._processor.start_work()
            self._recheck.set()

    async def _main_loop(self) -> None:
        work = self.work
        self._begin_scan()
        if work.spec.started:
            await self._feeder.fetch()
        while True:
            if self._scan is None and self._file_queue.empty:
                await self._check_end()
            elif self._scan is None and self._processor.idle and work.seconds_blocked() > LONGEST_WAIT:
                # All loaded files wait for the endpoints: release the lease, so that the worker can run another task.
                work.end(Released(work.endpoints.until or work.clock.now()))
            blocked = work.seconds_blocked() or LONG
            await wait_for(work.clock, self._recheck, min(self._seconds_to_due(), blocked))
            self._recheck.clear()
            if self._seconds_to_due() <= 0:
                await self._fetch_due()
            self._processor.start_work()

    def _begin_scan(self) -> None:
        if self._scan is None:
            for side in (Side.SOURCE,) if self.work.spec.is_delete else (Side.SOURCE, Side.DESTINATION):
                self.work.control_sessions.open_ahead(side)
            self._processor.set_scanning(running=True)
            self._scan = self.work.spawn(self._scan_once())

    async def _scan_once(self) -> None:
        with self.work.trace.step("scan"):
            # A task that is refused has made no folder.
            if self._lane_manager is None or await self._lane_manager.is_possible():
                await self._scanner.scan()
        self._scan = None
        self._processor.set_scanning(running=False)

    def _seconds_to_due(self) -> float:
        times = [
            at for at in (self._due, self._settlement_writer.next_retry, self._scanner.next_retry) if at is not None
        ]
        return max(0.0, (min(times) - self.work.clock.now()).total_seconds()) if times else LONG

    async def _fetch_due(self) -> None:
        """Fetch what is due, and find out when the next retry is due."""
        self._due = self._settlement_writer.next_retry = self._scanner.next_retry = None
        self._begin_scan()
        await self._feeder.fetch()
        counts = await self.work.store.counts()
        if counts.next_try_at is not None:
            self._due = max(counts.next_try_at, self.work.clock.now() + timedelta(seconds=self._poll))
            self._poll = min(LONGEST_WAIT, self._poll * 2)

    async def _check_end(self) -> None:
        """No file is loaded and no scan runs: end the task, pause, or release the lease."""
        work = self.work
        counts = await work.store.counts()
        if not counts.items_unscanned and not counts.files_pending:
            if await self._second_look.is_done() and await self._extras.is_done(counts):
                work.end(Finished())
            return
        now = work.clock.now()
        # Due files may not be loaded yet: poll at once, then at longer intervals while polls return nothing.
        at = max(work.endpoints.until or now, now + timedelta(seconds=POLL * self._empty_polls))
        if self._empty_polls and counts.next_try_at is not None:
            at = max(at, counts.next_try_at)
        self._empty_polls += 1
        if (at - now).total_seconds() > LONGEST_WAIT:
            work.end(Released(at))
        self._due = at

    # ---- the end

    async def _finish(self, ending: Ending) -> Ending:
        """End in this order: start nothing, wait for arrivals, close lanes, write all settlements, remove leftovers.

        The heart beats until then: the removal is allowed by the lease. Returns the ending that is to be written.
        """
        work = self.work
        self._processor.stop_feeding()
        if not isinstance(ending, Failed | Released) or ending.drain:
            await self._wait_for_arrivals()
        await self._processor.abort(rename_suspects=isinstance(ending, Released | Suspended | Away))
        await work.stop_parts(but=[self._writer_task, self._heart])
        await self._settlement_writer.flush()
        if work.lease.may_ask:
            with suppress(FaultError):
                await work.storage_probe.remove_left()
        ending = _CANCELED if self._canceled else ending
        if isinstance(ending, Failed):
            await self._remove_partial_files()
        elif isinstance(ending, Finished | Unconfirmed):
            await self._remove_orphans(REMOVAL_TIMEOUT, tries=REMOVAL_TRIES)
        elif isinstance(ending, Suspended):
            ending = await self._unless_renewed(ending)
        return ending

    async def end(self, ending: Ending) -> SliceResult:
        """Write the ending, and with it give the lease back. Only names that no other slice knows are removed then."""
        work = self.work
        await work.stop_parts(but=[self._writer_task])
        outcome = await self._write_ending(ending)
        work.spawn(work.lease.keep_fence_open())
        if self._lane_manager is not None:
            await self._learn(self._lane_manager, whole=outcome is SliceResult.FINISHED and not work.spec.started)
        await self._remove_orphans(REMOVAL_TIMEOUT, tries=REMOVAL_TRIES if outcome is SliceResult.RELEASED else 1)
        return outcome

    async def _unless_renewed(self, ending: Suspended) -> Ending:
        """Release instead of suspending when a new credential was stored: only sessions with the old one are over."""
        credentials = self.work.credentials
        fault = await credentials.check()
        if fault is None and credentials.renewed:
            return Released(self.work.clock.now())
        return ending

    async def _learn(self, lane_manager: LaneManager, *, whole: bool) -> None:
        """Record what the next task between these endpoints can use. It runs after the ending is written."""
        counter, plan = lane_manager.counter, lane_manager.announced
        if plan is None or not counter.files:
            return
        run = SliceMeasurement(
            seconds=(self.work.clock.now() - self._begun).total_seconds(),
            files=counter.files,
            bytes=counter.bytes,
            faults=counter.faults,
            round_trip=self._tuner.round_trip,
            concurrency=plan.concurrency,
            parallelism=plan.parallelism,
            pipelining=plan.pipelining,
            whole=whole,
        )
        transports = learned(self.work.spec.knowledge, self.work.sessions.transport, run)
        await self.work.store.learn({**self._tuner.knowledge(), **transports}, run)

    async def _wait_for_arrivals(self) -> None:
        """Wait for files under way to arrive, at most DRAIN seconds."""
        end = self.work.clock.now() + timedelta(seconds=DRAIN)
        while not self._processor.idle and (left := (end - self.work.clock.now()).total_seconds()) > 0:
            await self.work.clock.sleep(min(left, 0.05))

    async def _remove_partial_files(self) -> None:
        """Remove partial files that will not be completed, while the lease keeps other slices from writing there."""
        if self._lane_manager is not None:
            begun = await self.work.store.begun(MAX_ORPHANS)
            rows = [*self._lane_manager.left_behind, *(row for row in begun if not self._feeder.untouched(row))]
            self._feeder.add_orphans(await self._feeder.partials(rows))
            self._feeder.add_orphans([path for row in rows for path in self._feeder.of_lost_workers(row)])
            await self._remove_orphans(DRAIN)

    async def _remove_orphans(self, seconds: float, tries: int = 1) -> None:
        """Remove orphaned temporary files; failed removals are left for the next attempt."""
        for number in range(tries):
            names, self._feeder.orphans = self._feeder.orphans, []
            if not names or not self.work.lease.may_ask:
                return
            if number:
                await wait_for(self.work.clock, self._stop, delay(number - 1, self.work.jitter()))
            try:
                await self._feeder.remove_within(DRAIN if self._stop.is_set() else seconds, names)
            except TimeoutError:
                if number + 1 < tries:
                    self._feeder.add_orphans(names)

    async def _write_ending(self, ending: Ending) -> SliceResult:
        work, store = self.work, self.work.store
        match ending:
            case Finished():
                await store.finish()
                return SliceResult.FINISHED
            case Failed(code, description):
                await store.fail(code, description)
                return SliceResult.FAILED
            case Suspended(fault):
                await store.suspend(*work.credentials.attribute(fault))
                return SliceResult.SUSPENDED
            case Unconfirmed(extra, total):
                await store.ask_deletion(extra, total)
                return SliceResult.SUSPENDED
            case Away(fault, at):
                await store.wait_for_agent(fault, at, work.spec.connection_failures)
                return SliceResult.RELEASED
            case Released(at):
                await store.release(at, work.endpoints.failures)
                return SliceResult.RELEASED


_CANCELED = Failed("CANCELED", "Canceled by the user.")
#: The details are in the log only: the text of an unexpected error may contain anything.
_UNEXPECTED_ERROR = replace(
    make_fault(Kind.INTERNAL_ERROR),
    advice="The task continues later. The operator finds the cause in the worker's log, under the id of the task.",
)
