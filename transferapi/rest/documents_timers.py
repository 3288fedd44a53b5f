"""Documents out: timers on the wire (Timers API). They have no DATA_TYPE."""

from __future__ import annotations

from typing import Any

from transferapi.tasks.states import Phase
from transferapi.timers import schedule, services
from transferapi.timers.models import Timer

from .documents import time

#: What tells older clients that it is a transfer. Nobody calls it.
_TRANSFER = "https://actions.automate.globus.org/transfer/transfer/run"


def timer(row: Timer, *, body: bool = True) -> dict[str, Any]:
    """In the words of both versions of the API: the older ones are those that the command line reads."""
    plan = schedule.read(row.schedule)
    return {
        "job_id": str(row.pk),
        "name": row.name,
        "timer_type": "transfer",
        "status": row.status,
        "inactive_reason": row.inactive_reason,
        "activity": _activity(row),
        "schedule": row.schedule,
        "submitted_at": time(row.submitted_at),
        "next_run": time(row.next_run),
        "last_ran_at": time(row.last_ran_at),
        "number_of_runs": row.number_of_runs,
        "number_of_errors": row.number_of_errors,
        "last_task_id": None if row.last_task_id is None else str(row.last_task_id),
        "last_error": row.last_error,
        "body": services.body_of(row) if body else None,
        # ---- as they were called before
        "callback_url": _TRANSFER,
        "callback_body": None,
        "scope": None,
        "start": time(plan.start),
        "interval": plan.interval,
        "stop_after": {"date": time(plan.end), "n_runs": 1 if plan.interval is None else plan.iterations},
        "n_runs": row.number_of_runs,
        "n_errors": row.number_of_errors,
    }


def _activity(row: Timer) -> dict[str, Any] | None:
    """What it waits for, in the words that the command line has sentences for."""
    if row.status == "ended":
        return None
    if row.status == "inactive":
        return {"code": "paused", "start_timestamp": None}
    if row.last_task is not None and row.last_task.phase != Phase.DONE:
        return {"code": "run_in_progress", "start_timestamp": time(row.last_ran_at)}
    return {"code": "awaiting_next_run", "start_timestamp": None}
