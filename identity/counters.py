"""Counters of attempts and acts in Redis, each with an end.

Django's cache asks whether a counter exists, and then adds to it. Where the counter expires between the two, Redis
begins a new one without an end: it would refuse its user for ever. Therefore the first count of a counter sets its end.
"""

from __future__ import annotations

import contextlib

from django.core.cache import cache
from redis.exceptions import RedisError

#: Expiries in a row between two calls, after which Redis is not what it should be.
_TRIES = 5


def count(key: str, seconds: int) -> int:
    """Count one; returns the number in the present window. seconds: from the first count to the end of the window.

    Raises RedisError.
    """
    for _ in range(_TRIES):
        cache.add(key, 0, seconds)
        # ValueError: the counter has expired since `add`.
        with contextlib.suppress(ValueError):
            found = cache.incr(key)
            if found == 1:
                cache.touch(key, seconds)
            return found
    raise RedisError(f"the counter {key} does not stay")


def give_back(key: str) -> None:
    """Take one off a counter, unless its window is over. Raises RedisError."""
    with contextlib.suppress(ValueError):
        # Negative: the counter has expired since it was looked for, and this one has no end.
        if cache.decr(key) < 0:
            cache.delete(key)
