"""Files that skip_source_errors leaves out: their rows, counters and lists in PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit, take
from tests.integration.rest import Api
from tests.integration.worker.test_work import check_sums, faulted, find, items, settled, write
from transferapi.tasks.models import Event, File, Task
from transferapi.tasks.records import FaultedItem, FoundFile, PartialFile, SettledFile, SkippedSource
from transferapi.tasks.states import FileState
from transferapi.tasks.worker import pending_files, scan_results, settling, slice_end
from transferapi.tasks.worker.leases import Grant

DENIED = Fault(Kind.PERMISSION_DENIED, Side.SOURCE, advice="Change the permissions.", raw="550 Permission denied")
GONE = Fault(Kind.FILE_NOT_FOUND, Side.SOURCE, advice="Nothing is there.", raw="550 No such file")


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, ("/tree", "/copy"), ("/gone", "/none"))


@pytest.fixture
def api(alice: User) -> Api:
    return Api(alice)


@pytest.fixture
def grant(task: Task) -> Grant:
    return take(task)


def miss(grant: Grant, *paths: str) -> None:
    item = items(grant)[0]
    skipped = [SkippedSource(path, path.replace("/tree", "/copy"), 1, DENIED) for path in paths]
    settling.skip_sources(grant.task_id, grant.epoch, item.id, skipped)


def finish(grant: Grant) -> Task:
    for item in items(grant):
        scan_results.item_scanned(grant.task_id, grant.epoch, item.id, 1, 0)
    slice_end.finish(grant.task_id, grant.epoch)
    return Task.objects.get(pk=grant.task_id)


def test_a_folder_is_passed_over_once_however_often_the_scan_is_repeated(grant: Grant) -> None:
    miss(grant, "/tree/secret", "/tree/other")
    miss(grant, "/tree/secret", "/tree/third")
    task = check_sums(grant)
    assert (task.files, task.files_skipped, task.skipped_errors, task.faults) == (3, 3, 3, 0)
    told = Event.objects.filter(task=task, code="PERMISSION_DENIED")
    assert [event.is_error for event in told] == [False, False]
    assert pending_files.counts(grant.task_id, grant.epoch).skipped_errors == 3


def test_files_folders_and_items_that_were_passed_over_leave_a_task_that_succeeded(grant: Grant, api: Api) -> None:
    files = find(grant, 5, 7)
    denied = replace(faulted(files[0]), skipped=True)
    write(grant, settled=settled(files[1]), faulted=[denied])
    miss(grant, "/tree/secret")
    settling.items_faulted(grant.task_id, grant.epoch, [FaultedItem(items(grant)[1], GONE, None, skipped=True)])
    check_sums(grant)
    task = finish(grant)
    assert (task.status, task.files, task.files_transferred, task.files_skipped) == ("SUCCEEDED", 4, 1, 3)
    document = api.get(f"/task/{task.pk}").body
    assert (document["files_skipped"], document["subtasks_skipped_errors"], document["faults"]) == (3, 3, 0)
    assert document["subtasks_total"] == document["subtasks_succeeded"] + document["subtasks_skipped_errors"]
    assert document["subtasks_failed"] == document["subtasks_pending"] == 0
    codes = [event["code"] for event in api.get(f"/task/{task.pk}/event_list").body["DATA"]]
    assert codes[:2] == ["SUCCEEDED", "SKIPPED_ERRORS"]
    rows = api.get(f"/task/{task.pk}/skipped_errors").body["DATA"]
    told = {row["source_path"]: (row["error_code"], row["is_directory"]) for row in rows}
    assert told == {
        "/0/f0": ("PERMISSION_DENIED", False),
        "/tree/secret": ("PERMISSION_DENIED", True),
        "/gone": ("FILE_NOT_FOUND", False),
    }
    assert rows[0]["error_details"] == DENIED.raw
    assert all(row["error_time"] for row in rows)


def test_a_file_that_sync_found_in_place_is_no_error(grant: Grant, api: Api) -> None:
    (file,) = find(grant, 5)
    write(grant, settled=[SettledFile(file, 0, skipped=True)])
    task = finish(grant)
    assert (task.files_skipped, task.skipped_errors) == (1, 0)
    assert api.get(f"/task/{task.pk}/skipped_errors").body["DATA"] == []
    assert not Event.objects.filter(task=task, code="SKIPPED_ERRORS").exists()


def test_one_path_may_be_passed_over_for_two_sources_and_stands_beside_its_file(grant: Grant) -> None:
    find(grant, 5)
    first, second = items(grant)
    for item in (first, second):
        settling.skip_sources(grant.task_id, grant.epoch, item.id, [SkippedSource("/x/f0", "/to/0/f0", 0, GONE)])
    task = check_sums(grant)
    assert (task.files, task.skipped_errors) == (3, 2)
    assert File.objects.filter(task=task, state=FileState.SKIPPED).count() == 2


def test_whether_an_item_was_ever_found_to_hold_something_is_known(grant: Grant) -> None:
    find(grant, 5)
    first, second = items(grant)
    assert scan_results.has_found(grant.task_id, grant.epoch, first.id)
    assert not scan_results.has_found(grant.task_id, grant.epoch, second.id)


def test_items_are_distinguished_by_the_row_that_a_file_has(grant: Grant) -> None:
    first, second = items(grant)
    made = FoundFile(second.source_path, second.destination_path, 3, None)
    scan_results.file_items_scanned(grant.task_id, grant.epoch, [(second, made)])
    find(grant, 5)
    assert scan_results.items(grant.task_id, grant.epoch, 0, 10) == [(first, False), (second, True)]
    assert scan_results.items(grant.task_id, grant.epoch, 0, 1) == [(first, False)]
    assert scan_results.items(grant.task_id, grant.epoch, first.id, 10) == [(second, True)]
    assert scan_results.items(grant.task_id, grant.epoch, second.id, 10) == []


def test_destinations_of_files_are_known_to_their_task_alone(
    grant: Grant, alice: User, ep1: Endpoint, ep2: Endpoint
) -> None:
    find(grant, 5, 6)
    asked = ["/to/0/f0", "/to/0/f1", "/to/0/f2", "/to/0", "/0/f0"]
    assert scan_results.known(grant.task_id, grant.epoch, asked) == {"/to/0/f0", "/to/0/f1"}
    assert scan_results.known(grant.task_id, grant.epoch, []) == set()
    other = take(submit(alice, ep1, ep2, ("/x", "/y")))
    assert scan_results.known(other.task_id, other.epoch, asked) == set()


def test_files_that_were_begun_are_known_until_they_are_settled(grant: Grant) -> None:
    plain, ranged, renamed, done = find(grant, 100, 100, 100, 100)
    write(grant, progress=[PartialFile(ranged, "0-30", 30), PartialFile(done, "0-50", 50)])
    pending_files.write_temporary_paths(grant.task_id, grant.epoch, [renamed._replace(temporary_path="/to/.waybill-1")])
    write(grant, settled=settled(done))
    begun = pending_files.begun(grant.task_id, grant.epoch, 10)
    assert {(row.id, row.ranges, row.temporary_path) for row in begun} == {
        (ranged.id, "0-30", None),
        (renamed.id, "", "/to/.waybill-1"),
    }
    assert plain.id not in {row.id for row in begun}
    assert len(pending_files.begun(grant.task_id, grant.epoch, 1)) == 1
