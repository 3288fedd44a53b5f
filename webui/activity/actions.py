"""The actions of the owner on a task: each is a form that works without scripts, and calls one service."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from identity.error_categories import CategorizedError
from identity.models import User
from transferapi.tasks import moves, queries, removal
from transferapi.tasks.errors import RequestError, TaskNotFoundError
from transferapi.tasks.history import repeat
from transferapi.tasks.items import overlaps, retry
from transferapi.tasks.items.retry import NewTask
from transferapi.tasks.managers import actions
from transferapi.tasks.models import Task
from transferapi.tasks.moves import CancelResult
from transferapi.tasks.worker import deletion_requests
from webui.forms import refused, submission_id
from webui.page import signed_in, user_of

from . import task_page

Done = tuple[str, str]


@signed_in
@require_POST
def act(request: HttpRequest, task_id: uuid.UUID, action: str) -> HttpResponse:
    """Do it, and lead to the page of the task, or show there why it was refused."""
    try:
        said, leads_to = ACTIONS[action](request, task_id)
    except TaskNotFoundError:
        return task_page.not_found(request)
    except CategorizedError as error:
        if error.category is None:
            raise
        refusal, _status = refused("task", error)
        return task_page.of(request, task_id, refusal=refusal, status=409)
    messages.success(request, said)
    return HttpResponseRedirect(leads_to)


def _cancel(request: HttpRequest, task_id: uuid.UUID) -> Done:
    said = {
        CancelResult.CANCELED: _("The task is canceled."),
        CancelResult.ACCEPTED: _("The task ends within seconds."),
        CancelResult.COMPLETE: _("The task was done before."),
    }
    return said[moves.cancel(user_of(request), task_id)], _page(task_id)


def _pause(request: HttpRequest, task_id: uuid.UUID) -> Done:
    actions.pause_own(user_of(request), task_id)
    return _("The task is paused. One that is in progress pauses within seconds."), _page(task_id)


def _resume(request: HttpRequest, task_id: uuid.UUID) -> Done:
    actions.resume_own(user_of(request), task_id)
    return _("Your pause of the task is over."), _page(task_id)


def _confirm_deletion(request: HttpRequest, task_id: uuid.UUID) -> Done:
    deletion_requests.answer(user_of(request), task_id, delete=True)
    return _("The task goes on, and deletes what the source does not have."), _page(task_id)


def _refuse_deletion(request: HttpRequest, task_id: uuid.UUID) -> Done:
    deletion_requests.answer(user_of(request), task_id, delete=False)
    return _("The task ends without a deletion."), _page(task_id)


def _rename(request: HttpRequest, task_id: uuid.UUID) -> Done:
    moves.update(user_of(request), task_id, label=request.POST.get("label", "").strip())
    return _("The task has another name."), _page(task_id)


def _extend(request: HttpRequest, task_id: uuid.UUID) -> Done:
    days = request.POST.get("days", "")
    if days not in map(str, task_page.EXTENSIONS):
        raise RequestError("days", _("This is none of the times that are offered."))
    task = queries.get(user_of(request), task_id)
    later = max(task.deadline, datetime.now(UTC)) + timedelta(days=int(days))
    moves.update(user_of(request), task_id, deadline=later)
    return _("The deadline is later now."), _page(task_id)


def _again(request: HttpRequest, task_id: uuid.UUID) -> Done:
    return _new(request, task_id, repeat.run_again)


def _retry(request: HttpRequest, task_id: uuid.UUID) -> Done:
    return _new(request, task_id, _retry_failed)


def _retry_failed(user: User, task_id: uuid.UUID, submission_id: uuid.UUID) -> tuple[Task, bool]:
    return retry.retry(user, task_id, NewTask(submission_id))


def _new(request: HttpRequest, task_id: uuid.UUID, submit: Callable[..., tuple[Task, bool]]) -> Done:
    task, created = submit(user_of(request), task_id, submission_id(request))
    if warning := overlaps.warning(user_of(request), task) if created else None:
        messages.warning(request, warning, "bad")
    return _("A new task was accepted."), _page(task.pk)


def _remove(request: HttpRequest, task_id: uuid.UUID) -> Done:
    removal.remove(user_of(request), task_id)
    return _("The task is no longer in your list."), "/activity"


def _page(task_id: uuid.UUID) -> str:
    return f"/activity/{task_id}"


ACTIONS: dict[str, Callable[[HttpRequest, Any], Done]] = {
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "confirm-deletion": _confirm_deletion,
    "refuse-deletion": _refuse_deletion,
    "rename": _rename,
    "extend": _extend,
    "again": _again,
    "retry": _retry,
    "remove": _remove,
}
