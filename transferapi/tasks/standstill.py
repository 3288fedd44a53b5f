"""Why a task does not go on, since when, and when it is tried again. `worker/troubles.py` writes what is read here."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from endpoints.gridftp.faults import Side

from .models import Task
from .states import Phase

#: The key in `Task.trouble` of a fault of files; the other keys are of endpoints.
OF_FILES = "files"


class Standstill(NamedTuple):
    """The reason why a task does not go on. code: its `nice_status`. side: "source", "destination" or "unknown".

    next_try: None where it is not tried again by itself. A time in the past: it is being tried.
    """

    code: str
    side: str
    since: datetime | None
    next_try: datetime | None


def of(task: Task) -> Standstill | None:
    """Why the task does not go on, since when, and when it is tried again; None if it goes on, or is over."""
    code = task.nice_status
    if code is None or task.phase == Phase.DONE:
        return None
    if task.phase in (Phase.SUSPENDED, Phase.PAUSED):
        return Standstill(code, _side(task), task.suspended_at or task.paused_at, None)
    known = _current(task)
    if known is None:
        return None
    return Standstill(code, str(known.get("side", Side.UNKNOWN)), _time(known.get("since")), _time(known["until"]))


def since(task: Task, code: str, now: datetime) -> datetime:
    """The time from which the status of the task has had this code without a break; `now` where it has another one."""
    known = _current(task) if task.nice_status == code else None
    return _time(known.get("since")) or now if known else now


def seconds_to_next_try(task: Task, now: datetime) -> int:
    """The time until the task is tried again, where its status shows a fault that is; else -1."""
    found = of(task)
    return max(0, round((found.next_try - now).total_seconds())) if found and found.next_try else -1


def _side(task: Task) -> str:
    """The side at which the task waits."""
    return next((side for side, end in task.ends.items() if end.pk == task.waits_at_id), Side.UNKNOWN)


def _current(task: Task) -> dict[str, Any] | None:
    """The record of the fault that the status of the task shows."""
    known = task.trouble or {}
    return next((one for one in (known, known.get(OF_FILES, {})) if one.get("code") == task.nice_status), None)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
