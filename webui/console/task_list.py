"""The tasks, the pause rules and the health of the endpoints that the reader manages."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from endpoints import managed_endpoints, pause_rules
from endpoints.error_meanings import ApiError
from endpoints.registry import canonical_name
from identity import users
from identity.error_categories import CategorizedError
from identity.models import User
from identity.provider import identities
from transferapi.rest.transfer import manager_documents
from transferapi.rest.transfer.manager_views import read_last_key
from transferapi.tasks.errors import RequestError, TaskNotFoundError
from transferapi.tasks.managers import actions, endpoint_health, managed_tasks
from transferapi.tasks.managers.managed_tasks import MAX_TASKS, LastKey, ManagedTask, ManagedTaskFilter
from transferapi.tasks.states import Status
from webui import reasons
from webui.activity import summary
from webui.endpoints import PAUSES
from webui.forms import refused
from webui.page import problem, signed_in, user_of

from .page import HEALTH, RULES, TASKS, show_section

#: Tasks of one page, as many as one action may change; and characters of a value in the address.
ROWS, MAX_VALUE = MAX_TASKS, 512


@dataclass(frozen=True)
class StateFilter:
    """A choice of the filter. is_paused None: whether or not."""

    word: str | Promise
    statuses: tuple[str, ...] | None
    is_paused: bool | None = None


#: Value in the address -> what it selects.
STATES = {
    "": StateFilter(gettext_lazy("Not ended"), (Status.ACTIVE, Status.INACTIVE)),
    "active": StateFilter(gettext_lazy("Active or queued"), (Status.ACTIVE,), False),
    "paused": StateFilter(gettext_lazy("Paused"), (Status.ACTIVE,), True),
    "waiting": StateFilter(gettext_lazy("Waits for a credential"), (Status.INACTIVE,)),
    "succeeded": StateFilter(gettext_lazy("Succeeded"), (Status.SUCCEEDED,)),
    "failed": StateFilter(gettext_lazy("Failed or canceled"), (Status.FAILED,)),
    "all": StateFilter(gettext_lazy("All"), None),
}


@dataclass(frozen=True)
class AllTasksFilter:
    """The filters of the address."""

    endpoint: str
    owner: str
    state: str
    after: str

    @property
    def is_filtered(self) -> bool:
        return bool(self.endpoint or self.owner or self.state)

    def address(self, **changes: object) -> str:
        """The query of the same list with other values."""
        values = {"endpoint": self.endpoint, "user": self.owner, "state": self.state, "after": self.after, **changes}
        return f"?{urlencode({name: value for name, value in values.items() if value})}"

    @property
    def here(self) -> str:
        return self.address()

    def filter(self) -> ManagedTaskFilter:
        """Raises RequestError where there is no such user."""
        state = STATES[self.state]
        owner = users.named(self.owner) if self.owner else None
        if self.owner and owner is None:
            raise RequestError("user", _("There is no user with this name."))
        return ManagedTaskFilter(
            statuses=state.statuses,
            is_paused=state.is_paused,
            owner_id=owner.pk if owner else None,
            endpoint=self.endpoint or None,
        )


@signed_in
@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    return _page(request)


@signed_in
@require_POST
def act(request: HttpRequest) -> HttpResponse:
    """Pause, resume or cancel the selected tasks, and lead back to the list."""
    given = request.POST
    try:
        said = _done(user_of(request), given.get("action", ""), _ids(given.getlist("task")), given.get("message", ""))
    except CategorizedError as error:
        return _page(request, *refused("act", error))
    messages.success(request, said)
    return HttpResponseRedirect(TASKS + question(request.GET).here)


def question(given: Mapping[str, Any]) -> AllTasksFilter:
    values = {name: str(given.get(name, "")).strip()[:MAX_VALUE] for name in ("endpoint", "user", "state", "after")}
    state = values["state"] if values["state"] in STATES else ""
    return AllTasksFilter(values["endpoint"], values["user"], state, values["after"])


def _page(request: HttpRequest, refusal: tuple[str, str] | None = None, status: int = 200) -> HttpResponse:
    user, asked = user_of(request), question(request.GET)
    rows: list[ManagedTask] = []
    last = None
    try:
        rows, last = managed_tasks.list_tasks(user, asked.filter(), _key(asked.after), ROWS)
    except CategorizedError as error:
        own, status = refused("list", error)
        refusal = refusal or own
    context = {
        "asked": asked,
        "rows": [summary.of(row.task) for row in rows],
        "endpoints": [(str(one.pk), canonical_name(one)) for one in managed_endpoints.monitored(user)],
        "states": STATES.items(),
        "first": asked.address(after="") if asked.after else "",
        "later": asked.address(after=manager_documents.last_key(last)) if last else "",
        "chosen": set(request.POST.getlist("task")),
        "message": request.POST.get("message", ""),
        "most_message": actions.MAX_MESSAGE,
        "refusal": refusal,
    }
    return show_section(request, TASKS, "tasks.html", context, status)


def _key(text: str) -> LastKey | None:
    """The position of the page; a key that we did not give leads to the first page."""
    try:
        return read_last_key(text) if text else None
    except ApiError:
        return None


def _done(user: User, action: str, task_ids: list[uuid.UUID], message: str) -> str:
    """Run one action, and describe it. Raises the errors of `actions`."""
    if action == "pause":
        return _sentence("pause", actions.pause(user, task_ids, message))
    if action == "resume":
        return _sentence("resume", actions.resume(user, task_ids))
    if action == "cancel":
        return _sentence("cancel", len(actions.cancel(user, task_ids, message).task_ids))
    raise RequestError("action", _("There is no such action."))


def _sentence(action: str, number: int) -> str:
    said = {
        "pause": ngettext("%(n)d task is paused.", "%(n)d tasks are paused.", number),
        "resume": ngettext(
            "%(n)d task goes on, unless something else pauses it.",
            "%(n)d tasks go on, unless something else pauses them.",
            number,
        ),
        "cancel": ngettext("%(n)d task ends within seconds.", "%(n)d tasks end within seconds.", number),
    }
    return said[action] % {"n": number}


def _ids(texts: list[str]) -> list[uuid.UUID]:
    """Raises RequestError."""
    if not texts:
        raise RequestError("task", _("Select the tasks first."))
    try:
        return [uuid.UUID(text[:45]) for text in texts[: MAX_TASKS + 1]]
    except ValueError:
        raise RequestError("task", _("There is no such task.")) from None


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
        reasons.put_words(events.rows)
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


@signed_in
@require_safe
def rules(request: HttpRequest) -> HttpResponse:
    found = pause_rules.listed(user_of(request))
    people = identities.by_id([row.identity_id for row in found if row.identity_id])
    names = {user.pk: user.username for user in people}
    rows = [
        {
            "rule": row,
            "endpoint": canonical_name(row.endpoint),
            "operations": [words for flag, words in PAUSES.items() if getattr(row, flag)],
            "whom": names.get(row.identity_id, "") if row.identity_id else "",
        }
        for row in found
    ]
    return show_section(request, RULES, "rules.html", {"rows": rows})


@signed_in
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    try:
        rows = [(seen, canonical_name(seen.endpoint)) for seen in endpoint_health.of_managed(user_of(request))]
    except CategorizedError as error:
        refusal, status = refused("list", error)
        return show_section(request, HEALTH, "health.html", {"rows": [], "refusal": refusal}, status)
    return show_section(request, HEALTH, "health.html", {"rows": rows})
