"""The parts that all pages share: language, colours, navigation, and what waits for the reader."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

from django.http import HttpRequest
from django.urls import Resolver404, resolve
from django.utils.functional import Promise
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext_lazy as _

from endpoints import managed_endpoints
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity import shown_names
from identity.models import User
from transferapi.tasks import maintenance, queries

from . import assets, language

THEMES = ("light", "dark")
THEME_COOKIE = "waybill-theme"


@dataclass(frozen=True)
class WaitingPlace:
    """An endpoint at which tasks wait for a credential of the reader."""

    href: str
    words: str


@dataclass(frozen=True)
class PageFrame:
    language: str
    theme: str
    here: str
    #: The name that is shown for the reader; "" if nobody is signed in.
    who: str = ""
    entries: list[NavigationEntry] = field(default_factory=list)
    waiting: list[WaitingPlace] = field(default_factory=list)
    waiting_tasks: int = 0
    script_texts: dict[str, str | list[str]] = field(default_factory=dict)
    languages: dict[str, str] = field(default_factory=lambda: language.LANGUAGES)
    #: The message of the operator during maintenance; "" if there is none.
    maintenance: str = ""


def of(request: HttpRequest) -> PageFrame:
    spoken = (get_language() or "en").partition("-")[0]
    user = request.user
    texts = language.script_texts(spoken, _script_sources()) if spoken != "en" else {}
    here, notice = f"/{request.path.split('/')[1]}", maintenance.current()
    said = notice.sentence if notice else ""
    frame = PageFrame(spoken, theme(request), here=here, script_texts=texts, maintenance=said)
    return _with_user(frame, user) if isinstance(user, User) else frame


def theme(request: HttpRequest) -> str:
    """The colours that the reader has chosen; "": as the system has it."""
    chosen = request.COOKIES.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else ""


def _with_user(frame: PageFrame, user: User) -> PageFrame:
    waiting = queries.waiting_for(user)
    places = [WaitingPlace(f"/endpoints/{place.pk}/activate", _words(place, n)) for place, n in waiting]
    tasks = sum(n for _, n in waiting)
    return replace(
        frame,
        who=shown_names.short_name_of(user),
        entries=entries(user),
        waiting=places,
        waiting_tasks=tasks,
    )


def _words(place: Endpoint, tasks: int) -> str:
    text = ngettext(
        "Renew the credential for %(endpoint)s (%(tasks)d task waits)",
        "Renew the credential for %(endpoint)s (%(tasks)d tasks wait)",
        tasks,
    )
    return text % {"endpoint": canonical_name(place), "tasks": tasks}


@cache
def _script_sources() -> tuple[str, ...]:
    return tuple(path.read_text() for path in sorted((assets.FOLDER / "js").glob("*.js")))


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
