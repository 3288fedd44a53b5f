"""One worker process: Celery's threads, and one event loop with all sessions.

A thread of Celery, or without Redis one of `SliceThreads`, takes the lease, starts the slice on the loop and waits.
Sessions live on the loop, so that a task can use the warm sessions of the last one, whichever thread started it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from django.conf import settings
from django.db import close_old_connections

from transferapi.logs import context
from transferapi.outages import watchdog
from transferapi.tasks import doorbell, moves
from transferapi.tasks.upkeep import rounds, tallies
from transferapi.tasks.worker import leases

from . import wall_clock
from .engine.slice import SliceResult
from .engine.trace import NO_TRACE
from .sessions.pool import SessionPool
from .slice_preparation import prepare
from .slices import trace as slice_trace
from .slices.lease_keeper import LeaseKeeper
from .slices.loop_watch import LoopWatch
from .slices.threads import SliceThreads
from .store import on_a_connection
from .streaming.host import StreamingHost
from .streaming.rate_share import RateShare

log = logging.getLogger(__name__)

#: Tasks that the end of a slice rings for: its sessions may be enough for this many (`fair_share`), and each of these
#: rings for as many at its own end.
NEXT = 3


class Runtime:
    """The event loop of this process and its sessions."""

    def __init__(self) -> None:
        # The loop must not wait for the threads of the store: with the default of 5 ms a lane runs empty each time
        # that a thread prepares a statement.
        sys.setswitchinterval(0.0005)
        # The garbage collector need not scan the loaded modules every few hundred files.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        self.loop = asyncio.new_event_loop()
        self.stop = asyncio.Event()
        self.pool = SessionPool()
        share = RateShare(settings.REDIS_URL, f"{worker_name()}:{secrets.token_hex(4)}")
        self.streaming = StreamingHost(settings.STREAM_RATE, settings.STREAMS, share)
        #: As the loop last counted it (`figures.OF_WORKERS`), and slices of this moment.
        self.gauges: dict[str, int] = {}
        self.slices: set[tuple[uuid.UUID, int]] = set()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()
        self.leases = LeaseKeeper()
        LoopWatch(self.loop, self._thread, has_work=lambda: bool(self.slices)).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.call_later(5.0, self._expire)
        self.loop.call_soon(self._measure)
        self.loop.run_forever()

    def _expire(self) -> None:
        self.pool.expire()
        self.loop.call_later(5.0, self._expire)

    def _measure(self) -> None:
        """On the loop, which alone may read the pool."""
        watchdog.moved("the loop of the sessions")
        warm, in_use = self.pool.counts()
        self.gauges = {"sessions_warm": warm, "sessions_in_use": in_use, "streams_running": self.streaming.running}
        self.loop.call_later(2.0, self._measure)


#: Leases and turns are read on few threads. Not on the store's threads: waiting for the lock of a user's turn must not
#: delay a heartbeat.
_scheduling = ThreadPoolExecutor(2, thread_name_prefix="scheduling")
_lock = threading.Lock()
_runtime: Runtime | None = None
_stopping = False
#: The maintenance mode keeps tasks from running.
_held = False


def begin(threads: int, hears: Callable[[], bool]) -> None:
    """This process is a worker with so many threads. hears: whether messages reach it. Call it after the fork."""
    _slices.open(threads, hears)


def current() -> Runtime:
    """The runtime of this process, made when first needed (never before a fork)."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = Runtime()
            # `stop` may have been called while the first task was taken, before there was a runtime to stop.
            if _stopping:
                _runtime.loop.call_soon_threadsafe(_runtime.stop.set)
        return _runtime


def hears() -> bool:
    """Whether messages reach this process."""
    return _slices.hears()


def stop() -> None:
    """Make every slice of this process release its task."""
    global _stopping
    _stopping = True
    if _runtime:
        _runtime.loop.call_soon_threadsafe(_runtime.stop.set)
    _slices.stop()


def join() -> None:
    """After `stop`: wait for the slices that no thread of Celery runs."""
    _slices.join()


def hold(*, held: bool) -> None:
    """Make every slice of this process release its task, and take no task while `held`. Called again and again."""
    global _held
    with _lock:
        if held and _runtime and _runtime.slices:
            released, _runtime.stop = _runtime.stop, asyncio.Event()
            _runtime.loop.call_soon_threadsafe(released.set)
        _held = held


def takes_tasks() -> bool:
    """Whether this process takes tasks: it is not asked to stop, and the maintenance mode holds none."""
    return not (_held or _stopping)


def worker_name() -> str:
    """The holder of a lease, for people who read the table; writes are fenced by the epoch."""
    return f"{socket.gethostname()}:{os.getpid()}"


def gauges() -> dict[str, int]:
    """Numbers of this process for its report; before its first task those of its clock alone."""
    runtime, clock = _runtime, wall_clock.gauges()
    return {**clock, **runtime.gauges, "slices_running": len(runtime.slices)} if runtime else clock


def run(task_id: str) -> None:
    """Take the lease of this task and work on it for a slice; then ring for tasks that waited for this one's end."""
    _slices.run(task_id)


def _take_and_work(task_id: str) -> bool:
    """Whether there was a slice."""
    if not takes_tasks():
        return False
    asked_at = time.time_ns()

    def acquire() -> leases.Grant | leases.LeaseRefusal | None:
        return None if wall_clock.is_wrong() else leases.acquire(uuid.UUID(task_id), worker_name())

    grant = _scheduling.submit(on_a_connection, acquire).result()
    if not isinstance(grant, leases.Grant):
        log.debug("task %s is not taken: %s", task_id, grant)
        return False
    with context.bound(task=grant.task_id, user=grant.owner_id, **_endpoints(grant)):
        _work(grant, asked_at)
    return True


def _endpoints(grant: leases.Grant) -> dict[str, uuid.UUID]:
    """The ids of the task's endpoints, for log lines."""
    return {str(side): access.endpoint.pk for side, access in grant.accesses.items()}


def _work(grant: leases.Grant, asked_at: int) -> None:
    """Run a slice of the task on the loop, and wait for its end. asked_at: for its lease, nanoseconds."""
    runtime = current()
    streams = runtime.streaming.task(str(grant.task_id))
    trace = slice_trace.of(grant)
    if trace:
        trace.leased(asked_at, worker_name())
    prepared = prepare(grant, runtime.pool, runtime.stop, streams, trace or NO_TRACE)
    tallies.add("slices")
    if grant.taken_over:
        tallies.add("takeovers")
    mark = grant.task_id, grant.epoch
    runtime.slices.add(mark)
    # Not kept for the minutes of the slice.
    close_old_connections()
    outcome: SliceResult | None = None
    try:
        with runtime.leases.keeping(prepared.store, prepared.fence):
            future: Future[SliceResult] = asyncio.run_coroutine_threadsafe(prepared.slice_, runtime.loop)
            outcome = future.result()
    finally:
        runtime.slices.discard(mark)
        if trace:
            trace.close(outcome)
    runtime.loop.call_soon_threadsafe(prepared.credentials.clear)
    log.info("slice %d ended: %s", grant.epoch, outcome)


def sweep() -> None:
    """End overdue tasks without a lease, and ring for the next that may run and have none.

    Tasks of a lost worker begin here at once where this process has room: they would wait behind all messages that are
    on their way. Where no message reaches this process, the others begin here, too. A message that it sends then may
    reach another worker, and the lease decides.

    The next sweep comes when the next lease ends, if that is soon: a lost worker's tasks wait for no other one.
    """
    moves.expire_overdue()
    rounds.sweep_when_a_lease_ends()
    found = leases.next_runnable(doorbell.MOST)
    _start([*_slices.hand_over(found.lost), *found.others])


def start_next() -> None:
    """The end of a slice: ring for the few tasks that have room now.

    Not for all that may run: where many tasks wait, the messages of all ends would come faster than workers look at
    them, and those of new tasks would wait behind them.
    """
    if takes_tasks():
        found = _scheduling.submit(on_a_connection, partial(leases.next_runnable, NEXT)).result()
        _start([*found.lost, *found.others])


def _start(task_ids: Sequence[uuid.UUID]) -> None:
    if not doorbell.ring(task_ids) or not _slices.hears():
        _slices.hand_over(task_ids)


_slices = SliceThreads(_take_and_work, start_next)
