"""Time-based one-time codes: RFC 6238 with SHA-1, six digits and steps of 30 seconds, as all authenticators have it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from urllib.parse import quote, urlencode

STEP_SECONDS = 30
DIGITS = 6
#: Octets of a secret: the length of the hash (RFC 4226, 4, R6).
SECRET_OCTETS = 20
#: Steps before and after the present one whose codes are accepted (RFC 6238, 5.2): clocks differ, and users type.
WINDOW = 1


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_OCTETS)


def step_at(seconds: float) -> int:
    """The number of the time step. seconds: Unix time."""
    return int(seconds // STEP_SECONDS)


def code(secret: bytes, step: int, digits: int = DIGITS, digest: str = "sha1") -> str:
    """The code of one step (RFC 4226, 5.3)."""
    mac = hmac.digest(secret, struct.pack(">Q", step), getattr(hashlib, digest))
    offset = mac[-1] & 15
    number = struct.unpack(">I", mac[offset : offset + 4])[0] & 0x7FFFFFFF
    return f"{number % 10**digits:0{digits}d}"


def matching_step(secret: bytes, given: str, seconds: float) -> int | None:
    """The step whose code this is, among the present one and its neighbours. The duration reveals no digit."""
    now = step_at(seconds)
    steps = range(max(now - WINDOW, 0), now + WINDOW + 1)
    found = [step for step in steps if hmac.compare_digest(code(secret, step).encode(), given.encode())]
    return found[-1] if found else None


def written(secret: bytes) -> str:
    """The secret as users type it into an authenticator: base32."""
    return base64.b32encode(secret).decode()


def provisioning_uri(secret: bytes, user_name: str, issuer: str) -> str:
    """The otpauth:// address that authenticators read."""
    label = quote(f"{issuer}:{user_name}", safe="")
    query = {"secret": written(secret), "issuer": issuer, "algorithm": "SHA1", "digits": DIGITS, "period": STEP_SECONDS}
    return f"otpauth://totp/{label}?{urlencode(query, quote_via=quote)}"
