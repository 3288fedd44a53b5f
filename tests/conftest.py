"""The servers of the test session: started when the first test needs them, stopped at its end."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.signals import setting_changed
from django.db import connections

from deploy.endpoint import toolkit
from deploy.endpoint.toolkit import ToolkitServer, hand_over
from deploy.stack.postgres import Postgres
from deploy.stack.redis import Redis
from transferapi.config import broker_url, database

settings.SECRET_KEY = secrets.token_urlsafe(48)

HOW_TO_GET_THE_TOOLKIT = (
    f"The tests against the Grid Community Toolkit's servers did not run: `{toolkit.SERVER}` is not installed. "
    "To get it: sudo deploy/endpoint/install-toolkit.sh"
)
_toolkit_was_missed = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without the toolkit's servers their tests are skipped; in CI they fail, so that nobody is fooled."""
    global _toolkit_was_missed
    missing = [item for item in items if item.get_closest_marker("toolkit")] if not toolkit.installed() else []
    if missing and os.environ.get("CI") == "true":
        raise pytest.UsageError(HOW_TO_GET_THE_TOOLKIT)
    for item in missing:
        item.add_marker(pytest.mark.skip(reason=f"{toolkit.SERVER} is not installed"))
    _toolkit_was_missed = bool(missing)


def pytest_unconfigure() -> None:
    """After everything else, so that it is the last line of the output."""
    if _toolkit_was_missed:
        sys.stdout.write(HOW_TO_GET_THE_TOOLKIT + "\n")


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
    setting_changed.send(sender=None, setting="CACHES", value=settings.CACHES, enter=True)
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


@pytest.fixture
def toolkit_server_factory() -> Iterator[Callable[..., ToolkitServer]]:
    """Start the toolkit's server over a folder: `toolkit_server_factory(root, *extra_arguments)`.

    What is in the folder at that time is handed over to the account that its sessions run as.
    """
    servers: list[ToolkitServer] = []

    def start(root: Path, *extra: str) -> ToolkitServer:
        hand_over(root, stop_at=Path(tempfile.gettempdir()))
        server = ToolkitServer(root, *extra)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()
