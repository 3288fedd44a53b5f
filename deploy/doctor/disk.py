"""Free space of the file systems that hold the database, lists of users and logs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from deploy.stack.home import Home
from deploy.stack.postgres import Postgres
from transferapi.config import Config
from transferapi.outages import redis_link

from .findings import Finding, error, good, warning

#: Octets, and parts of the file system, below which there is a finding: (warning, error).
OCTETS = (2 << 30, 200 << 20)
PART = (0.05, 0.01)
#: Keys without an end that are no reason to look.
MOST_WITHOUT_END = 1000


def check(config: Config) -> Iterator[Finding]:
    home = Home(config.home)
    folders = {
        "the database": Postgres(config.home).data,
        "logs": home.logs,
        "the home": config.home,
        "temporary files (lists of users, uploads)": Path(tempfile.gettempdir()),
    }
    seen: set[int] = set()
    for name, folder in folders.items():
        try:
            device = folder.stat().st_dev
            if device not in seen:
                seen.add(device)
                yield free(name, folder)
        except FileNotFoundError:
            continue
        except OSError as failure:
            yield warning(f"{folder} ({name}) cannot be looked at: {failure.strerror}.", "Correct its permissions.")
    yield from _database()
    yield from _redis()


def free(name: str, folder: Path) -> Finding:
    """As an account that is not root sees it. File systems without inodes of a fixed number say 0."""
    about = os.statvfs(folder)
    octets, part = about.f_bavail * about.f_frsize, about.f_bavail / max(1, about.f_blocks)
    inodes = about.f_favail / about.f_files if about.f_files else 1.0
    text = f"{folder} ({name}) has {octets / (1 << 30):.1f} GiB free ({part:.0%}), {inodes:.0%} of its inodes"
    do = (
        "Make room, or make it larger: PostgreSQL stops where its disk is full. WAYBILL_TASK_DAYS and "
        "WAYBILL_AUDIT_DAYS decide how long it keeps rows."
    )
    # A small part of a large disk is much: both must be low, or the octets very low.
    if octets < OCTETS[1] or inodes < PART[1]:
        return error(f"{text}.", do)
    if octets < OCTETS[0] or (part < PART[0] and octets < 10 * OCTETS[0]) or inodes < PART[0]:
        return warning(f"{text}.", do)
    return good(text)


def _database() -> Iterator[Finding]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            octets = cursor.fetchone()[0]
            cursor.execute(_LARGEST)
            largest = ", ".join(f"{name} {size / (1 << 20):.0f} MiB" for name, size in cursor.fetchall())
            yield good(
                f"the database has {octets / (1 << 20):.0f} MiB; its disk may be another machine's. "
                f"The largest tables: {largest}"
            )
    except (DatabaseError, InterfaceError):
        return  # another check says so


def _redis() -> Iterator[Finding]:
    """Without a key that stays, Redis does not grow: all that this service writes ends, but a few lists of Celery."""
    try:
        server = redis_link.client(settings.REDIS_URL)
        memory: dict[str, Any] = server.info("memory")
        keys = ends = 0
        for name, about in server.info("keyspace").items():
            if name == f"db{server.connection_pool.connection_kwargs.get('db', 0)}":
                keys, ends = about["keys"], about["expires"]
    except (redis.RedisError, OSError):
        return  # another check says so
    used = memory["used_memory"] / (1 << 20)
    text = f"Redis has {used:.0f} MiB; {keys} keys are of this database, {keys - ends} without an end"
    if keys - ends > MOST_WITHOUT_END:
        yield warning(
            f"{text}.", "This service has fewer than 20 such keys: use a database of Redis that no other program has."
        )
        return
    yield good(text)


_LARGEST = """
    SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables WHERE schemaname = current_schema()
    ORDER BY 2 DESC LIMIT 3"""
