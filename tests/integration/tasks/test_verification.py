"""Checksums and modification times in the database, and their fields in REST."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from endpoints.gridftp.faults import Kind, Side, make_fault
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import later, take
from tests.store_connections import close_connections
from transferapi.rest.transfer import task_documents
from transferapi.tasks import queries
from transferapi.tasks.models import Task
from transferapi.tasks.records import (
    Checksum,
    FaultedFile,
    FaultedItem,
    FoundFile,
    PartialFile,
    SettledFile,
    Settlement,
)
from transferapi.tasks.submission import TransferItem, TransferRequest, submit_transfer
from transferapi.tasks.worker import leases
from workers.engine.settle import timestamps
from workers.store import PostgresTaskStore

R = TypeVar("R")
MD5 = "d41d8cd98f00b204e9800998ecf8427e"
SHA1 = MD5 + "01234567"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def threads(transactional_db: None) -> Iterator[None]:
    """The store's threads give their connections back, so that the test database can be dropped."""
    yield
    close_connections()


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(
        alice, ep1, ep2,
        TransferItem("/given", "/1", None, MD5.upper()),
        TransferItem("/way", "/2", None, None, "sha1"),
        TransferItem("/plain", "/3"),
        TransferItem("/wrong", "/4", None, SHA1, "SHA1"),
        TransferItem("/folder", "/5", None, SHA1, "SHA1"),
    )  # fmt: skip


def submit(alice: User, source: Endpoint, destination: Endpoint, *items: TransferItem, **options: object) -> Task:
    request = TransferRequest(uuid.uuid4(), str(source.pk), str(destination.pk), items, options=options)
    return submit_transfer(alice, request)[0]


def run(grant: leases.Grant, work: Callable[[PostgresTaskStore], Awaitable[R]]) -> R:
    async def main() -> R:
        return await work(PostgresTaskStore(grant))

    return asyncio.run(main())


def test_checksums_travel_from_the_submission_to_the_lists_of_files(alice: User, task: Task) -> None:
    async def work(store: PostgresTaskStore) -> None:
        items = await store.unscanned(10)
        wanted = [item.checksum for item in items]
        assert wanted == [
            Checksum("MD5", MD5), Checksum("SHA1", ""), None, Checksum("SHA1", SHA1), Checksum("SHA1", SHA1)
        ]  # fmt: skip
        *files, folder = items
        found = [
            (item, FoundFile(item.source_path, item.destination_path, 5, None, checksum=item.checksum))
            for item in files
        ]
        rows = await store.file_items_scanned(found)
        assert [row.checksum for row in rows] == wanted[:4]
        assert await store.pending(10, []) == rows
        made = [Checksum("MD5", MD5), Checksum("SHA1", SHA1), None]
        settled = [SettledFile(row, 5, checksum=one, checksummed=5) for row, one in zip(rows, made, strict=False)]
        wrong = make_fault(Kind.EXTERNAL_CHECKSUM_MISMATCH, "no", side=Side.SOURCE, retryable=False)
        await store.write(Settlement(settled=settled, faulted=[FaultedFile(rows[3], wrong, None, checksummed=5)]))
        await store.items_faulted([FaultedItem(folder, make_fault(Kind.IS_A_DIRECTORY), None)])
        await store.finish()

    run(take(task), work)
    moved = map(task_documents.SUCCESSFUL_TRANSFER.document, queries.successful_transfers(alice, task.pk).rows)
    assert [(row["checksum_algorithm"], row["checksum"], row["size"]) for row in moved] == [
        ("MD5", MD5, 5), ("SHA1", SHA1, 5), (None, None, 5)
    ]  # fmt: skip
    lost = list(map(task_documents.SKIPPED_ERROR.document, queries.skipped_errors(alice, task.pk).rows))
    assert [row["error_code"] for row in lost] == [Kind.EXTERNAL_CHECKSUM_MISMATCH, Kind.IS_A_DIRECTORY]
    assert {(row["checksum_algorithm"], row["external_checksum"]) for row in lost} == {("SHA1", SHA1)}
    assert task_documents.task(queries.get(alice, task.pk))["bytes_checksummed"] == 20


def test_what_was_asked_of_a_file_outlives_a_fault(task: Task) -> None:
    async def work(store: PostgresTaskStore) -> None:
        given, *_ = await store.unscanned(10)
        (row,) = await store.file_items_scanned([(given, FoundFile("/given", "/1", 5, None, checksum=given.checksum))])
        again = make_fault(Kind.EXTERNAL_CHECKSUM_MISMATCH, side=Side.DESTINATION)
        await store.write(Settlement(faulted=[FaultedFile(row, again, later(0), checksummed=5)]))
        (row,) = await store.pending(10, [])
        assert (row.checksum, row.ranges, row.attempts) == (Checksum("MD5", MD5), "", 1)

    run(take(task), work)


def test_a_file_that_arrived_is_continued_under_its_real_name_where_nothing_is_left(task: Task) -> None:
    async def work(store: PostgresTaskStore) -> None:
        given, *_ = await store.unscanned(10)
        (row,) = await store.file_items_scanned([(given, FoundFile("/given", "/1", 5, None))])
        await store.write_temporary_paths([row._replace(temporary_path="/.waybill-1")])
        await store.write(Settlement(progress=[PartialFile(row, "0-3", 3)]))
        await store.write_temporary_paths([row._replace(temporary_path=None)])
        await store.write(Settlement(progress=[PartialFile(row, "0-5", 5)]))
        (row,) = await store.pending(10, [])
        assert (row.temporary_path, row.ranges) == (None, "0-5")

    run(take(task), work)
    assert Task.objects.get(pk=task.pk).bytes_transferred == 5


def test_sessions_for_checksums_are_kept_where_there_may_be_some(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    plain = TransferItem("/a", "/a")
    given = TransferItem("/b", "/b", None, MD5)
    tasks = [
        submit(alice, ep1, ep2, plain),
        submit(alice, ep1, ep2, plain, given),
        submit(alice, ep1, ep2, plain, verify_checksum=True),
    ]
    specs = [take(task).spec for task in tasks]
    assert [spec.check_sessions for spec in specs] == [0, 2, 2]
    assert [spec.max_sessions - spec.most_lanes for spec in specs] == [1, 3, 3]


def test_a_warning_that_was_given_is_not_given_again(task: Task) -> None:
    async def warn(store: PostgresTaskStore) -> None:
        await store.event(timestamps.WARNING, "Some times could not be kept.", "")
        await store.release(later(-1))

    assert timestamps.WARNING in leases.ONCE
    first = take(task)
    assert first.spec.warned == frozenset()
    run(first, warn)
    assert take(task).spec.warned == {timestamps.WARNING}
