"""The connections to PostgreSQL: how many it allows, how many are in use, and how many the processes may need."""

from __future__ import annotations

from typing import NamedTuple

from django.db import connection

from identity.database_rows import query_rows
from transferapi.outages.connection_limits import ADVICE, ConnectionUse, read_use

from .worker_reports import GONE_SECONDS


class Connections(NamedTuple):
    """needed: the sum of the most that each running process opens at one time."""

    use: ConnectionUse
    needed: int

    def shortage(self) -> str:
        """A sentence where fewer are allowed than needed; "" if there are enough."""
        if self.needed <= self.use.allowed:
            return ""
        return (
            f"PostgreSQL allows {self.use.allowed} connections ({_LIMITS[self.use.scope]}), of which {self.use.used} "
            f"are in use, and the running processes may need {self.needed}: {ADVICE}"
        )


_LIMITS = {
    "server": "max_connections without the reserved ones",
    "role": "CONNECTION LIMIT of the role",
    "database": "CONNECTION LIMIT of the database",
}


def read() -> Connections:
    """Raises django.db.Error."""
    with connection.cursor() as cursor:
        use = read_use(cursor)
    [(needed,)] = query_rows(_NEEDED, [GONE_SECONDS])
    return Connections(use, int(needed))


_NEEDED = """
    SELECT coalesce(sum((gauges->>'connections_most')::int), 0) FROM tasks_serviceprocess
    WHERE seen_at > clock_timestamp() - make_interval(secs => %s)"""
