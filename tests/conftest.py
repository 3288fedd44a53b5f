"""The servers of the test session: started when the first test needs them, stopped at its end."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections

from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from transferapi.config import broker_url, database

settings.SECRET_KEY = secrets.token_urlsafe(48)


@pytest.fixture(scope="session")
def stack_home() -> Iterator[Path]:
    """A short temporary folder that the unprivileged account of PostgreSQL can pass through."""
    home = Path(tempfile.mkdtemp(prefix="waybill-tests-"))
    home.chmod(0o711)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(stack_home: Path) -> Iterator[Postgres]:
    """One real PostgreSQL for the whole session."""
    server = Postgres(stack_home, durable=False, max_connections=200)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_server(stack_home: Path) -> Iterator[Redis]:
    """One real Redis for the whole session; Django's cache and Celery's broker point at it."""
    server = Redis(stack_home)
    server.start()
    settings.REDIS_URL = server.url()
    settings.CELERY_BROKER_URL = broker_url(server.url())
    settings.CACHES["default"]["LOCATION"] = server.url()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    postgres: Postgres,
    django_db_modify_db_settings_parallel_suffix: None,
) -> None:
    """Called by pytest-django just before the test database is made: only then is a server needed."""
    for settings_dict in (settings.DATABASES["default"], connections["default"].settings_dict):
        for name, value in database(postgres.url()).items():
            if name in ("NAME", "USER", "PASSWORD", "HOST", "PORT"):
                settings_dict[name] = value


@pytest.fixture
def database_url(postgres: Postgres, db: None) -> str:
    """The DATABASE_URL of the test database, for processes that a test starts."""
    return postgres.url(str(connections["default"].settings_dict["NAME"]))
