"""Challenges: each is of one session and one purpose, lasts five minutes, and is taken once.

The session keeps the challenge. A marker in Redis is deleted by the first who takes it: of two concurrent requests of
one session, one succeeds. Without Redis there is no sign-in, as with passwords.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import MutableMapping
from typing import Any

from django.core.cache import cache
from redis.exceptions import RedisError

from .errors import ChallengeLapsedError

#: Seconds, and octets (WebAuthn level 2, 13.4.3, asks for 16 at least).
LIFETIME = 300
OCTETS = 32
_NAME = "passkey_challenge"

Session = MutableMapping[str, Any]


def new(session: Session, purpose: str) -> bytes:
    """A challenge, which replaces an earlier one of this session. Raises ChallengeLapsedError without Redis."""
    challenge = secrets.token_bytes(OCTETS)
    try:
        cache.set(_marker(challenge), 1, LIFETIME)
    except RedisError:
        raise ChallengeLapsedError from None
    session[_NAME] = [purpose, urlsafe_b64encode(challenge).decode(), time.time()]
    return challenge


def take(session: Session, purpose: str) -> bytes:
    """The challenge of this session, which is used up now. Raises ChallengeLapsedError."""
    kept = session.pop(_NAME, None)
    if kept is None or kept[0] != purpose or not 0 <= time.time() - kept[2] <= LIFETIME:
        raise ChallengeLapsedError
    challenge = urlsafe_b64decode(kept[1])
    try:
        is_first = cache.delete(_marker(challenge))
    except RedisError:
        raise ChallengeLapsedError from None
    if not is_first:
        raise ChallengeLapsedError
    return challenge


def _marker(challenge: bytes) -> str:
    return f"passkey:{hashlib.sha256(challenge).hexdigest()}"
