"""Sign-ins that wait for the answer of a provider: in the session of the browser, on the server, each taken once.

A session is read and written in two steps, so two requests at one moment would both find a sign-in: a marker in Redis
lets the first one take it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import MutableMapping
from typing import Any

from django.core.cache import cache
from redis.exceptions import RedisError

from .errors import ServiceBusyError, SignInNotBegunError

#: Seconds until the answer must be there, and how many may wait in one browser (tabs).
SECONDS, MOST = 900.0, 5
_NAME = "federated"
Session = MutableMapping[str, Any]


def keep(session: Session, key: str, kept: dict[str, Any], now: float | None = None) -> None:
    """key: what the answer repeats: the `state`, or the id of the request."""
    waiting: dict[str, Any] = dict(session.get(_NAME, {}))
    waiting[key] = {**kept, "since": time.time() if now is None else now}
    newest = sorted(waiting, key=lambda one: float(waiting[one]["since"]))[-MOST:]
    session[_NAME] = {one: waiting[one] for one in newest}


def take(session: Session, key: str, now: float | None = None) -> dict[str, Any]:
    """Take the sign-in that `keep` kept, which is forgotten with this. Raises SignInNotBegunError."""
    waiting: dict[str, Any] = dict(session.get(_NAME, {}))
    kept = waiting.pop(key, None)
    if kept is None:
        raise SignInNotBegunError
    session[_NAME] = waiting
    if not 0 <= (time.time() if now is None else now) - kept["since"] <= SECONDS:
        raise SignInNotBegunError
    check_first_use(f"sign-in {key}", SECONDS)
    found: dict[str, Any] = kept
    return found


def check_first_use(what: str, seconds: float) -> None:
    """Raises SignInNotBegunError where this was used in the last `seconds`, ServiceBusyError without Redis."""
    digest = hashlib.sha256(what.encode("utf-8", "replace")).hexdigest()
    try:
        is_first = cache.add(f"federated:{digest}", 1, int(seconds) + 1)
    except RedisError:
        raise ServiceBusyError from None
    if not is_first:
        raise SignInNotBegunError
