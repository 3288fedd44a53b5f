"""The shell's status, details, events, wait, cancel, modify and retry: literal forms, fields, exit codes."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import submit, submit_delete
from tests.integration.rest import Api, assert_error
from tests.shell_context import Shell
from transferapi.shell.commands import tasks as task_commands
from transferapi.shell.context import Signal
from transferapi.shell.options import Arguments
from transferapi.shell.output import Table
from transferapi.tasks import events, moves
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import File, Item, Task
from transferapi.tasks.states import FileKind, FileState

NOW = datetime(2011, 3, 7, 15, 4, 5, tzinfo=UTC)
DETAILS = [
    "Task ID", "Task Type", "Status", "Request Time", "Deadline", "Completion Time", "Total Tasks", "Tasks Successful",
    "Tasks Expired", "Tasks Canceled", "Tasks Failed", "Tasks Pending", "Tasks Retrying", "Command", "Label",
    "Source Endpoint", "Destination Endpoint", "Data Encryption", "Checksum Verification", "Delete", "Sync Level",
    "Files", "Files Skipped", "Directories", "Files Transferred", "Bytes Transferred", "Bytes Checksummed",
    "MBits/sec", "Faults",
]  # fmt: skip


@pytest.fixture
def shell(alice: User, ep1: Endpoint, ep2: Endpoint) -> Shell:
    return Shell(alice)


@pytest.fixture
def task(alice: User, ep1: Endpoint, ep2: Endpoint) -> Task:
    return submit(alice, ep1, ep2, now=NOW, label="night/1.2", command="transfer --perf-p=6 (+2 input lines)")


def end(task: Task, status: str = "SUCCEEDED", **columns: Any) -> None:
    """As a worker ends it."""
    Task.objects.filter(pk=task.pk).update(phase="running")
    if status == "FAILED":
        columns |= {"fatal_error_code": "PERMISSION_DENIED", "fatal_error_description": "Files have failed."}
    new = moves.SUCCEEDED if status == "SUCCEEDED" else moves.FAILED
    changes = {"items_scanned": task.items_total, **columns}
    moves.move(task.pk, moves.RUNNING, new, now=NOW + timedelta(seconds=10), changes=changes)


def add_file(task: Task, source: str, state: FileState = FileState.FAILED, **columns: Any) -> File:
    failed = {"error_code": "PERMISSION_DENIED", "error_details": "550 no"} if state != FileState.DONE else {}
    return File.objects.create(
        task=task,
        item_id=Item.objects.filter(task=task).values_list("pk", flat=True)[0],
        source_path=source,
        destination_path=None if task.destination_id is None else f"/copy{source}",
        key=uuid.uuid4().bytes,
        state=state,
        settled_at=NOW,
        **{**failed, **columns},
    )


# ---- status


def test_status_in_its_literal_form(shell: Shell, task: Task) -> None:
    assert shell.ok("status") == (
        f"Task ID     : {task.pk}\n"
        "Request Time: 2011-03-07 15:04:05Z\n"
        "Command     : transfer --perf-p=6 (+2 input lines)\n"
        "Label       : night/1.2\n"
        "Status      : ACTIVE\n"
        "\n"
    )


def test_status_without_unfinished_tasks_prints_nothing(shell: Shell, task: Task) -> None:
    end(task)
    assert shell.ok("status") == ""
    assert shell.ok("status -O json") == "[]\n"
    assert f"{task.pk}" in shell.ok("status -a")
    assert shell.ok(f"status -f status {task.pk}") == "Status: SUCCEEDED\n"


def test_status_lists_the_newest_first_and_as_many_as_asked(
    shell: Shell, alice: User, ep1: Endpoint, ep2: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_commands, "PAGE", 3)
    tasks = [submit(alice, ep1, ep2, now=NOW + timedelta(seconds=number)) for number in range(7)]
    newest = [f"{task.pk}" for task in reversed(tasks)]
    assert shell.ok("status -f task_id -O csv").split() == newest
    assert shell.ok("status -a -l 4 -O csv -f task_id").split() == newest[:4]
    assert [one["task_id"] for one in shell.run("status -O json").json] == newest
    assert "Command     : API 0.10\n" in shell.ok("status -l 1")


def test_nobody_sees_tasks_of_others(task: Task, charlie: User) -> None:
    shell = Shell(charlie)
    assert shell.ok("status -a") == ""
    for line in ("status {}", "details {}", "events {}", "wait {}", "cancel {}", "modify --label x {}", "retry {}",
                 "pause {}", "resume {}", "confirm-deletion {}", "refuse-deletion {}",
                 "details --failed-files {}", "details -t {}"):  # fmt: skip
        assert shell.fails(line.format(task.pk)) == f"Error: No such task id '{task.pk}'\n"
    task.refresh_from_db()
    assert (task.label, task.cancel_requested_at) == ("night/1.2", None)


@pytest.mark.parametrize(
    "line", ["status", "details", "events", "wait", "wait -q", "cancel", "pause", "resume", "retry"]
)
def test_a_word_that_is_no_id(shell: Shell, line: str) -> None:
    assert shell.fails(f"{line} xxxsss") == "Error: No such task id 'xxxsss'\n"


# ---- details


def test_details_has_its_29_lines_in_their_order(shell: Shell, task: Task) -> None:
    end(task, files=3, files_transferred=2, files_skipped=1, bytes_transferred=1_500_000, faults=4, directories=5)
    lines = shell.ok(f"details {task.pk}").split("\n")
    assert [line.partition(": ")[0].rstrip() for line in lines[:29]] == DETAILS
    assert len({line.index(": ") for line in lines if line}) == 1
    assert lines[-2:] == ["", ""]
    values = [line.partition(": ")[2] for line in lines]
    assert values[:6] == [
        f"{task.pk}", "TRANSFER", "SUCCEEDED", "2011-03-07 15:04:05Z", "2011-03-08 15:04:05Z", "2011-03-07 15:04:15Z",
    ]  # fmt: skip
    assert values[6:13] == ["4", "4", "0", "0", "0", "0", "0"]
    assert values[13:17] == ["transfer --perf-p=6 (+2 input lines)", "night/1.2", "alice#ep1", "alice#ep2"]
    assert values[17:25] == ["No", "No", "No", "n/a", "3", "1", "5", "2"]
    assert values[25:29] == ["1500000", "0", "1.200", "4"]


def test_details_of_selected_fields(shell: Shell, task: Task) -> None:
    assert shell.ok(f"details {task.pk} -f status") == "Status: ACTIVE\n"
    assert shell.ok(f"details -f mbits_sec,files_transferred,label {task.pk} -O csv") == "0,0,night/1.2\n"
    assert shell.ok(f"details {task.pk} -f request_time,completion_time -O kv") == (
        "request_time=2011-03-07 15:04:05Z\ncompletion_time=n/a\n"
    )
    error = shell.fails(f"details {task.pk} -f nothing", status=2)
    assert "bytes_transferred" in error
    assert shell.run(f"details {task.pk} -O json").json["task_id"] == f"{task.pk}"


def test_details_of_a_delete(shell: Shell, alice: User, ep1: Endpoint) -> None:
    task = submit_delete(alice, ep1, "/a")
    assert shell.ok(f"details -f task_type,destination_endpoint {task.pk} -O csv") == "DELETE,n/a\n"


def test_the_files_of_a_task(shell: Shell, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_commands, "PAGE", 2)
    for number in range(3):
        add_file(task, f"/good{number}", FileState.DONE)
    add_file(task, "/bad")
    end(task, "FAILED")
    rows = shell.ok(f"details -t {task.pk} -O csv -f status,source_path").split()
    assert rows == ["SUCCEEDED,/good0", "SUCCEEDED,/good1", "SUCCEEDED,/good2", "FAILED,/bad"]
    documents = shell.run(f"details -t {task.pk} -O json").json
    assert [one["DATA_TYPE"] for one in documents] == ["successful_transfer"] * 3 + ["skipped_error"]


def test_failed_files_are_lines_for_transfer(shell: Shell, task: Task) -> None:
    for name in ("/plain", "/with blank", "/it's", "/100%", "/not\udcffutf8"):
        add_file(task, name)
    end(task, "FAILED")
    lines = shell.ok(f"details --failed-files {task.pk}").splitlines()
    assert lines[0] == "alice#ep1/plain alice#ep2/copy/plain"
    assert lines[1] == "'alice#ep1/with blank' 'alice#ep2/copy/with blank'"
    again = uuid.UUID(shell.ok("transfer", lines).split()[-1])
    items = Item.objects.filter(task=again).order_by("position")
    assert [item.source_path for item in items] == ["/plain", "/with blank", "/it's", "/100%", "/not\udcffutf8"]


# ---- events


@pytest.fixture
def eventful(task: Task) -> Task:
    new = [
        NewEvent("STARTED", "The task began.", {"type": "TRANSFER"}),
        NewEvent("RESUMED", "It goes on."),
        NewEvent("CONNECTION_RESET", "A fault on 2 files: given up.", "reset\nFile: /a\nFile: /b", is_error=True),
        NewEvent("SUCCEEDED", "Done."),
    ]
    events.append(task.pk, new, NOW)
    return task


def test_events_begin_with_started_and_end_with_the_state(shell: Shell, eventful: Task) -> None:
    told = shell.ok(f"events {eventful.pk}")
    assert told.startswith(
        f"Task ID       : {eventful.pk}\n"
        "Parent Task ID: n/a\n"
        "Time          : 2011-03-07 15:04:05Z\n"
        "Code          : STARTED\n"
        "Description   : The task began.\n"
    )
    assert "\nFile: /b\n" in told
    codes = shell.ok(f"events -f code -O csv {eventful.pk}").split()
    assert codes == ["STARTED", "CONNECTION_RESET", "SUCCEEDED"]
    assert shell.ok(f"events --faults -f code {eventful.pk}") == "Code: CONNECTION_RESET\n"
    assert shell.ok(f"events --all -f code -O csv {eventful.pk}").split()[0] == "SUBMITTED"


def test_a_long_list_as_json_is_one_array_and_is_written_page_by_page(
    shell: Shell, eventful: Task, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_commands, "PAGE", 2)
    codes = shell.ok(f"events --all -f code -O csv {eventful.pk}").split()
    assert len(codes) > 2
    assert [one["code"] for one in shell.run(f"events --all -f code -O json {eventful.pk}").json] == codes
    assert [one["code"] for one in shell.run(f"events --all -O json {eventful.pk}").json] == codes


def test_a_document_is_written_before_the_next_row_is_read() -> None:
    """A task may have a million files: they may not be in memory together."""
    written: list[str] = []

    class Output:
        def out(self, text: str) -> None:
            written.append(text)

    def rows() -> Iterator[dict[str, int]]:
        for number in range(3):
            assert len(written) == number
            yield {"number": number}

    table = Table[dict[str, int]](document=dict)
    table.show(Output(), Arguments(values={"fields": None, "form": "json"}), rows())  # type: ignore[arg-type]
    assert "".join(written) == json.dumps([{"number": number} for number in range(3)], indent=2) + "\n"


def test_events_as_csv_have_the_six_fields_in_their_order(
    shell: Shell, eventful: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_commands, "PAGE", 1)
    last = shell.ok(f"events {eventful.pk} -O csv").splitlines()[-1]
    assert last == f"{eventful.pk},n/a,2011-03-07 15:04:05Z,SUCCEEDED,Done.,n/a"
    documents = shell.run(f"events -O json {eventful.pk}").json
    assert [one["code"] for one in documents] == ["STARTED", "CONNECTION_RESET", "SUCCEEDED"]


# ---- wait


def test_wait_ends_with_the_state_of_the_tasks(shell: Shell, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    good, bad, asleep, active = (submit(alice, ep1, ep2) for _ in range(4))
    end(good)
    end(bad, "FAILED")
    Task.objects.filter(pk=asleep.pk).update(status="INACTIVE", phase="suspended")
    for ids, status in (
        ([good], 0), ([bad], 1), ([asleep], 3), ([good, bad, asleep], 1), ([good, asleep], 3),
    ):  # fmt: skip
        found = shell.run("wait -q " + " ".join(f"{task.pk}" for task in ids) + "\n")
        assert (found.status, found.out, found.err) == (status, "", ""), ids
    assert shell.run(f"wait -q --timeout 0 {good.pk} {active.pk}").status == 4
    assert shell.run(f"wait -O json {bad.pk}").json[0]["status"] == "FAILED"


def test_wait_draws_the_progress_line_of_79_columns(shell: Shell, task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(files=4, files_transferred=1)

    def ends() -> Signal | None:
        end(task, files=4, files_transferred=4, bytes_transferred=2_000_000)
        return None

    shell.on_pause = ends
    told = shell.ok(f"wait {task.pk}")
    assert told.endswith("\n")
    lines = told.rstrip("\n").split("\r")
    assert lines[0] == ""
    assert all(len(line) == 79 for line in lines[1:])
    assert re.fullmatch(r"\[X+ +\] 1/4 0\.00 mbps", lines[1])
    assert re.fullmatch(r"\[X+\] 4/4 1\.60 mbps", lines[-1])


@pytest.mark.parametrize(("option", "status"), [("-c", "FAILED"), ("", "ACTIVE")])
def test_ctrl_c_cancels_the_waiting_and_with_c_the_task(shell: Shell, task: Task, option: str, status: str) -> None:
    shell.on_pause = lambda: Signal.INTERRUPT
    assert shell.run(f"wait -q {option} {task.pk}").status == 130
    task.refresh_from_db()
    assert task.status == status


# ---- scp and rm in the foreground, without their transfer


@pytest.mark.parametrize(
    ("signal", "exit_status", "status"),
    [(Signal.INTERRUPT, 130, "FAILED"), (Signal.BACKGROUND, 0, "ACTIVE"), (Signal.DISCONNECTED, 0, "ACTIVE")],
)
@pytest.mark.parametrize("line", ["scp ep1:/a ep2:/b/", "rm ep1:/a"])
def test_a_signal_cancels_the_task_or_leaves_it_running(
    shell: Shell, line: str, signal: Signal, exit_status: int, status: str
) -> None:
    shell.on_pause = lambda: signal
    found = shell.run(line)
    assert found.status == exit_status
    task = Task.objects.get()
    assert found.out.startswith(f"Task ID: {task.pk}\nType <CTRL-C> to cancel or bg<ENTER> to background\n\r[ ")
    assert task.status == status


def test_a_task_that_waits_for_a_person_ends_the_command(shell: Shell) -> None:
    def suspended() -> None:
        Task.objects.update(status="INACTIVE", phase="suspended", nice_status_details="Activate alice#ep1.")

    shell.on_pause = suspended
    found = shell.run("rm ep1:/a")
    assert found.status == 3
    assert "Activate alice#ep1." in found.err


# ---- cancel, modify


def test_cancel_takes_ids_or_all(shell: Shell, alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    first, second, third = (submit(alice, ep1, ep2) for _ in range(3))
    told = shell.ok(f"cancel {first.pk}")
    assert told == f"{first.pk}: The task has been cancelled successfully.\n"
    assert "completed before" in shell.ok(f"cancel {first.pk} {second.pk}")
    assert shell.ok("cancel --all").count("\n") == 1
    third.refresh_from_db()
    assert (third.status, third.fatal_error_code) == ("FAILED", "CANCELED")
    assert shell.ok("cancel --all") == ""
    assert shell.run(f"cancel -O json {third.pk}").json["code"] == "TaskComplete"
    shell.fails("cancel", status=2)
    shell.fails(f"cancel --all {first.pk}", status=2)


def test_cancel_of_several_with_an_unknown_one_cancels_none(shell: Shell, task: Task) -> None:
    assert "No such task" in shell.fails(f"cancel {task.pk} {uuid.uuid4()}")
    task.refresh_from_db()
    assert task.status == "ACTIVE"


def test_modify_changes_the_deadline_and_the_label(shell: Shell, task: Task) -> None:
    Task.objects.filter(pk=task.pk).update(deadline=NOW + timedelta(days=36500))
    assert shell.ok(f"modify --deadline '2099-05-01 12:00Z' --label 'a new: label/1.' {task.pk}") == ""
    task.refresh_from_db()
    assert task.deadline == datetime(2099, 5, 1, 12, tzinfo=UTC)
    assert task.label == "a new: label/1."
    assert "passed already" in shell.fails(f"modify -d 2001-01-01 {task.pk}")
    shell.fails(f"modify {task.pk}", status=2)
    shell.fails(f"modify --deadline tomorrow {task.pk}", status=2)
    end(task)
    assert "complete" in shell.fails(f"modify --label x {task.pk}")


# ---- retry, also over REST


@pytest.fixture
def failed(task: Task) -> Task:
    Task.objects.filter(pk=task.pk).update(options={**task.options, "encrypt_data": True, "sync_level": 1})
    add_file(task, "/good", FileState.DONE)
    add_file(task, "/bad")
    add_file(task, "/sum", checksum_algorithm="MD5", checksum="0" * 32)
    add_file(task, "/skipped", FileState.SKIPPED)
    add_file(task, "/folder/", kind=FileKind.DIRECTORY)
    end(task, "FAILED")
    return task


def test_retry_submits_the_failed_files_only(shell: Shell, failed: Task) -> None:
    chosen = uuid.uuid4()
    for _ in range(2):
        assert shell.ok(f"retry --taskid {chosen} {failed.pk}") == f"Task ID: {chosen}\n"
    new = Task.objects.get(pk=chosen)
    assert new.label == failed.label
    assert (new.options["encrypt_data"], new.options["sync_level"]) == (True, 1)
    assert new.options["external_checksum"]
    assert new.command == f"retry {failed.pk}"
    items = Item.objects.filter(task=new).order_by("position")
    assert [(item.source_path, item.destination_path, item.recursive) for item in items] == [
        ("/bad", "/copy/bad", None),
        ("/sum", "/copy/sum", None),
        ("/skipped", "/copy/skipped", None),
        ("/folder/", "/copy/folder/", True),
    ]
    assert items[1].extra == {"checksum_algorithm": "MD5", "external_checksum": "0" * 32}
    assert Task.objects.count() == 2


def test_retry_of_a_delete(shell: Shell, alice: User, ep1: Endpoint) -> None:
    old = submit_delete(alice, ep1, "/a/", options={"recursive": True, "interpret_globs": True})
    add_file(old, "/a/*[")
    end(old, "FAILED")
    new = Task.objects.get(pk=shell.ok(f"retry --label again {old.pk}").split()[-1])
    assert (new.type, new.label, new.options["recursive"]) == ("DELETE", "again", True)
    assert [item.source_path for item in new.items.all()] == ["/a/*["]
    assert not new.options["interpret_globs"], "the names of files are no patterns"


Change = Callable[[Task], object]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda task: File.objects.filter(state=FileState.FAILED).delete(), "nothing to do again"),
        (lambda task: Task.objects.filter(pk=task.pk).update(history_deleted=True), "not known any more"),
        (lambda task: Task.objects.filter(pk=task.pk).update(items_scanned=0), "submit it anew"),
    ],
)
def test_a_task_that_cannot_be_repeated_says_why(shell: Shell, failed: Task, change: Change, words: str) -> None:
    File.objects.filter(state=FileState.SKIPPED).delete()
    change(failed)
    assert words in shell.fails(f"retry {failed.pk}")
    assert Task.objects.count() == 1


def test_a_task_that_is_not_done_is_not_repeated(shell: Shell, task: Task) -> None:
    assert "not done" in shell.fails(f"retry {task.pk}")


def test_rest_repeats_failed_files_too(alice: User, bob: User, failed: Task, ep1: Endpoint) -> None:
    api = Api(alice)
    body = {"submission_id": str(uuid.uuid4()), "label": "second"}
    first, again = (api.post(f"/task/{failed.pk}/retry", body) for _ in range(2))
    assert (first.status, first.code, again.code) == (202, "Accepted", "Duplicate")
    assert first.body["task_id"] == again.body["task_id"]
    assert Task.objects.get(pk=first.body["task_id"]).label == "second"
    assert api.post(f"/task/{failed.pk}/retry").status == 202
    assert_error(Api(bob).post(f"/task/{failed.pk}/retry"), 404, "ClientError.NotFound")
    unfinished = submit(alice, ep1, ep1, ("/x", "/y"))
    assert_error(api.post(f"/task/{unfinished.pk}/retry"), 409, "TaskNotComplete")
    File.objects.filter(task=failed).exclude(state=FileState.DONE).delete()
    assert_error(api.post(f"/task/{failed.pk}/retry"), 409, "Conflict")


def test_retry_as_json_is_the_document_of_rest(shell: Shell, failed: Task) -> None:
    assert shell.run(f"retry -O json {failed.pk}").json["DATA_TYPE"] == "retry_result"
