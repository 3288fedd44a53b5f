"""Counts requests, statements of the database, and round trips to Redis, in the web processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psycopg2.errors
from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, get_resolver

from transferapi.outages import redis_link
from transferapi.rest.middleware import Middleware

from .shared_counts import COUNTS, OTHER


class RequestMetrics(Middleware):
    """Middleware. The time of an answer that streams is that until its begin."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        began = time.perf_counter()
        COUNTS.begin()
        try:
            answer = self._get_response(request)
            found = request.resolver_match
            route = f"/{found.route}" if found else OTHER
            COUNTS.answered(route, answer.status_code, time.perf_counter() - began)
            return answer
        finally:
            COUNTS.end()


def prepare() -> None:
    """Before the fork: the routes, and the count of statements."""
    COUNTS.name_routes(sorted(set(_routes(get_resolver().url_patterns))))
    connection_created.connect(_watch, dispatch_uid="metrics")


def _routes(patterns: Iterable[Any], before: str = "") -> Iterator[str]:
    """As `ResolverMatch.route` joins them, with a slash before."""
    for one in patterns:
        part = str(one.pattern)
        route = before + part.removeprefix("^") if before else part
        if isinstance(one, URLResolver):
            yield from _routes(one.url_patterns, route)
        elif isinstance(one, URLPattern):
            yield f"/{route}"


def _watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _timed not in connection.execute_wrappers:
        connection.execute_wrappers.append(_timed)


def _timed(execute: Callable[..., Any], sql: str, parameters: Any, many: bool, context: dict[str, Any]) -> Any:
    began = time.perf_counter()
    try:
        return execute(sql, parameters, many, context)
    except OperationalError as error:
        if isinstance(error.__cause__, psycopg2.errors.DiskFull):
            COUNTS.disk_full()
        raise
    finally:
        COUNTS.statement(time.perf_counter() - began)


class CountingSentinelPool(redis_link.SentinelPool):
    """The connections of the cache, where Sentinels name the server."""

    def get_connection(self, *words: Any, **named: Any) -> Any:
        COUNTS.redis()
        return super().get_connection(*words, **named)


class CountingPool(redis_link.CachePool):
    """The connections of the cache. Each command, and each pipeline, takes a connection once."""

    with_sentinels = CountingSentinelPool

    def get_connection(self, *words: Any, **named: Any) -> Any:
        COUNTS.redis()
        return super().get_connection(*words, **named)
