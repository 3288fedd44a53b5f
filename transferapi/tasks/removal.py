"""Remove a completed task from its owner's lists. Its row stays for the managers of its endpoints, and for its id."""

from __future__ import annotations

import uuid

from identity.error_categories import RefusedError
from identity.models import User

from . import queries
from .errors import TASK_NOT_COMPLETE
from .models import RemovedTask
from .states import Phase


def remove(user: User, task_id: uuid.UUID) -> None:
    """Remove the task. Raises TaskNotFoundError, TASK_NOT_COMPLETE."""
    task = queries.get(user, task_id)
    if task.phase != Phase.DONE:
        raise RefusedError(TASK_NOT_COMPLETE)
    RemovedTask.objects.get_or_create(task=task, owner=user)
