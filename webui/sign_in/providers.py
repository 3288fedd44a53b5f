"""Signs users in by other providers, and links identities of users who are signed in.

A form of ours (POST, with a CSRF token) begins; its answer is a page that leads to the provider, for a redirect from a
form would need the address of the provider in the policy of the page.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET, require_POST

from endpoints.addresses.provider_sites import reach
from identity import password_sign_in
from identity.error_categories import CategorizedError
from identity.federation import pending
from identity.federation.errors import FederationError, ProviderUnknownError, SignInNotBegunError
from identity.federation.openid import sign_in as openid
from identity.federation.providers import Provider
from identity.linked import services as linked
from identity.linked.errors import LinkedIdentityError, ProofTooOldError
from identity.linked.proven import Proven
from identity.models import User
from identity.password_sign_in import SignInError
from identity.sign_up import rules
from identity.sign_up.errors import SignUpError
from transferapi.rest.http.errors import meaning
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import ACCOUNT, own_path, show, to_sign_in
from webui.reasons import said

from .password import form
from .session_start import complete, refused, signed_in_at, status_of
from .sign_up import INVITATION_COOKIE, invitation_of

#: Sign-ins that one network may begin in five minutes: each asks a provider, and keeps a session.
MOST_BEGUN = 100
#: Accounts that one network may ask for in five minutes, for identities that were proven; taken names count. A course
#: makes its accounts at one time. Sign-up by mail has a counter of its own, because it sends mails.
MOST_SIGN_UPS = 100
#: The name in the session of an identity that nobody has linked yet.
UNKNOWN = "unknown_identity"
SECTION = f"{ACCOUNT}#identities"


@require_POST
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Begin a sign-in, or with `link` the proof of another identity of the user."""
    after = own_path(request.POST.get("next"))
    try:
        purpose = purpose_of(request)
        password_sign_in.count_request("provider", address_of(request), MOST_BEGUN)
        provider = _provider(name)
        begun = openid.begin(provider, f"{settings.PUBLIC_URL}/signin/with/{name}/callback", reach)
    except SignInError as error:
        return refused(form(request, after, reason=error.reason, status=status_of(error)), error)
    except (FederationError, LinkedIdentityError) as error:
        return failed(request, after, error, linking="link" in request.POST)
    return lead(request, begun.state, {**begun.kept, **purpose, "next": after}, begun.url, provider.label)


@require_GET
def callback(request: HttpRequest, name: str) -> HttpResponse:
    """The way back from a provider. Its answer serves once, in the browser that began."""
    try:
        kept = pending.take(request.session, request.GET.get("state", ""))
    except SignInNotBegunError as error:
        return failed(request, own_path(None), error)
    linking = "user" in kept
    try:
        provider = _provider(name)
        proven = openid.finish(provider, kept, {key: str(value) for key, value in request.GET.items()}, reach)
        return use(request, proven, kept)
    except (FederationError, LinkedIdentityError) as error:
        return failed(request, own_path(kept["next"]), error, linking=linking)


def purpose_of(request: HttpRequest) -> dict[str, Any]:
    """Read what a proof shall serve for: to sign in, or to be linked to the user, whose session must be new.

    Raises ProofTooOldError.
    """
    if "link" not in request.POST:
        return {}
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
    """Sign in by a proof, or link it, as the sign-in was begun. Raises LinkedIdentityError, SignInNotBegunError."""
    after = own_path(kept["next"])
    if "user" in kept:
        user = request.user
        if not isinstance(user, User) or str(user.pk) != kept["user"]:
            raise SignInNotBegunError
        linked.link(user, proven, signed_in_at(request))
        messages.success(request, _("The identity is linked: you can sign in with it."))
        return HttpResponseRedirect(SECTION)
    found = linked.sign_in(proven)
    if found is not None:
        return complete(request, found, after, "provider", proven.username)
    request.session[UNKNOWN] = proven.as_document()
    return _unknown(request, proven, after)


def _unknown(request: HttpRequest, proven: Proven, after: str, wrong: str = "", status: int = 403) -> HttpResponse:
    context = {
        "title": _("Sign in"),
        "name": proven.username,
        "after": after,
        "back": "",
        "sign_up": rules.is_offered(),
        "username": request.POST.get("username", "")[:40],
        "wrong": wrong,
    }
    return show(request, "signin_unknown.html", context, status)


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
        return refused(_unknown(request, proven, after, said(error.reason), status_of(error)), error)
    except ProofTooOldError as error:
        return failed(request, after, error)
    except (LinkedIdentityError, SignUpError) as error:
        status, _code, message = meaning(error, "")
        return _unknown(request, proven, after, said(message), status)
    del request.session[UNKNOWN]
    answer = complete(request, user, after, "provider", proven.username)
    answer.delete_cookie(INVITATION_COOKIE)
    return answer


def failed(request: HttpRequest, after: str, error: CategorizedError, *, linking: bool = False) -> HttpResponse:
    """The sign-in page with the reason; for a user who links an identity, the account page."""
    status, _code, message = meaning(error, "")
    if not linking:
        return form(request, after, reason=message, status=status, is_answer=True)
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
