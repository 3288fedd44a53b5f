"""Actions of managers on tasks at their endpoints: pause, resume, cancel (Transfer API, `endpoint_manager`); and the
pause of a task by its owner, which is one more cause of the same kind.

A manager of one of a task's endpoints acts for that side: a task that both sides have paused continues when both have
resumed it. A request changes all of its tasks or none. A task that the manager may not see counts as not found; one
that the manager may only see is refused. Completed tasks are skipped.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from endpoints.models import Endpoint
from endpoints.permissions import Permission
from identity.clock import moment
from identity.error_categories import RefusedError
from identity.models import User
from transferapi.tasks import events, moves, queries
from transferapi.tasks.errors import TASKS_NOT_PERMITTED, RequestError, TaskNotFoundError
from transferapi.tasks.models import AdminCancel, Task
from transferapi.tasks.states import Phase

from . import managed_tasks, pauses
from .managed_tasks import MAX_TASKS

MAX_MESSAGE = 2000
#: Cancel requests that are kept of one manager: the last ones.
MAX_CANCELS = 1000


def pause(user: User, task_ids: Sequence[uuid.UUID], message: str, now: datetime | None = None) -> int:
    """Pause these tasks until `resume`; return the number of unfinished ones.

    Raises RequestError, TaskNotFoundError, TASKS_NOT_PERMITTED.
    """
    text = _message(message)
    with transaction.atomic():
        alive = _controlled(user, task_ids)
        for task, places in alive:
            # A manager of both a share and its host pauses for the host: the sharer cannot resume that.
            task.admin_pauses |= dict.fromkeys(_strongest(places), text)
            task.save(update_fields=["admin_pauses"])
        pauses.look([task.pk for task, _ in alive], now)
    return len(alive)


def resume(user: User, task_ids: Sequence[uuid.UUID], now: datetime | None = None) -> int:
    """Remove the pauses of the manager's sides; return the number of unfinished tasks. Raises as `pause`."""
    with transaction.atomic():
        alive = _controlled(user, task_ids)
        for task, places in alive:
            task.admin_pauses = {place: text for place, text in task.admin_pauses.items() if place not in places}
            task.save(update_fields=["admin_pauses"])
        pauses.look([task.pk for task, _ in alive], now)
    return len(alive)


def pause_own(user: User, task_id: uuid.UUID, now: datetime | None = None) -> None:
    """Pause a task of this user until `resume_own`; a running one pauses within seconds. Nothing where it is paused.

    Raises TaskNotFoundError, TASK_COMPLETE.
    """
    pauses.set_cause(task_id, pauses.OWNER, "", now, queries.of_owner(user))


def resume_own(user: User, task_id: uuid.UUID, now: datetime | None = None) -> None:
    """Remove the pause of the owner; those of managers stay. Raises as `pause_own`."""
    pauses.set_cause(task_id, pauses.OWNER, None, now, queries.of_owner(user))


def cancel(user: User, task_ids: Sequence[uuid.UUID], message: str, now: datetime | None = None) -> AdminCancel:
    """End these tasks: at once, or at the next heartbeats of their workers. Raises as `pause`."""
    text = _message(message)
    with transaction.atomic():
        alive = _controlled(user, task_ids)
        now = moment(now)
        for task, places in alive:
            moves.cancel_by_admin(task.pk, _ends(places), text, now)
        ids = [str(task_id) for task_id in dict.fromkeys(task_ids)]
        mine = AdminCancel.objects.filter(user=user).order_by("-created_at").values_list("pk", flat=True)
        AdminCancel.objects.filter(pk__in=list(mine[MAX_CANCELS - 1 :])).delete()
        return AdminCancel.objects.create(user=user, message=text, task_ids=ids, created_at=now)


def _controlled(user: User, task_ids: Sequence[uuid.UUID]) -> list[tuple[Task, list[str]]]:
    """The unfinished tasks, locked, each with the keys of `Task.admin_pauses` that this user may set."""
    wanted = list(dict.fromkeys(task_ids))
    if not 1 <= len(wanted) <= MAX_TASKS:
        raise RequestError("task_id_list", f"Expected from 1 to {MAX_TASKS} ids of tasks.")
    rows = Task.objects.select_related("source__host", "destination__host").select_for_update(of=("self",))
    tasks = list(rows.filter(pk__in=wanted).order_by("pk"))
    overseen, held = (managed_tasks.held(user, verb, tasks) for verb in (Permission.OVERSEE, Permission.CONTROL))
    visible = {task.pk for task in tasks if managed_tasks.is_overseen(task, overseen)}
    for task_id in wanted:
        if task_id not in visible:
            raise TaskNotFoundError(str(task_id))
    found = [(task, _places(task, held)) for task in tasks]
    if not all(places for _, places in found):
        raise RefusedError(TASKS_NOT_PERMITTED)
    return [(task, places) for task, places in found if task.phase != Phase.DONE]


def _places(task: Task, held: frozenset[uuid.UUID]) -> list[str]:
    """The keys of `Task.admin_pauses` for a manager who controls these endpoints."""
    return [place for side, end in task.ends.items() for place in _side(side, end, held)]


def _side(side: str, endpoint: Endpoint, held: frozenset[uuid.UUID]) -> list[str]:
    if endpoint.pk not in held:
        return []
    if endpoint.host_id is None:
        return [side]
    return [side, f"{side}_share"] if endpoint.host_id in held else [f"{side}_share"]


def _strongest(places: Sequence[str]) -> list[str]:
    return [place for place in places if place.removesuffix("_share") not in places or not place.endswith("_share")]


def _ends(places: Sequence[str]) -> str:
    sides = {place.removesuffix("_share") for place in places}
    return "BOTH" if len(sides) == 2 else sides.pop().upper()


def _message(text: str) -> str:
    if len(text) > MAX_MESSAGE:
        raise RequestError("message", f"A message has at most {MAX_MESSAGE} characters.")
    return events.printable(text)
