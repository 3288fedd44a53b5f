"""Tasks with which workers are lost again and again: one whose folder exhausts the memory of a worker, say.

A task whose worker was lost goes on at once. Where that happens several times in a row and the task makes no progress
meanwhile, it waits before the next try, longer each time: it takes down a worker, and with it the tasks of others.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from datetime import datetime, timedelta
from typing import NamedTuple

from identity.database_rows import query_rows
from identity.gsi.sentences import Sentence
from transferapi.tasks import moves
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import Lease, Task

log = logging.getLogger(__name__)

#: Losses in a row after which a task goes on at once.
FREE = 2
#: The wait after the next loss; each further one is twice as long, up to the longest.
FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(minutes=10)
#: `nice_status` of a task that waits for this, and the code of the event.
CODE = "WORKER_LOST"
_BIGGEST = 2**63 - 1
#: Marks of lost leases that a task keeps, the newest. Each costs a command for each file that is still to be sent; what
#: an older worker has left under a name of its own may stay.
MOST_MARKS = 8

#: Only one index has this order. By the ids alone, PostgreSQL may read the files of all newer tasks first.
_LAST_FILE = """
    SELECT id FROM tasks_file WHERE task_id >= %(task)s AND task_id <= %(task)s
    ORDER BY task_id DESC, id DESC LIMIT 1"""


def progress(task: Task) -> int:
    """A number that changes whenever the task has progress that the next worker finds."""
    counts = (task.items_scanned, task.files, task.directories, task.symlinks, task.files_transferred)
    more = (task.files_skipped, task.files_failed, task.bytes_transferred, task.bytes_checksummed)
    return min(sum(counts) + sum(more), _BIGGEST)


def mark_of(task_id: uuid.UUID, nonce: int) -> str:
    """The mark of a lease in the names of its files (`records.TaskSpec.mark`): nobody else can compute it."""
    return hashlib.blake2b(task_id.bytes + nonce.to_bytes(8, "big", signed=True), digest_size=16).hexdigest()


class Loss(NamedTuple):
    """The loss of the worker that had a task."""

    #: The id of the last file that it may still be writing.
    last_file: int
    #: How often in a row, with this loss, a worker was lost with the task without progress.
    in_a_row: int
    #: `Task.lost_marks` with the mark of this worker.
    marks: str = ""

    @property
    def changes(self) -> dict[str, object]:
        """The columns of the task from which the next worker knows the files that this one may still write."""
        return {"suspect_up_to": self.last_file, "lost_marks": self.marks}


def read(task: Task) -> Loss | None:
    """The present loss of a task whose lease has run out. Call it in the transaction that takes or moves the task.

    None: a transaction that lives has locked the lease row. A worker whose lease has run out may be about to commit
    files, so the row is locked before the last file is looked for. One that stands still is ended by the server after
    4 s, and then the next try gets the row.
    """
    lease = Lease.objects.select_for_update(skip_locked=True).filter(pk=task.pk).first()
    if lease is None and Lease.objects.filter(pk=task.pk).exists():
        return None
    rows = query_rows(_LAST_FILE, {"task": task.pk})
    last = rows[0][0] if rows else 0
    if lease is None:
        return Loss(last, 0, task.lost_marks)
    marks = [*task.lost_marks.split(), *([] if lease.nonce is None else [mark_of(task.pk, lease.nonce)])]
    in_a_row = lease.losses + 1 if lease.progress == progress(task) else 0
    return Loss(last, in_a_row, " ".join(dict.fromkeys(marks[-MOST_MARKS:])))


def delay(losses: int) -> timedelta:
    """The wait before the next try; zero for the first ones."""
    if losses <= FREE:
        return timedelta()
    # Bounded first: no time has 2**1000 seconds.
    doubled = 1 << min(losses - FREE - 1, 10)
    return min(FIRST_DELAY * doubled, LONGEST_DELAY)


def wait(task: Task, lost: Loss, now: datetime) -> None:
    """Queue a task whose worker was lost, until `delay` is over or its deadline comes; end it, if it was canceled.

    Raises StaleStateError.
    """
    Lease.objects.filter(pk=task.pk).update(losses=lost.in_a_row)
    if moves.end_if_canceled(task.pk, now):
        return
    pause = delay(lost.in_a_row)
    seconds = int(pause.total_seconds())
    text = Sentence(
        "%(losses)s workers in a row were lost with this task before it made progress. It is tried again after "
        "%(seconds)s s. If this goes on, the operator of this service can find the cause in the workers' logs.",
        losses=lost.in_a_row,
        seconds=seconds,
    )
    log.warning("%d workers in a row were lost with task %s: it waits for %d s", lost.in_a_row, task.pk, seconds)
    waits = {
        **lost.changes,
        "next_run_at": moves.due(task, now + pause, now),
        "nice_status": CODE,
        "nice_status_details": text,
    }
    event = NewEvent(CODE, text, {"losses": lost.in_a_row, "seconds": seconds}, is_error=True)
    moves.move(task.pk, moves.RUNNING, moves.QUEUED, now=now, event=event, changes=waits)
