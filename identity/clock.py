"""The current time by the database's clock, which all workers and web servers share; tests pass their own."""

from __future__ import annotations

from datetime import datetime

from django.db import connection


def moment(now: datetime | None = None) -> datetime:
    """`now`, or the time by the database's clock."""
    if now is not None:
        return now
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (time,) = cursor.fetchone()
    assert isinstance(time, datetime)
    return time
