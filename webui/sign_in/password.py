"""Signs users in with a password, and a second factor where the user requires one; and out."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from identity import one_time_codes, passkeys, password_recovery, password_sign_in
from identity import sign_up as sign_up_rules
from identity.federation import saml_directory
from identity.federation.freshness import Fresh
from identity.hidden import Secret
from identity.passkeys import PasskeysUnavailableError
from identity.password_sign_in import (
    CodeRequiredError,
    PendingSignIn,
    SignInError,
    SignInLapsedError,
)
from transferapi.rest.http.client_certificates import accepted_subject
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import SIGN_IN, own_path, show
from webui.reasons import said

from . import step_up
from .session_start import PENDING, application, complete, device, refused, status_of


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    given = request.POST if request.method == "POST" else request.GET
    after = own_path(given.get("next"))
    if request.method == "POST":
        return _try(request, after)
    if request.user.is_authenticated and "again" not in given:
        return HttpResponseRedirect(after)
    return form(request, after, username=given.get("username", ""))


def _try(request: HttpRequest, after: str) -> HttpResponse:
    username, password = request.POST.get("username", ""), Secret(request.POST.get("password", ""))
    try:
        user = password_sign_in.sign_in(username, password, address_of(request), device(request))
    except CodeRequiredError as error:
        _keep(request, error.pending)
        return second_form(request, after)
    except SignInError as error:
        return refused(form(request, after, username=username, reason=error.message, status=status_of(error)), error)
    return complete(request, user, after, "password")


@sensitive_post_parameters("code")
@require_http_methods(["GET", "HEAD", "POST"])
def enter_code(request: HttpRequest) -> HttpResponse:
    """The second page of a sign-in. It is shown in answer to the password; its own address leads to the first page."""
    if request.method != "POST":
        return HttpResponseRedirect(SIGN_IN)
    after = own_path(request.POST.get("next"))
    try:
        code = Secret(request.POST.get("code", ""))
        user = password_sign_in.finish(kept(request), code, address_of(request), device(request))
    except SignInError as error:
        return second_refused(request, after, error)
    return complete(request, user, after, "code")


def second_refused(request: HttpRequest, after: str, error: SignInError) -> HttpResponse:
    """The answer to a second factor that was refused. A sign-in that has lapsed begins again."""
    if isinstance(error, SignInLapsedError):
        return form(request, after, reason=error.message, status=400)
    return refused(second_form(request, after, error.message, status_of(error)), error)


def _keep(request: HttpRequest, pending: PendingSignIn) -> None:
    """Keep the sign-in in the session of this browser, on the server, until the code comes."""
    request.session[PENDING] = [str(pending.user_id), pending.password, pending.since]
    if not request.user.is_authenticated:
        request.session.set_expiry(password_sign_in.MOST_PENDING)


def kept(request: HttpRequest) -> PendingSignIn:
    """The sign-in of this browser that waits for its second factor. Raises SignInLapsedError where none does."""
    found = request.session.get(PENDING)
    if found is None:
        raise SignInLapsedError
    return PendingSignIn(uuid.UUID(found[0]), found[1], found[2])


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session, also for those who have a copy of its cookie."""
    logout(request)
    return HttpResponseRedirect("/signin")


def form(
    request: HttpRequest,
    after: str,
    *,
    username: str = "",
    reason: str = "",
    status: int = 200,
    is_answer: bool = False,
    fresh: Fresh | None = None,
) -> HttpResponse:
    """The first page of a sign-in. reason: why the last attempt was refused.

    is_answer: the address of the request is the answer of a provider, which no page shows. fresh: what is demanded of
    other providers; None: what the request says.
    """
    user = request.user
    given = request.POST if request.method == "POST" else request.GET
    demanded = step_up.known(request.GET.getlist("domain")[: step_up.MOST_DOMAINS])
    context = {
        "title": _("Sign in"),
        "after": after,
        "username": username or (user.get_username() if user.is_authenticated else ""),
        "reason": said(reason),
        "again": user.is_authenticated,
        "fresh": (Fresh.read(given.get("fresh")) if fresh is None else fresh).value,
        "recovery": password_recovery.is_offered(),
        "providers": sorted(settings.PROVIDERS.values(), key=lambda one: one.domain not in demanded),
        "demanded": ", ".join(demanded),
        "myproxy": sorted(settings.MYPROXY_SIGN_IN.values(), key=lambda one: one.domain not in demanded),
        "sign_up": sign_up_rules.is_offered() and password_recovery.is_offered(),
        "institutions": bool(settings.SAML_METADATA),
        "institution_domain": min(saml_directory.domains_among(demanded), default=""),
        "certificate": accepted_subject(request) or "",
        **passkey_place(request),
        **({"back": ""} if is_answer else {}),
    }
    return show(request, "signin.html", context, status, leads_to=application(request, after))


def second_form(request: HttpRequest, after: str, reason: str = "", status: int = 200) -> HttpResponse:
    """The second page, for a user whose password was right: a one-time code, or a passkey."""
    user = password_sign_in.user_of(kept(request))
    context = {
        "title": _("Sign in"),
        "after": after,
        "reason": said(reason),
        "codes": one_time_codes.enabled(user),
        "passkeys": passkeys.usable(user),
        **passkey_place(request),
    }
    return show(request, "signin_code.html", context, status, leads_to=application(request, after))


def passkey_place(request: HttpRequest) -> dict[str, Any]:
    """Whether a passkey can be used on this page, and the address at which it can be, where that is another one."""
    try:
        site = passkeys.site()
    except PasskeysUnavailableError:
        return {"passkeys_here": False, "passkeys_elsewhere": ""}
    here = urlsplit(f"//{request.get_host()}").hostname == site.id
    return {"passkeys_here": here, "passkeys_elsewhere": "" if here else site.origin}
