"""Submit the whole request of a task once more. `items/retry.py` submits the failed files alone."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from identity.models import User

from . import queries, submission
from .errors import RequestError
from .models import Item, Task
from .states import Phase, TaskType
from .submission import DeleteRequest, TransferItem, TransferRequest
from .upkeep.retention import KEPT_ITEMS


@dataclass(frozen=True, slots=True)
class Changes:
    """Values of the new task in place of those of the old one. options: None clears one."""

    label: str | None
    deadline: datetime | None = None
    options: Mapping[str, object] = field(default_factory=dict)


def items(task: Task, most: int) -> list[Item]:
    """The first items of the request. Of a task that is done, KEPT_ITEMS are kept, as long as its history is."""
    return list(Item.objects.filter(task=task).order_by("position")[:most])


def can_run_again(task: Task) -> bool:
    """Whether all items of the request are still there."""
    return not task.history_deleted and task.phase == Phase.DONE and task.items_total <= KEPT_ITEMS


def run_again(
    user: User, task_id: uuid.UUID, submission_id: uuid.UUID, changes: Changes | None = None
) -> tuple[Task, bool]:
    """Submit the same request once more, or with changes; as `submission.submit_transfer`.

    Raises as it, TaskNotFoundError, and RequestError where the items are no longer known.
    """
    task = queries.get(user, task_id)
    found = items(task, KEPT_ITEMS) if can_run_again(task) else []
    if not found:
        raise RequestError("DATA", "The items of this task are no longer known.")
    changes = changes or Changes(task.label)
    given = {name: value for name, value in {**task.options, **changes.options}.items() if value is not None}
    source = str(task.source_id)
    if task.type == TaskType.DELETE:
        paths = [item.source_path for item in found]
        deletion = DeleteRequest(submission_id, source, paths, changes.label, changes.deadline, given)
        return submission.submit_delete(user, deletion)
    rows = [TransferItem(item.source_path, item.destination_path or "", item.recursive, **item.extra) for item in found]
    ends = (source, str(task.destination_id))
    transfer = TransferRequest(submission_id, *ends, rows, changes.label, changes.deadline, given)
    return submission.submit_transfer(user, transfer)
