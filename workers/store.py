"""The engine's TaskStore on PostgreSQL: each call is one short transaction, in a thread of a small pool.

No call lasts longer than the lease: where the database does not answer by then, it raises LeaseLostError, as where
another worker has the task.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from endpoints.gridftp.faults import Fault, Side
from endpoints.gridftp.wire.fence import Fence
from identity.clock import CarriedClock, ClockReading, boottime
from transferapi.outages.database import reason_of
from transferapi.outages.log_filter import is_told
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.events import NewEvent
from transferapi.tasks.items import overlaps
from transferapi.tasks.records import (
    DataProtection,
    DataWay,
    FaultedFile,
    FaultedItem,
    FileRow,
    FoundFile,
    HeartbeatReply,
    ItemRow,
    SettledFile,
    Settlement,
    SkippedSource,
    SliceMeasurement,
    TaskCounts,
)
from transferapi.tasks.upkeep import tallies
from transferapi.tasks.worker import (
    agent_waits,
    deletion_requests,
    leases,
    measurements,
    pending_files,
    protection,
    scan_results,
    settling,
    slice_end,
    troubles,
)

from .engine.bounds import EngineBounds
from .engine.trace import NO_TRACE, Trace
from .task_rates import TaskRate

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

#: Each thread has a connection to the database while it works. Some are for heartbeats alone, which do not wait for
#: other calls.
THREADS, FOR_HEARTBEATS = 6, 2
#: Seconds for which a call tries to reach the database again; after that the lease has run out anyway.
LONGEST_RETRY = leases.TTL.total_seconds()
RETRY_SECONDS = 0.2
#: Seconds for a call that begins when the lease has run out by this worker's reckoning: the database decides.
LEAST_SECONDS = 0.5
#: Seconds after its last heartbeat at which a lease is renewed for a loop that stands still, and for how long that goes
#: on: other workers take its tasks then.
LATE_HEARTBEAT, KEPT_SECONDS = 1.8, 20.0

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
_waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
_running, _lock = 0, threading.Lock()


def bounds() -> EngineBounds:
    """The limits of one task: the files that it may find, and the memory of its scan."""
    limits = settings.LIMITS
    return EngineBounds(limits.task_files, 4 * limits.task_files, limits.scan_memory)


class PostgresTaskStore:
    """`workers.engine.ports.TaskStore` for the task of this grant; all stores of a process share their threads.

    beats: called with each heartbeat, in a thread with a connection to the database.
    kinds: of its source and destination, for the tallies of files and octets.
    clock: is corrected by each heartbeat. rate: of a slice that something may limit.
    """

    def __init__(
        self,
        grant: leases.Grant,
        beats: Sequence[Callable[[], None]] = (),
        kinds: tuple[str, str] = ("unknown", "unknown"),
        trace: Trace = NO_TRACE,
        clock: CarriedClock | None = None,
        rate: TaskRate | None = None,
    ) -> None:
        self._grant = grant
        self._clock = clock
        #: The `boottime` at which the lease runs out, unless a heartbeat renews it.
        self._until = boottime() + LONGEST_RETRY
        self._keeping = False
        self._kinds = kinds
        self._trace = trace
        self._beats = beats if rate is None else (*beats, rate.refresh)
        self._rate = rate
        #: The `boottime` of the last heartbeat that the slice itself has asked for.
        self._asked_at = boottime()
        self._compares = grant.spec.options.get("sync_level") is not None

    async def heartbeat(self) -> HeartbeatReply:
        self._asked_at = boottime()
        reply, begun = await self._within_lease(self._beat, _threads.submit)
        # From its beginning: the database has renewed the lease later than that.
        self._until = begun + LONGEST_RETRY
        for beat in self._beats:
            await self._within_lease(beat, _threads.submit)
        return reply

    def keep(self, fence: Fence) -> None:
        """Called by a thread at intervals: renew the lease in the place of a slice whose loop stands still.

        Not for longer than KEPT_SECONDS: then the task is better off with another worker.
        """
        now = boottime()
        late = now - (self._until - LONGEST_RETRY)
        if late > LATE_HEARTBEAT and now - self._asked_at < KEPT_SECONDS and not fence.closed and not self._keeping:
            self._keeping = True
            _threads.submit(self._keep, fence)

    def _keep(self, fence: Fence) -> None:
        begun = fence.now()
        try:
            _, asked_at = on_a_connection(self._beat, LEAST_SECONDS)
            # In one step: the loop reads it meanwhile.
            self._until = asked_at + LONGEST_RETRY
            fence.extend(begun)
        except LeaseLostError:
            fence.close()
        except (OperationalError, InterfaceError) as error:
            if not is_told(error):
                log.warning("a lease was not renewed: %s", type(error).__name__)
        finally:
            self._keeping = False

    def _beat(self) -> tuple[HeartbeatReply, float]:
        """The reply, and the `boottime` before it was asked for."""
        begun = boottime()
        reply = leases.heartbeat(self._grant.task_id, self._grant.epoch)
        if self._clock is not None and reply.time is not None:
            self._clock.correct(ClockReading(reply.time, begun, boottime()))
        return reply, begun

    async def unscanned(self, limit: int, exclude: Sequence[int] = ()) -> list[ItemRow]:
        return await self._call(scan_results.unscanned, limit, exclude)

    async def add_found(self, item: ItemRow, found: Sequence[FoundFile]) -> list[FileRow]:
        return await self._call(scan_results.add_found, item.id, found, durable=self._compares)

    async def has_found(self, item: ItemRow) -> bool:
        return await self._call(scan_results.has_found, item.id)

    async def items(self, after: int, limit: int) -> list[tuple[ItemRow, bool]]:
        return await self._call(scan_results.items, after, limit)

    async def known(self, destinations: Sequence[str]) -> set[str]:
        return await self._call(scan_results.known, destinations)

    async def item_scanned(self, item: ItemRow, directories: int, symlinks: int) -> None:
        await self._call(scan_results.item_scanned, item.id, directories, symlinks)

    async def file_items_scanned(self, found: Sequence[tuple[ItemRow, FoundFile]]) -> list[FileRow]:
        return await self._call(scan_results.file_items_scanned, found, durable=self._compares)

    async def items_faulted(self, faulted: Sequence[FaultedItem]) -> None:
        await self._call(settling.items_faulted, faulted)
        _tally(faulted)

    async def skip_sources(self, item: ItemRow, missed: Sequence[SkippedSource]) -> None:
        await self._call(settling.skip_sources, item.id, missed)

    async def pending(self, limit: int, exclude: Sequence[int]) -> list[FileRow]:
        return await self._call(pending_files.pending, limit, exclude)

    async def begun(self, limit: int) -> list[FileRow]:
        return await self._call(pending_files.begun, limit)

    async def others_write(self) -> bool:
        return await self._call(overlaps.others_write)

    async def write_temporary_paths(self, files: Sequence[FileRow]) -> None:
        await self._call(pending_files.write_temporary_paths, files)

    async def source_changed(self, files: Sequence[FileRow]) -> None:
        await self._call(pending_files.source_changed, files)

    async def arrived(self, after: int, limit: int) -> list[SettledFile]:
        return await self._call(pending_files.arrived, after, self._grant.spec.suspect_up_to, limit)

    async def send_again(self, files: Sequence[FileRow]) -> None:
        await self._call(pending_files.send_again, files)

    async def write(self, batch: Settlement) -> None:
        with self._trace.work("settle", len(batch.settled)):
            written = await self._call(settling.write, batch)
        tallies.add("files", *self._kinds, by=written.files)
        # A file that begins anew takes octets back, and a counter never falls.
        tallies.add("bytes", *self._kinds, by=max(0, written.octets))
        _tally(batch.faulted)

    async def event(self, code: str, description: str, details: object) -> None:
        await self._call(measurements.add_event, NewEvent(code, description, details))

    async def endpoint_failed(self, fault: Fault, retry_at: datetime, *, lanes: bool = False) -> None:
        await self._call(troubles.endpoint_failed, fault, retry_at, lanes=lanes)
        tallies.add("faults", fault.kind.value)
        tallies.add("retries")

    async def reached(self, sides: Sequence[Side], *, lanes: bool) -> None:
        await self._call(troubles.reached, sides, lanes=lanes)

    async def protected(self, protection_: DataProtection) -> None:
        await self._call(protection.note, protection_)

    async def data_goes(self, way: DataWay) -> None:
        await self._call(protection.note_way, way)

    async def counts(self) -> TaskCounts:
        return await self._call(pending_files.counts)

    async def learn(self, knowledge: Mapping[str, object] | None, run: SliceMeasurement | None) -> None:
        if self._rate is None or not self._rate.was_limited:
            await self._call(lambda task_id, _: measurements.learn(task_id, knowledge, run))

    async def finish(self) -> None:
        await self._call(slice_end.finish)

    async def fail(self, code: str, description: str) -> None:
        await self._call(slice_end.fail, code, description)

    async def suspend(self, fault: Fault, had_credential: datetime | None) -> None:
        await self._call(slice_end.suspend, fault, had_credential)

    async def ask_deletion(self, extra: int, total: int) -> None:
        await self._call(deletion_requests.ask, extra, total)

    async def wait_for_agent(self, fault: Fault, look_at: datetime, connection_failures: int = 0) -> None:
        await self._call(agent_waits.wait, fault, look_at, connection_failures)

    async def release(self, next_run_at: datetime | None, connection_failures: int = 0) -> None:
        await self._call(slice_end.release, next_run_at, connection_failures)

    async def _call(self, function: Callable[Concatenate[UUID, int, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function of the store in a thread, for the task and the epoch of the grant."""
        task_id, epoch = self._grant.task_id, self._grant.epoch
        return await self._within_lease(lambda: function(task_id, epoch, *args, **kwargs))

    async def _within_lease(self, function: Callable[[], R], begin: Callable[..., Future[Any]] | None = None) -> R:
        """Call it in a thread. Raises LeaseLostError where it has no answer when the lease has run out."""
        seconds = max(LEAST_SECONDS, self._until - boottime())
        last = boottime() + seconds
        future = (begin or _submit)(on_a_connection, function, min(seconds, LONGEST_RETRY))
        answer: asyncio.Future[R] = asyncio.wrap_future(future)
        try:
            # Heartbeats may renew the lease meanwhile.
            while (left := max(last, self._until) - boottime()) > 0 and not answer.done():
                await asyncio.wait([answer], timeout=left)
            if answer.done():
                return answer.result()
        except (OperationalError, InterfaceError) as error:
            if boottime() < self._until:
                raise
            raise LeaseLostError(self._grant.task_id, self._grant.epoch) from error
        finally:
            answer.cancel()
        raise LeaseLostError(self._grant.task_id, self._grant.epoch)


def _tally(faulted: Sequence[FaultedFile | FaultedItem]) -> None:
    for one in faulted:
        if not one.skipped:
            tallies.add("faults", one.fault.kind.value)
        if one.retry_at:
            tallies.add("retries")


async def in_a_thread(function: Callable[[], R]) -> R:
    """Call it in one of the store's threads, with its connection to the database."""
    return await asyncio.wrap_future(_submit(on_a_connection, function))


def _submit(function: Callable[..., R], *args: object) -> Future[R]:
    """Call it in a thread that is not for heartbeats, as soon as there is one."""
    global _running
    future: Future[R] = Future()
    with _lock:
        _waiting.append((future, lambda: function(*args)))
        if _running == THREADS - FOR_HEARTBEATS:
            return future
        _running += 1
    _threads.submit(_work_off)
    return future


def _work_off() -> None:
    global _running
    while True:
        with _lock:
            if not _waiting:
                _running -= 1
                return
            future, function = _waiting.popleft()
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function())
            except BaseException as error:  # the caller's
                future.set_exception(error)


def on_a_connection(function: Callable[[], R], seconds: float = LONGEST_RETRY) -> R:
    """Call it on this thread's connection; while the database is away for a moment, call it again on a new one.

    seconds: after which it is not called again. Where only the reply was lost, the call is executed twice. That changes
    nothing, with three exceptions: an event or a run is written twice, and the end of a task fails because its lease is
    gone.
    """
    give_up = boottime() + seconds
    try:
        while True:
            try:
                return function()
            except (OperationalError, InterfaceError) as error:
                if boottime() + RETRY_SECONDS > give_up:
                    raise
                if not is_told(error):
                    log.warning("a call of the database is repeated: %s", reason_of(error))
                connection.close()
                time.sleep(RETRY_SECONDS)
    finally:
        # For another thread of this process.
        close_old_connections()
