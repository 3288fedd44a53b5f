"""The needs of the service: the database, with the schema of this code; Redis; and a worker that sweeps.

Each check returns "" where it passed, else a sentence for operators. No sentence repeats the text of a library's error,
because that may contain an address with its password.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from transferapi import redis_client, schema_version
from transferapi.outages.connection_limits import is_full
from transferapi.outages.database import reason_of
from transferapi.tasks.upkeep import rounds

#: Seconds for the answer of Redis.
REDIS_SECONDS = 1.0
#: Seconds for which a sweep is overdue, which the workers together do every 2 s, until no worker is taken to run.
SWEEP_SECONDS = 30.0


def database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery()")
            (is_standby,) = cursor.fetchone()
    except (DatabaseError, InterfaceError) as error:
        return reason_of(error) if is_full(error) else f"{reason_of(error)}: see DATABASE_URL and the log of PostgreSQL"
    return "PostgreSQL is a standby, which accepts no writes: DATABASE_URL must name the primary" if is_standby else ""


def schema() -> str:
    try:
        schema_version.check()
    except schema_version.WrongSchemaError as error:
        return str(error)
    except (DatabaseError, InterfaceError) as error:
        return f"{reason_of(error)}, so its schema is not known"
    return ""


def redis_server() -> str:
    try:
        with redis_client.connected(settings.REDIS_URL, REDIS_SECONDS) as client:
            client.ping()
    except redis.RedisError as error:
        return (
            f"Redis does not answer ({type(error).__name__}): see REDIS_URL and the log of Redis. "
            "Tasks go on, and new ones start up to 3 s later"
        )
    return ""


def sweep() -> str:
    try:
        late = rounds.overdue("sweep")
    except (DatabaseError, InterfaceError) as error:
        return f"{reason_of(error)}, so the time of the last sweep is not known"
    if late is None:
        return "No worker has ever swept this database: start a worker"
    if late > SWEEP_SECONDS:
        return f"A sweep has been due for {late:.0f} s: no worker runs, or none reaches the database; see their logs"
    return ""


class ReadinessCheck(NamedTuple):
    """passes_if, otherwise: the meaning of both results, for docs/operate/health.md."""

    ask: Callable[[], str]
    passes_if: str
    otherwise: str


#: The checks of `/readyz`, which `waybill doctor servers` shows, too.
CHECKS: Mapping[str, ReadinessCheck] = MappingProxyType(
    {
        "database": ReadinessCheck(
            database,
            "PostgreSQL answers, and is not a standby",
            "Requests get 503 (docs/operate/outages.md). Tasks wait and go on by themselves.",
        ),
        "schema": ReadinessCheck(
            schema,
            "this code runs on the migrations of the database (docs/operate/upgrade.md#which-schema-a-version-accepts)",
            "Run `waybill run migrate` with the newer version, or start the version that belongs to the schema.",
        ),
        "redis": ReadinessCheck(
            redis_server,
            "Redis answers within a second",
            "Requests and tasks go on; new tasks start up to 3 s later.",
        ),
        "sweep": ReadinessCheck(
            sweep,
            "no sweep, which the workers do every 2 s, and every 10 s while there is no task, is overdue by more than "
            "30 s",
            "No worker runs, or none reaches PostgreSQL: tasks do not move.",
        ),
    }
)
