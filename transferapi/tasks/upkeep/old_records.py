"""Deletion of records that nothing keeps any more: completed tasks, deleted endpoints, knowledge of pairs of endpoints.

A completed task stays for `settings.TASK_DAYS`. Of a user who has more than half of the allowed tasks, the oldest go
earlier, but never within the 30 days in which their history is kept: until then managers of endpoints can see them. The
row of a deleted endpoint stays while a task, a share or an upload refers to it. Each call is bounded, and the next one
continues.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from endpoints.models import Endpoint, RelayedOctets, UploadRecord
from identity.clock import moment
from identity.database_rows import delete_first, execute
from transferapi.tasks import locks
from transferapi.tasks.models import PathMemory, Space, Task
from transferapi.tasks.states import Phase

from .retention import KEPT, TASKS

#: Rows of one transaction, and the transactions of one call.
BATCH, BATCHES = 500, 20
#: Time after its deletion for which the row of an endpoint stays at least: `registry.MAX_NEW` counts those of a day.
ENDPOINT_KEPT = timedelta(days=30)
#: Time after the last transfer of a pair for which the tuner's knowledge is kept.
KNOWLEDGE_KEPT = timedelta(days=365)
#: The lock that a worker holds for one transaction.
_LOCK = "the end of old tasks"


def delete_tasks(now: datetime | None = None) -> int:
    """Delete the oldest completed tasks whose history is gone; return their number."""
    now = moment(now)
    left = BATCH
    if days := int(settings.TASK_DAYS):
        left -= _delete(_ended(now - timedelta(days=days)).order_by("completion_time"), left)
    most = settings.LIMITS.user_tasks // 2
    crowded = Space.objects.filter(tasks__gt=most).values_list("owner_id", "tasks")
    for user_id, tasks in crowded[:TASKS]:
        mine = _ended(now - KEPT).filter(owner=user_id)
        in_order = mine.order_by(F("completion_time").asc(nulls_first=True), "id")
        left -= _delete(in_order, min(left, tasks - most))
    return BATCH - left


def _ended(before: datetime) -> QuerySet[Task]:
    return Task.objects.filter(phase=Phase.DONE, history_deleted=True, completion_time__lt=before)


def _delete(tasks: QuerySet[Task], most: int) -> int:
    """Delete the first of these tasks and the count of them. 0: there is none, or another worker does it."""
    with transaction.atomic():
        if most <= 0 or not locks.take_if_free(_LOCK):
            return 0
        rows = list(tasks.values_list("pk", "owner_id", "kept_rows", "kept_octets")[:most])
        Task.objects.filter(pk__in=[row[0] for row in rows]).delete()
        _count({owner: [row for row in rows if row[1] == owner] for owner in sorted({row[1] for row in rows})})
    return len(rows)


def _count(deleted: dict[UUID, list[tuple[UUID, UUID, int, int]]]) -> None:
    for owner, rows in deleted.items():
        execute(_COUNT, [len(rows), sum(row[2] for row in rows), sum(row[3] for row in rows), owner])


def delete_endpoints(now: datetime | None = None) -> int:
    """Delete rows of endpoints that were deleted long ago and that nothing refers to; return their number."""
    now = moment(now)
    total = 0
    for _ in range(BATCHES):
        keys = list(_unused(now).order_by("deleted_at").values_list("pk", flat=True)[:BATCH])
        Endpoint.objects.filter(pk__in=keys).delete()
        total += len(keys)
        if len(keys) < BATCH:
            break
    return total


def _unused(now: datetime) -> QuerySet[Endpoint]:
    here = OuterRef("pk")
    references = [
        *(Task.objects.filter(**{name: here}) for name in _TASK_ENDS),
        *(Endpoint.objects.filter(**{name: here}) for name in ("host", "jump_host")),
        UploadRecord.objects.filter(endpoint=here),
        # Kept for their own time.
        RelayedOctets.objects.filter(endpoint=here),
    ]
    found = Endpoint.objects.filter(deleted_at__lt=now - ENDPOINT_KEPT)
    for rows in references:
        found = found.filter(~Exists(rows))
    return found


def delete_knowledge(now: datetime | None = None) -> int:
    """Delete what the tuner knows of pairs of endpoints that were not used for long; return the number of pairs."""
    old = PathMemory.objects.filter(updated_at__lt=moment(now) - KNOWLEDGE_KEPT)
    return delete_first(old.order_by("pk"), BATCH * BATCHES)


_TASK_ENDS = ("source", "destination", "source_host", "destination_host", "waits_at")
_COUNT = """
    UPDATE tasks_space SET tasks = greatest(0, tasks - %s), rows = greatest(0, rows - %s),
        octets = greatest(0, octets - %s)
    WHERE owner_id = %s"""
