"""A worker that lives keeps its lease, whatever its own transactions, its clock, or a failover do; one that is cut off
stops by itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from deploy.doctor import servers
from endpoints import permissions
from endpoints.gridftp.wire.fence import Fence
from endpoints.models import AccessRule, Endpoint
from identity import clock
from identity.clock import CarriedClock, ClockReading, boottime, moment
from identity.database_rows import query_rows
from identity.models import User
from tests.integration.cast import all_at_once, submit
from tests.store_connections import close_connections
from transferapi.tasks import locks
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import Event, Lease, Task, WorkerProcess
from transferapi.tasks.records import HeartbeatReply, Settlement
from transferapi.tasks.upkeep import worker_processes
from transferapi.tasks.worker import measurements, pending_files, settling
from transferapi.tasks.worker.leases import TTL, Grant, LeaseEpoch, LeaseRefusal, acquire, heartbeat, hold
from workers import runtime, slice_preparation, wall_clock
from workers import store as stores
from workers.slices.lease_keeper import LeaseKeeper
from workers.store import PostgresTaskStore

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(90)]

R = TypeVar("R")
DAY = 86_460.0


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_connections()


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2)


@pytest.fixture
def grant(task: Task) -> Grant:
    return taken(acquire(task.pk, "worker", ttl=timedelta(minutes=10)))


def expiry() -> datetime:
    end = Lease.objects.get().expires_at
    assert end is not None
    return end


def taken(answer: Grant | LeaseRefusal) -> Grant:
    assert isinstance(answer, Grant), answer
    return answer


# ---- heartbeats and transactions of one worker


def test_heartbeats_go_on_while_a_transaction_of_the_worker_lasts(grant: Grant) -> None:
    begun, beaten = threading.Event(), threading.Event()
    key = grant.task_id, grant.epoch

    def work() -> None:
        with hold(*key):
            begun.set()
            assert beaten.wait(20), "the heartbeat waits for the transaction"

    def beat() -> list[HeartbeatReply]:
        assert begun.wait(20)
        replies = [heartbeat(*key, ttl=timedelta(minutes=number)) for number in (1, 2, 3)]
        beaten.set()
        return replies

    done, replies = all_at_once([work, beat])
    assert done is None
    assert len(replies) == 3
    assert expiry() > moment() + timedelta(minutes=2)


def test_transactions_of_one_worker_follow_one_another(grant: Grant) -> None:
    inside: list[int] = []

    def work() -> int:
        with hold(grant.task_id, grant.epoch):
            inside.append(1)
            at_once = len(inside)
            time.sleep(0.05)
            inside.pop()
            return at_once

    assert all_at_once([work] * 4) == [1] * 4


def test_a_heartbeat_does_not_wait_for_the_disk_and_the_end_of_a_slice_does(grant: Grant) -> None:
    query_rows("SET synchronous_commit TO on; SELECT 1")
    with transaction.atomic():
        heartbeat(grant.task_id, grant.epoch)
        assert query_rows("SHOW synchronous_commit") == [("off",)]
    heartbeat(grant.task_id, grant.epoch)
    assert query_rows("SHOW synchronous_commit") == [("on",)]
    with hold(grant.task_id, grant.epoch, to_end=True):
        assert query_rows("SHOW synchronous_commit") == [("on",)]
    query_rows("RESET synchronous_commit; SELECT 1")


def test_nobody_takes_a_task_whose_transaction_lasts_longer_than_its_lease(grant: Grant) -> None:
    with hold(grant.task_id, grant.epoch):
        late = moment() + timedelta(hours=1)
        [answer] = all_at_once([partial(acquire, grant.task_id, "thief", now=late)])
        assert answer is LeaseRefusal.HELD
    assert isinstance(acquire(grant.task_id, "heir", now=late), Grant)


def test_a_transaction_that_outlasts_the_lease_renews_it(grant: Grant) -> None:
    Lease.objects.update(expires_at=(soon := moment() + timedelta(seconds=0.5)))
    with hold(grant.task_id, grant.epoch):
        while moment() < soon:
            time.sleep(0.05)
    assert expiry() > moment() + TTL / 2
    heartbeat(grant.task_id, grant.epoch)


def test_a_transaction_that_outlasts_the_lease_writes_nothing_where_an_older_version_has_taken_it(grant: Grant) -> None:
    """Its `acquire` locks the row in another way (FOR NO KEY UPDATE), and draws no nonce."""
    Lease.objects.update(expires_at=(soon := moment() + timedelta(seconds=0.5)))

    def take_as_before() -> None:
        with transaction.atomic():
            query_rows("SELECT epoch FROM tasks_lease FOR NO KEY UPDATE")
            Lease.objects.update(epoch=2, worker="older", expires_at=moment() + timedelta(minutes=1))

    def work() -> None:
        with hold(grant.task_id, grant.epoch) as now:
            measurements.add_event(grant.task_id, grant.epoch, NewEvent("STARTED", "It began."), now)
            while moment() < soon:
                time.sleep(0.05)
            assert all_at_once([take_as_before]) == [None]

    with pytest.raises(LeaseLostError):
        work()
    assert not Event.objects.filter(code="STARTED").exists()
    assert Lease.objects.get().worker == "older"


# ---- a failover that has lost the last commits


def test_an_epoch_that_is_given_out_again_after_a_failover_does_not_serve_its_first_holder(task: Task) -> None:
    before = Task.objects.get(pk=task.pk)
    first = taken(acquire(task.pk, "Y"))
    # The standby has neither the lease nor the move of the task.
    Lease.objects.all().delete()
    before.save()
    second = taken(acquire(task.pk, "Z"))
    assert first.epoch == second.epoch == 1
    for use in (heartbeat, partial(settling.write, batch=Settlement()), pending_files.counts):
        with pytest.raises(LeaseLostError):
            use(task.pk, first.epoch)
    heartbeat(task.pk, second.epoch)
    settling.write(task.pk, second.epoch, Settlement())


def test_a_lease_of_an_older_version_has_no_nonce_and_is_renewed_and_taken_over(grant: Grant) -> None:
    Lease.objects.update(nonce=None, epoch=7)
    heartbeat(grant.task_id, 7)
    with pytest.raises(LeaseLostError):
        heartbeat(grant.task_id, LeaseEpoch.of(7, 1))
    Lease.objects.update(expires_at=moment())
    heir = taken(acquire(grant.task_id, "heir"))
    assert heir.epoch == 8
    nonce = heir.epoch.nonce if isinstance(heir.epoch, LeaseEpoch) else None
    assert Lease.objects.get().nonce == nonce is not None


# ---- the threads of the store, and a worker that is cut off


def run(grant: Grant, work: Callable[[PostgresTaskStore], Awaitable[R]]) -> R:
    async def main() -> R:
        return await work(PostgresTaskStore(grant))

    return asyncio.run(main())


def test_a_heartbeat_has_a_thread_while_all_others_wait(grant: Grant) -> None:
    over = threading.Event()

    async def work(store: PostgresTaskStore) -> HeartbeatReply:
        waiting = [asyncio.ensure_future(stores.in_a_thread(lambda: over.wait(30))) for _ in range(20)]
        await asyncio.sleep(0)
        try:
            return await asyncio.wait_for(store.heartbeat(), 20)
        finally:
            over.set()
            await asyncio.gather(*waiting)

    assert run(grant, work).time is not None


@contextmanager
def unanswered(grant: Grant) -> Iterator[threading.Event]:
    """Transactions of this task have no answer until the event is set: another session has a lock that they need."""
    asked, over = threading.Event(), threading.Event()

    def lock() -> None:
        with transaction.atomic():
            locks.take(f"batches of {grant.task_id}")
            asked.set()
            over.wait(60)
        connection.close()

    thread = threading.Thread(target=lock)
    thread.start()
    assert asked.wait(20)
    try:
        yield over
    finally:
        over.set()
        thread.join()


def test_a_call_that_has_no_answer_ends_with_the_lease(grant: Grant) -> None:
    async def work(store: PostgresTaskStore) -> None:
        store._until = boottime() + 0.3
        await store.counts()

    with unanswered(grant), pytest.raises(LeaseLostError):
        run(grant, work)


def test_a_call_goes_on_for_as_long_as_heartbeats_renew_the_lease(
    grant: Grant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LONGEST_RETRY", 1.0)

    with unanswered(grant) as over:

        async def work(store: PostgresTaskStore) -> int:
            asked = asyncio.ensure_future(store.counts())
            for _ in range(5):
                await asyncio.sleep(0.4)
                await store.heartbeat()
            assert not asked.done()
            over.set()
            return (await asked).files_pending

        assert run(grant, work) == 0
    monkeypatch.undo()


def test_an_error_of_the_database_after_the_lease_is_a_lost_lease(grant: Grant) -> None:
    def fail(task_id: object, epoch: int) -> None:
        raise OperationalError("the server closed the connection")

    async def work(store: PostgresTaskStore) -> None:
        store._until = boottime() + 0.3
        await store._call(fail)

    with pytest.raises(LeaseLostError):
        run(grant, work)


# ---- a loop that stands still


def stand_still(seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.05)


def stood_still(grant: Grant, asked_before: float = 0.0) -> tuple[datetime, bool]:
    """When the lease ended before its loop stood still for a moment, and whether the fence is open for longer now.

    asked_before: seconds since the slice has last asked for a heartbeat.
    """
    fence = Fence(60.0)

    async def work(store: PostgresTaskStore) -> tuple[datetime, bool]:
        reply, begun = await store.heartbeat(), fence.now()
        assert reply.time is not None
        fence.extend(begun)
        store._asked_at -= asked_before
        with LeaseKeeper().keeping(store, fence):
            stand_still(1.0)
            stand_still(20.0, until=lambda: not store._keeping)
        return reply.time + TTL, fence.seconds_left > 60.0 - (fence.now() - begun) + 0.05

    return run(grant, work)


def test_a_lease_is_renewed_while_the_loop_of_its_slice_stands_still(
    grant: Grant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LATE_HEARTBEAT", 0.2)
    before, is_open_for_longer = stood_still(grant)
    assert expiry() > before + timedelta(seconds=0.1)
    assert is_open_for_longer


def test_a_lease_is_not_renewed_where_heartbeats_come_in_time(grant: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    # The loop may stand still for longer than a moment on a busy machine.
    monkeypatch.setattr(stores, "LATE_HEARTBEAT", 60.0)
    before, is_open_for_longer = stood_still(grant)
    assert abs(expiry() - before) < timedelta(seconds=0.1)
    assert not is_open_for_longer


def test_a_loop_that_stands_still_for_long_loses_its_leases(grant: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "LATE_HEARTBEAT", 0.2)
    before, is_open_for_longer = stood_still(grant, asked_before=stores.KEPT_SECONDS)
    assert abs(expiry() - before) < timedelta(seconds=0.1)
    assert not is_open_for_longer


def test_a_lease_that_another_worker_has_closes_the_fence_of_a_loop_that_stands_still(
    grant: Grant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LATE_HEARTBEAT", 0.2)
    fence = Fence(60.0)
    fence.extend(fence.now())

    async def work(store: PostgresTaskStore) -> None:
        store._until = boottime() + stores.LONGEST_RETRY - 1.0
        await stores.in_a_thread(lambda: Lease.objects.update(epoch=2, worker="other"))
        with LeaseKeeper().keeping(store, fence):
            stand_still(20.0, until=lambda: fence.closed)

    run(grant, work)
    assert fence.closed


# ---- clocks


class Wrong:
    """The `time` module of a machine whose wall clock is wrong."""

    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME
    monotonic, clock_gettime = staticmethod(time.monotonic), staticmethod(time.clock_gettime)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def time(self) -> float:
        return time.time() + self._seconds


@pytest.fixture(params=[DAY, -3600.0, 3600.0])
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """The wall clock of this machine is so many seconds ahead of that of the database."""
    by = float(request.param)
    monkeypatch.setattr(clock, "_time", Wrong(by))
    monkeypatch.setattr(timezone, "now", lambda: moment() + timedelta(seconds=by))
    monkeypatch.setattr(wall_clock, "_compared_at", None)
    yield by
    monkeypatch.undo()
    wall_clock._compared_at = None
    wall_clock.is_wrong()


def test_the_clock_of_a_slice_is_that_of_the_database_whatever_the_machine_says(grant: Grant, wrong: float) -> None:
    assert grant.reading is not None
    engine = slice_preparation.SystemClock(grant.reading)
    assert abs((engine.now() - moment()).total_seconds()) < 60


def test_each_heartbeat_corrects_the_clock_of_its_slice(grant: Grant) -> None:
    drifted = CarriedClock(ClockReading(moment() + timedelta(hours=1), boottime(), boottime()))

    async def work(store: PostgresTaskStore) -> None:
        store._clock = drifted
        await store.heartbeat()

    run(grant, work)
    assert abs((drifted.now() - moment()).total_seconds()) < 60


def close_its_connection() -> None:
    connection.close()


def test_a_worker_whose_clock_is_wrong_takes_no_task_and_says_so(
    task: Task, wrong: float, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = ThreadPoolExecutor(1)
    monkeypatch.setattr(runtime, "_scheduling", threads)
    assert not runtime._take_and_work(str(task.pk))
    threads.submit(close_its_connection).result()
    threads.shutdown()
    assert not Lease.objects.exists()
    where = "ahead of" if wrong > 0 else "behind"
    [line] = [line for line in caplog.messages if "clock" in line]
    assert line.startswith(f"the clock of this machine is {abs(wrong):.0f} s {where} that of PostgreSQL: this worker ")
    worker_processes.report("host:7", "host", runtime.gauges())
    assert (WorkerProcess.objects.get().gauges or {})["clock_ahead"] == round(wrong)
    texts = [one.text for one in servers._of_workers()]
    assert texts == [
        f"The clock of the worker host:7 is {abs(wrong):.0f} s {where} that of PostgreSQL: it takes no task."
    ]


def test_a_worker_whose_clock_is_right_reports_no_difference() -> None:
    worker_processes.report("host:7", "host", {"clock_ahead": 1})
    worker_processes.report("host:8", "host", {})
    assert not wall_clock.is_wrong()
    assert list(servers._of_workers()) == []


def test_access_rules_expire_by_the_clock_of_the_database(alice: User) -> None:
    """A worker whose clock is ahead must not end the tasks of those who still have access."""
    assert "STATEMENT_TIMESTAMP()" in str(AccessRule.objects.filter(permissions.rules_of_user(alice)).query)
