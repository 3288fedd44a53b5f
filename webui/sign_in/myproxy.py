"""Signs users in with the name and passphrase of a MyProxy server, and links such identities."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from endpoints.activation import status as activation
from endpoints.addresses.provider_sites import addresses_of
from endpoints.error_meanings import meaning
from endpoints.errors import TooManyWaitingError
from identity import audit, password_sign_in
from identity import linked_identities as linked
from identity.federation import myproxy
from identity.federation.errors import (
    FederationError,
    PassphraseRefusedError,
    ProviderUnknownError,
    UserNameRefusedError,
)
from identity.federation.myproxy import MyProxyProvider
from identity.hidden import Secret
from identity.password_sign_in import SignInError
from identity.proven_identities import LinkedIdentityError, ProofTooOldError, Proven
from transferapi.rest.http.trusted_proxies import address_of
from webui.page import own_path, problem, show
from webui.reasons import said

from .providers import demanded, failed, purpose_of, record_refusal, use, waiting_slot
from .session_start import application, device, refused, status_of

MAX_SHOWN = 128


@sensitive_post_parameters("passphrase")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest, name: str) -> HttpResponse:
    """The form of a server, and its answer; with `link`, another identity of the user who is signed in."""
    given = request.POST if request.method == "POST" else request.GET
    try:
        server = myproxy.of_name(settings.MYPROXY_SIGN_IN, name)
    except ProviderUnknownError as error:
        return problem(request, 404, _("Sign in"), said(error.message))
    if request.method != "POST":
        return _form(request, server)
    after = own_path(given.get("next"))
    try:
        purpose = purpose_of(request)
        return use(request, _proven(request, server), {**purpose, "next": after})
    except SignInError as error:
        return refused(_form(request, server, error.message, status_of(error)), error)
    except ProofTooOldError as error:
        return failed(request, after, error, demanded(request))
    except (FederationError, LinkedIdentityError, TooManyWaitingError) as error:
        if not isinstance(error, TooManyWaitingError | UserNameRefusedError | PassphraseRefusedError):
            record_refusal(request, error, server.id)
        status, _code, message = meaning(error, "")
        return _form(request, server, message, status)


@sensitive_variables()
def _proven(request: HttpRequest, server: MyProxyProvider) -> Proven:
    """Count the attempt, and ask the server. Raises SignInError, FederationError, TooManyWaitingError."""
    username, address = request.POST.get("username", ""), address_of(request)
    shown = myproxy.identity_name(server, username)
    user = linked.user_of_name(server.id, shown)
    attempt = password_sign_in.count_attempt(f"{server.id} {username}", address, user, device(request))
    passphrase = Secret(request.POST.get("passphrase", ""))
    try:
        with waiting_slot(request):
            proven = myproxy.prove(
                server, addresses_of(server.host, server.port), username, passphrase, activation.trust(),
                settings.MYPROXY_SECONDS,
            )  # fmt: skip
    except PassphraseRefusedError as error:
        audit.record_refusal(user, "provider", address, type(error).__name__, provider=server.id)
        raise
    password_sign_in.forget_attempts(attempt)
    return proven


def _form(request: HttpRequest, server: MyProxyProvider, reason: str = "", status: int = 200) -> HttpResponse:
    given = request.POST if request.method == "POST" else request.GET
    after = own_path(given.get("next"))
    context = {
        "title": _("Sign in"),
        "server": server,
        "after": after,
        "link": "link" in given,
        "username": request.POST.get("username", "")[:MAX_SHOWN],
        "reason": said(reason),
    }
    return show(request, "signin_myproxy.html", context, status, leads_to=application(request, after))
