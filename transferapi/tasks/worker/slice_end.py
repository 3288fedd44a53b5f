"""The end of a slice: the task succeeds, fails, waits for a person, or goes back to the queue. Its lease ends with it.

Every function raises LeaseLostError, and has written nothing, where the lease is no longer that of this epoch.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db.models import Count, Exists, OuterRef

from endpoints.gridftp.faults import Fault
from identity.gsi.sentences import Sentence
from transferapi.tasks import events, moves
from transferapi.tasks.managers import pauses
from transferapi.tasks.models import WITH_ENDS, File, Task
from transferapi.tasks.states import FileState

from . import renewal
from .leases import hold

#: Characters of a path and of an error in the description of a task that has failed.
MAX_PATH, MAX_REASON = 200, 300


def finish(task_id: uuid.UUID, epoch: int, now: datetime | None = None) -> None:
    """End the task: SUCCEEDED where no file failed, else FAILED. Raises ValueError while files or items are left."""
    with hold(task_id, epoch, now, to_end=True) as now:
        rows = Task.objects.select_for_update().annotate(has_pending_files=_HAS_PENDING_FILES)
        task = rows.get(pk=task_id)
        if task.is_scanning or task.has_pending_files:
            raise ValueError(f"task {task_id} is not done: files or items are left")
        if task.skipped_errors:
            events.append(task_id, [_passed_over(task.skipped_errors)], now)
        if task.files_failed:
            _fail_for_files(task, now)
        else:
            event = events.NewEvent("SUCCEEDED", Sentence("The task succeeded."), _numbers(task))
            moves.move(task_id, moves.RUNNING, moves.SUCCEEDED, now=now, event=event, changes=moves.NO_TROUBLE)


_PENDING = File.objects.filter(task=OuterRef("pk"), state=FileState.PENDING)
#: Asked of each of the two partial indexes: without them, all files that are done would be read.
_HAS_PENDING_FILES = Exists(_PENDING.filter(next_try_at=None)) | Exists(_PENDING.exclude(next_try_at=None))


def _passed_over(count: int) -> events.NewEvent:
    text = Sentence.counted(
        "%(number)s file or folder could not be read and was left out, as skip_source_errors asks.",
        "%(number)s files or folders could not be read and were left out, as skip_source_errors asks.",
        count,
    )
    return events.NewEvent("SKIPPED_ERRORS", text, {"skipped_errors": count})


def _fail_for_files(task: Task, now: datetime) -> None:
    """Fail the task with the most frequent error of its files, and with the words about the first of them."""
    failed = File.objects.filter(task=task, state=FileState.FAILED, error_code__isnull=False)
    code = failed.values_list("error_code").annotate(files=Count("id")).order_by("-files", "error_code")[0][0]
    done = task.files - task.files_failed
    text = Sentence(
        "%(failed)s of %(files)s file(s) failed, %(done)s arrived or were in place already.",
        failed=task.files_failed, files=task.files, done=done,
    )  # fmt: skip
    first = failed.filter(error_code=code).order_by("pk")[0]
    if first.error_details:
        path = first.source_path or first.destination_path or ""
        text = Sentence(
            "%(summary)s %(path)s: %(why)s", summary=text, path=path[:MAX_PATH], why=first.error_details[:MAX_REASON]
        )
    moves.fail(task.pk, moves.RUNNING, str(code), text, now, _numbers(task))


def _numbers(task: Task) -> dict[str, int]:
    return {
        "files_succeeded": task.files_transferred,
        "files_skipped": task.files_skipped,
        "files_failed": task.files_failed,
        "bytes_transferred": task.bytes_transferred,
    }


def fail(task_id: uuid.UUID, epoch: int, code: str, description: str, now: datetime | None = None) -> None:
    """End the task as FAILED: CANCELED, EXPIRED, or a fault of the whole task. Files that arrived stay counted."""
    with hold(task_id, epoch, now, to_end=True) as now:
        moves.fail(task_id, moves.RUNNING, code, description, now)


def suspend(
    task_id: uuid.UUID,
    epoch: int,
    fault: Fault,
    had_credential: datetime | None = None,
    now: datetime | None = None,
) -> None:
    """Make the task INACTIVE: a person must act. A task that was canceled meanwhile ends instead.

    had_credential: when the unusable credential was stored; any other lets the task continue. None if there was none.
    """
    with hold(task_id, epoch, now, to_end=True) as now:
        if not moves.end_if_canceled(task_id, now):
            task = Task.objects.get(pk=task_id)
            renewal.suspend(task, fault, had_credential, now)


def release(
    task_id: uuid.UUID,
    epoch: int,
    next_run_at: datetime | None,
    connection_failures: int = 0,
    now: datetime | None = None,
) -> None:
    """Queue the task again: it may run from `next_run_at` on, or at its deadline; None: at once, in its old place.

    A task that was canceled meanwhile ends; a task that was paused meanwhile is paused.
    """
    with hold(task_id, epoch, now, to_end=True) as now:
        if moves.end_if_canceled(task_id, now):
            return
        task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
        at = task.next_run_at if next_run_at is None else moves.due(task, next_run_at, now)
        turn = {"next_run_at": at, "connection_failures": connection_failures}
        if why := pauses.why(task, now):
            moves.pause(task_id, moves.RUNNING, why, now, turn)
        else:
            moves.move(task_id, moves.RUNNING, moves.QUEUED, now=now, changes=turn)
