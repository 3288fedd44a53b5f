"""The engine's store on PostgreSQL: the words of the ports, in threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import TypeVar

import psycopg2
import pytest
from django.db import connection

from endpoints.gridftp.faults import FaultError, Kind, Side, make_fault
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import later, submit, take
from tests.store_connections import close_connections
from transferapi.outages import database, outage
from transferapi.tasks import moves, queries
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.models import Lease, Task
from transferapi.tasks.records import (
    FaultedFile,
    FaultedItem,
    FoundFile,
    PartialFile,
    SettledFile,
    Settlement,
    TaskCounts,
)
from transferapi.tasks.worker import leases
from workers.store import PostgresTaskStore

R = TypeVar("R")

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def threads(transactional_db: None) -> Iterator[None]:
    """The store's threads give their connections back, so that the test database can be dropped."""
    yield
    close_connections()


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, ("/one", "/1"), ("/two", "/2"), options={"perf_p": 2})


def run(grant: leases.Grant, work: Callable[[PostgresTaskStore], Awaitable[R]]) -> R:
    """Do the work of the engine on a loop, as the runtime does."""

    async def main() -> R:
        return await work(PostgresTaskStore(grant))

    return asyncio.run(main())


def test_the_engine_gets_what_the_task_is(task: Task, ep1: Endpoint) -> None:
    spec = take(task).spec
    assert (spec.task_id, spec.is_delete, spec.max_sessions) == (str(task.pk), False, 9)
    assert (spec.source.id, spec.source.name) == (str(ep1.pk), "alice#ep1")
    assert spec.destination is not None
    assert spec.destination.name == "alice#ep2"
    assert spec.options["perf_p"] == 2
    assert (spec.started, spec.connection_failures, spec.suspect_up_to) == (False, 0, 0)


def test_a_task_is_worked_on_from_its_items_to_its_end(alice: User, task: Task) -> None:
    async def work(store: PostgresTaskStore) -> None:
        one, two = await store.unscanned(10)
        assert await store.unscanned(10, [one.id]) == [two]
        (small,) = await store.file_items_scanned([(one, FoundFile("/one", "/1", 5, None))])
        large, lost = await store.add_found(two, [
            FoundFile("/two/a", "/2/a", 100, datetime.now(UTC)), FoundFile("/two/b", "/2/b", 200, None),
        ])  # fmt: skip
        await store.item_scanned(two, 1, 0)
        await store.event("STARTED", "begun", {"concurrency": 2})
        assert not (await store.heartbeat()).cancel_requested
        assert await store.pending(10, [small.id]) == [large, lost]
        await store.write(Settlement(settled=[SettledFile(small, 5)], progress=[PartialFile(large, "0-60", 60)]))
        denied = make_fault(Kind.PERMISSION_DENIED, "550 no", side=Side.DESTINATION)
        await store.write(
            Settlement(faulted=[FaultedFile(large, denied, later(0), "0-60"), FaultedFile(lost, denied, None)])
        )
        (again,) = await store.pending(10, [])
        assert (again.id, again.ranges, again.attempts) == (large.id, "0-60", 1)
        assert await store.counts() == TaskCounts(0, 1, 1, (await store.counts()).next_try_at)
        await store.write(Settlement(settled=[SettledFile(again, 40)]))
        await store.finish()

    run(take(task), work)
    found = queries.get(alice, task.pk)
    assert (found.status, found.fatal_error_code) == ("FAILED", "PERMISSION_DENIED")
    assert (found.files, found.files_transferred, found.files_failed, found.bytes_transferred) == (3, 2, 1, 105)
    told = [event.code for event in queries.events(alice, task.pk).rows]
    assert told == ["PERMISSION_DENIED", "PERMISSION_DENIED", "PERMISSION_DENIED", "STARTED", "SUBMITTED"]
    assert "File: /2/b" in queries.events(alice, task.pk).rows[1].details


def test_two_sources_for_one_destination_are_a_fault_of_their_own(task: Task) -> None:
    async def work(store: PostgresTaskStore) -> None:
        one, two = await store.unscanned(10)
        await store.add_found(one, [FoundFile("/one", "/same", 1, None)])
        with pytest.raises(FaultError) as refused:
            await store.add_found(two, [FoundFile("/two", "/same", 1, None)])
        fault = refused.value.fault
        assert (fault.kind, fault.retryable, fault.raw) == (Kind.AMBIGUOUS_PATH, False, "/same")
        await store.items_faulted([FaultedItem(two, fault, None)])

    run(take(task), work)


def test_files_of_a_worker_that_died_are_suspect(task: Task) -> None:
    async def find(store: PostgresTaskStore) -> None:
        one, _ = await store.unscanned(10)
        (row,) = await store.file_items_scanned([(one, FoundFile("/one", "/1", 5, None))])
        assert not row.suspect

    async def go_on(store: PostgresTaskStore) -> None:
        (two,) = await store.unscanned(10)
        (old,) = await store.pending(10, [])
        (new,) = await store.file_items_scanned([(two, FoundFile("/two", "/2", 5, None))])
        assert (old.suspect, new.suspect) == (True, False)

    run(take(task), find)
    Lease.objects.update(expires_at=later(-1))
    run(take(task, "heir"), go_on)


def test_a_lost_lease_is_the_error_of_the_ports(task: Task) -> None:
    async def work(store: PostgresTaskStore) -> None:
        await store.release(later(60), 3)
        for call in (store.heartbeat(), store.counts(), store.finish(), store.release(later(60))):
            with pytest.raises(LeaseLostError):
                await call

    run(take(task), work)
    assert Task.objects.get(pk=task.pk).connection_failures == 3


def test_a_cancel_comes_with_the_heartbeat(alice: User, task: Task) -> None:
    async def work(store: PostgresTaskStore) -> bool:
        return (await store.heartbeat()).cancel_requested

    grant = take(task)
    assert not run(grant, work)
    moves.cancel(alice, task.pk)
    assert run(grant, work)


def test_connections_that_the_database_drops_are_made_anew(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database ends the connections that the threads share, as a restart of PostgreSQL does."""
    monkeypatch.setattr(outage, "_watching", True)
    grant = take(task)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (own,) = cursor.fetchone()

    # Not one of those that the threads share.
    place = {name: value for name, value in connection.get_connection_params().items() if name != "cursor_factory"}

    def end_the_others() -> int:
        with closing(psycopg2.connect(**place)) as line, line.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid NOT IN (%s, pg_backend_pid())",
                [own],
            )
            [(ended,)] = cursor.fetchall()
        return int(ended)

    async def work(store: PostgresTaskStore) -> None:
        for _ in range(3):
            await asyncio.gather(*(store.heartbeat() for _ in range(8)))
            assert await asyncio.to_thread(end_the_others) > 0
        assert len(await store.unscanned(10)) == 2

    try:
        run(grant, work)
    finally:
        database.SHARED.close_idle(-1)
