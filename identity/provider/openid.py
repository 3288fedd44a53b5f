"""OpenID Connect: identity tokens, and the public half of the signing key."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings
from jwcrypto import jwk, jwt
from oauth2_provider.utils import jwk_from_pem

from identity.models import User

from . import scopes

ALGORITHM = "RS256"


def _pem() -> str:
    return str(settings.OAUTH2_PROVIDER["OIDC_RSA_PRIVATE_KEY"])


def is_configured() -> bool:
    """Without a key (WAYBILL_OIDC_KEY) the server issues no identity tokens; everything else works."""
    return bool(_pem())


def _key() -> jwk.JWK:
    return jwk_from_pem(_pem())


def issuer() -> str:
    return str(settings.PUBLIC_URL)


def claims(user: User, names: Collection[str]) -> dict[str, Any]:
    """The claims that these scopes give about a user (OpenID Connect Core section 5.4)."""
    found: dict[str, Any] = {"sub": str(user.pk)}
    if scopes.PROFILE in names:
        found |= {"name": name_of(user), "preferred_username": user.username}
    if scopes.EMAIL in names:
        found["email"] = user.email or None
    return found


def name_of(user: User) -> str:
    return user.get_full_name() or user.username


def signed(start: Mapping[str, Any], user: User, names: Collection[str], authenticated_at: float) -> str:
    """An identity token. start: the claims that the protocol sets (aud, iat, nonce, at_hash)."""
    now = int(time.time())
    lifetime = int(settings.OAUTH2_PROVIDER["ID_TOKEN_EXPIRE_SECONDS"])
    all_claims = {
        **claims(user, names),
        **start,
        "iss": issuer(),
        "exp": now + lifetime,
        "auth_time": int(authenticated_at),
        "jti": str(uuid.uuid4()),
    }
    key = _key()
    token = jwt.JWT(
        header=json.dumps({"typ": "JWT", "alg": ALGORITHM, "kid": key.thumbprint()}), claims=json.dumps(all_claims)
    )
    token.make_signed_token(key)
    return str(token.serialize())


def public_keys() -> dict[str, Any]:
    """The key set (RFC 7517): one RSA key."""
    key = _key()
    shown = {"alg": ALGORITHM, "use": "sig", "kid": key.thumbprint(), **json.loads(key.export_public())}
    return {"keys": [shown]}
