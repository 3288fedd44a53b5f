"""The running workers, as they report themselves: for operators, not for leases, which have a record of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping

from identity.database_rows import execute
from transferapi.version import service_version

#: Seconds between two reports of a worker.
REPORT_SECONDS = 5.0
#: Days after which the row of a worker that is gone is deleted: its last time helps operators for a while.
KEPT_DAYS = 7


def report(name: str, host: str, gauges: Mapping[str, int] | None = None) -> None:
    """Write that this worker runs, with its gauges (`figures.OF_WORKERS`) for `/metrics`.

    Rows of workers that were gone for a week are deleted by the way.
    """
    execute(_REPORT, {
        "name": name[:128],
        "host": host[:255],
        "version": service_version()[:64],
        "gauges": json.dumps(gauges or {}),
        "days": KEPT_DAYS,
    })  # fmt: skip


def leave(name: str) -> None:
    """Delete the row of a worker that stops in an orderly way."""
    execute("DELETE FROM tasks_workerprocess WHERE name = %s", [name[:128]])


_REPORT = """
    WITH old AS (
        DELETE FROM tasks_workerprocess
        WHERE name <> %(name)s AND seen_at < clock_timestamp() - make_interval(days => %(days)s)
    )
    INSERT INTO tasks_workerprocess (name, host, version, started_at, seen_at, gauges)
    VALUES (%(name)s, %(host)s, %(version)s, clock_timestamp(), clock_timestamp(), %(gauges)s::jsonb)
    ON CONFLICT (name) DO UPDATE SET host = excluded.host, version = excluded.version, seen_at = excluded.seen_at,
        gauges = excluded.gauges"""
