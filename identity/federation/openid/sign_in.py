"""Authorization code with PKCE, state and nonce (RFC 6749, 7636, 9700; OpenID Connect Core 1.0).

    begun = begin(provider, redirect_uri, reach)
    # The browser goes to begun.url; the session of the browser keeps begun.kept under begun.state, on the server.
    proven = finish(provider, kept, answer, reach)     # kept: taken out of the session before, so that it serves once

Each provider has a redirect address of its own, so that the code of one is not sent to another (mix-up, RFC 9700, 4.4).
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode

from django.views.decorators.debug import sensitive_variables
from oauthlib.oauth2 import WebApplicationClient

from identity.federation import freshness
from identity.federation.errors import ProofRefusedError, ProviderAnswerError, ProviderRefusedError
from identity.federation.providers import Provider
from identity.federation.requests import Reach, ask, json_of, object_of
from identity.proven_identities import Proven, name_at

from . import github, id_tokens
from .metadata import Metadata, metadata_of

MAX_CODE, MAX_TOKEN, VERIFIER_LENGTH = 4096, 8192, 64
#: Claims that people may choose themselves; the provider gives the others.
_TYPED_IN = frozenset({"preferred_username", "email"})
Kept = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OpenIdAttempt:
    """url: for the browser. kept: for `finish`, on the server."""

    url: str = field(repr=False)
    state: str = field(repr=False)
    kept: Kept = field(repr=False)


@sensitive_variables("verifier", "state", "nonce", "kept", "query")
def begin(provider: Provider, redirect_uri: str, reach: Reach, *, anew: bool = False) -> OpenIdAttempt:
    """anew: ask the provider to ask the person again, and to say when it did. Raises FederationError."""
    parts = _parts(provider, reach)
    grant = WebApplicationClient(provider.client_id)
    verifier = grant.create_code_verifier(VERIFIER_LENGTH)
    state, nonce = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    query = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(provider.scopes),
        "state": state,
        "code_challenge": grant.create_code_challenge(verifier, "S256"),
        "code_challenge_method": "S256",
        **({"nonce": nonce} if provider.protocol == "oidc" else {}),
        **(_anew(parts) if anew and provider.protocol == "oidc" else {}),
    }
    kept = {"provider": provider.name, "redirect_uri": redirect_uri, "verifier": verifier, "nonce": nonce}
    return OpenIdAttempt(f"{parts.authorize}?{urlencode(query)}", state, kept)


def _anew(parts: Metadata) -> dict[str, str]:
    """OpenID Connect Core, 3.1.2.1: with `max_age` the identity token must have `auth_time`.

    With an age of 0 a provider that measures it after the sign-in asks again and again; Canaille does.
    """
    return {**({"prompt": "login"} if parts.prompts_login else {}), "max_age": f"{freshness.SKEW:.0f}"}


def finish(provider: Provider, kept: Kept, answer: Mapping[str, str], reach: Reach, now: float | None = None) -> Proven:
    """Exchange the code in the answer of the browser, and check who the person is. Raises FederationError.

    kept: of the sign-in whose `state` the answer has.
    """
    parts = _parts(provider, reach)
    issuer = answer.get("iss", "")
    is_named = bool(issuer) or parts.names_issuer
    if kept["provider"] != provider.name or (provider.protocol == "oidc" and is_named and issuer != provider.issuer):
        raise ProofRefusedError("The answer comes from another provider.")
    if "error" in answer:
        raise ProviderRefusedError(answer["error"])
    code = answer.get("code", "")
    if not 0 < len(code) <= MAX_CODE or not code.isascii() or not code.isprintable():
        raise ProviderAnswerError("The provider gives no code.")
    tokens = _tokens(provider, parts, kept, code, reach)
    now = time.time() if now is None else now
    if provider.protocol == "github":
        return github.person(provider, _access_token(tokens), reach, now)
    claims = id_tokens.check(provider, tokens.get("id_token"), kept["nonce"], _access_token(tokens), reach, now)
    auth_time = claims.get("auth_time")
    return _proven(provider, {**_with_userinfo(parts, claims, tokens, reach), "auth_time": auth_time}, now)


def _parts(provider: Provider, reach: Reach) -> Metadata:
    return github.parts(provider) if provider.protocol == "github" else metadata_of(provider, reach)


@sensitive_variables()
def _tokens(provider: Provider, parts: Metadata, kept: Kept, code: str, reach: Reach) -> dict[str, Any]:
    """The answer of the token endpoint (RFC 6749, 4.1.3). Raises FederationError."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": kept["redirect_uri"],
        "code_verifier": kept["verifier"],
    }
    headers = {"Accept": "application/json"}
    if provider.secret is not None and parts.basic:
        pair = f"{quote_plus(provider.client_id)}:{quote_plus(provider.secret.value)}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    else:
        form["client_id"] = provider.client_id
        if provider.secret is not None:
            form["client_secret"] = provider.secret.value
    answer = ask(reach, parts.token, headers, urlencode(form).encode())
    document = json_of(answer) if answer.status in (200, 400, 401) else object_of(answer)
    if not isinstance(document, dict):
        raise ProviderAnswerError("The provider does not answer with an object.")
    if answer.status != 200 or "error" in document:
        raise ProviderRefusedError(document.get("error"))
    return document


def _access_token(tokens: Mapping[str, Any]) -> str:
    token = tokens.get("access_token")
    if not isinstance(token, str) or not 0 < len(token) <= MAX_TOKEN or not all("!" <= one <= "~" for one in token):
        raise ProviderAnswerError("The provider gives no access token.")
    return token


@sensitive_variables()
def _with_userinfo(parts: Metadata, claims: dict[str, Any], tokens: Mapping[str, Any], reach: Reach) -> dict[str, Any]:
    """The claims with those of the userinfo endpoint, which must be of the same person (OpenID Connect Core, 5.3.2)."""
    if parts.userinfo is None or {"name", "email"} <= claims.keys():
        return claims
    answer = ask(reach, parts.userinfo, {"Authorization": f"Bearer {_access_token(tokens)}"})
    if answer.status != 200:
        return claims
    more = object_of(answer)
    if more.get("sub") != claims.get("sub"):
        raise ProofRefusedError("The provider reports two different people.")
    # Whether an address is verified is said of the address beside it, and of no other one.
    if "email" in claims:
        more.pop("email_verified", None)
    return {**more, **claims}


def _proven(provider: Provider, claims: Mapping[str, Any], now: float) -> Proven:
    name, is_address = _name(provider, claims)
    parts: list[object] = [claims.get(part) for part in ("given_name", "family_name")]
    given = " ".join(part for part in parts if isinstance(part, str))
    return Proven.of(
        provider.id, claims.get("sub"), name_at(name, provider.domain), now,
        email=claims.get("email"), email_verified=claims.get("email_verified"), name_is_address=is_address,
        authenticated_at=claims.get("auth_time"),
        name=claims.get("name") or given, organization=claims.get("idp_name") or claims.get("organization"),
    )  # fmt: skip


def _name(provider: Provider, claims: Mapping[str, Any]) -> tuple[str, bool]:
    """The name of the person at the provider, and whether it is a mail address.

    An address that the provider has not verified is what somebody has typed in there: it names nobody. A user name may
    be typed in, too: one with an @ could be the name of a colleague, to which this service adds the domain.
    """
    for claim in provider.name_claims:
        name = claims.get(claim)
        if claim == "email" and claims.get("email_verified") is not True:
            continue
        if isinstance(name, str) and name and name.isprintable():
            return name, claim in _TYPED_IN and "@" in name
    return "", False
