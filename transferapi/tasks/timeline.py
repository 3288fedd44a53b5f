"""The rate of a task over its time, and the plans that it had."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from identity.database_rows import query_rows

from .models import Event, Run, Task

#: Points of a rate; plans that are shown; files up to which their arrivals make the rate.
POINTS, MOST_PLANS, MOST_FILES = 60, 50, 100_000
#: Slices from which on they make the rate.
ENOUGH_RUNS = 8


@dataclass(frozen=True, slots=True)
class PlanChange:
    """A plan of the task, from this time on, with its reason: as `Sentence.record`, or in English only."""

    time: datetime
    concurrency: int
    parallelism: int
    pipelining: int
    reason: dict[str, Any] | str


@dataclass(frozen=True, slots=True)
class RatePoint:
    """The mean rate of a span of time, in octets a second."""

    start: datetime
    end: datetime
    rate: float


def plans(task: Task) -> list[PlanChange]:
    """The latest plans, the oldest first."""
    found = Event.objects.filter(task=task, code__in=("STARTED", "PROGRESS")).order_by("-id")
    rows = found.values_list("time", "details", "sentence")[:MOST_PLANS]
    return [plan for row in reversed(rows) for plan in _plan(*row)]


def _plan(time: datetime, details: str, sentence: dict[str, Any] | None) -> Iterator[PlanChange]:
    """The plan in the details of an event, if there is one."""
    try:
        found = json.loads(details)
        reason = (sentence or {"values": {}})["values"].get("reason") or str(found["reason"])
        yield PlanChange(time, int(found["concurrency"]), int(found["parallelism"]), int(found["pipelining"]), reason)
    except (ValueError, KeyError, TypeError):
        return


def rates(task: Task, now: datetime) -> list[RatePoint]:
    """The rate over time: from the slices of a long task, else from the arrivals of its files."""
    runs = list(Run.objects.filter(task=task).order_by("-id")[: 4 * POINTS])
    if len(runs) >= ENOUGH_RUNS or task.files_transferred > MOST_FILES:
        return [
            RatePoint(run.ended_at - timedelta(seconds=run.seconds), run.ended_at, run.bytes / max(run.seconds, 0.001))
            for run in reversed(runs)
        ]
    return list(_of_arrivals(task, now)) if task.files_transferred else []


def _of_arrivals(task: Task, now: datetime) -> Iterator[RatePoint]:
    """The rate as if each file had moved evenly since a lane was free for it.

    No time at which a file begins is stored. With n lanes, a file begins when the n-th file before it has arrived.
    """
    start, end = task.request_time, task.completion_time or now
    seconds = max((end - start).total_seconds() / POINTS, 0.05)
    begun = Event.objects.filter(task=task, code="STARTED").order_by("id").values_list("time", flat=True).first()
    lanes = max((plan.concurrency for plan in plans(task)), default=1)
    parameters = {"task": task.pk, "start": start, "begun": begun or start, "lanes": max(1, lanes)}
    arrived = dict(query_rows(_ARRIVALS, {**parameters, "seconds": seconds, "last": POINTS - 1}))
    step = timedelta(seconds=seconds)
    for number in range(POINTS):
        yield RatePoint(start + number * step, start + (number + 1) * step, float(arrived.get(number, 0)) / seconds)


#: The times are in parts of the whole, from 0 to POINTS.
_ARRIVALS = """
    WITH file AS (
        SELECT size, settled_at,
            greatest(%(start)s, lag(settled_at, %(lanes)s, %(begun)s) OVER (ORDER BY settled_at, id)) AS begun_at
        FROM tasks_file WHERE task_id = %(task)s AND state = 1
    ), span AS (
        SELECT size, extract(epoch FROM least(begun_at, settled_at) - %(start)s) / %(seconds)s AS first,
            extract(epoch FROM settled_at - %(start)s) / %(seconds)s AS last
        FROM file WHERE settled_at >= %(start)s
    )
    SELECT part, sum(size * CASE WHEN last > first AND first < %(last)s + 1
        THEN (CASE part WHEN %(last)s THEN last ELSE least(last, part + 1) END - greatest(first, part)) / (last - first)
        ELSE 1 END)
    FROM span, generate_series(least(floor(first)::int, %(last)s), least(floor(last)::int, %(last)s)) AS part
    GROUP BY part"""
