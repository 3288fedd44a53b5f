"""Clients of Redis that wait for a bounded time, and do not try while Redis is away.

This is the one place of the rule: the cache, the rate limit, the share of bandwidth and the doorbell have it from here.
PostgreSQL is the truth, and nothing is lost without Redis.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from transferapi import redis_client
from transferapi.config.servers import sentinels

from .bounded import within
from .outage import Outage, is_watching

T = TypeVar("T")

#: Seconds for a connection (the look-up of the name included), and for each reply: of a process that serves; of its
#: cache; and of commands. A request that meets a new outage waits for one or both of them; the later ones for none.
CONNECT, REPLY = 0.1, 0.2
CACHE_CONNECT, CACHE_REPLY = 1.0, 2.0
COMMAND_CONNECT, COMMAND_REPLY = 2.0, 5.0
_MEANWHILE = "requests are not counted, nobody signs in by password, and new tasks start up to 3 s later"
_AWAY = (redis.ConnectionError, redis.TimeoutError, OSError)


@functools.cache
def outage_of(url: str) -> Outage:
    """The outage of the Redis at this address, for all its clients in this process."""
    return Outage("Redis", functools.partial(_probe, url), _MEANWHILE)


def _probe(url: str) -> None:
    """Raises RedisError, OSError. An address that is only Celery's is not asked: its next user finds out."""
    if url.partition(":")[0] in ("redis", "rediss", "sentinel", "sentinel+tls", "unix"):
        with redis_client.connected(url, 1.0) as client:
            client.ping()


class OneTry(Retry):
    """Redis-py calls this with each command and each connection: it is tried once, or not at all in an outage.

    until_confirmed: it is tried until a probe has confirmed the outage.
    """

    def __init__(self, outage: Outage, *, until_confirmed: bool = False) -> None:
        super().__init__(NoBackoff(), 0)
        self._outage, self._until_confirmed = outage, until_confirmed

    def __deepcopy__(self, memo: object) -> OneTry:
        """Redis-py copies it for each connection."""
        return self

    def call_with_retry(self, do: Callable[[], T], fail: Callable[..., Any], *words: Any, **named: Any) -> T:
        if self._outage.is_confirmed if self._until_confirmed else self._outage.is_on:
            self._outage.refused()
            raise redis.ConnectionError("Redis does not answer")
        try:
            return super().call_with_retry(do, fail, *words, **named)
        except _AWAY as error:
            self._outage.met(error)
            raise


class SentinelPool(SentinelConnectionPool):
    """Connections with these bounds to the server that Sentinels name."""

    def __init__(self, service: str, manager: Sentinel, **options: Any) -> None:
        kind = _bounded(SentinelManagedSSLConnection if options.pop("ssl", False) else SentinelManagedConnection)
        super().__init__(service, manager, connection_class=kind, **options)  # type: ignore[no-untyped-call]


class Pool(redis.ConnectionPool):
    """Connections with these bounds, for `client`: each request asks for the rate limit, and needs no answer."""

    serving = CONNECT, REPLY
    until_confirmed = False

    #: The pool in place of this one for an address with Sentinels.
    with_sentinels: type[SentinelPool] = SentinelPool

    def __init__(self, connection_class: type[Any] = redis.Connection, **options: Any) -> None:
        super().__init__(_bounded(connection_class), **options)  # type: ignore[arg-type]  # a class has a hash

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Any:
        connect, reply = cls.serving if is_watching() else (COMMAND_CONNECT, COMMAND_REPLY)
        retry = OneTry(outage_of(url), until_confirmed=cls.until_confirmed)
        bounds = {"socket_connect_timeout": connect, "socket_timeout": reply, "retry": retry}
        if found := sentinels(url):
            return redis_client.sentinel_pool(cls.with_sentinels, found, connect, **bounds | options)
        return super().from_url(url, **bounds | options)


class CachePool(Pool):
    """Connections of Django's cache. A sign-in is refused without an answer, so it waits for a late one."""

    serving = CACHE_CONNECT, CACHE_REPLY
    until_confirmed = True


def client(url: str) -> redis.Redis:
    """A client with a pool of its own."""
    return redis.Redis(connection_pool=Pool.from_url(url))


@functools.cache
def _bounded(kind: type[Any]) -> type[Any]:
    """This class of connections, with a bound also for the look-up of the host name and for the handshake of TLS."""

    class Bounded(kind):  # type: ignore[misc]
        def _connect(self) -> socket.socket:
            connected: socket.socket = within(self.socket_connect_timeout, super()._connect, socket.socket.close)
            return connected

    return Bounded
