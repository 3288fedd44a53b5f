"""The users of the service, for staff: the list, the page of one user, and the forms that change one."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Concatenate, ParamSpec
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from endpoints.error_meanings import meaning
from identity import deactivation, password_recovery, user_account
from identity import users as user_accounts
from identity.error_categories import CategorizedError, RefusedError
from identity.models import User
from identity.users import MAX_FULL_NAME, USER_INVALID, UserDetails
from webui.account.confirmations import Confirmation
from webui.account.page import given_access
from webui.activity.task_list import MOST_PAGES, page_number
from webui.forms import change_of, question, refused
from webui.page import problem, signed_in, to_sign_in, user_of
from webui.sign_in.session_start import signed_in_recently

from .page import USERS, show_section, staff_only

#: Users of one page, and characters of a text to search.
ROWS, MAX_TEXT = 50, 150
_ACTIVE = {"yes": True, "no": False}
CONFIRMATIONS = {
    "unlink": Confirmation(
        "ways",
        gettext_lazy("Unlink this identity?"),
        gettext_lazy("It signs the user in no more, rules that name it end, and so do all sessions of the user."),
        gettext_lazy("Unlink"),
    ),
    "passkeys": Confirmation(
        "ways",
        gettext_lazy("Remove all passkeys of this user?"),
        gettext_lazy(
            "The user signs in by password, and adds other passkeys. Be sure that it is the user who asks for it."
        ),
        gettext_lazy("Remove"),
    ),
    "codes": Confirmation(
        "ways",
        gettext_lazy("Turn off the one-time codes of this user?"),
        gettext_lazy("The password alone signs in then. Be sure that it is the user who asks for it."),
        gettext_lazy("Turn off"),
    ),
    "recovery": Confirmation(
        "ways",
        gettext_lazy("Send a link for a new password?"),
        gettext_lazy("It goes to the mail address of the account, and serves once. It replaces no second factor."),
        gettext_lazy("Send"),
    ),
    "token": Confirmation(
        "programs",
        gettext_lazy("Revoke this token?"),
        gettext_lazy("Scripts that use it stop working at once."),
        gettext_lazy("Revoke"),
    ),
    "given": Confirmation(
        "programs",
        gettext_lazy("Take back what this program may do?"),
        gettext_lazy("Its tokens end at once. The user can allow it again."),
        gettext_lazy("Take back"),
    ),
}


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def users(request: HttpRequest) -> HttpResponse:
    """The list; in answer to its form, the page of the new user: an account outlives the session that made it."""
    if request.method != "POST":
        return _page(request)
    if not signed_in_recently(request):
        return to_sign_in(USERS, again=True)
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
    if not signed_in_recently(request):
        return to_sign_in(USERS + _address(request), again=True)
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


@signed_in
@staff_only
@require_safe
def user_page(request: HttpRequest, ref: uuid.UUID) -> HttpResponse:
    return page(request, str(ref))


def page(
    request: HttpRequest, ref: str, /, *, refusal: tuple[str, str] | None = None, status: int = 200
) -> HttpResponse:
    """refusal: the section of the page, and a sentence."""
    actor = user_of(request)
    try:
        found = deactivation.find(actor, ref)
        seen = user_account.overview(actor, found)
    except CategorizedError as error:
        status, _code, message = meaning(error, "")
        return problem(request, status, _("No such user") if status == 404 else _("Not permitted"), message)
    context = {
        "title": found.username,
        "whose": found,
        "seen": seen,
        "given_access": given_access(found),
        "is_self": found.pk == actor.pk,
        "may_mail": found.is_active and bool(found.email) and password_recovery.is_offered(),
        "edited": _typed(request) if refusal and refusal[0] == "about" else _known(found),
        "most_name": MAX_FULL_NAME,
        "confirmations": CONFIRMATIONS,
        "now": timezone.now(),
        "refusal": refusal,
    }
    return show_section(request, USERS, "user.html", context, status)


def _known(found: User) -> dict[str, object]:
    return {"email": found.email, "full_name": found.get_full_name(), "staff": found.is_staff}


def _typed(request: HttpRequest) -> dict[str, object]:
    texts = {name: request.POST.get(name, "") for name in ("email", "full_name")}
    return {**texts, "staff": "staff" in request.POST}


P = ParamSpec("P")
_Change = Callable[Concatenate[HttpRequest, str, P], str | HttpResponse]
_section = functools.partial(change_of, page, USERS)


def _recent(change: _Change[P]) -> _Change[P]:
    """Only just after a sign-in; the page of the user follows it."""

    @functools.wraps(change)
    def wrapped(request: HttpRequest, ref: str, /, *args: P.args, **kwargs: P.kwargs) -> str | HttpResponse:
        if not signed_in_recently(request):
            return to_sign_in(f"{USERS}/{ref}", again=True)
        return change(request, ref, *args, **kwargs)

    return wrapped


def _asking(kind: str) -> Callable[[_Change[P]], _Change[P]]:
    """The question comes first: by a dialog, or by a page without scripts."""
    one = CONFIRMATIONS[kind]

    def decorate(change: _Change[P]) -> _Change[P]:
        @functools.wraps(change)
        def wrapped(request: HttpRequest, ref: str, /, *args: P.args, **kwargs: P.kwargs) -> str | HttpResponse:
            back = f"{USERS}/{ref}#{one.section}"
            asked = question(request, str(one.title), str(one.text), str(one.act), back)
            return asked or change(request, ref, *args, **kwargs)

        return wrapped

    return decorate


def _whose(request: HttpRequest, ref: str) -> tuple[User, User]:
    """The reader and the user of the page. Raises NOT_STAFF, NotFoundError."""
    actor = user_of(request)
    return actor, deactivation.find(actor, ref)


def _act(
    section: str, kind: str, act: Callable[..., object], said: Promise, *, recent: bool = True
) -> Callable[..., HttpResponse]:
    """The form that does `act(actor, user, ...)`, with what its address names, after the question of this kind."""

    @_asking(kind)
    def change(request: HttpRequest, ref: str, /, **named: object) -> str:
        actor, user = _whose(request, ref)
        act(actor, user, *named.values())
        return str(said) % {"address": user.email}

    return _section(section)(_recent(change) if recent else change)


@_section("about")
@_recent
def edit(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    given = request.POST
    details = UserDetails(given.get("email", "").strip(), given.get("full_name", "").strip(), "staff" in given)
    user_accounts.change(user, details, actor)
    return _("The user was changed.")


unlink = _act("ways", "unlink", user_account.unlink, gettext_lazy("The identity is no longer linked."))
remove_passkeys = _act("ways", "passkeys", user_account.remove_passkeys, gettext_lazy("The passkeys are removed."))
turn_codes_off = _act("ways", "codes", user_account.turn_codes_off, gettext_lazy("One-time codes are off."))
send_recovery = _act(
    "ways", "recovery", user_account.send_recovery, gettext_lazy("The mail is on its way to %(address)s.")
)
revoke_token = _act("programs", "token", user_account.revoke_token, gettext_lazy("The token is revoked."), recent=False)
withdraw = _act(
    "programs",
    "given",
    user_account.withdraw,
    gettext_lazy("It is taken back: the program's tokens are worth nothing now."),
    recent=False,
)


@_section("end")
@_recent
def deactivate(request: HttpRequest, ref: str) -> str:
    """As in REST: a stolen session must not cancel the tasks of all users, and delete their credentials."""
    actor, user = _whose(request, ref)
    deactivation.deactivate(actor, user, request.POST.get("reason", "").strip())
    return _("%(name)s may not sign in any more.") % {"name": user.username}


@_section("end")
@_recent
def activate(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    deactivation.activate(actor, user)
    return _("%(name)s may sign in again.") % {"name": user.username}


@_section("end")
@_recent
def delete(request: HttpRequest, ref: str) -> HttpResponse:
    """The name is typed as a confirmation: a deletion cannot be undone."""
    actor, user = _whose(request, ref)
    name = user.username
    if request.POST.get("name", "").strip() != name:
        raise RefusedError(USER_INVALID, reason=_("Type %(name)s to delete the user.") % {"name": name})
    deactivation.delete(actor, user)
    messages.success(request, _("The user %(name)s was deleted.") % {"name": name})
    return HttpResponseRedirect(USERS)
