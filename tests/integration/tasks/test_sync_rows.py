"""Rows that a comparing scan writes: files in place are settled at once, and counted once even if the scan repeats."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from endpoints.gridftp.faults import FaultError, Kind
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit, take
from transferapi.tasks import queries
from transferapi.tasks.models import File, Item, Task
from transferapi.tasks.records import FileRow, FoundFile
from transferapi.tasks.states import FileKind, FileState
from transferapi.tasks.worker import pending_files, scan_results, slice_end
from transferapi.tasks.worker.leases import Grant

THEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, ("/tree/", "/to/"), ("/one", "/1"), ("/link", "/l"))


@pytest.fixture
def grant(task: Task) -> Grant:
    return take(task)


def new(name: str, *, skipped: bool = False, checksummed: int = 0, target: str | None = None) -> FoundFile:
    kind = FileKind.FILE if target is None else FileKind.SYMLINK
    size = 10 if target is None else 0
    return FoundFile(f"/tree/{name}", f"/to/{name}", size, THEN, kind, skipped, target, checksummed=checksummed)


def add(grant: Grant, *found: FoundFile) -> list[FileRow]:
    return scan_results.add_found(grant.task_id, grant.epoch, first_item(grant), found, durable=True)


def first_item(grant: Grant) -> int:
    return Item.objects.get(task=grant.task_id, position=0).pk


def counts(grant: Grant) -> tuple[int, ...]:
    task = Task.objects.get(pk=grant.task_id)
    return (task.files, task.files_skipped, task.files_transferred, task.bytes_total, task.bytes_checksummed)


def test_files_in_place_are_settled_and_those_that_differ_are_pending(grant: Grant) -> None:
    rows = add(grant, new("same", skipped=True, checksummed=10), new("other", checksummed=10))
    assert [row.source_path for row in rows] == ["/tree/other"]
    assert counts(grant) == (2, 1, 0, 10, 20)
    same = File.objects.get(task=grant.task_id, state=FileState.SKIPPED)
    assert (same.settled_at is not None, same.error_code, same.bytes_done) == (True, None, 0)
    assert [row.source_path for row in pending_files.pending(grant.task_id, grant.epoch, 10)] == ["/tree/other"]


def test_a_repeated_scan_finds_nothing_new(grant: Grant) -> None:
    found = [new("same", skipped=True, checksummed=10), new("other", checksummed=10)]
    add(grant, *found)
    before = counts(grant)
    assert add(grant, *found) == []
    assert counts(grant) == before


def test_what_was_pending_stays_so_when_a_later_scan_takes_it_for_being_in_place(grant: Grant) -> None:
    """It is half written, by this very task: a scan after a crash cannot see that, its row knows."""
    add(grant, new("half"))
    assert add(grant, new("half", skipped=True)) == []
    assert [row.source_path for row in pending_files.pending(grant.task_id, grant.epoch, 10)] == ["/tree/half"]
    assert counts(grant) == (1, 0, 0, 10, 0)


def test_what_was_in_place_stays_settled_when_a_later_scan_sees_it_changed(grant: Grant) -> None:
    add(grant, new("f", skipped=True))
    assert add(grant, new("f")) == []
    assert pending_files.pending(grant.task_id, grant.epoch, 10) == []


def test_two_sources_for_one_destination_are_found_even_when_it_is_in_place(grant: Grant) -> None:
    add(grant, new("f", skipped=True))
    with pytest.raises(FaultError, match=Kind.AMBIGUOUS_PATH):
        add(grant, new("f")._replace(source_path="/other", skipped=True))
    assert counts(grant) == (1, 1, 0, 0, 0)


def test_rows_of_a_scan_that_compares_are_on_disk_before_a_lane_writes(grant: Grant) -> None:
    def commits(durable: bool, name: str) -> list[str]:
        with CaptureQueriesContext(
            connection,
        ) as queries_:
            scan_results.add_found(grant.task_id, grant.epoch, first_item(grant), [new(name)], durable=durable)
        return [query["sql"] for query in queries_ if "synchronous_commit TO on" in query["sql"]]

    assert len(commits(durable=True, name="a")) == 1
    assert commits(durable=False, name="b") == []


def test_kept_links_are_rows_and_no_files(grant: Grant) -> None:
    rows = add(grant, new("l", target="to \udcff;%"), new("m", target="x", skipped=True))
    assert [(row.kind, row.link_target) for row in rows] == [(FileKind.SYMLINK, "to \udcff;%")]
    assert [row.link_target for row in pending_files.pending(grant.task_id, grant.epoch, 10)] == ["to \udcff;%"]
    assert counts(grant) == (0, 0, 0, 0, 0)
    task = Task.objects.get(pk=grant.task_id)
    assert queries.skipped_errors(task.owner, task.pk).rows == []


def test_items_that_are_links_count_as_links(grant: Grant) -> None:
    item = scan_results.unscanned(grant.task_id, grant.epoch, 3)[2]
    link = FoundFile("/link", "/l", 0, None, FileKind.SYMLINK, link_target="x")
    for _ in range(2):
        scan_results.file_items_scanned(grant.task_id, grant.epoch, [(item, link)])
    task = Task.objects.get(pk=grant.task_id)
    assert (task.files, task.symlinks, task.items_scanned) == (0, 1, 1)


def test_a_task_of_files_in_place_succeeds(grant: Grant) -> None:
    add(grant, new("a", skipped=True), new("b", skipped=True))
    for item in scan_results.unscanned(grant.task_id, grant.epoch, 10):
        scan_results.item_scanned(grant.task_id, grant.epoch, item.id, 1, 0)
    slice_end.finish(grant.task_id, grant.epoch)
    task = Task.objects.get(pk=grant.task_id)
    assert (task.status, task.files, task.files_skipped, task.files_transferred) == ("SUCCEEDED", 2, 2, 0)
