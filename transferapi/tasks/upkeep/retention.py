"""Deletion of rows of completed tasks, in parts, so that their space is used again.

At once: all items but the first few, and files that no list shows (files that were never moved or were in place
already). The first items show the request, and a short request can be submitted again from them. After 30 days, or
earlier for a user whose tasks take more than half of the allowed space: items, files and events, the oldest task first.
The task itself stays.

Each part is one transaction under a lock: only one worker does it, and a worker that is lost leaves only whole parts
behind.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from identity.clock import moment
from identity.database_rows import execute, query_rows
from transferapi.tasks import locks
from transferapi.tasks.models import AdminCancel, Event, File, Item, Space, Task
from transferapi.tasks.states import Phase

from . import space

#: The time that the history of a task is kept (Transfer API).
KEPT = timedelta(days=30)
#: The first items of a task that are kept with its history.
KEPT_ITEMS = 20
#: Tasks that one call examines, and rows of files and events that it deletes; the next call continues.
TASKS, ROWS = 100, 20_000
#: Rows that one transaction examines; seconds of one call of `give_back`, and tasks of one page.
PART, SECONDS, PAGE = 5000, 4.0, 500
#: The lock that a worker holds for one part.
_LOCK = "what ended tasks have kept"


class _Deleted(NamedTuple):
    """deleted: the number of deleted rows. last: the last id that was examined; None at the end."""

    deleted: int
    last: int | None


def give_back(seconds: float = SECONDS) -> int:
    """Delete rows of completed tasks that no list shows, for so many seconds; return the number of finished tasks.

    The task that ended last comes first: after an upgrade there may be very many old ones.
    """
    end = time.monotonic() + seconds
    done = 0
    while time.monotonic() < end:
        waiting = Task.objects.filter(phase=Phase.DONE, tidied=False).order_by("-completion_time")
        tasks = list(waiting.values_list("pk", "tidied_up_to")[:PAGE])
        for task_id, up_to in tasks:
            if not _tidy(task_id, up_to, end):
                return done
            done += 1
        if not tasks:
            break
    return done


def _tidy(task_id: uuid.UUID, up_to: int, end: float) -> bool:
    """Continue with this task; return whether it is finished. False: the time is over, or another worker does it."""
    for table, begin in ((_ITEMS, -1), (_UNSEEN, up_to)):
        last: int | None = begin
        while last is not None:
            deleted = _part(task_id, table, last, PART) if time.monotonic() < end else None
            if deleted is None:
                return False
            last = deleted.last
    Task.objects.filter(pk=task_id).update(tidied=True)
    return True


def _part(task_id: uuid.UUID, query: str, after: int, most: int, *, wait: bool = False) -> _Deleted | None:
    """Delete from the next rows; None: another worker holds the lock, and `wait` is False."""
    with transaction.atomic():
        if wait:
            locks.take(_LOCK)
        elif not locks.take_if_free(_LOCK):
            return None
        [(rows, deleted, octets, last)] = query_rows(query, {"task": task_id, "after": after, "most": most})
        space.give_back(task_id, deleted, octets)
        if query == _UNSEEN and rows:
            Task.objects.filter(pk=task_id).update(tidied_up_to=last)
    return _Deleted(deleted, last if rows == most else None)


def forget_old(now: datetime | None = None, rows: int = ROWS) -> int:
    """Delete a part of the old history; return the number of tasks whose history is gone now."""
    long_ago = moment(now) - KEPT
    AdminCancel.objects.filter(created_at__lt=long_ago).delete()
    left, forgotten = _forget_all(_with_history().filter(completion_time__lt=long_ago), rows, lambda: True)
    for user_id in _crowded():
        of_user = _with_history().filter(owner=user_id)
        left, more = _forget_all(of_user, left, lambda user_id=user_id: user_id in _crowded())  # type: ignore[misc]
        forgotten += more
    return forgotten


def _with_history() -> QuerySet[Task]:
    return Task.objects.filter(phase=Phase.DONE, history_deleted=False).order_by("completion_time")


def _crowded() -> list[uuid.UUID]:
    """Users whose tasks take more than half of the allowed space: running tasks need the other half."""
    limits = settings.LIMITS
    crowded = Q(rows__gt=limits.user_files // 2) | Q(octets__gt=limits.user_octets // 2)
    return list(Space.objects.filter(crowded).values_list("owner_id", flat=True)[:TASKS])


def _forget_all(tasks: QuerySet[Task], rows: int, wanted: Callable[[], bool]) -> tuple[int, int]:
    """Delete the history of tasks in turn; return the rows that may still be deleted, and the number of tasks done."""
    forgotten = 0
    for task_id in list(tasks.values_list("pk", flat=True)[:TASKS]) if rows > 0 else ():
        if not wanted():
            break
        rows -= _forget(task_id, rows)
        if rows <= 0:
            break
        forgotten += Task.objects.filter(pk=task_id).update(history_deleted=True)
    return rows, forgotten


def _forget(task_id: uuid.UUID, most: int) -> int:
    """Delete up to so many rows of this task; return their number."""
    deleted = 0
    for table in (_FILES, _ALL_ITEMS):
        part = _part(task_id, table, -1, most - deleted, wait=True)
        deleted += part.deleted if part else 0
    return deleted + execute(_EVENTS, {"task": task_id, "most": most - deleted})


#: For the next rows behind %(after)s: the number of rows and of deleted ones, octets of their paths, the last id.
_DELETE = """
    WITH part AS MATERIALIZED (
        SELECT id, {order} AS place, {octets} AS octets, {unseen} AS unseen FROM {table}
        WHERE task_id = %(task)s AND {order} > %(after)s ORDER BY {order} LIMIT %(most)s
    ), gone AS (
        DELETE FROM {table} old USING part WHERE old.id = part.id AND part.unseen
    )
    SELECT count(*), count(*) FILTER (WHERE unseen), coalesce(sum(octets) FILTER (WHERE unseen), 0)::bigint, max(place)
    FROM part"""
_OCTETS = "octet_length(source_path) + coalesce(octet_length(destination_path), 0)"
_FILE = {
    "table": File._meta.db_table,
    "order": "id",
    "octets": f"{_OCTETS} + coalesce(octet_length(link_target), 0)",
}
_ITEM = {"table": Item._meta.db_table, "order": "position", "octets": _OCTETS}
_ITEMS = _DELETE.format(**_ITEM, unseen=f"position >= {KEPT_ITEMS}")
_ALL_ITEMS = _DELETE.format(**_ITEM, unseen="true")
_FILES = _DELETE.format(**_FILE, unseen="true")
#: `queries.successful_transfers` and `queries.skipped_errors` show the others.
_UNSEEN = _DELETE.format(**_FILE, unseen="error_code IS NULL AND NOT (state = 1 AND kind = 0)")
_EVENTS = f"""
    DELETE FROM {Event._meta.db_table} WHERE id IN (
        SELECT id FROM {Event._meta.db_table} WHERE task_id = %(task)s ORDER BY id LIMIT %(most)s)"""  # noqa: S608
