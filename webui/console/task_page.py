"""A task of another user, as managers of its endpoints see it: its state, the causes of a pause, and its events."""

from __future__ import annotations

import uuid

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from endpoints.registry import canonical_name
from transferapi.tasks.errors import TaskNotFoundError
from transferapi.tasks.managers import managed_tasks
from webui.activity import summary
from webui.page import problem, signed_in, user_of

from .page import TASKS, show_section

#: Events of the page.
EVENTS = 50


@signed_in
@require_safe
def task(request: HttpRequest, task_id: uuid.UUID) -> HttpResponse:
    user = user_of(request)
    errors_only = request.GET.get("events") == "errors"
    try:
        seen = managed_tasks.get(user, task_id)
        events = managed_tasks.events(user, task_id, is_error=True if errors_only else None, limit=EVENTS)
        causes, rules, _editable = managed_tasks.pause_info(user, task_id)
    except TaskNotFoundError:
        text = _("There is no task of this id at the endpoints that you manage.")
        return problem(request, 404, _("No such task"), text)
    context = {
        "seen": summary.of(seen.task),
        "task": seen.task,
        "rules": [(rule, canonical_name(rule.endpoint)) for rule in rules],
        "messages_of_managers": causes.messages.values(),
        "events": events.rows,
        "more_events": events.total - len(events.rows),
        "errors_only": errors_only,
        "refusal": None,
    }
    return show_section(request, TASKS, "task.html", context)
