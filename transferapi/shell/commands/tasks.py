"""status, details, events: what is known of tasks."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial

from endpoints.registry import canonical_name
from transferapi.rest.transfer import task_documents
from transferapi.shell import task_records
from transferapi.shell.answers import show
from transferapi.shell.command import Heading, command, operands
from transferapi.shell.context import Context
from transferapi.shell.options import Arguments, flag, option
from transferapi.shell.output import FIELDS, FORM, write_list
from transferapi.shell.submissions import number
from transferapi.shell.words import quote
from transferapi.tasks import queries
from transferapi.tasks.forecast import services as forecasts
from transferapi.tasks.models import Event, File, Task
from transferapi.tasks.queries import MarkerPage

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
        found = [context.call(queries.get, context.user, task_records.task_id(text))]
    else:
        wanted = () if arguments["all"] else task_records.UNFINISHED
        found = context.call(task_records.tasks, context.user, wanted, arguments["limit"] or _DEFAULT)
    task_records.STATUS.show(context, arguments, found, single=bool(arguments.operands))


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
    task = context.call(queries.get, context.user, task_records.task_id(text))
    if arguments["failed_files"]:
        _show_failed(context, arguments, task)
    elif arguments["subtasks"]:
        _show_files(context, arguments, task)
    elif arguments["form"] == "json" and arguments["fields"] is None:
        show(context, context.call(lambda: task_documents.task(task, forecasts.during(task))))
    else:
        task_records.DETAILS.show(context, arguments, [task], single=True)


def _show_files(context: Context, arguments: Arguments, task: Task) -> None:
    parts = (_pages(context, read, task.pk) for read in (queries.successful_transfers, queries.skipped_errors))
    task_records.FILES.show(context, arguments, (file for pages in parts for page in pages for file in page))


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
        page = context.call(read, context.user, task_id, marker=marker, limit=task_records.PAGE)
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
    task_id = task_records.task_id(text)
    found = _events(context, task_id, faults=arguments["faults"])
    wanted = (event for event in found if arguments["all"] or _is_shown(event))
    task_records.EVENTS.show(context, arguments, wanted)


def _events(context: Context, task_id: uuid.UUID, *, faults: bool) -> Iterator[Event]:
    """The oldest first. Raises TaskNotFoundError."""
    only = True if faults else None
    part = partial(queries.events, is_error=only, limit=task_records.PAGE, oldest_first=True)
    offset, more = 0, True
    while more:
        page = context.call(part, context.user, task_id, offset=offset).rows
        yield from page
        offset += len(page)
        more = len(page) == task_records.PAGE


def _is_shown(event: Event) -> bool:
    return event.is_error or event.code in task_records.WELL_KNOWN
