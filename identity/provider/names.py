"""What clients, secrets and tokens are called. The beginnings tell secret scanners what kind of string leaked."""

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
    """As the toolkit wants it: a UUID, for that is what the clients of Globus take an id for."""

    def hash(self) -> str:
        return str(uuid.uuid4())


def client_secret() -> str:
    return SECRET + secrets.token_urlsafe(RANDOM_BYTES)


def access_token(request: Any = None, refresh_token: bool = False) -> str:
    return ACCESS_TOKEN + secrets.token_urlsafe(RANDOM_BYTES)


def refresh_token(request: Any = None, refresh_token: bool = False) -> str:
    return REFRESH_TOKEN + secrets.token_urlsafe(RANDOM_BYTES)


def digest(secret: str) -> bytes:
    """What is kept of a secret, a code or a token: its SHA-256."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def checksum(token: str) -> str:
    """The same in hexadecimal, as the toolkit keeps it."""
    return digest(token).hex()
