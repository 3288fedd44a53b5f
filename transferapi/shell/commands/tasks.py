"""status, details, events: the records of tasks, their events and files.

The keys and their order are those of the historical shell: programs read them by line number and by name.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from endpoints.registry import canonical_name
from identity.models import User
from transferapi.rest.transfer import task_documents
from transferapi.shell.command import Heading, command, operands, show
from transferapi.shell.context import Context
from transferapi.shell.errors import ShellError
from transferapi.shell.options import Arguments, flag, option
from transferapi.shell.output import FIELDS, FORM, Column, Table, write_list
from transferapi.shell.submissions import number
from transferapi.shell.words import quote
from transferapi.tasks import display_state, names, queries
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.models import Event, File, Task
from transferapi.tasks.queries import MarkerPage
from transferapi.tasks.states import FileState, Status

#: Tasks that `status -a` shows without -l.
_DEFAULT, _MOST = 100, 10_000


@command("status", "[OPTIONS] [ID]", Heading.TASKS,
         flag("-a", "--all", about="also tasks that are done"),
         option("-l", "--limit", metavar="N", read=number(1, _MOST), about=f"at most N tasks ({_DEFAULT})"),
         FIELDS, FORM, summary="List your tasks")  # fmt: skip
def status(context: Context, arguments: Arguments) -> None:
    """Lists your tasks that are not done (ACTIVE or INACTIVE), the newest first. There is no output if there are none.
    With -a, lists all tasks. With an ID, shows that task in whatever state it is.

    ACTIVE: the task is in progress, or waits for its turn. INACTIVE: it waits for you to activate an endpoint.
    SUCCEEDED: all is done. FAILED: it has failed, is past its deadline, or was canceled.
    """
    if arguments.operands:
        [text] = operands(arguments, 1)
        found = [context.call(queries.get, context.user, parse_task_id(text))]
    else:
        wanted = () if arguments["all"] else UNFINISHED
        found = context.call(tasks, context.user, wanted, arguments["limit"] or _DEFAULT)
    STATUS.show(context, arguments, found, single=bool(arguments.operands))


@command("details", "[OPTIONS] ID", Heading.TASKS,
         FIELDS, FORM, flag("-t", "--subtasks", about="list the files of the task"),
         flag("--failed-files", about="list the files that have failed, as lines for 'transfer' or 'delete'"),
         summary="Show everything about a task")  # fmt: skip
def details(context: Context, arguments: Arguments) -> None:
    """Shows a task. With -t, lists its files in place of it: first those that have arrived, then those that have failed
    or were skipped for an error. Files that were in place already are not listed.

    With --failed-files, prints a line for each file that has failed or was skipped for an error, in the form that
    `transfer` (or `delete`) reads from standard input. `retry ID` submits exactly these files.
    """
    [text] = operands(arguments, 1)
    task = context.call(queries.get, context.user, parse_task_id(text))
    if arguments["failed_files"]:
        _show_failed(context, arguments, task)
    elif arguments["subtasks"]:
        _show_files(context, arguments, task)
    elif arguments["form"] == "json" and arguments["fields"] is None:
        show(context, context.call(lambda: task_documents.task(task, forecasts.shown(task))))
    else:
        context.call(names.read, [task])
        DETAILS.show(context, arguments, [task], single=True)


def _show_files(context: Context, arguments: Arguments, task: Task) -> None:
    parts = (_pages(context, read, task.pk) for read in (queries.successful_transfers, queries.skipped_errors))
    FILES.show(context, arguments, (file for pages in parts for page in pages for file in page))


def _show_failed(context: Context, arguments: Arguments, task: Task) -> None:
    pages = _pages(context, queries.skipped_errors, task.pk)
    if arguments["form"] == "json":
        write_list(context, (task_documents.SKIPPED_ERROR.document(file) for page in pages for file in page))
        return
    for page in pages:
        context.out("".join(f"{_as_line(task, file)}\n" for file in page))


def _as_line(task: Task, file: File) -> str:
    """The file as a line of `transfer` or `delete`."""
    ends = [canonical_name(task.source) + _encoded(file.source_path)]
    if task.destination is not None:
        ends.append(canonical_name(task.destination) + _encoded(file.destination_path or ""))
    words = [quote(end) for end in ends]
    return " ".join([*words, "-r"] if file.source_path.endswith("/") else words)


def _encoded(path: str) -> str:
    """`%` begins an octet in paths of `transfer`; octets that are not UTF-8 are written so."""
    text = path.replace("%", "%25")
    return "".join(f"%{ord(one) - 0xDC00:02X}" if "\udc80" <= one <= "\udcff" else one for one in text)


def _pages(context: Context, read: Callable[..., MarkerPage[File]], task_id: uuid.UUID) -> Iterator[list[File]]:
    marker: int | None = 0
    while marker is not None:
        page = context.call(read, context.user, task_id, marker=marker, limit=PAGE)
        yield page.rows
        marker = page.next_marker


@command("events", "[OPTIONS] ID", Heading.TASKS,
         flag("--faults", about="faults only"), flag("-a", "--all", about="also events that are for people"),
         FIELDS, FORM, summary="List the events of a task")  # fmt: skip
def events(context: Context, arguments: Arguments) -> None:
    """Lists the events of a task, the oldest first: STARTED, PROGRESS, SUCCEEDED, CANCELED, and faults under their own
    codes. With --faults, lists faults only; their details name the files, each on a line `File: PATH`. With --all,
    lists everything that happened: the submission, plans and pauses too.
    """
    [text] = operands(arguments, 1)
    task_id = parse_task_id(text)
    found = _events(context, task_id, faults=arguments["faults"])
    wanted = (event for event in found if arguments["all"] or _is_shown(event))
    EVENTS.show(context, arguments, wanted)


def _events(context: Context, task_id: uuid.UUID, *, faults: bool) -> Iterator[Event]:
    """The oldest first. Raises TaskNotFoundError."""
    only = True if faults else None
    part = partial(queries.events, is_error=only, limit=PAGE, oldest_first=True)
    offset, more = 0, True
    while more:
        page = context.call(part, context.user, task_id, offset=offset).rows
        yield from page
        offset += len(page)
        more = len(page) == PAGE


def _is_shown(event: Event) -> bool:
    return event.is_error or event.code in WELL_KNOWN


#: Rows that are read at a time.
PAGE = 500
#: The states of tasks that are not done.
UNFINISHED = (Status.ACTIVE.value, Status.INACTIVE.value)
#: The codes of events that are no faults and that `events` shows without `--all`: programs treat others as fatal.
WELL_KNOWN = frozenset({"STARTED", "PROGRESS", "SUCCEEDED", "CANCELED"})


def parse_task_id(text: str) -> uuid.UUID:
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
    Column("Bandwidth Limit", _field("bandwidth_limit"), ("bandwidth_limit",)),
    Column("Present Bandwidth Limit", _field("present_bandwidth_limit"), ("present_bandwidth_limit",)),
    Column("Priority", _field("priority"), ("priority",)),
    Column("Name", names.of),
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
