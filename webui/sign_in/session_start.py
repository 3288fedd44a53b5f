"""The beginning of a session: by whatever way a user has proven to be this user."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import translation

from identity import languages, password_sign_in, sessions
from identity.models import User
from identity.password_sign_in import SignInError, TooManyAttemptsError
from identity.proven_identities import Proven
from identity.provider import authorization
from identity.provider.errors import RequestNotTrustedError, RequestRefusedError
from identity.sign_in_proof import RECENT, SignInProof
from transferapi.rest.http import authentication
from transferapi.rest.http.trusted_proxies import address_of
from webui import cookies

#: Names in the session: when the user signed in (Unix time; 0.0: a provider does not say), and for which address.
SIGNED_IN_AT, SIGNED_IN_FOR = authentication.SIGNED_IN_AT, "signed_in_for"
#: Whether the user was asked for this sign-in: a provider may have used an old session of its own.
SIGNED_IN_ANEW = "signed_in_anew"
#: And with which identity.
SIGNED_IN_WITH = authentication.SIGNED_IN_WITH
#: The name in the session of a sign-in that waits for its second factor.
PENDING = "pending_sign_in"
#: Characters of a device token; none of ours is longer.
_MAX_DEVICE = 400
_AUTHORIZE = "/v2/oauth2/authorize"


def complete(
    request: HttpRequest, user: User, after: str, way: str, proven: Proven | None = None, *, anew: bool = True
) -> HttpResponse:
    """Begin the session of a user who has proven to be this user, and lead to `after`. way: see `OpenSession`.

    proven: by another provider; None: the user signed in here, just now. anew: whether the user was asked for it.
    """
    user.signed_in_by = way  # type: ignore[attr-defined]  # for the log
    if proven is not None:
        user.signed_in_with = {"provider": proven.provider, "identity": proven.username}  # type: ignore[attr-defined]
    login(request, user)
    request.session.pop(PENDING, None)
    # A date, so that later writes to the session do not move the end.
    request.session.set_expiry(datetime.now(UTC) + timedelta(seconds=settings.SESSION_COOKIE_AGE))
    now = time.time()
    request.session[SIGNED_IN_AT] = now if proven is None else proven.signed_in_at(now)
    request.session[SIGNED_IN_FOR], request.session[SIGNED_IN_ANEW] = _digest(after), anew
    request.session[SIGNED_IN_WITH] = "" if proven is None else proven.username
    browser = request.headers.get("User-Agent", "")
    request.session[sessions.ORIGIN] = sessions.origin_of(way, address_of(request), browser, now)
    languages.begin_with(user, translation.get_language() or "")
    answer = HttpResponseRedirect(after)
    if not password_sign_in.device_of(device(request), user.username):
        # The cookie stays after the session: the browser of an attacker cannot get one.
        value = password_sign_in.new_device(user)
        cookies.keep(answer, settings.DEVICE_COOKIE_NAME, value, password_sign_in.DEVICE_LIFETIME)
    return answer


def device(request: HttpRequest) -> str:
    """The value that this browser got when its user signed in. `identity.password_sign_in` checks it."""
    return request.COOKIES.get(settings.DEVICE_COOKIE_NAME, "")[:_MAX_DEVICE]


def signed_in_at(request: HttpRequest) -> float:
    """When the user of this session signed in (Unix time)."""
    return float(request.session.get(SIGNED_IN_AT, 0.0))


def proof_of(request: HttpRequest) -> SignInProof:
    """When and how the user of this session signed in."""
    found = authentication.of_session(request)
    assert found is not None
    return found


def signed_in_recently(request: HttpRequest) -> bool:
    """Whether the user of this session has just signed in: a stolen session must change no way to sign in."""
    return proof_of(request).is_recent


def is_anew(request: HttpRequest) -> bool:
    """Whether the user was asked to sign in just now, for this very address."""
    asked_for = request.session.get(SIGNED_IN_FOR) == _digest(request.get_full_path())
    begun_at = float(request.session.get(sessions.ORIGIN, {}).get("begun_at") or 0.0)
    # A session that an earlier version of this service has begun has no note.
    return asked_for and request.session.get(SIGNED_IN_ANEW, True) and time.time() - begun_at < RECENT


def is_fresh(request: HttpRequest) -> bool:
    """Whether that is certain: a provider may not say when it has asked the user."""
    return is_anew(request) and signed_in_at(request) > 0


def refused(answer: HttpResponse, error: Exception) -> HttpResponse:
    """The answer, with the time to wait where the error has one."""
    if isinstance(error, TooManyAttemptsError):
        answer["Retry-After"] = str(error.seconds)
    return answer


def status_of(error: SignInError) -> int:
    return error.refusal.category.status


def application(request: HttpRequest, after: str) -> str:
    """The address of the application to which the page `after` may redirect the browser at once; "": none.

    Only one that a registered application has named as its own: a link to the sign-in page, which anybody can write,
    puts no other address into the policy.
    """
    parts = urlsplit(after)
    if parts.path != _AUTHORIZE or "redirect_uri" not in parse_qs(parts.query):
        return ""
    try:
        return authorization.read(parts.query, request.build_absolute_uri("/")).redirect_uri
    except RequestRefusedError as error:
        return error.location
    except RequestNotTrustedError:
        return ""


def _digest(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()
