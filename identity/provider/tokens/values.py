"""Values of client ids, secrets and tokens. Their prefixes let secret scanners recognise a leaked one."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from typing import Any

ACCESS_TOKEN = "wba_"  # noqa: S105 - the beginning of all of them
REFRESH_TOKEN = "wbr_"  # noqa: S105
SECRET = "wbs_"  # noqa: S105
RANDOM_BYTES = 32


class ClientId:
    """The generator that the toolkit calls: a UUID, because clients of Globus expect one."""

    def hash(self) -> str:
        return str(uuid.uuid4())


def client_secret() -> str:
    return SECRET + secrets.token_urlsafe(RANDOM_BYTES)


def access_token(request: Any = None, refresh_token: bool = False) -> str:
    return ACCESS_TOKEN + secrets.token_urlsafe(RANDOM_BYTES)


def refresh_token(request: Any = None, refresh_token: bool = False) -> str:
    return REFRESH_TOKEN + secrets.token_urlsafe(RANDOM_BYTES)


def digest(secret: str) -> bytes:
    """The SHA-256 that is stored for a secret, a code or a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def checksum(token: str) -> str:
    """The same digest in hexadecimal, as the toolkit stores it."""
    return digest(token).hex()
