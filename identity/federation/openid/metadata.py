"""Metadata of OpenID providers (OpenID Connect Discovery 1.0) and their keys; both are kept for a while."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jwcrypto import jwk

from identity.federation.errors import ProviderAnswerError
from identity.federation.providers import Provider
from identity.federation.requests import Reach, ask, object_of, url_of
from identity.http.web_address import Url, parse_url

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
