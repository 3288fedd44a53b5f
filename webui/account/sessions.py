"""The section "Sessions": where the user is signed in, and the forms that end sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from identity import deactivation, sessions
from identity.models import User
from identity.sessions import OpenSession
from webui.page import problem

from .confirmations import asking, recently_signed_in

SECTION = "sessions"
_WAYS = {
    "password": gettext_lazy("with your password"),
    "code": gettext_lazy("with your password and a one-time code"),
    "second": gettext_lazy("with your password and a passkey"),
    "passkey": gettext_lazy("with a passkey"),
    "provider": gettext_lazy("by another provider"),
    "certificate": gettext_lazy("with a certificate"),
    "link": gettext_lazy("with a link from the machine of the service"),
}
#: A word in the User-Agent, and the name that people know; the first that fits. Edge and Opera also say "Chrome", all
#: of them "Safari".
_BROWSERS = {
    "Edg/": "Edge", "OPR/": "Opera", "Firefox/": "Firefox", "FxiOS/": "Firefox", "CriOS/": "Chrome",
    "Chromium/": "Chromium", "Chrome/": "Chrome", "Safari/": "Safari", "curl/": "curl",
}  # fmt: skip
_SYSTEMS = {
    "Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Windows": "Windows", "Mac OS X": "macOS",
    "CrOS": "ChromeOS", "Linux": "Linux",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShownSession:
    session: OpenSession
    device: str
    way: object


def context(request: HttpRequest, user: User) -> dict[str, Any]:
    found = sessions.open_sessions(user, request.session.session_key or "")
    return {"sessions": [ShownSession(one, device_words(one.browser), _WAYS.get(one.way, "")) for one in found]}


def device_words(browser: str) -> str:
    """A User-Agent in words, as "Firefox on Linux"; its beginning where it is unknown."""
    program = next((name for word, name in _BROWSERS.items() if word in browser), "")
    system = next((name for word, name in _SYSTEMS.items() if word in browser), "")
    if program and system:
        return _("%(program)s on %(system)s") % {"program": program, "system": system}
    return program or system or browser[:40] or _("Unknown device")


def end(request: HttpRequest, user: User, session: str) -> str:
    sessions.end(user, session)
    return _("The session has ended.")


@asking("sessions")
def end_others(request: HttpRequest, user: User) -> str:
    ended = sessions.end_others(user, request.session.session_key or "")
    return ngettext("One other session has ended.", "%(ended)d other sessions have ended.", ended) % {"ended": ended}


@recently_signed_in("deactivate")
def deactivate(request: HttpRequest, user: User) -> HttpResponse:
    """Deactivate the account of the reader, who has just signed in."""
    deactivation.deactivate_own(user)
    logout(request)
    text = _("Nobody signs in to it any more, and its tasks are canceled. The operator can activate it again.")
    return problem(request, 200, _("Your account is deactivated"), text)
