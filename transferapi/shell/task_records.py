"""The records of tasks, their events and files, as `status`, `details` and `events` show them.

The keys and their order are those of the historical shell: programs read them by line number and by name.
"""

from __future__ import annotations

import uuid
from typing import Any

from endpoints.registry import canonical_name
from identity.models import User
from transferapi.rest.transfer import task_documents
from transferapi.tasks import display_state, queries
from transferapi.tasks.models import Event, File, Task
from transferapi.tasks.states import FileState, Status

from .errors import ShellError
from .output import Column, Table

#: Rows that are read at a time.
PAGE = 500
#: The states of tasks that are not done.
UNFINISHED = (Status.ACTIVE.value, Status.INACTIVE.value)
#: The codes of events that are no faults and that `events` shows without `--all`: programs treat others as fatal.
WELL_KNOWN = frozenset({"STARTED", "PROGRESS", "SUCCEEDED", "CANCELED"})


def task_id(text: str) -> uuid.UUID:
    """Raises ShellError, with the words of the historical shell."""
    try:
        return uuid.UUID(text)
    except ValueError:
        raise ShellError(f"No such task id '{text[:100]}'", "ClientError.NotFound") from None


# ---- tasks


def _document(task: Task) -> dict[str, Any]:
    return task_documents.TASK.document(task)


def _field(name: str) -> Any:
    return lambda task: _document(task)[name]


def _yes(name: str) -> Any:
    return lambda task: "Yes" if task.options.get(name) else "No"


def _megabits(task: Task) -> str:
    rate = _document(task)["effective_bytes_per_second"] * 8 / 1e6
    return f"{rate:.3f}" if rate else "0"


def _destination(task: Task) -> str | None:
    return canonical_name(task.destination) if task.destination else None


_ID = Column[Task]("Task ID", lambda task: task.pk)
_REQUESTED = Column[Task]("Request Time", lambda task: task.request_time)
_COMMAND = Column[Task]("Command", _field("command"))
_LABEL = Column[Task]("Label", lambda task: task.label)
_STATUS = Column[Task]("Status", lambda task: task.status)

STATUS = Table[Task](_ID, _REQUESTED, _COMMAND, _LABEL, _STATUS, document=_document)
#: Lines 0 to 28 as of 2012 to 2015; ours behind them.
DETAILS = Table[Task](
    _ID,
    Column("Task Type", lambda task: task.type),
    _STATUS,
    _REQUESTED,
    Column("Deadline", lambda task: task.deadline),
    Column("Completion Time", lambda task: task.completion_time),
    Column("Total Tasks", _field("subtasks_total")),
    Column("Tasks Successful", _field("subtasks_succeeded")),
    Column("Tasks Expired", _field("subtasks_expired")),
    Column("Tasks Canceled", _field("subtasks_canceled")),
    Column("Tasks Failed", _field("subtasks_failed")),
    Column("Tasks Pending", _field("subtasks_pending")),
    Column("Tasks Retrying", _field("subtasks_retrying")),
    _COMMAND,
    _LABEL,
    Column("Source Endpoint", lambda task: canonical_name(task.source)),
    Column("Destination Endpoint", _destination),
    Column("Data Encryption", _yes("encrypt_data")),
    Column("Checksum Verification", _yes("verify_checksum")),
    Column("Delete", _yes("delete_destination_extra")),
    Column("Sync Level", lambda task: task.options.get("sync_level")),
    Column("Files", lambda task: task.files),
    Column("Files Skipped", lambda task: task.files_skipped),
    Column("Directories", lambda task: task.directories),
    Column("Files Transferred", lambda task: task.files_transferred),
    Column("Bytes Transferred", lambda task: task.bytes_transferred),
    Column("Bytes Checksummed", lambda task: task.bytes_checksummed),
    Column("MBits/sec", _megabits),
    Column("Faults", lambda task: task.faults),
    Column("Files Failed", lambda task: task.files_failed),
    Column("State", lambda task: str(display_state.display_state(task))),
    Column("Nice Status", _field("nice_status"), ("nice_status_code",)),
    Column("Nice Status Details", _field("nice_status_details")),
    Column("Fatal Error", lambda task: task.fatal_error_code),
    Column("Fatal Error Description", lambda task: task.fatal_error_description),
    Column("Data Protection", lambda task: task.data_protection),
    Column("Data Way", lambda task: task.data_way),
    Column("Confirm Above", lambda task: task.options.get("confirm_deletion_above"), ("confirm_deletion_above",)),
    document=_document,
)


def tasks(user: User, statuses: tuple[str, ...], most: int) -> list[Task]:
    """Tasks with these states, newest first; an empty tuple: all."""
    found: list[Task] = []
    wanted = queries.TaskFilter(statuses=statuses)
    while len(found) < most:
        page = queries.list_tasks(user, wanted, limit=min(PAGE, most - len(found)), offset=len(found)).rows
        found += page
        if len(page) < PAGE:
            break
    return found


# ---- events


EVENTS = Table[Event](
    Column("Task ID", lambda event: event.task_id),
    Column("Parent Task ID", lambda event: None),
    Column("Time", lambda event: event.time),
    Column("Code", lambda event: event.code),
    Column("Description", lambda event: event.description),
    # Programs look for lines that begin with `File: `.
    Column("Details", lambda event: event.details, keeps_lines=True),
    document=task_documents.EVENT.document,
)


# ---- files


_FILE_STATES: dict[int, str] = {
    FileState.DONE: "SUCCEEDED",
    FileState.SKIPPED: "SKIPPED",
    FileState.FAILED: "FAILED",
}


def _state(file: File) -> str:
    if file.state == FileState.PENDING:
        return "EXPIRED" if file.error_code is None else "FAILED"
    return _FILE_STATES.get(file.state, str(file.state))


#: The subtasks of a task.
FILES = Table[File](
    Column("Task ID", lambda file: file.pk),
    Column("Parent Task ID", lambda file: file.task_id),
    Column("Status", _state),
    Column("Source Path", lambda file: file.source_path),
    Column("Destination Path", lambda file: file.destination_path),
    Column("Bytes", lambda file: file.size),
    Column("Error Code", lambda file: file.error_code),
    Column("Error Details", lambda file: file.error_details),
    document=lambda file: (
        task_documents.SUCCESSFUL_TRANSFER if file.state == FileState.DONE else task_documents.SKIPPED_ERROR
    ).document(file),
)
