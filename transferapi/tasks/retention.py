"""What is forgotten long after a task has ended: its files and its events. The task itself stays, and its items."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.db import connection, transaction

from .clock import moment
from .models import AdminCancel, Event, File, Task
from .states import Phase

#: How long the history of a task is kept (Transfer API).
KEPT = timedelta(days=30)
#: Tasks, and rows of files and of events, that one call looks at; the next one goes on.
TASKS, ROWS = 100, 20_000


def forget_old(now: datetime | None = None, rows: int = ROWS) -> int:
    """Forget a part of what is old enough; how many tasks have no history any more since."""
    long_ago = moment(now) - KEPT
    AdminCancel.objects.filter(created_at__lt=long_ago).delete()
    old = Task.objects.filter(phase=Phase.DONE, history_deleted=False, completion_time__lt=long_ago)
    forgotten = 0
    for task_id in list(old.order_by("completion_time").values_list("pk", flat=True)[:TASKS]):
        rows -= _forget(task_id, rows)
        if rows <= 0:
            break
        forgotten += Task.objects.filter(pk=task_id).update(history_deleted=True)
    return forgotten


def _forget(task_id: uuid.UUID, most: int) -> int:
    """Delete up to so many rows of this task; how many there were."""
    deleted = 0
    with transaction.atomic(), connection.cursor() as cursor:
        for table in (File._meta.db_table, Event._meta.db_table):
            cursor.execute(_DELETE.format(table=table), {"task": task_id, "most": most - deleted})
            deleted += cursor.rowcount
    return deleted


_DELETE = "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE task_id = %(task)s ORDER BY id LIMIT %(most)s)"
