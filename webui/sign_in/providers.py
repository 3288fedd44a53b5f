"""Signs users in by other providers, and links identities of users who are signed in.

A form of ours (POST, with a CSRF token) begins; its answer is a page that leads to the provider, for a redirect from a
form would need the address of the provider in the policy of the page.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_POST

from endpoints import concurrency_limits
from endpoints.addresses.provider_sites import reach
from endpoints.concurrency_limits import RequestSlot
from endpoints.error_meanings import meaning
from endpoints.errors import TooManyWaitingError
from identity import audit, password_sign_in
from identity import linked_identities as linked
from identity.error_categories import CategorizedError
from identity.federation import freshness, openid, pending
from identity.federation.errors import FederationError, ProviderUnknownError, SignInNotBegunError
from identity.federation.freshness import Fresh
from identity.federation.providers import Provider
from identity.models import User
from identity.networks import network_of
from identity.password_sign_in import SignInError
from identity.proven_identities import (
    IdentityInactiveError,
    IdentityNotFoundError,
    LinkedIdentityError,
    ProofTooOldError,
    Proven,
)
from identity.sign_up import SignUpError
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import ACCOUNT, own_path, show, to_sign_in
from webui.reasons import said

from .password import form
from .session_start import complete, refused, signed_in_at, status_of
from .sign_up import INVITATION_COOKIE, invitation_of, unknown

#: Sign-ins that one network may begin in five minutes: each asks a provider, and keeps a session.
MOST_BEGUN = 100
#: Accounts that one network may ask for in five minutes, for identities that were proven; taken names count. A course
#: makes its accounts at one time. Sign-up by mail has a counter of its own, because it sends mails.
MOST_SIGN_UPS = 100
#: The names in the session of an identity that nobody has linked yet, and whether the person was asked for it.
UNKNOWN, UNKNOWN_ANEW = "unknown_identity", "unknown_identity_anew"
SECTION = f"{ACCOUNT}#identities"


@require_POST
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Begin a sign-in, or with `link` the proof of another identity of the user."""
    after = own_path(request.POST.get("next"))
    try:
        purpose = purpose_of(request)
        password_sign_in.count_request("provider", address_of(request), MOST_BEGUN)
        provider = _provider(name)
        back = f"{settings.PUBLIC_URL}/signin/with/{name}/callback"
        with waiting_slot(request):
            begun = openid.begin(provider, back, reach, anew=bool(purpose.get("fresh")))
    except SignInError as error:
        return refused(form(request, after, reason=error.message, status=status_of(error)), error)
    except (FederationError, LinkedIdentityError, TooManyWaitingError) as error:
        return failed(request, after, error, demanded(request))
    return lead(request, begun.state, {**begun.kept, **purpose, "next": after}, begun.url, provider.label)


@require_GET
def callback(request: HttpRequest, name: str) -> HttpResponse:
    """The way back from a provider. Its answer serves once, in the browser that began."""
    kept: dict[str, Any] = {}
    vouches = ""
    try:
        with waiting_slot(request):
            kept = pending.take(request.session, request.GET.get("state", ""))
            provider = _provider(name)
            vouches = provider.id
            proven = openid.finish(provider, kept, {key: str(value) for key, value in request.GET.items()}, reach)
        return use(request, proven, kept)
    except TooManyWaitingError as error:
        # Nothing is used up: the person loads the page again.
        return failed(request, own_path(None), error, kept)
    except (FederationError, LinkedIdentityError) as error:
        record_refusal(request, error, vouches)
        return failed(request, own_path(kept.get("next")), error, kept)


def waiting_slot(request: HttpRequest) -> RequestSlot:
    """For a request to a server that may be slow, one of few of the client's network. Raises TooManyWaitingError."""
    place = uuid.uuid5(uuid.NAMESPACE_OID, network_of(address_of(request)))
    return concurrency_limits.RequestSlot(place, concurrency_limits.SIGN_INS)


def record_refusal(request: HttpRequest, error: CategorizedError, vouches: str) -> None:
    """In the audit log: the class of the error, and who was asked; no text of a provider."""
    user = error.user if isinstance(error, IdentityInactiveError) else None
    audit.record_refusal(user, "provider", address_of(request), type(error).__name__, provider=vouches)


def demanded(request: HttpRequest) -> dict[str, Any]:
    """The purpose of a sign-in as its form says it, for `failed`; `purpose_of` checks it."""
    return {"user": ""} if "link" in request.POST else {"fresh": request.POST.get("fresh", "")}


def purpose_of(request: HttpRequest) -> dict[str, Any]:
    """Read what a proof shall serve for: to sign in, or to be linked to the user, whose session must be new.

    fresh: what the sign-in demands (`Fresh`). Raises ProofTooOldError.
    """
    if "link" not in request.POST:
        return {"fresh": Fresh.read(request.POST.get("fresh")).value}
    if not request.user.is_authenticated:
        raise ProofTooOldError
    linked.check_fresh(signed_in_at(request))
    return {"user": str(request.user.pk)}


def lead(request: HttpRequest, key: str, kept: dict[str, Any], url: str, label: str) -> HttpResponse:
    """Keep what the answer of the provider needs, and lead the browser to the provider."""
    pending.keep(request.session, key, kept)
    if not request.user.is_authenticated:
        request.session.set_expiry(int(pending.SECONDS))
    context = {"title": _("Sign in"), "url": url, "label": label}
    return show(request, "signin_leave.html", context)


def use(request: HttpRequest, proven: Proven, kept: dict[str, Any]) -> HttpResponse:
    """Sign in by a proof, or link it, as the sign-in was begun. Raises LinkedIdentityError, FederationError."""
    after = own_path(kept["next"])
    if "user" in kept:
        user = request.user
        if not isinstance(user, User) or str(user.pk) != kept["user"]:
            raise SignInNotBegunError
        linked.link(user, proven, signed_in_at(request))
        messages.success(request, _("The identity is linked: you can sign in with it."))
        return HttpResponseRedirect(SECTION)
    demand, since = Fresh.read(kept.get("fresh")), float(kept.get("since", proven.proven_at))
    freshness.check(proven, demand, since)
    found = linked.sign_in(proven)
    anew = freshness.serves(proven, demand, since)
    if found is not None:
        return complete(request, found, after, "provider", proven, anew=anew)
    record_refusal(request, IdentityNotFoundError(""), proven.provider)
    request.session[UNKNOWN], request.session[UNKNOWN_ANEW] = proven.as_document(), anew
    return unknown(request, proven.username, after)


@require_POST
def sign_up(request: HttpRequest) -> HttpResponse:
    """Make an account for the identity that this browser has just proven, and that nobody has linked."""
    after = own_path(request.POST.get("next"))
    kept = request.session.get(UNKNOWN)
    if kept is None:
        return form(request, after, reason=SignInNotBegunError().message, status=400, is_answer=True)
    proven = Proven.of_document(kept)
    try:
        password_sign_in.count_request("identity-sign-up", address_of(request), MOST_SIGN_UPS)
        user = linked.sign_up(proven, request.POST.get("username", ""), invitation_of(request))
    except SignInError as error:
        return refused(unknown(request, proven.username, after, said(error.message), status_of(error)), error)
    except ProofTooOldError as error:
        return failed(request, after, error, {})
    except (LinkedIdentityError, SignUpError) as error:
        status, _code, message = meaning(error, "")
        return unknown(request, proven.username, after, said(message), status)
    del request.session[UNKNOWN]
    anew = bool(request.session.pop(UNKNOWN_ANEW, False))
    answer = complete(request, user, after, "provider", proven, anew=anew)
    answer.delete_cookie(INVITATION_COOKIE)
    return answer


def failed(request: HttpRequest, after: str, error: CategorizedError, kept: dict[str, Any]) -> HttpResponse:
    """The sign-in page with the reason; for a user who links an identity, the account page. kept: see `use`."""
    status, _code, message = meaning(error, "")
    if "user" not in kept:
        demand = Fresh.read(kept.get("fresh"))
        return form(request, after, reason=message, status=status, is_answer=True, fresh=demand)
    if isinstance(error, ProofTooOldError):
        return to_sign_in(SECTION, again=True)
    messages.error(request, said(message))
    return HttpResponseRedirect(SECTION)


@sensitive_variables()
def _provider(name: str) -> Provider:
    """Raises ProviderUnknownError."""
    provider: Provider | None = settings.PROVIDERS.get(name)
    if provider is None:
        raise ProviderUnknownError(name)
    return provider
