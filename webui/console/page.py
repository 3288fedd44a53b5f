"""The base of the pages of the console: its sections, and the answer to a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from webui.page import show, user_of

TASKS, RULES, HEALTH, USERS = "/console", "/console/rules", "/console/health", "/console/users"


def show_section(
    request: HttpRequest, here: str, template: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    """A page of the console. here: its path."""
    titles = {TASKS: _("Tasks"), RULES: _("Pause rules"), HEALTH: _("Health")}
    if user_of(request).is_staff:
        titles[USERS] = _("Users")
    shown = {"title": _("Console"), "sections": titles.items(), "here": here, **context}
    return show(request, f"console/{template}", shown, status)
