"""The one function that moves a task from state to state, and what users ask of it: cancel, update."""

from __future__ import annotations

import uuid
from datetime import datetime
from enum import StrEnum

from identity.models import User

from .models import Task


class CancelResult(StrEnum):
    """The `code` of the answer on the wire."""

    CANCELED = "Canceled"  # it is done now
    ACCEPTED = "CancelAccepted"  # a worker has it and ends it within two seconds
    COMPLETE = "TaskComplete"  # it was done before


def cancel(user: User, task_id: uuid.UUID) -> CancelResult:
    """-> TaskNotFoundError"""
    raise NotImplementedError


def update(user: User, task_id: uuid.UUID, *, label: str | None = None, deadline: datetime | None = None) -> Task:
    """Change the label or the deadline (None: leave it). -> TaskNotFoundError, TaskCompleteError, RequestError"""
    raise NotImplementedError


def expire_overdue(now: datetime | None = None, limit: int = 100) -> int:
    """End tasks that nobody works on and whose deadline has passed; for the sweep. How many there were."""
    raise NotImplementedError
