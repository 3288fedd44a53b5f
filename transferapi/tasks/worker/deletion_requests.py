"""Mirrors that would delete much of a destination: the task waits for its owner, who confirms or refuses.

The task is INACTIVE meanwhile. The answer becomes an option of the task (`records.ANSWER`), and the task is queued
again: the next slice deletes without a limit, or ends without a deletion.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction

from identity.clock import moment
from identity.error_categories import RefusedError
from identity.gsi.sentences import Sentence
from identity.models import User
from transferapi.tasks import doorbell, events, moves, queries
from transferapi.tasks.errors import NOTHING_TO_CONFIRM
from transferapi.tasks.models import Task
from transferapi.tasks.notify.mails import task as task_mails
from transferapi.tasks.records import ANSWER, CONFIRMED, REFUSED
from transferapi.tasks.states import Phase

from .leases import hold

#: `nice_status` while the task waits, and the code of the event.
WAITS = "DELETION_UNCONFIRMED"
ANSWERED = "DELETION_ANSWERED"


def ask(task_id: uuid.UUID, epoch: int, extra: int, total: int, now: datetime | None = None) -> None:
    """Make the task INACTIVE until its owner answers. A task that was canceled meanwhile ends instead.

    Raises LeaseLostError.
    """
    with hold(task_id, epoch, now, to_end=True) as now:
        if moves.end_if_canceled(task_id, now):
            return
        text = question(extra, total)
        changes = {
            "nice_status": WAITS,
            "nice_status_details": text,
            "suspended_at": now,
            "waits_at": None,
            "had_credential": None,
        }
        event = events.NewEvent(WAITS, text, {"extra": extra, "total": total})
        moves.move(task_id, moves.RUNNING, moves.SUSPENDED, now=now, event=event, changes=changes)
        task = Task.objects.select_related("owner").get(pk=task_id)
        task_mails.deletion_unconfirmed(task, extra, total, now)


def question(extra: int, total: int) -> Sentence:
    """The question to the owner."""
    return Sentence(
        "All files have arrived. To mirror the source, %(extra)s of the %(total)s entries at the destination would be "
        "deleted, because the source does not have them. The source may be incomplete, as a disk that is not mounted. "
        "Confirm the deletion, or refuse it; until then nothing is deleted.",
        extra=extra,
        total=total,
    )


def waits(task: Task) -> bool:
    """Whether this task waits for an answer about its deletion."""
    return task.phase == Phase.SUSPENDED and task.nice_status == WAITS


def answer(user: User, task_id: uuid.UUID, *, delete: bool, now: datetime | None = None) -> None:
    """Confirm or refuse the deletion, and queue the task again. Raises TaskNotFoundError, NOTHING_TO_CONFIRM."""
    with transaction.atomic():
        task = queries.locked(task_id, queries.of_owner(user))
        if not waits(task):
            raise RefusedError(NOTHING_TO_CONFIRM)
        now = moment(now)
        confirmed = Sentence("The owner of the task has confirmed the deletion of extra files.")
        refused = Sentence("The owner of the task has refused the deletion of extra files.")
        answered = {**task.options, ANSWER: CONFIRMED if delete else REFUSED}
        changes = {"options": answered, "next_run_at": now, **moves.NO_TROUBLE, **moves.AWAKE}
        event = events.NewEvent(ANSWERED, confirmed if delete else refused)
        moves.move(task_id, moves.SUSPENDED, moves.QUEUED, now=now, event=event, changes=changes)
        transaction.on_commit(lambda: doorbell.ring([task_id]))
