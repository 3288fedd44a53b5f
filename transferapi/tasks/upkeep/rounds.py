"""Rounds: periodic jobs, each done by one worker at a time.

Each kind of round has a row with its next due time. A worker that finds that time past adds the interval and does the
round; if it is lost meanwhile, one round is lost, and any worker does the next. Times are of the database's clock; a
time further ahead than one interval was written before that clock was set back, or while there was no work.

A job whose work the database shows (`Work`) has a short interval while there is some, and else a long one, for what the
question does not see. One statement asks for all of it, so that an instance without work asks little.

The jobs are declared in `workers.rounds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from identity.database_rows import execute, query_rows
from transferapi.tasks import maintenance


class Work(StrEnum):
    """Work for a job, as the database shows it: the value is the condition in SQL."""

    TASKS = "EXISTS (SELECT FROM tasks_task WHERE NOT phase = 'done')"
    TIMERS = "EXISTS (SELECT FROM timers_timer WHERE next_run <= clock_timestamp())"
    MAILS = """EXISTS (SELECT FROM tasks_mail WHERE next_try_at <= clock_timestamp())
        OR EXISTS (SELECT FROM identity_recoveryrequest)
        OR EXISTS (SELECT FROM identity_signuprequest WHERE next_try_at <= clock_timestamp())"""
    DELIVERIES = "EXISTS (SELECT FROM tasks_delivery WHERE next_try_at <= clock_timestamp())"
    ENDED_TASKS = "EXISTS (SELECT FROM tasks_task WHERE phase = 'done' AND NOT tidied)"


class Interval(NamedTuple):
    """Seconds between two starts of a job, by all workers together.

    idle: those where there is none of this work.
    """

    every: float
    idle: float | None = None
    work: Work | None = None


#: Seconds after which a job of another version counts as one that no worker does any more.
ABANDONED = 300.0


class Poll(NamedTuple):
    """The answer of one statement to a worker.

    due: the rounds that it must do now; no other worker gets them. tasks: whether there are tasks that have not ended.
    sweep_in: seconds until the next sweep is due; None where no worker ever claimed one.
    """

    due: list[str]
    tasks: bool
    sweep_in: float | None
    notice: maintenance.Notice | None


def poll(intervals: Mapping[str, Interval]) -> Poll:
    """Claim the rounds, of these, that are due, and read the maintenance mode."""
    found = query_rows(_POLL, {
        "names": list(intervals),
        "every": [one.every for one in intervals.values()],
        "idle": [one.every if one.idle is None else one.idle for one in intervals.values()],
        "work": [one.work.name if one.work else "" for one in intervals.values()],
    })  # fmt: skip
    [(due, tasks, sweep_in, *notice)] = found
    return Poll(due, tasks, None if sweep_in is None else float(sweep_in), maintenance.notice_of(*notice))


def overdue(name: str) -> float | None:
    """Seconds since this round has been due; negative where it is due later, None where no worker ever claimed it."""
    found = query_rows(_OVERDUE, [name])
    return float(found[0][0]) if found else None


def sweep_when_a_lease_ends() -> None:
    """Let the next sweep be due when the next lease ends, if that is sooner.

    Leases that are renewed end later than the next sweep, so this writes only where a worker has been lost.
    """
    execute(_HASTEN)


def forget_abandoned(names: Iterable[str]) -> None:
    """Delete the rounds of jobs other than these that no worker has done for minutes: only another version has them.

    If one is deleted too early, the next worker that has the job writes its row again, and does the job at once.
    """
    execute(_FORGET, [list(names), ABANDONED])


_FORGET = """
    DELETE FROM tasks_round WHERE name <> ALL(%s) AND next_at < clock_timestamp() - make_interval(secs => %s)"""

_HASTEN = """
    UPDATE tasks_round round SET next_at = lease.ends
    FROM (SELECT min(expires_at) AS ends FROM tasks_lease WHERE worker <> '' AND expires_at > clock_timestamp()) lease
    WHERE round.name = 'sweep' AND lease.ends < round.next_at"""

_OVERDUE = """
    SELECT extract(epoch FROM clock_timestamp() - next_at) FROM tasks_round WHERE name = %s AND isfinite(next_at)"""

#: A row that another worker has locked is skipped; a round that was never done is due at the next call.
_POLL = f"""
    WITH work (kind) AS MATERIALIZED (
        {" UNION ALL ".join(f"SELECT '{one.name}' WHERE {one.value}" for one in Work)}
    ), wanted AS MATERIALIZED (
        SELECT name, make_interval(secs => CASE WHEN work.kind IS NULL THEN idle ELSE seconds END) AS every
        FROM unnest(%(names)s::text[], %(every)s::float8[], %(idle)s::float8[], %(work)s::text[])
            AS wanted (name, seconds, idle, kind) LEFT JOIN work USING (kind)
    ), missing AS (
        INSERT INTO tasks_round (name, next_at) SELECT name, '-infinity' FROM wanted
        WHERE name NOT IN (SELECT name FROM tasks_round) ON CONFLICT DO NOTHING
    ), due AS (
        SELECT name, every FROM tasks_round JOIN wanted USING (name)
        WHERE next_at NOT BETWEEN clock_timestamp() AND clock_timestamp() + every
        FOR NO KEY UPDATE OF tasks_round SKIP LOCKED
    ), claimed AS (
        UPDATE tasks_round round SET next_at = clock_timestamp() + due.every
        FROM due WHERE round.name = due.name RETURNING round.name, round.next_at
    )
    SELECT ARRAY(SELECT name FROM claimed)::text[], EXISTS (SELECT FROM work WHERE kind = 'TASKS'),
        (SELECT extract(epoch FROM coalesce(claimed.next_at, round.next_at) - clock_timestamp())
            FROM tasks_round round LEFT JOIN claimed USING (name) WHERE name = 'sweep' AND isfinite(round.next_at)),
        notice.message, notice.until, notice.hold, notice.since
    FROM (SELECT) one LEFT JOIN (SELECT * FROM tasks_maintenance LIMIT 1) notice ON true"""  # noqa: S608 - no input
