"""Rounds: periodic jobs, each done by one worker at a time.

Each kind of round has a row with its next due time. A worker that finds that time past adds the interval and does the
round; if it is lost meanwhile, one round is lost, and any worker does the next. Times are of the database's clock; a
time further ahead than one interval was written before that clock was set back.
"""

from __future__ import annotations

from collections.abc import Mapping

from identity.database_rows import execute, query_rows

#: The periodic jobs of this version: seconds between two starts of each, by all workers together. Another version may
#: have written rows of other jobs.
INTERVALS = {
    "sweep": 2.0,
    "pauses": 2.0,
    "renew": 2.0,
    "timers": 5.0,
    "mails": 3.0,
    "webhooks": 2.0,
    "tidy": 10.0,
    "give_back": 5.0,
    "uploads": 30.0,
    "tidy_tokens": 60.0,
    "institutions": 3600.0,
    "tidy_relays": 3600.0,
}


def claim(intervals: Mapping[str, float]) -> list[str]:
    """The rounds, of these (name: interval in seconds), that the caller must do now; no other worker gets them."""
    parameters = {"names": list(intervals), "intervals": list(intervals.values())}
    return [name for (name,) in query_rows(_CLAIM, parameters)]


def overdue(name: str) -> float | None:
    """Seconds since this round has been due; negative where it is due later, None where no worker ever claimed it."""
    found = query_rows(_OVERDUE, [name])
    return float(found[0][0]) if found else None


def sweep_when_a_lease_ends() -> None:
    """Let the next sweep be due when the next lease ends, if that is sooner.

    Leases that are renewed end later than the next sweep, so this writes only where a worker has been lost.
    """
    execute(_HASTEN)


_HASTEN = """
    UPDATE tasks_round round SET next_at = lease.ends
    FROM (SELECT min(expires_at) AS ends FROM tasks_lease WHERE worker <> '' AND expires_at > clock_timestamp()) lease
    WHERE round.name = 'sweep' AND lease.ends < round.next_at"""

_OVERDUE = """
    SELECT extract(epoch FROM clock_timestamp() - next_at) FROM tasks_round WHERE name = %s AND isfinite(next_at)"""

#: A row that another worker has locked is skipped; a round that was never done is due at the next call.
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
