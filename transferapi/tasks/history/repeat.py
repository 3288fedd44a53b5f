"""Submit the whole request of a task once more. `items/retry.py` submits the failed files alone."""

from __future__ import annotations

import uuid

from identity.models import User
from transferapi.tasks import queries, submission
from transferapi.tasks.errors import RequestError
from transferapi.tasks.models import Item, Task
from transferapi.tasks.states import Phase, TaskType
from transferapi.tasks.submission import DeleteRequest, TransferItem, TransferRequest
from transferapi.tasks.upkeep.retention import KEPT_ITEMS


def items(task: Task, most: int) -> list[Item]:
    """The first items of the request. Of a task that is done, KEPT_ITEMS are kept, as long as its history is."""
    return list(Item.objects.filter(task=task).order_by("position")[:most])


def can_run_again(task: Task) -> bool:
    """Whether all items of the request are still there."""
    return not task.history_deleted and task.phase == Phase.DONE and task.items_total <= KEPT_ITEMS


def run_again(user: User, task_id: uuid.UUID, submission_id: uuid.UUID) -> tuple[Task, bool]:
    """Submit the same request once more; as `submission.submit_transfer`.

    Raises as it, TaskNotFoundError, and RequestError where the items are no longer known.
    """
    task = queries.get(user, task_id)
    found = items(task, KEPT_ITEMS) if can_run_again(task) else []
    if not found:
        raise RequestError("DATA", "The items of this task are no longer known.")
    given = {name: value for name, value in task.options.items() if value is not None}
    source = str(task.source_id)
    if task.type == TaskType.DELETE:
        paths = [item.source_path for item in found]
        return submission.submit_delete(user, DeleteRequest(submission_id, source, paths, task.label, options=given))
    rows = [TransferItem(item.source_path, item.destination_path or "", item.recursive, **item.extra) for item in found]
    transfer = TransferRequest(submission_id, source, str(task.destination_id), rows, task.label, options=given)
    return submission.submit_transfer(user, transfer)
