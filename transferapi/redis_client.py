"""Connections to Redis by a REDIS_URL: to the server that it names, or to the master that its Sentinels name.

Nothing is tried twice: callers have their own ways without Redis.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool

from .config.servers import SENTINEL_SECONDS as MOST
from .config.servers import Sentinels, sentinels

P = TypeVar("P", bound=SentinelConnectionPool)


def client(url: str, seconds: float) -> redis.Redis:
    """A client with a pool. seconds: for a connection, and for each answer. Raises ValueError for a wrong address."""
    options: dict[str, Any] = {"socket_timeout": seconds, "socket_connect_timeout": seconds}
    options["retry"] = Retry(NoBackoff(), 0)
    if found := sentinels(url):
        return redis.Redis.from_pool(sentinel_pool(SentinelConnectionPool, found, min(seconds, MOST), **options))
    return redis.Redis.from_url(url, **options)


@contextmanager
def connected(url: str, seconds: float) -> Iterator[redis.Redis]:
    """A client that is closed at the end of the block."""
    made = client(url, seconds)
    try:
        yield made
    finally:
        made.close()
        if isinstance(made.connection_pool, SentinelConnectionPool):
            made.connection_pool.sentinel_manager.close()


def sentinel_pool(kind: type[P], found: Sentinels, seconds: float = MOST, **options: Any) -> P:
    """A pool of connections to the master. seconds: for each Sentinel.

    When another server becomes the master, the connections are closed and made anew.
    """
    manager = Sentinel(found.hosts, sentinel_kwargs=found.arguments(seconds))  # type: ignore[no-untyped-call]
    return kind(found.master, manager, db=found.database, **found.account(), **found.tls(), **options)
