"""The one function that moves a task from state to state, and the requests of users: cancel, update, resume."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest

from endpoints.registry import canonical_name
from identity.clock import moment
from identity.error_categories import RefusedError
from identity.gsi.sentences import Sentence
from identity.models import User

from . import doorbell, events, queries, request_rules, task_spans
from .errors import TASK_COMPLETE, UNKNOWN_STATE, StaleStateError
from .events import NewEvent
from .models import WITH_ENDS, Task
from .notify import webhooks
from .notify.mails import task as task_mails
from .states import Phase, Status, may_move

State = tuple[Status, Phase]

QUEUED: State = (Status.ACTIVE, Phase.QUEUED)
RUNNING: State = (Status.ACTIVE, Phase.RUNNING)
PAUSED: State = (Status.ACTIVE, Phase.PAUSED)
SUSPENDED: State = (Status.INACTIVE, Phase.SUSPENDED)
SUCCEEDED: State = (Status.SUCCEEDED, Phase.DONE)
FAILED: State = (Status.FAILED, Phase.DONE)


class CancelResult(StrEnum):
    """The `code` of the response."""

    CANCELED = "Canceled"  # the task is done now
    ACCEPTED = "CancelAccepted"  # a worker holds the task and ends it within two seconds
    COMPLETE = "TaskComplete"  # the task was done before


def move(
    task_id: uuid.UUID,
    old: State,
    new: State,
    *,
    now: datetime,
    event: NewEvent | None = None,
    changes: Mapping[str, object] | None = None,
) -> None:
    """Move a task from `old` to `new`, with other columns and an event, in one transaction.

    A worker calls it while it holds its lease row (`leases.hold`). Routine requeueing emits no event. Raises
    StaleStateError where the task is not in `old`, and ValueError where the table of states has no such move.
    """
    if not may_move(old, new):
        raise ValueError(f"no task moves from {old} to {new}")
    values = dict(changes or {}, status=new[0], phase=new[1])
    if new[1] is Phase.DONE:
        values["completion_time"] = now
    with transaction.atomic(savepoint=False):
        moved = Task.objects.filter(pk=task_id, status=old[0], phase=old[1]).update(**values)
        if moved and event:
            events.append(task_id, [event], now)
        if moved and new[1] is Phase.DONE:
            task_mails.ended(task_id, now)
            task_spans.ended(task_id, now)
        if moved and (change := _webhook_change(old, new)):
            webhooks.changed(task_id, change, now)
    if not moved:
        raise StaleStateError(task_id, old)


def _webhook_change(old: State, new: State) -> str:
    """The name of this move for webhooks; "" for routine requeueing, which they are not sent."""
    if new == PAUSED or (old == PAUSED and new == QUEUED):
        return "paused" if new == PAUSED else "unpaused"
    return new[0].lower() if new[0] != old[0] else ""


def due(task: Task, at: datetime, now: datetime) -> datetime:
    """The time from which a task may run that was to run at `at`: not before now, and not after its deadline."""
    return max(now, min(at, task.deadline))


def fail(task_id: uuid.UUID, old: State, code: str, description: str, now: datetime, details: object = "") -> None:
    """Move to FAILED: CANCELED, EXPIRED, or a fault that ends the whole task. Raises as `move`."""
    if code == "CANCELED":
        description = _admin_cancel_text(task_id) or description
    event = NewEvent(code, description, details, is_error=code != "CANCELED")
    changes = {"fatal_error_code": code, "fatal_error_description": events.printable(description)}
    move(task_id, old, FAILED, now=now, event=event, changes={**changes, **NO_TROUBLE, **AWAKE, **NOT_PAUSED})


def _admin_cancel_text(task_id: uuid.UUID) -> str | None:
    """The description where a manager of an endpoint or the operator has canceled the task; None: its owner has."""
    task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
    if task.canceled_by_admin is None:
        message = task.canceled_by_admin_message
        return (
            None
            if message is None
            else with_message(Sentence("The operator of this service canceled the task"), message)
        )
    chosen = task.ends.get(task.canceled_by_admin.lower())
    one, *others = dict.fromkeys(canonical_name(end) for end in ([chosen] if chosen else task.ends.values()))
    names = Sentence("%(one)s and %(other)s", one=one, other=others[0]) if others else one
    canceled = Sentence("A manager of %(endpoints)s canceled the task", endpoints=names)
    return with_message(canceled, task.canceled_by_admin_message)


def with_message(text: str, message: str | None) -> Sentence:
    """The sentence with the message of the person that it speaks of, if there is one."""
    if message and message.strip():
        return Sentence("%(what)s: %(message)s", what=text, message=message.rstrip())
    return Sentence("%(what)s.", what=text)


# ---- pauses


class PauseReason(NamedTuple):
    """The reason of a pause. code: for `nice_status`; reason: a sentence for the owner."""

    code: str
    reason: str


#: The time that a paused task has before it expires, and the least that it has after the pause (Transfer API).
PAUSED_DEADLINE, UNPAUSED_DEADLINE = timedelta(days=90), timedelta(hours=24)


def pause(
    task_id: uuid.UUID, old: State, why: PauseReason, now: datetime, changes: Mapping[str, object] | None = None
) -> None:
    """Pause a task that is queued, or whose worker releases it or was lost. Raises StaleStateError."""
    values = {
        **(changes or {}),
        "paused_at": now,
        "deadline_before_pause": F("deadline"),
        "deadline": Greatest(F("deadline"), now + PAUSED_DEADLINE),
        "nice_status": why.code,
        "nice_status_details": events.printable(why.reason),
    }
    move(task_id, old, PAUSED, now=now, event=NewEvent("PAUSED", why.reason), changes=values)


def change_pause_reason(task_id: uuid.UUID, why: PauseReason) -> None:
    """Show another reason of a pause that goes on; there is no event for that."""
    shown = {"nice_status": why.code, "nice_status_details": events.printable(why.reason)}
    Task.objects.filter(pk=task_id, phase=Phase.PAUSED).update(**shown)


def unpause(task_id: uuid.UUID, now: datetime) -> None:
    """Queue a paused task again; the caller rings the doorbell. Raises StaleStateError."""
    deadline = Greatest(F("deadline_before_pause"), now + UNPAUSED_DEADLINE)
    changes = {**NO_TROUBLE, **NOT_PAUSED, "deadline": deadline, "next_run_at": now}
    event = NewEvent("UNPAUSED", Sentence("The pause is over; the task is queued again."))
    move(task_id, PAUSED, QUEUED, now=now, event=event, changes=changes)


# ---- requests of users


#: Columns of a task that is done or makes progress: its status shows no fault.
NO_TROUBLE: dict[str, object] = {"nice_status": None, "nice_status_details": None}
#: Columns of a task that is not suspended.
AWAKE: dict[str, object] = {"suspended_at": None, "waits_at": None, "had_credential": None}
#: Columns of a task that is not paused.
NOT_PAUSED: dict[str, object] = {"paused_at": None, "deadline_before_pause": None}


CANCELED_TEXT = Sentence("The task was canceled by its owner.")
EXPIRED_TEXT = Sentence("The task was not done by its deadline.")


def cancel(user: User, task_id: uuid.UUID, now: datetime | None = None) -> CancelResult:
    """End a task: at once where no worker holds it, else at the worker's next heartbeat. Raises TaskNotFoundError."""
    with transaction.atomic():
        return _cancel(queries.locked(task_id, queries.of_owner(user)), moment(now))


def cancel_by_admin(task_id: uuid.UUID, ends: str, message: str, now: datetime) -> CancelResult:
    """As `cancel`, by a manager of one of the task's endpoints, whose right the caller has checked.

    ends: SOURCE, DESTINATION or BOTH. An earlier request to cancel keeps its message.
    """
    with transaction.atomic():
        task = queries.locked(task_id)
        words = {"canceled_by_admin": ends, "canceled_by_admin_message": events.printable(message)}
        return _cancel(task, now, words)


def cancel_by_operator(task_id: uuid.UUID, message: str, now: datetime | None = None) -> CancelResult:
    """As `cancel`, by the operator of the service. Raises TaskNotFoundError."""
    with transaction.atomic():
        words = {"canceled_by_admin_message": events.printable(message)}
        return _cancel(queries.locked(task_id), moment(now), words)


def _cancel(task: Task, now: datetime, words: Mapping[str, object] | None = None) -> CancelResult:
    if task.phase == Phase.DONE:
        return CancelResult.COMPLETE
    asked = Task.objects.filter(pk=task.pk, cancel_requested_at=None)
    asked.update(cancel_requested_at=now, **(words or {}))
    if task.phase == Phase.RUNNING:
        return CancelResult.ACCEPTED
    fail(task.pk, state_of(task), "CANCELED", CANCELED_TEXT, now)
    return CancelResult.CANCELED


def end_if_canceled(task_id: uuid.UUID, now: datetime) -> bool:
    """End a task that a worker has or had, where a user has canceled it meanwhile; returns whether one has."""
    task = Task.objects.select_for_update().only("cancel_requested_at").get(pk=task_id)
    if task.cancel_requested_at is None:
        return False
    fail(task_id, RUNNING, "CANCELED", CANCELED_TEXT, now)
    return True


def update(
    user: User,
    task_id: uuid.UUID,
    *,
    label: str | None = None,
    deadline: datetime | None = None,
    now: datetime | None = None,
) -> Task:
    """Change the label or the deadline (None: unchanged). Progress does not move a deadline that the user has set.

    Raises TaskNotFoundError, TASK_COMPLETE, RequestError.
    """
    changes: dict[str, object] = {}
    if label is not None:
        changes["label"] = request_rules.label(label)
    if deadline is not None:
        changes |= {"deadline": request_rules.deadline(deadline, moment(now)), "deadline_is_fixed": True}
    with transaction.atomic():
        task = queries.locked(task_id, queries.of_owner(user))
        if task.phase == Phase.DONE:
            raise RefusedError(TASK_COMPLETE)
        if "deadline" in changes and task.phase == Phase.QUEUED:
            changes["next_run_at"] = min(task.next_run_at, deadline or task.deadline)
        if "deadline" in changes and task.phase == Phase.PAUSED:
            changes["deadline_before_pause"] = deadline
        for column, value in changes.items():
            setattr(task, column, value)
        task.save(update_fields=changes)
    return task


def resume(user: User, task_id: uuid.UUID, now: datetime | None = None) -> bool:
    """Queue a suspended task again and ring the doorbell; return whether it was suspended. Raises TaskNotFoundError."""
    with transaction.atomic():
        task = queries.locked(task_id, queries.of_owner(user))
        if task.phase != Phase.SUSPENDED:
            return False
        now = moment(now)
        event = NewEvent("UNPAUSED", Sentence("The task is queued again."))
        move(task_id, SUSPENDED, QUEUED, now=now, event=event, changes={"next_run_at": now, **NO_TROUBLE, **AWAKE})
        transaction.on_commit(lambda: doorbell.ring([task_id]))
    return True


def expire_overdue(now: datetime | None = None, limit: int = 100) -> int:
    """End tasks that no worker holds and whose deadline has passed, for the sweep; return their number.

    A task whose worker was lost is not among them: the next worker finds out which files have arrived, and ends it.
    """
    with transaction.atomic():
        now = moment(now)
        waiting = Task.objects.filter(phase__in=[Phase.QUEUED, Phase.PAUSED, Phase.SUSPENDED], deadline__lte=now)
        overdue = list(waiting.exclude(phase=Phase.DONE).select_for_update(skip_locked=True)[:limit])
        for task in overdue:
            fail(task.pk, state_of(task), "EXPIRED", EXPIRED_TEXT, now)
    return len(overdue)


def state_of(task: Task) -> State:
    """The state of the task when it was read. Raises UNKNOWN_STATE."""
    try:
        return Status(task.status), Phase(task.phase)
    except ValueError:
        raise RefusedError(UNKNOWN_STATE) from None
