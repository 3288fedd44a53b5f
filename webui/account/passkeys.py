"""The section "Passkeys": the keys of the user, whether this address can have passkeys, and the forms.

The script `passkeys.js` asks the browser for a key, and fills the form that `add` gets.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from identity import passkeys
from identity.models import User
from identity.passkeys import PasskeyError
from webui.page import signed_in, user_of
from webui.reasons import said
from webui.sign_in.password import passkey_place
from webui.sign_in.session_start import signed_in_recently

from .confirmations import again, ask, asking, recently_signed_in

SECTION = "passkeys"


def context(request: HttpRequest, user: User) -> dict[str, Any]:
    return {
        "passkeys": passkeys.of(user),
        "passkey_after_password": passkeys.asked_after_password(user),
        **passkey_place(request),
    }


@signed_in
@require_POST
def options(request: HttpRequest) -> HttpResponse:
    """The options of `navigator.credentials.create`; or the page on which the user signs in again before."""
    if not signed_in_recently(request):
        return JsonResponse({"again": again(SECTION).url}, status=403)
    try:
        return JsonResponse(passkeys.begin_new(user_of(request), request.session))
    except PasskeyError as error:
        return JsonResponse({"message": said(error.message)}, status=409)


@recently_signed_in(SECTION)
def add(request: HttpRequest, user: User) -> str:
    row = passkeys.add(user, request.session, request.POST.get("credential", ""), request.POST.get("label", ""))
    return _("The passkey %(name)s signs you in from now on.") % {"name": row.label}


def rename(request: HttpRequest, user: User, passkey: uuid.UUID) -> str:
    passkeys.rename(user, passkey, request.POST.get("label", ""))
    return _("The passkey has a new name.")


@asking("passkey")
def remove(request: HttpRequest, user: User, passkey: uuid.UUID) -> str:
    passkeys.remove(user, passkey)
    return _("The passkey is removed.")


@recently_signed_in(SECTION)
def second_factor(request: HttpRequest, user: User) -> str | HttpResponse:
    """Whether sign-in by password asks for a passkey too; like a new passkey, only just after a sign-in."""
    wanted = request.POST.get("wanted") == "yes"
    if not wanted and (question := ask(request, "password_alone")):
        return question
    passkeys.ask_after_password(user, wanted=wanted)
    return _("Sign-in asks for a passkey after your password.") if wanted else _("Your password alone signs you in.")
