"""The signing keys that this process uses now, as JSON Web Keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from jwcrypto import jwk
from oauth2_provider.utils import jwk_from_pem

from identity.vault.watched_file import WatchedFile

from . import signing_key_file
from .signing_key_file import SigningKey

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


def lifetime() -> timedelta:
    """Of an identity token."""
    return timedelta(seconds=int(settings.OAUTH2_PROVIDER["ID_TOKEN_EXPIRE_SECONDS"]))


def signer() -> jwk.JWK:
    return _jwk(signing_key_file.signer(_keys(), datetime.now(UTC)).pem)


def published() -> list[jwk.JWK]:
    """The keys by which clients check identity tokens, the one that signs first."""
    return [_jwk(key.pem) for key in signing_key_file.published(_keys(), datetime.now(UTC), lifetime())]


@lru_cache(maxsize=2 * signing_key_file.MAX_KEYS)
def _jwk(pem: str) -> jwk.JWK:
    return jwk_from_pem(pem)
