"""When the last backup was made: a tally of the database, by which every host knows its age.

It counts seconds since 1970 of the clock of the database. A version that does not know the tally leaves it alone.
"""

from __future__ import annotations

from identity.database_rows import execute, query_rows

KEY = "backup_at"


def record() -> None:
    """A backup is complete now. Raises django.db.Error."""
    execute(_RECORD, [KEY])


def age() -> float:
    """Seconds since the last backup; infinite where there was none. Raises django.db.Error."""
    found = query_rows(_AGE, [KEY])
    return max(0.0, float(found[0][0])) if found else float("inf")


_RECORD = """
    INSERT INTO tasks_tally (key, value) VALUES (%s, extract(epoch FROM clock_timestamp()))
    ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
_AGE = "SELECT extract(epoch FROM clock_timestamp()) - value FROM tasks_tally WHERE key = %s"
