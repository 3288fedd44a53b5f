"""The form that submits the request of a task once more, filled with what was asked for."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from identity.error_categories import CategorizedError
from transferapi.tasks import options, queries, repeat
from transferapi.tasks.errors import RequestError, TaskNotFoundError
from transferapi.tasks.items import overlaps
from transferapi.tasks.models import Task
from transferapi.tasks.states import TaskType
from transferapi.tasks.upkeep.retention import KEPT_ITEMS
from webui import transfer_options
from webui.forms import refused, submission_id
from webui.page import show, signed_in, user_of

from . import summary, task_page

#: The word that has to be typed where a transfer may delete, as on the Transfer page.
TYPED = "delete"


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def again(request: HttpRequest, task_id: uuid.UUID) -> HttpResponse:
    user = user_of(request)
    try:
        task = queries.get(user, task_id)
    except TaskNotFoundError:
        return task_page.not_found(request)
    if not repeat.can_run_again(task):
        reason = _("The items of this task are no longer known.") if task.completion_time else _("It is not over yet.")
        return task_page.of(request, task_id, refusal=("task", reason), status=409)
    return _submit(request, task) if request.method == "POST" else _form(request, task, _of_task(task))


def _submit(request: HttpRequest, task: Task) -> HttpResponse:
    user = user_of(request)
    try:
        new, created = repeat.run_again(user, task.pk, submission_id(request), _changes(task, request.POST))
    except CategorizedError as error:
        if error.category is None:
            raise
        return _form(request, task, request.POST, refusal=refused("again", error)[0], status=409)
    if warning := overlaps.warning(user, new) if created else None:
        messages.warning(request, warning, "bad")
    messages.success(request, _("A new task was accepted."))
    return HttpResponseRedirect(f"/activity/{new.pk}")


def _changes(task: Task, form: Mapping[str, str]) -> repeat.Changes:
    """The changes that the form asks for. Raises RequestError."""
    label = form.get("label", "").strip() or None
    if task.type == TaskType.DELETE:
        return repeat.Changes(label)
    empty = dict.fromkeys(("sync_level", "confirm_deletion_above", "bandwidth_limit"))
    chosen: dict[str, object] = {**empty, **transfer_options.of_form(form)}
    if chosen["delete_destination_extra"] and form.get("typed") != TYPED:
        raise RequestError("typed", _("A mirror can delete files. Type “%(word)s” to confirm.") % {"word": TYPED})
    return repeat.Changes(label, transfer_options.deadline(form), chosen)


def _of_task(task: Task) -> dict[str, str]:
    """The fields of the form as the task was submitted."""
    return {**transfer_options.form_of(task.options), "label": task.label or ""}


def _form(
    request: HttpRequest,
    task: Task,
    given: Mapping[str, str],
    *,
    refusal: tuple[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "title": _("Run again"),
        "task": task,
        "seen": summary.of(task),
        "items": repeat.items(task, KEPT_ITEMS),
        "kept": _kept(task),
        "given": given,
        "submission_id": given.get("submission_id") or uuid.uuid4(),
        "typed": TYPED,
        "refusal": refusal,
        **transfer_options.choices(),
    }
    return show(request, "activity/again.html", context, status)


def _kept(task: Task) -> list[tuple[str, Any]]:
    """The options that the form does not offer and that differ from their defaults, in words."""
    known = options.of(task.type).values()
    others = ((one, task.options.get(one.name)) for one in known if not one.in_form)
    return [
        (_(one.label), transfer_options.value_words(one, value))
        for one, value in others
        if value not in (None, one.default)
    ]
