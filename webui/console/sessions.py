"""The open sessions of a user, for staff, and the form that ends them all."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from identity import deactivation
from identity import sessions as open_sessions
from identity.error_categories import CategorizedError
from identity.models import User
from transferapi.rest.http.errors import meaning
from webui.account.sessions import device_words
from webui.forms import question
from webui.page import problem, signed_in, user_of

from .page import USERS, show_section, staff_only
from .words import way_words


@signed_in
@staff_only
@require_safe
def sessions(request: HttpRequest, user: uuid.UUID) -> HttpResponse:
    found = _find(request, user)
    if isinstance(found, HttpResponse):
        return found
    rows = [
        {"session": one, "device": device_words(one.browser), "way": way_words(one.way)}
        for one in open_sessions.open_sessions(found, request.session.session_key or "")
    ]
    return show_section(request, USERS, "sessions.html", {"whose": found, "rows": rows, "title": _("Sessions")})


@signed_in
@staff_only
@require_POST
def end_all(request: HttpRequest, user: uuid.UUID) -> HttpResponse:
    """End all sessions of the user, also the present one where staff end their own."""
    found = _find(request, user)
    if isinstance(found, HttpResponse):
        return found
    here = f"{USERS}/{found.pk}/sessions"
    title = _("End all sessions of %(name)s?") % {"name": found.username}
    text = _("The browsers are signed out at once. API tokens, applications and ssh keys keep their access.")
    if ask := question(request, title, text, _("End them"), here):
        return ask
    ended = deactivation.end_sessions(user_of(request), found)
    said = ngettext("One session has ended.", "%(ended)d sessions have ended.", ended) % {"ended": ended}
    messages.success(request, said)
    return HttpResponseRedirect(here)


def _find(request: HttpRequest, user: uuid.UUID) -> User | HttpResponse:
    try:
        return deactivation.find(user_of(request), user)
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return problem(request, status, _("No such user"), message)
