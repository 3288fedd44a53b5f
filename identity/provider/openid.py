"""OpenID Connect: the signed statement of who has signed in, and the public half of the key."""

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
    """Without a key (WAYBILL_OIDC_KEY) nobody can be told who has signed in; all else goes on."""
    return bool(_pem())


def _key() -> jwk.JWK:
    return jwk_from_pem(_pem())


def issuer() -> str:
    return str(settings.PUBLIC_URL)


def claims(user: User, names: Collection[str]) -> dict[str, Any]:
    """What these scopes tell about a user (OpenID Connect Core section 5.4)."""
    found: dict[str, Any] = {"sub": str(user.pk)}
    if scopes.PROFILE in names:
        found |= {"name": name_of(user), "preferred_username": user.username}
    if scopes.EMAIL in names:
        found["email"] = user.email or None
    return found


def name_of(user: User) -> str:
    return user.get_full_name() or user.username


def signed(start: Mapping[str, Any], user: User, names: Collection[str], authenticated_at: float) -> str:
    """The identity token. start: what the protocol decides (aud, iat, nonce, at_hash)."""
    now = int(time.time())
    lifetime = int(settings.OAUTH2_PROVIDER["ID_TOKEN_EXPIRE_SECONDS"])
    told = {
        **claims(user, names),
        **start,
        "iss": issuer(),
        "exp": now + lifetime,
        "auth_time": int(authenticated_at),
        "jti": str(uuid.uuid4()),
    }
    key = _key()
    token = jwt.JWT(
        header=json.dumps({"typ": "JWT", "alg": ALGORITHM, "kid": key.thumbprint()}), claims=json.dumps(told)
    )
    token.make_signed_token(key)
    return str(token.serialize())


def public_keys() -> dict[str, Any]:
    """The key set (RFC 7517): one RSA key."""
    key = _key()
    shown = {"alg": ALGORITHM, "use": "sig", "kid": key.thumbprint(), **json.loads(key.export_public())}
    return {"keys": [shown]}
