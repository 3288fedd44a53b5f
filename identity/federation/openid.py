"""OpenID Connect and OAuth2 providers, at which this service is a client: the code flow with PKCE, state and nonce.

    begun = begin(provider, redirect_uri, reach)
    # The browser goes to begun.url; the session of the browser keeps begun.kept under begun.state, on the server.
    proven = finish(provider, kept, answer, reach)     # kept: taken out of the session before, so that it serves once

Each provider has a redirect address of its own, so that the code of one is not sent to another (mix-up, RFC 9700, 4.4).

Standards: RFC 6749, 7636, 9700, OpenID Connect Core 1.0 and Discovery 1.0. GitHub has OAuth2 without identity tokens:
the person is asked for with the access token, `/user` and `/user/emails` of its REST API. An access token of another
application cannot be injected: it comes from the token endpoint alone. See
https://docs.github.com/en/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps.

Identity tokens are checked by OpenID Connect Core 1.0, 3.1.3.7, and RFC 8725.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode

from django.views.decorators.debug import sensitive_variables
from jwcrypto import jwk, jws
from jwcrypto.common import JWException
from oauthlib.oauth2 import WebApplicationClient

from identity.http.web_address import Url, parse_url
from identity.proven_identities import Proven, name_at

from . import freshness
from .errors import ProofRefusedError, ProviderAnswerError, ProviderRefusedError
from .providers import Provider
from .requests import Reach, ask, json_of, object_of, url_of

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
        return person(provider, _access_token(tokens), reach, now)
    claims = check(provider, tokens.get("id_token"), kept["nonce"], _access_token(tokens), reach, now)
    auth_time = claims.get("auth_time")
    return _proven(provider, {**_with_userinfo(parts, claims, tokens, reach), "auth_time": auth_time}, now)


def _parts(provider: Provider, reach: Reach) -> Metadata:
    return parts(provider) if provider.protocol == "github" else metadata_of(provider, reach)


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


#: Seconds for which metadata and keys are kept, and before keys are read again for a key that is not there.
KEPT_SECONDS, AGAIN_SECONDS = 3600.0, 5.0
MAX_KEYS = 50
MIN_RSA_BITS = 2048


@dataclass(frozen=True, slots=True)
class Metadata:
    """names_issuer: whether answers name the provider (RFC 9207). basic: whether secrets go by HTTP Basic.

    prompts_login: whether it may be sent `prompt=login`; one that says which values it knows may refuse others.
    """

    authorize: Url
    token: Url
    keys: Url
    userinfo: Url | None
    names_issuer: bool
    basic: bool
    prompts_login: bool = True


@dataclass(slots=True)
class _Kept:
    metadata: Metadata
    read_at: float
    keys: list[jwk.JWK] = field(default_factory=list)
    keys_read_at: float = float("-inf")


#: By issuer: as many as the operator has configured.
_kept: dict[str, _Kept] = {}
_lock = threading.Lock()


def forget() -> None:
    """Forget what was read, for tests."""
    _kept.clear()


def metadata_of(provider: Provider, reach: Reach) -> Metadata:
    """Raises FederationError."""
    return _entry(provider, reach).metadata


def keys_of(provider: Provider, reach: Reach, *, again: bool = False) -> list[jwk.JWK]:
    """The signing keys of a provider. again: the one that is needed was not among them, so the provider may have new
    ones; it is asked again at most every `AGAIN_SECONDS`: people who sign in then are refused. Raises FederationError.
    """
    entry, now = _entry(provider, reach), time.monotonic()
    if now - entry.keys_read_at > (AGAIN_SECONDS if again else KEPT_SECONDS):
        entry.keys = _read_keys(object_of(ask(reach, entry.metadata.keys)))
        entry.keys_read_at = now
    return entry.keys


def _entry(provider: Provider, reach: Reach) -> _Kept:
    found = _kept.get(provider.issuer)
    if found is None or time.monotonic() - found.read_at > KEPT_SECONDS:
        path = provider.url.path.rstrip("/")
        where = parse_url(f"{provider.url.origin}{path}/.well-known/openid-configuration")
        found = _Kept(_read_metadata(provider, object_of(ask(reach, where))), time.monotonic())
        with _lock:
            _kept[provider.issuer] = found
    return found


def _read_metadata(provider: Provider, document: Mapping[str, Any]) -> Metadata:
    if document.get("issuer") != provider.issuer:
        raise ProviderAnswerError("The provider describes another issuer than the configured one.")
    methods = document.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise ProviderAnswerError("The provider does not know PKCE with S256 (RFC 7636).")
    ways = document.get("token_endpoint_auth_methods_supported")
    prompts = document.get("prompt_values_supported")
    userinfo = document.get("userinfo_endpoint")
    return Metadata(
        authorize=url_of(document.get("authorization_endpoint"), provider.url),
        token=url_of(document.get("token_endpoint"), provider.url),
        keys=url_of(document.get("jwks_uri"), provider.url),
        userinfo=url_of(userinfo, provider.url) if userinfo is not None else None,
        names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        basic=not isinstance(ways, list) or "client_secret_basic" in ways or "client_secret_post" not in ways,
        prompts_login=not isinstance(prompts, list) or "login" in prompts,
    )


def _read_keys(document: Mapping[str, Any]) -> list[jwk.JWK]:
    """The public keys that can sign (RFC 7517). Keys of unknown kinds are passed over, as the RFC wants."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise ProviderAnswerError("The provider gives no set of keys.")
    found = []
    for one in listed[:MAX_KEYS]:
        if not isinstance(one, dict) or one.get("kty") not in ("RSA", "EC") or one.get("use", "sig") != "sig":
            continue
        public = {name: one[name] for name in ("kty", "kid", "n", "e", "crv", "x", "y", "alg") if name in one}
        try:
            key = jwk.JWK.from_json(json.dumps(public))
            strong = one["kty"] != "RSA" or key.get_op_key("verify").key_size >= MIN_RSA_BITS
        except Exception:  # noqa: S112  # jwcrypto and cryptography raise many kinds for a key that is none
            continue
        if strong:
            found.append(key)
    return found


_PUBLIC = "https://github.com"


def parts(provider: Provider) -> Metadata:
    base = provider.issuer.rstrip("/")
    return Metadata(
        authorize=parse_url(f"{base}/login/oauth/authorize"),
        token=parse_url(f"{base}/login/oauth/access_token"),
        keys=parse_url(base),
        userinfo=_api(base, "/user"),
        names_issuer=False,
        basic=False,
    )


def _api(base: str, path: str) -> Url:
    """A GitHub Enterprise Server has the API below its own address."""
    return parse_url(f"https://api.github.com{path}" if base == _PUBLIC else f"{base}/api/v3{path}")


@sensitive_variables("token", "headers")
def person(provider: Provider, token: str, reach: Reach, now: float) -> Proven:
    """Raises FederationError."""
    base, headers = provider.issuer.rstrip("/"), {"Authorization": f"Bearer {token}"}
    user = object_of(ask(reach, _api(base, "/user"), headers))
    number, login = user.get("id"), user.get("login")
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(login, str) or not login:
        raise ProofRefusedError("The provider does not say who you are.")
    answer = ask(reach, _api(base, "/user/emails"), headers)
    email, verified = _address(json_of(answer) if answer.status == 200 else [])
    return Proven.of(
        provider.id, str(number), name_at(login, provider.domain), now,
        email=email, email_verified=verified, name=user.get("name"), organization=user.get("company"),
    )  # fmt: skip


def _address(listed: object) -> tuple[object, bool]:
    """The primary address, and whether GitHub has verified it."""
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    found = next((row for row in rows if row.get("primary") is True), {})
    return found.get("email"), found.get("verified") is True


#: The signatures that are accepted, with the kind of key of each. No HMAC: a public key would be a known secret.
ALGORITHMS = {"RS256": "RSA", "RS512": "RSA", "ES256": "EC"}
_HASHES = {"RS256": hashlib.sha256, "RS512": hashlib.sha512, "ES256": hashlib.sha256}
#: Characters of a token; seconds by which clocks may differ, and the most that a new token may be old.
MAX_IDENTITY_TOKEN, SKEW, MAX_AGE = 64 * 1024, 60, 600


@sensitive_variables("token", "access_token")
def check(
    provider: Provider, token: object, nonce: str, access_token: str, reach: Reach, now: float | None = None
) -> dict[str, Any]:
    """The claims of a token that this provider has made for this sign-in. Raises FederationError."""
    now = time.time() if now is None else now
    if not isinstance(token, str) or len(token) > MAX_IDENTITY_TOKEN or token.count(".") != 2:
        raise ProofRefusedError("The provider gives no identity token.")
    algorithm, claims = _verified(provider, token, reach)
    _check_parties(provider, claims)
    _check_times(claims, now)
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode("utf-8", "replace"), nonce.encode()):
        raise ProofRefusedError("The identity token of the provider is of another sign-in.")
    if "at_hash" in claims and claims["at_hash"] != half_hash(algorithm, access_token):
        raise ProofRefusedError("The tokens of the provider do not belong together.")
    return claims


def _verified(provider: Provider, token: str, reach: Reach) -> tuple[str, dict[str, Any]]:
    header = _header(token)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS or "crit" in header:
        raise ProofRefusedError("The identity token of the provider is not signed in a way that is accepted.")
    for again in (False, True):
        fitting = _fitting(keys_of(provider, reach, again=again), header.get("kid"), algorithm)
        payload = next(filter(None, (_payload(token, key, algorithm) for key in fitting)), None)
        if payload is not None:
            return algorithm, payload
        if fitting and header.get("kid") is not None:
            break
    raise ProofRefusedError("The signature of the identity token is not the provider's.")


def _header(token: str) -> dict[str, Any]:
    part = token.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ProofRefusedError("The identity token of the provider cannot be read.")
    return header


def _fitting(keys: Sequence[jwk.JWK], kid: object, algorithm: str) -> list[jwk.JWK]:
    """The keys that the header may mean: never one of its own (`jwk`, `jku`, `x5u`)."""
    same_kind = [key for key in keys if key["kty"] == ALGORITHMS[algorithm] and key.get("alg") in (None, algorithm)]
    return [key for key in same_kind if kid is None or key.get("kid") == kid]


def _payload(token: str, key: jwk.JWK, algorithm: str) -> dict[str, Any] | None:
    signed = jws.JWS()
    signed.allowed_algs = [algorithm]
    try:
        signed.deserialize(token, key)
        payload = json.loads(signed.payload)
    except (JWException, ValueError, TypeError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def _check_parties(provider: Provider, claims: Mapping[str, Any]) -> None:
    if claims.get("iss") != provider.issuer:
        raise ProofRefusedError("The identity token is of another issuer.")
    audience = claims.get("aud")
    named = [audience] if isinstance(audience, str) else audience
    if not isinstance(named, list) or provider.client_id not in named:
        raise ProofRefusedError("The identity token is for another application.")
    if (len(named) > 1 or "azp" in claims) and claims.get("azp") != provider.client_id:
        raise ProofRefusedError("The identity token was given to another application.")


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    times = {name: claims.get(name) for name in ("exp", "iat")}
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in times.values()):
        raise ProofRefusedError("The identity token has no times.")
    not_before = claims.get("nbf", 0)
    if not claims["exp"] > now - SKEW:
        raise ProofRefusedError("The identity token has expired.")
    if not isinstance(not_before, int | float) or not max(claims["iat"], not_before) <= now + SKEW:
        raise ProofRefusedError("The identity token is of the future: the clocks differ.")
    if not claims["iat"] >= now - MAX_AGE - SKEW:
        raise ProofRefusedError("The identity token is too old.")


def half_hash(algorithm: str, text: str) -> str:
    """The `at_hash` of an access token, by the hash of the algorithm that signs (OpenID Connect Core, 3.1.3.6)."""
    digest = _HASHES[algorithm](text.encode("ascii", "replace")).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).decode().rstrip("=")
