"""The running processes of the service, as they report themselves, with the migrations that their code has.

`waybill upgrade` reads them: a contraction waits until no process is left whose code does not have it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from identity.database_rows import execute, query_rows
from transferapi.schema_version import effect_of, migrations_of_code
from transferapi.version import service_version

from .worker_processes import KEPT_DAYS
from .worker_reports import GONE_SECONDS

#: The tables of `alive`.
TABLES = ("tasks_serviceprocess", "tasks_workerprocess")


@dataclass(frozen=True, slots=True)
class Process:
    """name: host:pid. knows: None for a worker of a version that does not report this."""

    name: str
    kind: str
    version: str
    knows: frozenset[str] | None

    def lacks(self, migrations: Iterable[str]) -> bool:
        """Whether its code does not have one of these migrations, "app.name"."""
        return self.knows is None or not self.knows.issuperset(migrations)


@cache
def known_changes() -> tuple[str, ...]:
    """The migrations of this code that have an effect, as "app.name"."""
    return tuple(sorted(".".join(key) for key, migration in migrations_of_code().items() if effect_of(migration)))


def report(name: str, kind: str, gauges: Mapping[str, int] | None = None) -> None:
    """Write that this process runs, with its gauges for `/metrics` (`figures.OF_SERVICES`).

    Rows of processes that were gone for a week are deleted by the way.
    """
    row = {"name": name[:128], "kind": kind, "version": service_version()[:64], "knows": json.dumps(known_changes())}
    numbers = json.dumps(gauges) if gauges else None
    execute(_REPORT, {**row, "gauges": numbers, "days": KEPT_DAYS})


def leave(name: str) -> None:
    """Delete the row of a process that stops in an orderly way."""
    execute("DELETE FROM tasks_serviceprocess WHERE name = %s", [name[:128]])


def alive(tables: Collection[str] = TABLES) -> list[Process]:
    """Processes that have reported themselves within GONE_SECONDS. tables: those of the two that the schema has."""
    found: list[Process] = []
    if "tasks_serviceprocess" in tables:
        for name, kind, version, knows in query_rows(_ALIVE, [GONE_SECONDS]):
            found.append(Process(name, kind, version, frozenset(_read(knows))))
    if "tasks_workerprocess" in tables:
        names = {one.name for one in found}
        workers = query_rows(_ALIVE_WORKERS, [GONE_SECONDS])
        found += [Process(name, "worker", version, None) for name, version in workers if name not in names]
    return found


def _read(value: object) -> list[str]:
    """A JSON array, which the driver gives as text or as a list."""
    read = json.loads(value) if isinstance(value, str) else value
    return [str(one) for one in read] if isinstance(read, list) else []


_REPORT = """
    WITH old AS (
        DELETE FROM tasks_serviceprocess
        WHERE name <> %(name)s AND seen_at < clock_timestamp() - make_interval(days => %(days)s)
    )
    INSERT INTO tasks_serviceprocess (name, kind, version, knows, gauges, started_at, seen_at)
    VALUES (%(name)s, %(kind)s, %(version)s, %(knows)s::jsonb, %(gauges)s::jsonb, clock_timestamp(), clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, version = excluded.version, knows = excluded.knows,
        gauges = excluded.gauges, seen_at = excluded.seen_at"""
_ALIVE = """
    SELECT name, kind, version, knows FROM tasks_serviceprocess
    WHERE seen_at > clock_timestamp() - make_interval(secs => %s) ORDER BY kind, name"""
_ALIVE_WORKERS = """
    SELECT name, version FROM tasks_workerprocess
    WHERE seen_at > clock_timestamp() - make_interval(secs => %s) ORDER BY name"""
