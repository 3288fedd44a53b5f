"""The embedded PostgreSQL and Redis, for real."""

from __future__ import annotations

import django.core.cache
import pytest
from django.db import connection

from deploy.stack.redis import Redis


@pytest.mark.django_db
def test_django_speaks_to_the_embedded_postgres() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        assert cursor.fetchone() == ("UTF8",)


def test_djangos_cache_is_the_embedded_redis(redis_server: Redis) -> None:
    django.core.cache.cache.set("answer", 42, 60)
    assert django.core.cache.cache.get("answer") == 42
