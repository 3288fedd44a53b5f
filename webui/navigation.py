"""The pages of the navigation. A page is in it from the commit on that adds its route."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from django.urls import Resolver404, resolve
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from endpoints import managed_endpoints
from identity.models import User


class NavigationEntry(NamedTuple):
    """path: of the page, and the beginning of the paths below it."""

    path: str
    icon: str
    title: str | Promise


_ENTRIES = (
    NavigationEntry("/transfer", "transfer", _("Transfer")),
    NavigationEntry("/activity", "activity", _("Activity")),
    NavigationEntry("/endpoints", "endpoint", _("Endpoints")),
    NavigationEntry("/groups", "groups", _("Groups")),
    NavigationEntry("/timers", "timer", _("Timers")),
    NavigationEntry("/account", "account", _("Account")),
    NavigationEntry("/console", "console", _("Console")),
)
_CONSOLE = "/console"


def entries(user: User) -> list[NavigationEntry]:
    """The pages for this user. The console is for those who run the service or manage an endpoint."""
    found = [entry for entry in _ENTRIES if _exists(entry.path)]
    return [entry for entry in found if entry.path != _CONSOLE or user.is_staff or managed_endpoints.has_any(user)]


def first_page() -> str:
    """The page on which a signed-in user begins."""
    return next(entry.path for entry in _ENTRIES if _exists(entry.path))


@cache
def _exists(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True
