"""Signs users in with a passkey: alone, or after the password. `passkeys.js` asks the browser, and sends the form."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from identity import passkeys, password_sign_in
from identity.passkeys import PasskeyError
from identity.password_sign_in import MOST_PENDING, SignInError
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import own_path
from webui.reasons import said

from .password import form, kept, second_form, second_refused
from .session_start import complete, device, refused, status_of

#: Requests for a challenge from one network in five minutes: each keeps a session for that long.
MOST_CHALLENGES = 50


@require_POST
def options(request: HttpRequest) -> HttpResponse:
    """The options of `navigator.credentials.get`. second: whether the password was given before."""
    try:
        password_sign_in.count_request("passkey", address_of(request), MOST_CHALLENGES)
        if "second" not in request.POST:
            found = passkeys.begin_proof(request.session)
        else:
            found = passkeys.begin_second_factor(password_sign_in.user_of(kept(request)), request.session)
    except SignInError as error:
        return refused(JsonResponse({"message": said(error.message)}, status=status_of(error)), error)
    except PasskeyError as error:
        return JsonResponse({"message": said(error.message)}, status=409)
    if not request.user.is_authenticated:
        request.session.set_expiry(MOST_PENDING)
    return JsonResponse(found)


@sensitive_post_parameters("credential")
@require_POST
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in without a name and a password: the device has verified its owner."""
    after = own_path(request.POST.get("next"))
    try:
        user = password_sign_in.by_passkey(request.session, request.POST.get("credential", ""))
    except PasskeyError as error:
        return form(request, after, reason=error.message, status=400)
    return complete(request, user, after, "passkey")


@sensitive_post_parameters("credential")
@require_POST
def second_factor(request: HttpRequest) -> HttpResponse:
    """The passkey after the password."""
    after, answer = own_path(request.POST.get("next")), request.POST.get("credential", "")
    try:
        user = password_sign_in.finish_by_passkey(
            kept(request), request.session, answer, address_of(request), device(request)
        )
    except SignInError as error:
        return second_refused(request, after, error)
    except PasskeyError as error:
        return second_form(request, after, error.message, 400)
    return complete(request, user, after, "second")
