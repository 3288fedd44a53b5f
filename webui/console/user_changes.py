"""The forms on the page of a user: each calls the service, which checks that the reader is of the staff.

Changes that could take an account over, or that cannot be undone, are made only just after a sign-in: a stolen session
of the staff must not reach the accounts of others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from identity import deactivation, user_account, users
from identity.models import User
from identity.users import UserDetails, UserInvalidError
from webui.forms import change_of, question
from webui.page import to_sign_in, user_of
from webui.sign_in.session_start import signed_in_recently

from .page import USERS
from .user_confirmations import CONFIRMATIONS
from .user_page import page

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
    """The reader and the user of the page. Raises NotStaffError, UserNotFoundError."""
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
    users.change(user, details, actor)
    return gettext("The user was changed.")


unlink = _act("ways", "unlink", user_account.unlink, _("The identity is no longer linked."))
remove_passkeys = _act("ways", "passkeys", user_account.remove_passkeys, _("The passkeys are removed."))
turn_codes_off = _act("ways", "codes", user_account.turn_codes_off, _("One-time codes are off."))
send_recovery = _act("ways", "recovery", user_account.send_recovery, _("The mail is on its way to %(address)s."))
revoke_token = _act("programs", "token", user_account.revoke_token, _("The token is revoked."), recent=False)
withdraw = _act(
    "programs", "given", user_account.withdraw, _("It is taken back: the program's tokens are worth nothing now."),
    recent=False,
)  # fmt: skip


@_section("end")
def deactivate(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    deactivation.deactivate(actor, user, request.POST.get("reason", "").strip())
    return gettext("%(name)s may not sign in any more.") % {"name": user.username}


@_section("end")
def activate(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    deactivation.activate(actor, user)
    return gettext("%(name)s may sign in again.") % {"name": user.username}


@_section("end")
@_recent
def delete(request: HttpRequest, ref: str) -> HttpResponse:
    """The name is typed as a confirmation: a deletion cannot be undone."""
    actor, user = _whose(request, ref)
    name = user.username
    if request.POST.get("name", "").strip() != name:
        raise UserInvalidError(gettext("Type %(name)s to delete the user.") % {"name": name})
    deactivation.delete(actor, user)
    messages.success(request, gettext("The user %(name)s was deleted.") % {"name": name})
    return HttpResponseRedirect(USERS)
