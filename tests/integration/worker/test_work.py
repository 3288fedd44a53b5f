"""Reads and writes of a worker: fenced by its epoch, with counters that stay right when a write is repeated."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db.models import Sum

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import all_at_once, later, submit, submit_delete, take
from transferapi.rest.transfer import task_documents
from transferapi.tasks import moves, queries, standstill
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.events import NewEvent
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.models import Event, File, Item, Lease, Task
from transferapi.tasks.records import (
    FaultedFile,
    FaultedItem,
    FileRow,
    FoundFile,
    ItemRow,
    PartialFile,
    SettledFile,
    Settlement,
    TaskCounts,
)
from transferapi.tasks.states import FileState
from transferapi.tasks.worker import leases, measurements, pending_files, scan_results, settling, slice_end
from transferapi.tasks.worker.leases import Grant

DENIED = Fault(Kind.PERMISSION_DENIED, Side.SOURCE, advice="Change the permissions.", raw="550 Permission denied")
GONE = Fault(Kind.FILE_NOT_FOUND, Side.SOURCE, advice="Nothing is there.", raw="550 No such file")


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, ("/one", "/1"), ("/two", "/2"), ("/three", "/3"))


@pytest.fixture
def grant(task: Task) -> Grant:
    return take(task)


def find(grant: Grant, *sizes: int, item: int = 0, kind: int = 0) -> list[FileRow]:
    """New file rows of these sizes under an item."""
    row = Item.objects.get(task=grant.task_id, position=item)
    found = [FoundFile(f"/{item}/f{n}", f"/to/{item}/f{n}", size, None, kind) for n, size in enumerate(sizes)]
    return scan_results.add_found(grant.task_id, grant.epoch, row.pk, found)


def items(grant: Grant) -> list[ItemRow]:
    return scan_results.unscanned(grant.task_id, grant.epoch, 100)


def scanned(grant: Grant, directories: int = 0, symlinks: int = 0) -> None:
    """All items are scanned."""
    for item in items(grant):
        scan_results.item_scanned(grant.task_id, grant.epoch, item.id, directories, symlinks)


def write(grant: Grant, **batch: Any) -> None:
    settling.write(grant.task_id, grant.epoch, Settlement(**batch))


def settled(*files: FileRow, skipped: bool = False, new_size: int | None = None) -> list[SettledFile]:
    return [SettledFile(file, 0, skipped, new_size) for file in files]


def faulted(
    file: FileRow,
    retry_at: datetime | None = None,
    fault: Fault = DENIED,
    done: int = 0,
    new_size: int | None = None,
) -> FaultedFile:
    return FaultedFile(file, fault, retry_at, f"0-{done}" if done else "", new_size)


def check_sums(grant: Grant) -> Task:
    """The counters are what the rows say."""
    task = Task.objects.get(pk=grant.task_id)
    rows = File.objects.filter(task=task)
    plain = rows.filter(kind=0)
    assert task.files == plain.count() + rows.exclude(kind=0).filter(state__gt=FileState.DONE).count()
    assert task.files_transferred == plain.filter(state=FileState.DONE).count()
    assert task.files_skipped == rows.filter(state=FileState.SKIPPED).count()
    assert task.files_failed == rows.filter(state=FileState.FAILED).count()
    sums = rows.aggregate(size=Sum("size", default=0), done=Sum("bytes_done", default=0))
    assert (task.bytes_total, task.bytes_transferred) == (sums["size"], sums["done"])
    assert task.items_scanned == Item.objects.filter(task=task, scanned_at__isnull=False).count()
    return task


def test_items_come_in_the_users_order_without_those_in_hand(grant: Grant) -> None:
    found = items(grant)
    assert [(item.source_path, item.destination_path, item.recursive, item.attempts) for item in found] == [
        ("/one", "/1", None, 0), ("/two", "/2", None, 0), ("/three", "/3", None, 0),
    ]  # fmt: skip
    assert scan_results.unscanned(grant.task_id, grant.epoch, 1, [found[0].id]) == [found[1]]
    scan_results.item_scanned(grant.task_id, grant.epoch, found[0].id, 3, 1)
    scan_results.item_scanned(grant.task_id, grant.epoch, found[0].id, 3, 1)
    assert items(grant) == found[1:]
    task = check_sums(grant)
    assert (task.items_scanned, task.directories, task.symlinks) == (1, 3, 1)


def test_found_files_become_pending_rows_once(grant: Grant) -> None:
    first = find(grant, 5, 0, 7)
    assert [(file.source_path, file.destination_path, file.size) for file in first] == [
        ("/0/f0", "/to/0/f0", 5), ("/0/f1", "/to/0/f1", 0), ("/0/f2", "/to/0/f2", 7),
    ]  # fmt: skip
    again = find(grant, 5, 0, 7, 9)
    assert [file.size for file in again] == [9]
    task = check_sums(grant)
    assert (task.files, task.bytes_total) == (4, 21)


def test_names_of_any_octets_come_back_as_they_went(grant: Grant) -> None:
    item = items(grant)[0]
    names = ["/a\udcff\udc80", "/\u00fc\u65e5 '\"\\{},NULL", "/x" * 2000, "/\\x41"]
    moment = datetime(2020, 2, 29, 12, 0, 0, 123456, UTC)
    new = [FoundFile(name, name + "!", 2**60, moment) for name in names]
    found = scan_results.add_found(grant.task_id, grant.epoch, item.id, new)
    assert [(file.source_path, file.destination_path, file.size) for file in found] == [
        (name, name + "!", 2**60) for name in names
    ]
    assert {file.source_path for file in pending_files.pending(grant.task_id, grant.epoch, 10)} == set(names)
    assert set(File.objects.values_list("modified", flat=True)) == {moment}


def test_a_server_that_claims_exabytes_for_each_file_breaks_no_counter(alice: User, grant: Grant) -> None:
    files = find(grant, *[2**63 - 1] * 3)
    write(grant, progress=[PartialFile(file, "", 2**63 - 1) for file in files])
    write(grant, settled=settled(*files, new_size=5))
    assert queries.get(alice, grant.task_id).files_transferred == 3


def test_two_sources_for_one_destination_are_refused_and_nothing_of_the_batch_is_written(grant: Grant) -> None:
    one, two, _ = items(grant)
    scan_results.add_found(grant.task_id, grant.epoch, one.id, [FoundFile("/one/a", "/d/a", 1, None)])
    later_batch = [FoundFile("/two/new", "/d/new", 1, None), FoundFile("/two/a", "/d/a", 1, None)]
    same_batch = [FoundFile("/two/x", "/d/x", 1, None), FoundFile("/two/y", "/d/x", 1, None)]
    for batch in (later_batch, same_batch):
        with pytest.raises(FaultError) as refused:
            scan_results.add_found(grant.task_id, grant.epoch, two.id, batch)
        fault = refused.value.fault
        assert (fault.kind, fault.raw) == (Kind.AMBIGUOUS_PATH, batch[1].destination_path)
    assert check_sums(grant).files == 1


def test_items_that_are_files_are_found_and_scanned_in_one_go(grant: Grant) -> None:
    found = [(item, FoundFile(item.source_path, item.destination_path, 4, None)) for item in items(grant)]
    rows = scan_results.file_items_scanned(grant.task_id, grant.epoch, found)
    assert len(rows) == 3
    assert items(grant) == []
    task = check_sums(grant)
    assert (task.files, task.items_scanned, task.bytes_total) == (3, 3, 12)


def test_pending_files_come_by_size_when_they_are_due(grant: Grant) -> None:
    large, small, broken, later_ = find(grant, 50, 1, 3, 2)
    now = datetime.now(UTC)
    write(grant, faulted=[faulted(broken, now + timedelta(seconds=10)), faulted(later_, now + timedelta(seconds=100))])
    pending = lambda seconds, exclude=(): [  # noqa: E731
        file.id
        for file in pending_files.pending(grant.task_id, grant.epoch, 10, exclude, now=now + timedelta(seconds=seconds))
    ]
    assert pending(1) == [small.id, large.id]
    leases.heartbeat(grant.task_id, grant.epoch, ttl=timedelta(seconds=1000))
    assert pending(11) == [small.id, broken.id, large.id]
    assert pending(11, [small.id, broken.id]) == [large.id]
    assert [file.id for file in pending_files.pending(grant.task_id, grant.epoch, 1)] == [small.id]


def test_settled_files_are_counted_once_with_their_bytes(grant: Grant) -> None:
    one, two, three, four = find(grant, 10, 20, 30, 40)
    write(grant, settled=settled(one, two) + settled(three, skipped=True))
    write(grant, settled=settled(one, two, three, four, new_size=45), faulted=[faulted(one)])
    task = check_sums(grant)
    assert (task.files_transferred, task.files_skipped, task.files_failed) == (3, 1, 0)
    assert (task.bytes_total, task.bytes_transferred) == (105, 75)
    assert pending_files.pending(grant.task_id, grant.epoch, 10) == []


def test_bytes_are_counted_as_they_arrive_and_not_twice(grant: Grant) -> None:
    (file,) = find(grant, 100)
    write(grant, progress=[PartialFile(file, "0-20", 20), PartialFile(file, "0-60", 60)])
    assert check_sums(grant).bytes_transferred == 60
    write(grant, faulted=[faulted(file, later(0), done=60)])
    assert check_sums(grant).bytes_transferred == 60
    (again,) = pending_files.pending(grant.task_id, grant.epoch, 1, now=later(1))
    assert (again.ranges, again.attempts) == ("0-60", 1)
    write(grant, progress=[PartialFile(file, "0-90", 90)])
    write(grant, settled=settled(file))
    assert check_sums(grant).bytes_transferred == 100


def test_a_file_that_begins_afresh_gives_its_bytes_back(grant: Grant) -> None:
    (file,) = find(grant, 100)
    write(grant, progress=[PartialFile(file, "0-60", 60)])
    write(grant, faulted=[faulted(file, later(0), new_size=70)])
    task = check_sums(grant)
    assert (task.bytes_transferred, task.bytes_total) == (0, 70)


def test_a_fault_is_kept_with_the_file_and_reported_once_for_all_files_of_its_kind(alice: User, grant: Grant) -> None:
    files = find(grant, *[1] * 40)
    retry_at = later(60)
    batch = [faulted(file, retry_at) for file in files[:30]] + [faulted(file, None, GONE) for file in files[30:]]
    write(grant, faulted=batch)
    task = check_sums(grant)
    assert (task.faults, task.files_failed, task.nice_status) == (40, 10, "PERMISSION_DENIED")
    gone, denied, _ = queries.events(alice, grant.task_id).rows
    assert (denied.code, denied.is_error) == ("PERMISSION_DENIED", True)
    assert denied.description.startswith("Permission denied at the source on 30 files: tried again from ")
    lines = denied.details.split("\n")
    assert lines[:3] == ["Change the permissions.", "550 Permission denied", f"File: {files[0].source_path}"]
    assert len(lines) == 2 + settling.PATHS_TOLD + 1
    assert lines[-1] == "... and 10 more"
    assert gone.description == "File not found at the source on 10 files: given up."
    row = File.objects.get(pk=files[0].id)
    assert (row.error_code, row.error_details, row.next_try_at) == (
        "PERMISSION_DENIED",
        "550 Permission denied",
        retry_at,
    )


def test_the_words_of_a_hostile_server_do_not_spoil_the_history(alice: User, grant: Grant) -> None:
    (file,) = find(grant, 1)
    words = Fault(Kind.UNKNOWN, Side.DESTINATION, advice="", raw="5\0\udcff" + "x" * 100_000)
    write(grant, faulted=[faulted(file._replace(destination_path="/a\udcff"), None, words)])
    event = queries.events(alice, grant.task_id).rows[0]
    assert "\0" not in event.details
    assert len(event.details) < 5000
    assert len(File.objects.get(pk=file.id).error_details or "") == settling.MAX_DETAILS


def test_progress_clears_the_trouble_and_moves_the_deadline_only_later(alice: User, task: Task, grant: Grant) -> None:
    one, two, three = find(grant, 1, 1, 1)
    write(grant, faulted=[faulted(one, later(0))])
    found = queries.get(alice, task.pk)
    assert found.nice_status == "PERMISSION_DENIED"
    assert found.nice_status_details is not None
    assert found.nice_status_details.startswith(
        "Permission denied at the source alice#ep1 on 1 file: 550 Permission denied. It is tried again at "
    )
    assert found.nice_status_details.endswith(" UTC. Change the permissions.")
    assert found.deadline == task.deadline
    assert found.last_progress_at is None
    before = datetime.now(UTC)
    write(grant, settled=settled(two))
    found = queries.get(alice, task.pk)
    assert found.nice_status is None
    assert found.last_progress_at is not None
    assert found.deadline >= before + settling.GRACE
    far = found.deadline + timedelta(days=30)
    Task.objects.filter(pk=task.pk).update(deadline=far)
    write(grant, settled=settled(three))
    assert queries.get(alice, task.pk).deadline == far


def test_a_task_that_does_not_go_on_knows_since_when_until_progress_that_stays(
    alice: User, task: Task, grant: Grant
) -> None:
    one, two = find(grant, 100, 1)
    retry_at = later(5)

    def stands() -> standstill.Standstill | None:
        return standstill.of(queries.get(alice, task.pk))

    write(grant, progress=[PartialFile(one, "0-90", 90)])
    assert stands() is None
    write(grant, faulted=[faulted(one, retry_at)])
    first = stands()
    assert first is not None
    assert (first.code, first.side, first.next_try) == ("PERMISSION_DENIED", "source", retry_at)
    assert task_documents.task(queries.get(alice, task.pk))["nice_status_expires_in"] in range(3, 6)
    assert forecasts.shown(queries.get(alice, task.pk)) is None

    write(grant, progress=[PartialFile(one, "0-40", 40)])
    assert stands() == first, "the octets of a file that begins again are no progress"
    write(grant, faulted=[faulted(one, later(60))])
    again = stands()
    assert again is not None
    assert again.since == first.since
    details = queries.get(alice, task.pk).nice_status_details or ""
    assert f"It has failed since {first.since:%Y-%m-%d %H:%M:%S} UTC, and is tried again at " in details

    write(grant, settled=settled(two))
    assert stands() is None
    assert forecasts.shown(queries.get(alice, task.pk)) is not None
    write(grant, faulted=[faulted(one, None)])
    assert stands() is None, "a file that is given up does not hold the others"


def test_octets_that_are_thrown_away_and_sent_again_move_no_deadline(alice: User, task: Task, grant: Grant) -> None:
    (file,) = find(grant, 1000)

    def deadline_after(octets: int) -> datetime:
        Task.objects.filter(pk=task.pk).update(deadline=task.deadline)
        write(grant, progress=[PartialFile(file, f"0-{octets}", octets)])
        return queries.get(alice, task.pk).deadline

    assert deadline_after(400) > task.deadline
    for _ in range(3):
        write(grant, faulted=[faulted(file, later(0))])
        assert deadline_after(400) == task.deadline
    write(grant, faulted=[faulted(file, later(0))])
    assert deadline_after(300) == task.deadline
    assert deadline_after(400) == task.deadline
    assert deadline_after(401) > task.deadline
    assert check_sums(grant).bytes_transferred == 401


def test_progress_does_not_move_a_deadline_that_the_user_named(alice: User, task: Task, grant: Grant) -> None:
    deadline = later(3600)
    moves.update(alice, task.pk, deadline=deadline)
    (file,) = find(grant, 1)
    write(grant, settled=settled(file))
    assert queries.get(alice, task.pk).deadline == deadline == leases.heartbeat(task.pk, grant.epoch).deadline


def test_an_item_in_backoff_waits_and_one_given_up_is_a_failed_file(alice: User, grant: Grant) -> None:
    one, two, three = items(grant)
    retry_at = later(60)
    faults = [FaultedItem(one, DENIED, retry_at), FaultedItem(two, GONE, None)]
    settling.items_faulted(grant.task_id, grant.epoch, faults)
    settling.items_faulted(grant.task_id, grant.epoch, [FaultedItem(two, GONE, None)])
    assert items(grant) == [three]
    assert pending_files.counts(grant.task_id, grant.epoch).next_try_at == retry_at
    task = check_sums(grant)
    assert (task.files, task.files_failed, task.items_scanned) == (1, 1, 1)
    (lost,) = queries.skipped_errors(alice, grant.task_id).rows
    assert (lost.source_path, lost.destination_path, lost.error_code) == ("/two", "/2", "FILE_NOT_FOUND")


def test_an_item_can_be_given_up_after_files_of_it_were_found(grant: Grant) -> None:
    scan_results.add_found(grant.task_id, grant.epoch, items(grant)[0].id, [FoundFile("/one", "/1", 3, None)])
    settling.items_faulted(grant.task_id, grant.epoch, [FaultedItem(items(grant)[0], GONE, None)])
    assert check_sums(grant).files == 2


def test_temporary_names_are_remembered_until_the_file_is_settled(grant: Grant) -> None:
    one, two = find(grant, 1, 2)
    renamed = [one._replace(temporary_path="/to/.tmp\udcff"), two._replace(temporary_path="/to/.tmp2")]
    pending_files.write_temporary_paths(grant.task_id, grant.epoch, renamed)
    assert [file.temporary_path for file in pending_files.pending(grant.task_id, grant.epoch, 10)] == [
        "/to/.tmp\udcff",
        "/to/.tmp2",
    ]
    write(grant, settled=settled(one))
    assert File.objects.get(pk=one.id).temporary_path is None


def test_what_is_on_disk_under_another_name_is_forgotten_with_the_name(grant: Grant) -> None:
    (file,) = find(grant, 100)
    write(grant, progress=[PartialFile(file, "0-60", 60)])
    pending_files.write_temporary_paths(grant.task_id, grant.epoch, [file._replace(temporary_path="/to/.tmp")])
    assert check_sums(grant).bytes_transferred == 0
    assert pending_files.pending(grant.task_id, grant.epoch, 1)[0].ranges == ""
    named = file._replace(temporary_path="/to/.tmp")
    write(grant, progress=[PartialFile(named, "0-30", 30)])
    pending_files.write_temporary_paths(grant.task_id, grant.epoch, [named])
    assert pending_files.pending(grant.task_id, grant.epoch, 1)[0].ranges == "0-30"
    assert check_sums(grant).bytes_transferred == 30


def test_a_task_without_failures_succeeds_and_reports_its_numbers(alice: User, grant: Grant) -> None:
    one, two = find(grant, 10, 20)
    scanned(grant)
    write(grant, settled=settled(one) + settled(two, skipped=True))
    assert pending_files.counts(grant.task_id, grant.epoch) == TaskCounts(0, 0, 0, None, 0)
    slice_end.finish(grant.task_id, grant.epoch)
    task = queries.get(alice, grant.task_id)
    assert (task.status, task.phase, task.fatal_error_code) == ("SUCCEEDED", "done", None)
    event = queries.events(alice, grant.task_id).rows[0]
    assert event.code == "SUCCEEDED"
    assert json.loads(event.details) == {
        "files_succeeded": 1,
        "files_skipped": 1,
        "files_failed": 0,
        "bytes_transferred": 10,
    }
    assert Lease.objects.get(pk=task.pk).worker == ""


def test_an_empty_task_succeeds(alice: User, grant: Grant) -> None:
    scanned(grant, directories=1)
    slice_end.finish(grant.task_id, grant.epoch)
    assert queries.get(alice, grant.task_id).status == "SUCCEEDED"


def test_a_task_with_failed_files_fails_with_their_most_frequent_code(alice: User, grant: Grant) -> None:
    one, two, three, four = find(grant, 1, 1, 1, 1)
    scanned(grant)
    write(grant, settled=settled(one), faulted=[faulted(two), faulted(three), faulted(four, None, GONE)])
    slice_end.finish(grant.task_id, grant.epoch)
    task = queries.get(alice, grant.task_id)
    assert (task.status, task.fatal_error_code) == ("FAILED", "PERMISSION_DENIED")
    assert task.fatal_error_description == (
        "3 of 4 file(s) failed, 1 arrived or were in place already. /0/f1: 550 Permission denied"
    )
    assert len(queries.skipped_errors(alice, grant.task_id).rows) == 3


def test_what_is_not_done_cannot_be_finished(grant: Grant) -> None:
    (file,) = find(grant, 1)
    with pytest.raises(ValueError):
        slice_end.finish(grant.task_id, grant.epoch)
    scanned(grant)
    with pytest.raises(ValueError):
        slice_end.finish(grant.task_id, grant.epoch)
    write(grant, settled=settled(file))
    slice_end.finish(grant.task_id, grant.epoch)


def test_at_the_deadline_what_arrived_is_counted_and_the_rest_is_reported(alice: User, grant: Grant) -> None:
    one, two, _ = find(grant, 10, 20, 30)
    write(grant, settled=settled(one), faulted=[faulted(two, later(60))])
    slice_end.fail(grant.task_id, grant.epoch, "EXPIRED", moves.EXPIRED_TEXT)
    task = queries.get(alice, grant.task_id)
    assert (task.status, task.fatal_error_code, task.files_transferred, task.bytes_transferred) == (
        "FAILED",
        "EXPIRED",
        1,
        10,
    )
    assert [row.source_path for row in queries.skipped_errors(alice, grant.task_id).rows] == [two.source_path]


def test_a_suspended_task_is_inactive_says_why_and_frees_its_lease(alice: User, grant: Grant) -> None:
    slice_end.suspend(
        grant.task_id, grant.epoch, Fault(Kind.NO_CREDENTIALS, Side.SOURCE, advice="Renew it.", raw="530 expired")
    )
    task = queries.get(alice, grant.task_id)
    assert (task.status, task.phase, task.nice_status) == ("INACTIVE", "suspended", "NO_CREDENTIALS")
    assert leases.acquire(task.pk, "worker") is leases.LeaseRefusal.NOT_RUNNABLE


def test_folders_and_links_of_a_delete_are_no_files_until_they_fail(alice: User, ep1: Endpoint) -> None:
    task = submit_delete(alice, ep1, "/a")
    grant = take(task)
    item = items(grant)[0]
    kinds = {"/a/f": 0, "/a/l": 2, "/a": 1}
    found_ = [FoundFile(path, None, 0, None, kind) for path, kind in kinds.items()]
    rows = scan_results.add_found(grant.task_id, grant.epoch, item.id, found_)
    assert len(rows) == 3
    scan_results.item_scanned(grant.task_id, grant.epoch, item.id, 1, 1)
    write(grant, settled=settled(*rows[:2]), faulted=[faulted(rows[2])])
    found = check_sums(grant)
    assert (found.files, found.files_transferred, found.files_failed, found.directories) == (2, 1, 1, 1)
    slice_end.finish(grant.task_id, grant.epoch)
    assert queries.get(alice, task.pk).status == "FAILED"


CALLS: dict[str, Callable[[Grant, FileRow, ItemRow], object]] = {
    "heartbeat": lambda g, f, i: leases.heartbeat(g.task_id, g.epoch),
    "unscanned": lambda g, f, i: scan_results.unscanned(g.task_id, g.epoch, 1),
    "add_found": lambda g, f, i: scan_results.add_found(g.task_id, g.epoch, i.id, [FoundFile("/x", "/y", 1, None)]),
    "item_scanned": lambda g, f, i: scan_results.item_scanned(g.task_id, g.epoch, i.id, 1, 1),
    "file_items_scanned": lambda g, f, i: scan_results.file_items_scanned(
        g.task_id, g.epoch, [(i, FoundFile("/x", "/y", 1, None))]
    ),
    "items_faulted": lambda g, f, i: settling.items_faulted(g.task_id, g.epoch, [FaultedItem(i, GONE, None)]),
    "pending": lambda g, f, i: pending_files.pending(g.task_id, g.epoch, 1),
    "write_temporary_paths": lambda g, f, i: pending_files.write_temporary_paths(
        g.task_id, g.epoch, [f._replace(temporary_path="/t")]
    ),
    "write settled": lambda g, f, i: write(g, settled=settled(f)),
    "write faulted": lambda g, f, i: write(g, faulted=[faulted(f)]),
    "write moved": lambda g, f, i: write(g, progress=[PartialFile(f, "0-1", 1)]),
    "event": lambda g, f, i: measurements.add_event(g.task_id, g.epoch, NewEvent("X", "x")),
    "counts": lambda g, f, i: pending_files.counts(g.task_id, g.epoch),
    "finish": lambda g, f, i: slice_end.finish(g.task_id, g.epoch),
    "fail": lambda g, f, i: slice_end.fail(g.task_id, g.epoch, "X", "x"),
    "suspend": lambda g, f, i: slice_end.suspend(g.task_id, g.epoch, DENIED),
    "release": lambda g, f, i: slice_end.release(g.task_id, g.epoch, later(60)),
}  # fmt: skip


def everything() -> list[list[tuple[Any, ...]]]:
    return [list(model.objects.order_by("pk").values_list()) for model in (Task, Item, File, Event, Lease)]


@pytest.mark.parametrize("how", ["taken over", "ran out", "given back"])
@pytest.mark.parametrize("call", CALLS)
def test_a_worker_that_lost_its_lease_writes_nothing(grant: Grant, call: str, how: str) -> None:
    (file,) = find(grant, 10)
    item = items(grant)[0]
    if how == "given back":
        slice_end.release(grant.task_id, grant.epoch, datetime.now(UTC))
    else:
        Lease.objects.filter(pk=grant.task_id).update(expires_at=later(-1))
    if how == "taken over":
        assert isinstance(leases.acquire(grant.task_id, "heir"), Grant)
    before = everything()
    with pytest.raises(LeaseLostError):
        CALLS[call](grant, file, item)
    assert everything() == before


@pytest.mark.django_db(transaction=True)
def test_a_takeover_in_the_middle_of_a_write_waits_or_wins(task: Task) -> None:
    """A worker that writes at the moment its lease runs out: all of its batch is there, or nothing."""
    holder = take(task)
    files = find(holder, *[1] * 40)
    for file in files:
        # Several losses in a row without progress would make the task wait.
        Lease.objects.filter(pk=task.pk).update(expires_at=later(0.002), losses=0)
        written, heir = all_at_once([
            partial(write, holder, settled=settled(file)),
            partial(leases.acquire, task.pk, "heir"),
        ])  # fmt: skip
        assert written is None or isinstance(written, LeaseLostError)
        assert (File.objects.get(pk=file.id).state == FileState.DONE) == (written is None)
        check_sums(holder)
        if not isinstance(heir, Grant):
            assert heir is leases.LeaseRefusal.HELD
            Lease.objects.filter(pk=task.pk).update(expires_at=later(-1))
            heir = take(task, "heir")
        before = everything()
        with pytest.raises(LeaseLostError):
            write(holder, settled=settled(*files))
        assert everything() == before
        holder = heir


@pytest.mark.django_db(transaction=True)
def test_batches_written_at_once_by_threads_of_one_worker_add_up(grant: Grant) -> None:
    files = find(grant, *range(1, 61))
    dice = random.Random(1)
    batches = [dice.sample(files, 20) for _ in range(8)]
    results = all_at_once([partial(write, grant, settled=settled(*batch)) for batch in batches])
    assert results == [None] * 8
    task = check_sums(grant)
    assert task.files_transferred == len({file.id for batch in batches for file in batch})


@pytest.mark.parametrize("seed", range(5))
def test_counts_add_up_after_whatever_is_written(alice: User, grant: Grant, seed: int) -> None:
    dice = random.Random(seed)
    files = find(grant, *(dice.randrange(100) for _ in range(30)))
    for _ in range(60):
        some = dice.sample(files, dice.randrange(1, 6))
        file, now = dice.choice(files), later(0)
        match dice.randrange(4):
            case 0:
                write(grant, settled=settled(*some, skipped=dice.random() < 0.3, new_size=dice.choice([None, 50])))
            case 1:
                write(
                    grant,
                    faulted=[
                        faulted(one, now if dice.random() < 0.8 else None, done=dice.randrange(200)) for one in some
                    ],
                )
            case 2:
                write(grant, progress=[PartialFile(one, "0-9", dice.randrange(200)) for one in some])
            case 3:
                write(grant, settled=settled(*some), faulted=[faulted(file, now)], progress=[PartialFile(file, "", 5)])
        check_sums(grant)
    write(grant, settled=settled(*files))
    scanned(grant)
    slice_end.finish(grant.task_id, grant.epoch)
    task = check_sums(grant)
    assert task.files == task.files_transferred + task.files_skipped + task.files_failed
    assert task.status == ("FAILED" if task.files_failed else "SUCCEEDED")
