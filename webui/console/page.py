"""The base of the pages of the console: its sections, and the answer to a refusal."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from endpoints.error_meanings import meaning
from identity.error_categories import CategorizedError
from identity.users import check_staff
from webui.page import problem, show, user_of

P = ParamSpec("P")
TASKS, RULES, HEALTH, USERS = "/console", "/console/rules", "/console/health", "/console/users"
INVITATIONS, AUDIT = "/console/invitations", "/console/audit"


def show_section(
    request: HttpRequest, here: str, template: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """A page of the console. here: its path."""
    titles = {TASKS: _("Tasks"), RULES: _("Pause rules"), HEALTH: _("Health")}
    if user_of(request).is_staff:
        titles |= {USERS: _("Users"), INVITATIONS: _("Invitations"), AUDIT: _("Audit log")}
    shown = {"title": _("Console"), "sections": titles.items(), "here": here, **context}
    return show(request, f"console/{template}", shown, status)


def staff_only(
    view: Callable[Concatenate[HttpRequest, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponse]:
    """A page for staff. The service that it calls decides the same again; others read why they do not see it."""

    @functools.wraps(view)
    def wrapped(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        try:
            check_staff(user_of(request))
        except CategorizedError as error:
            status, _code, message = meaning(error, "")
            return problem(request, status, _("Not permitted"), message)
        return view(request, *args, **kwargs)

    return wrapped
