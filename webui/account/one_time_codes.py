"""The forms of the section "One-time codes".

All but `confirm` ask for the password, and for a code once codes are on, or for a recent sign-in by passkey.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from identity import one_time_codes, passkeys, password_sign_in
from identity.hidden import Secret
from identity.models import User
from identity.one_time_codes import OneTimeCodeError
from identity.password_sign_in import CodeRefusedError, SignInError, TooManyAttemptsError, WrongPasswordError
from identity.vault.errors import VaultKeyNotConfiguredError
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import signed_in, user_of
from webui.reasons import said
from webui.sign_in.session_start import device, proof_of, refused, status_of

from .confirmations import Shown, again
from .page import done, page, refusal

SECTION = "one-time-codes"


def _proven(view: Callable[[HttpRequest, User], HttpResponse]) -> Callable[..., HttpResponse]:
    """A form of a user who gives the password again, and a code where codes are on.

    A user whose second factor is a passkey has no code yet: the session has just begun with the passkey.
    """

    @sensitive_post_parameters()
    @signed_in
    @require_POST
    @wraps(view)
    def wrapped(request: HttpRequest) -> HttpResponse:
        user, proof = user_of(request), proof_of(request)
        by_passkey = proof.is_recent and proof.is_multi_factor
        if not by_passkey and passkeys.asked_after_password(user) and not one_time_codes.enabled(user):
            return again(SECTION)
        password, code = Secret(request.POST.get("password", "")), Secret(request.POST.get("code", ""))
        try:
            user = password_sign_in.check(
                user, password, code, address_of(request), device(request), by_passkey=by_passkey
            )
            return view(request, user)
        except TooManyAttemptsError as error:
            return refused(refusal(request, SECTION, said(error.message), status=429), error)
        except WrongPasswordError:
            return refusal(request, SECTION, _("This is not your password."), "password")
        except CodeRefusedError as error:
            return refusal(request, SECTION, said(error.message), "code")
        except (SignInError, OneTimeCodeError, VaultKeyNotConfiguredError) as error:
            return refusal(request, SECTION, said(error.message))

    return wrapped


@_proven
def begin(request: HttpRequest, user: User) -> HttpResponse:
    """Show a new secret once."""
    return page(request, enrolment=one_time_codes.begin_enrolment(user))


@sensitive_post_parameters("code")
@signed_in
@require_POST
def confirm(request: HttpRequest) -> HttpResponse:
    """Turn the codes on by the first code."""
    try:
        codes = password_sign_in.confirm_codes(user_of(request), Secret(request.POST.get("code", "")))
    except SignInError as error:
        return refused(refusal(request, SECTION, said(error.message), status=status_of(error)), error)
    except OneTimeCodeError as error:
        return refusal(request, SECTION, said(error.message), "first")
    return page(request, shown=_recovery(_("One-time codes are on"), codes))


@_proven
def new_recovery_codes(request: HttpRequest, user: User) -> HttpResponse:
    return page(request, shown=_recovery(_("Your new recovery codes"), one_time_codes.new_recovery_codes(user)))


@_proven
def turn_off(request: HttpRequest, user: User) -> HttpResponse:
    one_time_codes.turn_off(user)
    return done(request, _("One-time codes are off."), SECTION)


def _recovery(title: str, codes: list[Secret]) -> Shown:
    text = _("Each of these recovery codes signs you in once in place of a one-time code. Keep them off your phone.")
    values = [(_("Recovery code %(number)d") % {"number": at}, code.value) for at, code in enumerate(codes, 1)]
    return Shown(title, text, values)
