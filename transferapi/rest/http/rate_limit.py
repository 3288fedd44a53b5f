"""The rate limit: how many requests a user may make, by token buckets in Redis that all processes share.

A bucket holds ten seconds of `settings.RATE_LIMIT` requests a second, and fills at that rate; 0: no limit. All clients
of an address that have not signed in share one bucket with a fifth of the rate. A check is atomic and costs one round
trip.

The service works without Redis: while Redis is unavailable, every request passes (`transferapi.outages.redis_link`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import redis
from django.conf import settings
from redis.commands.core import Script

from endpoints.error_meanings import TooManyRequests
from identity.networks import network_of
from transferapi.outages import redis_link

#: Seconds of the rate that a bucket holds: the limit is an average over this time.
SPAN = 10
#: The part of the rate for clients that have not signed in.
ANONYMOUS_PART = 5

#: KEYS: the bucket; ARGV: tokens a second, the size of the bucket, tokens wanted. Returns whether they were there,
#: the thousandths of tokens that are left, and the milliseconds until the missing tokens will be there.
_TAKE = """
local rate, most, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local tokens, at = most, now
local kept = redis.pcall('GET', KEYS[1])
if type(kept) == 'string' then
  -- What we have not written counts as nothing.
  local left, last = string.match(kept, '^(%d+%.%d%d%d) (%d+)$')
  if left then tokens, at = tonumber(left), tonumber(last) end
end
tokens = math.min(most, tokens + math.max(0, now - at) * rate / 1000)
local granted = tokens >= wanted
if granted then tokens = tokens - wanted end
redis.call('SET', KEYS[1], string.format('%.3f %d', tokens, now), 'PX', math.ceil((most - tokens) / rate * 1000) + 1000)
return {granted and 1 or 0, math.floor(tokens * 1000), granted and 0 or math.ceil((wanted - tokens) / rate * 1000)}
"""


@dataclass(frozen=True)
class Taken:
    """The result of a check. left: whole requests. wait: seconds until the wanted tokens are there; 0: taken."""

    limit: int
    left: int
    wait: int


@cache
def _script(url: str) -> Script:
    """A Redis client with one connection pool for each process."""
    return redis_link.client(url).register_script(_TAKE)


def take(user: object, address: str, wanted: int = 1) -> Taken | None:
    """Take tokens for a request. user: its key; None: a client of this address that has not signed in.

    Returns None where there is no limit, or Redis is unavailable.
    """
    if not settings.RATE_LIMIT:
        return None
    if user is None:
        rate, key = max(1, settings.RATE_LIMIT // ANONYMOUS_PART), f"waybill:rate:address:{network_of(address)}"
    else:
        rate, key = settings.RATE_LIMIT, f"waybill:rate:user:{user}"
    try:
        answer = _script(settings.REDIS_URL)(keys=[key], args=[rate, rate * SPAN, wanted])
    except (redis.RedisError, OSError):
        return None
    granted, thousandths, milliseconds = answer
    return Taken(rate * SPAN, thousandths // 1000, 0 if granted else max(1, math.ceil(milliseconds / 1000)))


def check(taken: Taken | None) -> None:
    """Raises TooManyRequests where the tokens were not there."""
    if taken and taken.wait:
        raise TooManyRequests("You ask too often; wait a little", taken.wait)
