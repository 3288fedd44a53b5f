"""Rounds: what has to be done again and again, by any worker and by one at a time.

Each kind of round has a row with the time of its next one. Whoever finds that time past puts it off by an interval, and
does the round; a worker that dies then has cost one round, and the next one is some other worker's. Times are those of
the database's clock; one that lies further ahead than an interval was written before that clock was put back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import connection


def claim(intervals: Mapping[str, float]) -> list[str]:
    """Which of these rounds (name and interval in seconds) the caller has to do now; nobody else gets the same."""
    parameters: dict[str, Any] = {"names": list(intervals), "intervals": list(intervals.values())}
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, parameters)
        return [name for (name,) in cursor.fetchall()]


#: A row that another worker has in hand is passed over, and a round that was never done is due at the next call.
_CLAIM = """
    WITH wanted AS (
        SELECT name, make_interval(secs => seconds) AS every
        FROM unnest(%(names)s::text[], %(intervals)s::float8[]) AS wanted (name, seconds)
    ), missing AS (
        INSERT INTO tasks_round (name, next_at) SELECT name, '-infinity' FROM wanted ON CONFLICT DO NOTHING
    ), due AS (
        SELECT name, every FROM tasks_round JOIN wanted USING (name)
        WHERE next_at NOT BETWEEN clock_timestamp() AND clock_timestamp() + every
        FOR NO KEY UPDATE OF tasks_round SKIP LOCKED
    )
    UPDATE tasks_round round SET next_at = clock_timestamp() + due.every
    FROM due WHERE round.name = due.name RETURNING round.name"""
