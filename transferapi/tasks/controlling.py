"""What those who run endpoints do to the tasks of others: pause them, let them go on, end them (`endpoint_manager`).

Whoever runs one of a task's endpoints may do it, for his side: a task that both sides have paused goes on when both
have let it. All tasks of a request are done, or none: what he does not see does not exist, what he only sees is
refused. Tasks that are done are passed over.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from endpoints.models import Endpoint
from endpoints.permissions import Verb
from identity.models import User

from . import events, moves, overseeing, pauses
from .clock import moment
from .errors import RequestError, TaskNotFoundError, TasksNotPermittedError
from .models import AdminCancel, Task
from .overseeing import MAX_TASKS
from .states import Phase

MAX_MESSAGE = 2000
#: Requests for the end of tasks that are kept of one manager: the last ones.
MAX_CANCELS = 1000


def pause(user: User, task_ids: Sequence[uuid.UUID], message: str, now: datetime | None = None) -> int:
    """Pause these tasks until `resume`; how many are not done.

    -> RequestError, TaskNotFoundError, TasksNotPermittedError
    """
    text = _message(message)
    with transaction.atomic():
        alive = _controlled(user, task_ids)
        for task, places in alive:
            # Where he runs a share and its host, the word of the host counts: the sharer cannot take it back.
            task.admin_pauses |= dict.fromkeys(_strongest(places), text)
            task.save(update_fields=["admin_pauses"])
        pauses.look([task.pk for task, _ in alive], now)
    return len(alive)


def resume(user: User, task_ids: Sequence[uuid.UUID], now: datetime | None = None) -> int:
    """Take back what was said for the sides that he runs; how many are not done. -> as `pause`"""
    with transaction.atomic():
        alive = _controlled(user, task_ids)
        for task, places in alive:
            task.admin_pauses = {place: text for place, text in task.admin_pauses.items() if place not in places}
            task.save(update_fields=["admin_pauses"])
        pauses.look([task.pk for task, _ in alive], now)
    return len(alive)


def cancel(user: User, task_ids: Sequence[uuid.UUID], message: str, now: datetime | None = None) -> AdminCancel:
    """End these tasks: at once, or by the next heartbeats of their workers. -> as `pause`"""
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
    """Those that are not done, locked, each with the places that this user speaks for."""
    wanted = list(dict.fromkeys(task_ids))
    if not 1 <= len(wanted) <= MAX_TASKS:
        raise RequestError("task_id_list", f"From 1 to {MAX_TASKS} ids of tasks are wanted here.")
    rows = Task.objects.select_related("source__host", "destination__host").select_for_update(of=("self",))
    tasks = list(rows.filter(pk__in=wanted).order_by("pk"))
    overseen, held = (overseeing.held(user, verb, tasks) for verb in (Verb.OVERSEE, Verb.CONTROL))
    visible = {task.pk for task in tasks if {task.source_id, task.destination_id} & overseen}
    for task_id in wanted:
        if task_id not in visible:
            raise TaskNotFoundError(str(task_id))
    found = [(task, _places(task, held)) for task in tasks]
    if not all(places for _, places in found):
        raise TasksNotPermittedError
    return [(task, places) for task, places in found if task.phase != Phase.DONE]


def _places(task: Task, held: frozenset[uuid.UUID]) -> list[str]:
    """Keys of `Task.admin_pauses` that are his who controls these endpoints."""
    return _side("source", task.source, held) + _side("destination", task.destination, held)


def _side(side: str, endpoint: Endpoint | None, held: frozenset[uuid.UUID]) -> list[str]:
    if endpoint is None or endpoint.pk not in held:
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
