"""Wait for tasks, with a progress line: `scp`, `rm` and `wait`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from endpoints.gridftp.faults import Kind
from identity.models import User
from transferapi.rest.transfer import task_documents
from transferapi.shell.context import Context, Signal
from transferapi.shell.errors import FAILED, INACTIVE, INTERRUPTED, OK, TIMED_OUT, OperationError, ShellError
from transferapi.shell.operation_errors import CAUSES, REFUSED
from transferapi.shell.progress import End, Progress, follow
from transferapi.tasks import moves, queries
from transferapi.tasks.models import Task
from transferapi.tasks.states import Phase, Status, TaskType

#: The historical text. CTRL-Z does what `bg` does.
HINT = "Type <CTRL-C> to cancel or bg<ENTER> to background\n"


def run(context: Context, task: Task, *, show: bool) -> int:
    """Follow a new task to its end, and report its failure; CTRL-C cancels it. Returns the exit status.

    A task whose only item is not there is canceled; in the background, it would wait for the file until its deadline.
    show: with the progress line.
    """
    if show:
        context.out(HINT)
    end = follow(context, lambda: context.call(_progress_of_one, context.user, task.pk), show=show)
    if end is Signal.INTERRUPT:
        context.call(moves.cancel, context.user, task.pk)
        context.err(f"Error: You have canceled the task {task.pk}\n")
        return INTERRUPTED
    if end is not End.ENDED:
        return OK
    found = context.call(_read, context.user, [task.pk])[0]
    if found.status == Status.SUCCEEDED:
        return OK
    if found.status == Status.INACTIVE:
        context.err(f"{waits(found)}\n")
        return INACTIVE
    if _is_missing(found):
        context.call(moves.cancel, context.user, task.pk)
    raise context.call(failure, context.user, found)


def wait(
    context: Context, ids: Sequence[uuid.UUID], *, show: bool = True, seconds: float | None = None
) -> End | Signal:
    """Wait until each task is done, or waits for a person. Raises TaskNotFoundError."""
    return follow(context, lambda: context.call(_progress, context.user, ids), show=show, seconds=seconds)


def status(context: Context, ids: Sequence[uuid.UUID]) -> int:
    """The exit status: 0 where all have succeeded, 1 where one has failed, 3 where one waits for a person, else 4."""
    found = {task.status for task in context.call(_read, context.user, ids)}
    for one, exit_status in ((Status.FAILED, FAILED), (Status.INACTIVE, INACTIVE), (Status.ACTIVE, TIMED_OUT)):
        if one in found:
            return exit_status
    return OK


def waits(task: Task) -> str:
    """The error for a task that waits for a person."""
    why = task.nice_status_details or "its owner must activate an endpoint"
    return f"Error: The task {task.pk} waits for you: {why}"


def failure(user: User, task: Task) -> ShellError:
    """The error for a task that has failed, with the cause of its last fault."""
    why = CAUSES[Kind.FILE_NOT_FOUND] if _is_missing(task) else task.fatal_error_description or ""
    faults = queries.events(user, task.pk, is_error=True, limit=1).rows
    code = faults[0].code if faults else task.fatal_error_code or ""
    cause = CAUSES.get(Kind(code), REFUSED) if code in set(Kind) else None
    details = faults[0].details if faults else ""
    message = f"The task {task.pk} has failed"
    if cause is None:
        return ShellError(f"{message}: {why}", code)
    # The lines after the first one have these words already.
    repeated = not why or why in (cause, details)
    return OperationError(
        message if repeated else f"{message}: {why}", task.command or task.type.lower(), cause, details, code
    )


def _is_missing(task: Task) -> bool:
    """Whether the only item of a task that is in progress is not there."""
    nothing_done = task.items_total == 1 and not task.files_transferred + task.files_skipped
    return task.phase != Phase.DONE and nothing_done and task.nice_status == Kind.FILE_NOT_FOUND


def _read(user: User, ids: Sequence[uuid.UUID]) -> list[Task]:
    return [queries.get(user, one) for one in ids]


def _progress(user: User, ids: Sequence[uuid.UUID]) -> Progress:
    tasks = queries.progress(user, ids)
    counts = [_counts(task) for task in tasks]
    rate = sum(map(task_documents.rate, tasks))
    ended = all(task.phase == Phase.DONE or task.status == Status.INACTIVE for task in tasks)
    return Progress(
        sum(done for done, _ in counts),
        sum(total for _, total in counts),
        rate * 8 / 1e6,
        ended,
        sum(task.bytes_transferred for task in tasks),
        sum(task.bytes_total for task in tasks),
    )


def _counts(task: Task) -> tuple[int, int]:
    """The numbers of things that are done and that were found: files, and in a deletion folders and links too."""
    done = task.files_transferred + task.files_skipped + task.files_failed
    if task.type != TaskType.DELETE:
        return done, task.files
    found = task.files + task.directories + task.symlinks
    return found if task.status == Status.SUCCEEDED else done, found


def _progress_of_one(user: User, task_id: uuid.UUID) -> Progress:
    found = _progress(user, [task_id])
    return replace(found, ended=found.ended or _is_missing(queries.get(user, task_id)))
