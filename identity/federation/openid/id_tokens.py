"""Checks identity tokens (OpenID Connect Core 1.0, 3.1.3.7; RFC 8725)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.views.decorators.debug import sensitive_variables
from jwcrypto import jwk, jws
from jwcrypto.common import JWException

from identity.federation.errors import ProofRefusedError
from identity.federation.providers import Provider
from identity.federation.requests import Reach

from .metadata import keys_of

#: The signatures that are accepted, with the kind of key of each. No HMAC: a public key would be a known secret.
ALGORITHMS = {"RS256": "RSA", "RS512": "RSA", "ES256": "EC"}
_HASHES = {"RS256": hashlib.sha256, "RS512": hashlib.sha512, "ES256": hashlib.sha256}
#: Characters of a token; seconds by which clocks may differ, and the most that a new token may be old.
MAX_TOKEN, SKEW, MAX_AGE = 64 * 1024, 60, 600


@sensitive_variables("token", "access_token")
def check(
    provider: Provider, token: object, nonce: str, access_token: str, reach: Reach, now: float | None = None
) -> dict[str, Any]:
    """The claims of a token that this provider has made for this sign-in. Raises FederationError."""
    now = time.time() if now is None else now
    if not isinstance(token, str) or len(token) > MAX_TOKEN or token.count(".") != 2:
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
