"""The users of the service, for staff: a list with a search, and forms to add, deactivate and reactivate one."""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from identity import deactivation
from identity import users as user_accounts
from identity.error_categories import CategorizedError
from identity.users import MAX_FULL_NAME, UserDetails
from transferapi.rest.http.errors import meaning
from webui.activity.task_list import MOST_PAGES, page_number
from webui.forms import refused
from webui.page import problem, signed_in, user_of

from .page import USERS, show_section

#: Users of one page, and characters of a text to search.
ROWS, MAX_TEXT = 50, 150
_ACTIVE = {"yes": True, "no": False}


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def users(request: HttpRequest) -> HttpResponse:
    """The list; in answer to its form, the page of the new user."""
    if request.method != "POST":
        return _page(request)
    name, email, full_name = (request.POST.get(field, "").strip() for field in ("username", "email", "full_name"))
    try:
        row = user_accounts.add(name, UserDetails(email, full_name), user_of(request))
    except CategorizedError as error:
        return _page(request, *refused("add", error))
    messages.success(request, _("The user %(name)s is made, and has no way to sign in yet.") % {"name": row.username})
    return HttpResponseRedirect(f"{USERS}/{row.pk}#ways")


@signed_in
@require_POST
def set_active(request: HttpRequest, user: uuid.UUID, active: bool) -> HttpResponse:
    try:
        actor = user_of(request)
        found = deactivation.find(actor, user)
        changed = deactivation.activate(actor, found) if active else deactivation.deactivate(actor, found)
    except CategorizedError as error:
        return _page(request, *refused("users", error))
    said = _("%(name)s may sign in again.") if active else _("%(name)s may not sign in any more.")
    messages.success(request, said % {"name": changed.username})
    return HttpResponseRedirect(USERS + _address(request))


def _page(request: HttpRequest, refusal: tuple[str, str] | None = None, status: int = 200) -> HttpResponse:
    text, active, page = _text(request), request.GET.get("active", ""), page_number(request.GET.get("page", "1"))
    try:
        rows, total = user_accounts.listed(
            user_of(request), text, active=_ACTIVE.get(active), offset=ROWS * (page - 1), limit=ROWS
        )
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return problem(request, status, _("Not permitted"), message)
    context = {
        "rows": rows,
        "total": total,
        "text": text,
        "active": active,
        "choices": (("", _("All users")), ("yes", _("Active users")), ("no", _("Deactivated users"))),
        "here_again": _address(request),
        "earlier": _address(request, page=page - 1) if page > 1 else "",
        "later": _address(request, page=page + 1) if total > ROWS * page and page < MOST_PAGES else "",
        "given": request.POST if refusal and refusal[0] == "add" else {},
        "most_name": MAX_FULL_NAME,
        "refusal": refusal,
    }
    return show_section(request, USERS, "users.html", context, status)


def _text(request: HttpRequest) -> str:
    return request.GET.get("q", "").strip()[:MAX_TEXT]


def _address(request: HttpRequest, **changes: object) -> str:
    """The query of the same list with other values."""
    values: dict[str, object] = {"q": _text(request), "active": request.GET.get("active", "")[:3], **changes}
    return f"?{urlencode({name: value for name, value in values.items() if value})}"
