"""Holds: tasks that the operator of the service keeps from running, as after a restore from a backup.

A hold is one more cause of a pause (`pauses.py`), under its own key of `Task.admin_pauses`: it adds to those of
managers and of the owner, who cannot remove it. `HOLD_ALL` is what a restore does in its own transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from transferapi.tasks import events
from transferapi.tasks.errors import RequestError, TaskNotFoundError
from transferapi.tasks.models import WITH_OWNERS, Task
from transferapi.tasks.states import Phase, TaskType

from . import pauses

MAX_REASON = 500
#: Rows that one query of a listing reads.
PAGE = 200

#: SQL, with the reason as a literal in JSON: hold every unfinished task. Leases end, and their holders, which may still
#: live, can never match an epoch again. Files that a worker of then may still write get new temporary names. It needs
#: only columns that each released schema has, since it runs before the migrations.
HOLD_ALL = """
UPDATE tasks_task t SET admin_pauses = t.admin_pauses || jsonb_build_object('operator', {reason}::text),
    suspect_up_to = coalesce((SELECT max(f.id) FROM tasks_file f WHERE f.task_id = t.id), 0)
    WHERE t.phase <> 'done';
UPDATE tasks_lease SET epoch = epoch + 1000000,
    expires_at = CASE WHEN worker = '' THEN expires_at ELSE clock_timestamp() END;
"""


@dataclass(frozen=True, slots=True)
class Remaining:
    """The rest of an unfinished task. files, octets: None while its items are not all listed yet."""

    files: int | None
    octets: int | None
    #: "" or why it removes files: "deletes", "deletes extra files".
    removes: str


def remaining(task: Task) -> Remaining:
    """Count the rest of an unfinished task."""
    removes = "deletes" if task.type == TaskType.DELETE else ""
    if task.options.get("delete_destination_extra"):
        removes = "deletes extra files"
    if task.is_scanning:
        return Remaining(None, None, removes)
    return Remaining(max(0, task.files_left), max(0, task.bytes_total - task.bytes_transferred), removes)


def unfinished(*, held: bool = False) -> Iterator[Task]:
    """Unfinished tasks of all users, the oldest first. held: only those that the operator holds."""
    rows = Task.objects.exclude(phase=Phase.DONE).select_related(*WITH_OWNERS).order_by("request_time", "pk")
    if held:
        rows = rows.filter(admin_pauses__has_key=pauses.OPERATOR)
    return rows.iterator(chunk_size=PAGE)


def find(task_id: uuid.UUID) -> Task:
    """A task of any user, in any state. Raises TaskNotFoundError."""
    found = Task.objects.select_related(*WITH_OWNERS).filter(pk=task_id).first()
    if found is None:
        raise TaskNotFoundError(str(task_id))
    return found


def hold(task_id: uuid.UUID, reason: str = "", now: datetime | None = None) -> None:
    """Keep a task from running until `release`; a running one pauses within seconds.

    Raises TaskNotFoundError, TASK_COMPLETE, RequestError.
    """
    if len(reason) > MAX_REASON:
        raise RequestError("reason", f"A reason has at most {MAX_REASON} characters.")
    pauses.set_cause(task_id, pauses.OPERATOR, events.printable(reason), now)


def release(task_id: uuid.UUID, now: datetime | None = None) -> None:
    """Remove the hold; pauses of managers and of the owner stay. Raises TaskNotFoundError, TASK_COMPLETE."""
    pauses.set_cause(task_id, pauses.OPERATOR, None, now)


def settle(now: datetime | None = None) -> int:
    """Correct the phase of held tasks that still count as queued; return the number of moved ones.

    Those that a worker had are moved by `leases.acquire`, which finds the hold before it takes them.
    """
    held = Task.objects.exclude(phase=Phase.DONE).filter(admin_pauses__has_key=pauses.OPERATOR)
    ids = list(held.values_list("pk", flat=True))
    return sum(pauses.look(ids[place : place + PAGE], now) for place in range(0, len(ids), PAGE))
