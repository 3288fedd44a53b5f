"""PostgreSQL, Redis, the schema and the workers: the checks of `/readyz`; and the clocks of the three machines."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from identity.clock import MOST_DIFFERENCE
from identity.database_rows import query_rows
from transferapi import redis_client
from transferapi.config import Config
from transferapi.rest.health_checks import CHECKS, REDIS_SECONDS
from transferapi.tasks.upkeep.worker_reports import GONE_SECONDS

from .findings import Finding, error, good, warning

#: Seconds by which clocks may differ. Leases and deadlines are times of the database; tokens, codes and certificates
#: are judged by the clock of this machine.
WARN, WRONG = 1.0, MOST_DIFFERENCE
_SET = "Let a time service (chrony, systemd-timesyncd) set the clocks of both machines."


def check(config: Config) -> Iterator[Finding]:
    for name, one in CHECKS.items():
        if reason := one.ask():
            yield error(reason, f"See `{name}` in docs/operate/health.md.")
        else:
            yield good(f"{name} passes")


def clock(config: Config) -> Iterator[Finding]:
    for name, ask, failures in (
        ("PostgreSQL", _of_database, (DatabaseError, InterfaceError)),
        ("Redis", _of_redis, (redis.RedisError,)),
    ):
        try:
            yield compare(name, ask)
        except failures:
            yield warning(f"The clock of {name} is not known: it does not answer.", f"Mend {name} first.")
    with contextlib.suppress(DatabaseError, InterfaceError):
        yield from _of_workers()


def _of_workers() -> Iterator[Finding]:
    """Workers of any machine that take nothing because of their clocks, as they report themselves."""
    for name, ahead in query_rows(_WORKERS, {"gone": GONE_SECONDS, "most": WRONG}):
        where = "ahead of" if ahead > 0 else "behind"
        text = f"The clock of the worker {name} is {abs(ahead):.0f} s {where} that of PostgreSQL: it takes no task."
        yield error(text, _SET)


_WORKERS = """
    SELECT name, (gauges->>'clock_ahead')::float8 FROM tasks_workerprocess
    WHERE seen_at > clock_timestamp() - make_interval(secs => %(gone)s)
        AND abs(coalesce((gauges->>'clock_ahead')::float8, 0)) > %(most)s
    ORDER BY name LIMIT 100"""


def compare(name: str, ask: Callable[[], float]) -> Finding:
    """The clock of this machine against that of a server; half of the time of the answer does not count."""
    before = time.time()
    theirs = ask()
    after = time.time()
    differs = max(0.0, abs(theirs - (before + after) / 2) - (after - before) / 2)
    text = f"The clock of this machine and that of {name} differ by {differs:.1f} s"
    if differs > WRONG:
        return error(f"{text}.", _SET)
    return warning(f"{text}.", _SET) if differs > WARN else good(text)


def _of_database() -> float:
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(cursor.fetchone()[0])


def _of_redis() -> float:
    with redis_client.connected(settings.REDIS_URL, REDIS_SECONDS) as client:
        seconds, micros = client.time()
    return float(seconds) + float(micros) / 1e6
