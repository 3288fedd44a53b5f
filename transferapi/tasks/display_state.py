"""The state of a task in one word, for people: pages, the shell and mails use the same eight."""

from __future__ import annotations

from enum import StrEnum

from django.db.models import Q

from .models import Task
from .states import Phase, Status


class DisplayState(StrEnum):
    """Each task has exactly one."""

    QUEUED = "queued"
    ACTIVE = "active"
    NEEDS_YOU = "needs-you"
    PAUSED = "paused"
    DONE = "done"
    SKIPS = "skips"  # SUCCEEDED, but files were passed over for errors
    FAILED = "failed"
    CANCELED = "canceled"


_UNFINISHED: dict[str, DisplayState] = {
    Phase.QUEUED: DisplayState.QUEUED,
    Phase.RUNNING: DisplayState.ACTIVE,
    Phase.SUSPENDED: DisplayState.NEEDS_YOU,
    Phase.PAUSED: DisplayState.PAUSED,
}


def display_state(task: Task) -> DisplayState:
    """The state of a task as it was read. A task between two slices is active: it has begun to work."""
    if task.phase == Phase.QUEUED and task.items_scanned + task.files:
        return DisplayState.ACTIVE
    if task.phase != Phase.DONE:
        # A newer version may have more phases.
        return _UNFINISHED.get(task.phase, DisplayState.ACTIVE)
    if task.status == Status.FAILED:
        return DisplayState.CANCELED if task.fatal_error_code == "CANCELED" else DisplayState.FAILED
    return DisplayState.SKIPS if task.skipped_errors else DisplayState.DONE


_NOT_BEGUN = Q(items_scanned=0, files=0)
_CANCELED = Q(fatal_error_code="CANCELED")
#: The condition of each state on the rows of tasks: the same cases as `display_state`.
CONDITIONS: dict[DisplayState, Q] = {
    DisplayState.QUEUED: Q(phase=Phase.QUEUED) & _NOT_BEGUN,
    DisplayState.ACTIVE: Q(phase=Phase.RUNNING) | (Q(phase=Phase.QUEUED) & ~_NOT_BEGUN),
    DisplayState.NEEDS_YOU: Q(phase=Phase.SUSPENDED),
    DisplayState.PAUSED: Q(phase=Phase.PAUSED),
    DisplayState.DONE: Q(status=Status.SUCCEEDED, skipped_errors=0),
    DisplayState.SKIPS: Q(status=Status.SUCCEEDED, skipped_errors__gt=0),
    DisplayState.FAILED: Q(status=Status.FAILED) & ~_CANCELED,
    DisplayState.CANCELED: Q(status=Status.FAILED) & _CANCELED,
}
