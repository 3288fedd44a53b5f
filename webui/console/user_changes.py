"""The forms on the page of a user: each calls the service, which checks that the reader is of the staff.

Changes that could take an account over, or that cannot be undone, are made only just after a sign-in: a stolen session
of the staff must not reach the accounts of others.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Concatenate, ParamSpec

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from identity import users
from identity.administration import deactivation, user_account
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


@_section("about")
@_recent
def edit(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    given = request.POST
    details = UserDetails(given.get("email", "").strip(), given.get("full_name", "").strip(), "staff" in given)
    users.change(user, details, actor)
    return _("The user was changed.")


@_section("ways")
@_recent
@_asking("unlink")
def unlink(request: HttpRequest, ref: str, identity: uuid.UUID) -> str:
    actor, user = _whose(request, ref)
    user_account.unlink(actor, user, identity)
    return _("The identity is no longer linked.")


@_section("ways")
@_recent
@_asking("passkeys")
def remove_passkeys(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    user_account.remove_passkeys(actor, user)
    return _("The passkeys are removed.")


@_section("ways")
@_recent
@_asking("codes")
def turn_codes_off(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    user_account.turn_codes_off(actor, user)
    return _("One-time codes are off.")


@_section("ways")
@_recent
@_asking("recovery")
def send_recovery(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    user_account.send_recovery(actor, user)
    return _("The mail is on its way to %(address)s.") % {"address": user.email}


@_section("programs")
@_asking("token")
def revoke_token(request: HttpRequest, ref: str, token: uuid.UUID) -> str:
    actor, user = _whose(request, ref)
    user_account.revoke_token(actor, user, token)
    return _("The token is revoked.")


@_section("programs")
@_asking("given")
def withdraw(request: HttpRequest, ref: str, client_id: str) -> str:
    actor, user = _whose(request, ref)
    user_account.withdraw(actor, user, client_id)
    return _("It is taken back: the program's tokens are worth nothing now.")


@_section("end")
def deactivate(request: HttpRequest, ref: str) -> str:
    actor, user = _whose(request, ref)
    deactivation.deactivate(actor, user, request.POST.get("reason", "").strip())
    return _("%(name)s may not sign in any more.") % {"name": user.username}


@_section("end")
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
        raise UserInvalidError(_("Type %(name)s to delete the user.") % {"name": name})
    deactivation.delete(actor, user)
    messages.success(request, _("The user %(name)s was deleted.") % {"name": name})
    return HttpResponseRedirect(USERS)
