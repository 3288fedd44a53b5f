"""Signing in with a password, and out."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from identity import signing_in
from identity.hidden import Secret
from identity.models import User
from identity.signing_in import CountingFailedError, SignInError, TooManyAttemptsError
from transferapi.rest.front import address_of

from .page import own_path, show

#: Names in the session: when its password was given (Unix time), and for which address.
SIGNED_IN_AT, SIGNED_IN_FOR = "signed_in_at", "signed_in_for"
#: Characters; longer ones are nobody's.
_MAX_DEVICE = 400
#: Seconds for which a password serves the page that asked for it.
FRESH = 600


@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    given = request.POST if request.method == "POST" else request.GET
    after = own_path(given.get("next"))
    if request.method == "POST":
        return _try(request, after)
    if request.user.is_authenticated and "again" not in given:
        return HttpResponseRedirect(after)
    return _form(request, after, username=given.get("username", ""))


def _try(request: HttpRequest, after: str) -> HttpResponse:
    username, password = request.POST.get("username", ""), Secret(request.POST.get("password", ""))
    try:
        user = signing_in.sign_in(username, password, address_of(request), device(request))
    except TooManyAttemptsError as error:
        answer = _form(request, after, username=username, reason=error.reason, status=429)
        answer["Retry-After"] = str(error.seconds)
        return answer
    except SignInError as error:
        status = 503 if isinstance(error, CountingFailedError) else 400
        return _form(request, after, username=username, reason=error.reason, status=status)
    login(request, user)
    # A date, so that what is written into the session later moves nothing.
    request.session.set_expiry(datetime.now(UTC) + timedelta(seconds=settings.SESSION_COOKIE_AGE))
    request.session[SIGNED_IN_AT] = time.time()
    request.session[SIGNED_IN_FOR] = _digest(after)
    answer = HttpResponseRedirect(after)
    if not signing_in.device_of(device(request), user.username):
        _remember_device(answer, user)
    return answer


def device(request: HttpRequest) -> str:
    """What this browser was given when its user signed in; whether it is true, `identity.signing_in` knows."""
    return request.COOKIES.get(settings.DEVICE_COOKIE_NAME, "")[:_MAX_DEVICE]


def _remember_device(answer: HttpResponse, user: User) -> None:
    """It stays when the session ends: a browser of somebody else has no way to it."""
    answer.set_cookie(
        settings.DEVICE_COOKIE_NAME,
        signing_in.new_device(user),
        max_age=signing_in.DEVICE_LIFETIME,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the session, also for those who have a copy of its cookie."""
    logout(request)
    return HttpResponseRedirect("/signin")


def signed_in_at(request: HttpRequest) -> float:
    """When the password of this session was given (Unix time)."""
    return float(request.session.get(SIGNED_IN_AT, 0.0))


def is_fresh(request: HttpRequest) -> bool:
    """Whether the password was given for this very address, just now."""
    asked_for = request.session.get(SIGNED_IN_FOR) == _digest(request.get_full_path())
    return asked_for and time.time() - signed_in_at(request) < FRESH


def _form(request: HttpRequest, after: str, *, username: str, reason: str = "", status: int = 200) -> HttpResponse:
    user = request.user
    context = {
        "title": "Sign in",
        "after": after,
        "username": username or (user.get_username() if user.is_authenticated else ""),
        "reason": reason,
        "again": user.is_authenticated,
    }
    return show(request, "signin.html", context, status, leads_to=_application(after))


def _application(after: str) -> str:
    """Where the page after this one may send the browser at once: to an application that waits for its answer."""
    parts = urlsplit(after)
    return parse_qs(parts.query).get("redirect_uri", [""])[0] if parts.path == "/v2/oauth2/authorize" else ""


def _digest(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()
