"""Versions: Python, PostgreSQL, Redis, and the libraries against the lock file."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from deploy.stack.redis import OLDEST as REDIS
from transferapi import redis_client
from transferapi.config import CHECKOUT, Config
from transferapi.rest.health_checks import REDIS_SECONDS
from transferapi.version import service_version

from .findings import Finding, error, good, warning

PYTHON, POSTGRES = (3, 11), 14
LOCK = CHECKOUT / "requirements.lock"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)( ;)?", re.MULTILINE)


def check(config: Config) -> Iterator[Finding]:
    yield good(f"Waybill {service_version()}")
    text = ".".join(map(str, sys.version_info[:3]))
    yield (
        good(f"Python {text}") if sys.version_info >= PYTHON else error(f"Python is {text}.", "Install 3.11 or later.")
    )
    yield from _postgres()
    yield from _redis()
    yield from libraries(LOCK)


def _postgres() -> Iterator[Finding]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version_num")
            major = int(cursor.fetchone()[0]) // 10_000
    except (DatabaseError, InterfaceError):
        yield warning("The version of PostgreSQL is not known: it does not answer.", "Mend PostgreSQL first.")
        return
    old = error(f"PostgreSQL is {major}.", f"Use {POSTGRES} or later.")
    yield good(f"PostgreSQL {major}") if major >= POSTGRES else old


def _redis() -> Iterator[Finding]:
    try:
        with redis_client.connected(settings.REDIS_URL, REDIS_SECONDS) as client:
            text = str(client.info("server")["redis_version"])
    except redis.RedisError:
        yield warning("The version of Redis is not known: it does not answer.", "Mend Redis first.")
        return
    wanted = ".".join(map(str, REDIS))
    is_new = tuple(int(part) for part in re.findall(r"\d+", text)[:2]) >= REDIS
    yield good(f"Redis {text}") if is_new else error(f"Redis is {text}.", f"Use {wanted} or later.")


def libraries(lock: Path) -> Iterator[Finding]:
    """The installed libraries against those with which the service was tested."""
    try:
        pinned = _PINNED.findall(lock.read_text())
    except OSError:
        yield good("libraries are not compared: there is no requirements.lock beside the code")
        return
    do = "Install the locked ones: `make venv`, or pip install -r requirements.lock."
    wrong = False
    for name, version, has_condition in pinned:
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            # Some are for other systems, or other versions of Python.
            if not has_condition:
                wrong = True
                yield error(f"The library {name} is missing.", do)
            continue
        if installed != version:
            wrong = True
            yield warning(f"The library {name} is {installed}, the lock has {version}.", do)
    if not wrong:
        yield good(f"{len(pinned)} libraries are those of the lock")
