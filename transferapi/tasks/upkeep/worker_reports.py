"""How long ago workers have reported themselves: the statement, which health checks use without Django."""

from __future__ import annotations

#: Seconds after which a worker that has not reported is taken to be gone.
GONE_SECONDS = 20.0
#: Name, and seconds since the last report, of each worker of a host.
AGES = """
    SELECT name, extract(epoch FROM clock_timestamp() - seen_at) FROM tasks_workerprocess
    WHERE host = %(host)s ORDER BY name"""
