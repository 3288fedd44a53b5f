"""The part of the instance's bandwidth that one worker process may use: the rate, divided by the processes that stream.

Each process that moves files itself says so in Redis, again and again, and reads how many do. PostgreSQL is not asked:
nothing is lost with this number. While Redis is away each process keeps its last part.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import redis

from transferapi.outages.outage import is_watching
from transferapi.outages.redis_link import Pool

log = logging.getLogger(__name__)

#: Seconds between two questions, and those after which a process that asks no more does not count.
ASK_SECONDS, GONE_SECONDS = 1.0, 3.0
#: Seconds that Redis may take, and those until it is asked again after it did not answer.
REDIS_TIMEOUT, PAUSE = 0.5, 5.0
#: Processes that are assumed while Redis has never answered; and at most, whatever Redis has.
UNKNOWN, MOST = 8, 256
KEY = "waybill:streaming"

#: KEYS: a sorted set of processes, by the time in milliseconds at which they are gone; ARGV: the process, milliseconds.
_JOIN = """
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]))
return redis.call('ZCARD', KEYS[1])
"""


class RateShare:
    """name: of this process, unique in the instance. Lives on one event loop."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        #: The processes that stream now, with this one.
        self.processes = UNKNOWN
        self._ask_at = 0.0
        self._asking: asyncio.Task[None] | None = None

    def ask_if_due(self) -> None:
        """Called while this process has something to move; does not wait."""
        loop = asyncio.get_running_loop()
        if self._asking is None and loop.time() >= self._ask_at:
            self._asking = loop.create_task(self._ask())

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self.processes = await asyncio.to_thread(self._join)
            self._ask_at = loop.time() + ASK_SECONDS
        except (redis.RedisError, OSError, ValueError) as error:
            if not is_watching():
                log.warning("Redis does not answer (%s): the bandwidth is for %s", type(error).__name__, self.processes)
            self._ask_at = loop.time() + PAUSE
        finally:
            self._asking = None

    def _join(self) -> int:
        """Report this process to Redis; return how many stream now. Raises RedisError, OSError, ValueError."""
        options: dict[str, Any] = {"socket_timeout": REDIS_TIMEOUT, "socket_connect_timeout": REDIS_TIMEOUT}
        with redis.Redis(connection_pool=Pool.from_url(self._url, **options)) as client:
            found = client.eval(_JOIN, 1, KEY, self._name, str(int(GONE_SECONDS * 1000)))
        return max(1, min(int(str(found)), MOST))
