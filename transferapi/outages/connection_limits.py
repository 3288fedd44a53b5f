"""How many connections PostgreSQL allows to this service, and how many are in use. SQLSTATE 53300: none is left.

The limit is that of the server (max_connections without the reserved ones), of the role or of the database
(CONNECTION LIMIT), whichever leaves least.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg2
import psycopg2.errors

SQLSTATE = "53300"
#: For logs, health checks and `waybill doctor`.
REFUSAL = f"PostgreSQL has no free connection for this process (SQLSTATE {SQLSTATE})"
ADVICE = "see docs/operate/sizing.md, Connections"
#: The texts of the server for it, and that of PgBouncer. libpq gives no SQLSTATE where a connection fails.
_TEXTS = (
    "sorry, too many clients already",
    "remaining connection slots are reserved",
    "too many connections for role",
    "too many connections for database",
    "no more connections allowed",
)


def is_full(error: BaseException | None) -> bool:
    """Whether this error, or one that caused it, says that no further connection is allowed."""
    for _ in range(5):
        if isinstance(error, psycopg2.Error) and (
            isinstance(error, psycopg2.errors.TooManyConnections)
            or error.pgcode == SQLSTATE
            or (error.pgcode is None and any(text in str(error) for text in _TEXTS))
        ):
            return True
        if error is None:
            return False
        error = error.__cause__ or error.__context__
    return False


class ConnectionUse(NamedTuple):
    """scope: whose limit it is, "server", "role" or "database". used: connections that count against it."""

    scope: str
    allowed: int
    used: int

    @property
    def free(self) -> int:
        return max(0, self.allowed - self.used)


def read_use(cursor: Any) -> ConnectionUse:
    """The limit that leaves least. The connection of this cursor counts as used. Raises psycopg2.Error."""
    cursor.execute(_USE)
    scope, allowed, used = cursor.fetchone()
    return ConnectionUse(scope, int(allowed), int(used))


#: A superuser may have the reserved connections too, and no limit of a role or database holds for it. Sessions of other
#: roles hide what they are, but not their database and role: those without a role are processes of the server itself.
_USE = """
    WITH mine AS (
        SELECT r.oid AS role, d.oid AS database, r.rolsuper, r.rolconnlimit, d.datconnlimit
        FROM pg_catalog.pg_roles r, pg_catalog.pg_database d
        WHERE r.rolname = session_user AND d.datname = current_database()
    ), used AS (
        SELECT usesysid, datid FROM pg_catalog.pg_stat_activity
        WHERE usesysid IS NOT NULL AND datid IS NOT NULL AND backend_type IS DISTINCT FROM 'parallel worker'
    ), limits AS (
        SELECT 'server' AS scope, current_setting('max_connections')::int - CASE WHEN rolsuper THEN 0 ELSE
            current_setting('superuser_reserved_connections')::int
            + coalesce(current_setting('reserved_connections', true)::int, 0) END AS allowed,
            (SELECT count(*) FROM used) AS used FROM mine
        UNION ALL SELECT 'role', rolconnlimit, (SELECT count(*) FROM used WHERE usesysid = role) FROM mine
            WHERE rolconnlimit >= 0 AND NOT rolsuper
        UNION ALL SELECT 'database', datconnlimit, (SELECT count(*) FROM used WHERE datid = database) FROM mine
            WHERE datconnlimit >= 0 AND NOT rolsuper
    )
    SELECT scope, allowed, used FROM limits ORDER BY allowed - used, scope LIMIT 1"""
