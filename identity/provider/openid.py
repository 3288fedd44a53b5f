"""OpenID Connect: identity tokens, and the public halves of the signing keys."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from jwcrypto import jwk, jwt
from oauth2_provider.models import Application
from oauth2_provider.utils import jwk_from_pem

from identity import shown_names
from identity.federation.openid import half_hash
from identity.models import User
from identity.vault.watched_file import WatchedFile

from . import clients, scopes, signing_key_file
from .applications import ID_TOKEN_ALGORITHMS
from .signing_key_file import SigningKey

#: Both with the same keys. Globus signs by the second, and some programs written for it accept no other.
ALGORITHMS = ID_TOKEN_ALGORITHMS
#: The way back to the Globus backend of the framework python-social-auth, which may accept RS512 only.
_FRAMEWORK = "/complete/globus/"


def algorithm(application: Application, redirect_uris: Iterable[str]) -> str:
    """The one that the application has chosen; else the one that the program at these addresses is known to accept."""
    if chosen := clients.options(application).id_token_algorithm:
        return chosen
    return ALGORITHMS[any(urlsplit(uri).path == _FRAMEWORK for uri in redirect_uris)]


def issuer() -> str:
    return str(settings.PUBLIC_URL)


def claims(user: User, names: Collection[str]) -> dict[str, Any]:
    """The claims that these scopes give about a user (OpenID Connect Core section 5.4)."""
    found: dict[str, Any] = {"sub": str(user.pk)}
    if scopes.PROFILE in names:
        found |= {"name": name_of(user), "preferred_username": shown_names.name_of(user)}
    if scopes.EMAIL in names:
        # Without an address there is no claim: clients take null for one (OpenID Connect Core section 5.3.2).
        found |= {"email": user.email} if user.email else {}
    return found


def name_of(user: User) -> str:
    return user.get_full_name() or user.username


def signed(
    start: Mapping[str, Any], user: User, names: Collection[str], authenticated_at: float, access_token: str, by: str
) -> str:
    """An identity token. start: the claims that the protocol sets (aud, iat, nonce); by: the algorithm.

    authenticated_at: Unix time; 0.0: the provider by which the user came does not say, so neither do we.
    """
    now = int(time.time())
    lifetime = int(token_lifetime().total_seconds())
    all_claims = {
        **claims(user, names),
        **start,
        "iss": issuer(),
        "exp": now + lifetime,
        **({"auth_time": int(authenticated_at)} if authenticated_at > 0 else {}),
        "at_hash": half_hash(by, access_token),
        "jti": str(uuid.uuid4()),
    }
    key = signer()
    header = json.dumps({"typ": "JWT", "alg": by, "kid": _key_id(key, by)})
    token = jwt.JWT(header=header, claims=json.dumps(all_claims))
    token.make_signed_token(key)
    return str(token.serialize())


def _key_id(key: jwk.JWK, by: str) -> str:
    """One for each algorithm: some clients check by the algorithm that the key names."""
    return str(key.thumbprint()) if by == ALGORITHMS[0] else f"{key.thumbprint()}-{by}"


def public_keys() -> dict[str, Any]:
    """The key set (RFC 7517): each RSA key once for each algorithm."""
    return {
        "keys": [
            {**json.loads(key.export_public()), "alg": by, "use": "sig", "kid": _key_id(key, by)}
            for key in published()
            for by in ALGORITHMS
        ]
    }


_file = WatchedFile("keys of identity tokens", signing_key_file.parse)


def _keys() -> tuple[SigningKey, ...]:
    """Empty: the operator has given none."""
    at_start = _parsed(str(settings.OAUTH2_PROVIDER["OIDC_RSA_PRIVATE_KEY"]))
    path: Path | None = settings.OIDC_KEY_FILE
    return _file.read(path, at_start) if path is not None and at_start else at_start


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[SigningKey, ...]:
    return signing_key_file.parse(text) if text else ()


def is_configured() -> bool:
    """Without a key (WAYBILL_OIDC_KEY) the server issues no identity tokens; everything else works."""
    return bool(_keys())


def token_lifetime() -> timedelta:
    """Of an identity token."""
    return timedelta(seconds=int(settings.OAUTH2_PROVIDER["ID_TOKEN_EXPIRE_SECONDS"]))


def signer() -> jwk.JWK:
    return _jwk(signing_key_file.signer(_keys(), datetime.now(UTC)).pem)


def published() -> list[jwk.JWK]:
    """The keys by which clients check identity tokens, the one that signs first."""
    return [_jwk(key.pem) for key in signing_key_file.published(_keys(), datetime.now(UTC), token_lifetime())]


@lru_cache(maxsize=2 * signing_key_file.MAX_KEYS)
def _jwk(pem: str) -> jwk.JWK:
    return jwk_from_pem(pem)
