"""The space that tasks take in the database: counted when rows are written and deleted, and limited.

For each task and each user: rows of items and files, and the octets of their paths. Listings of servers become such
rows, so that a server with endless listings meets these limits. A user's row in `tasks_space` is the last lock that a
transaction takes.
"""

from __future__ import annotations

import uuid
from typing import NoReturn

from django.conf import settings

from identity.database_rows import execute, query_rows
from transferapi.config.limits import VARIABLES
from transferapi.tasks.errors import TooMuchError

#: The most octets of events of one task that a worker writes.
MAX_EVENTS = 8 << 20


def octets(*paths: str | None) -> int:
    """The octets of these paths in the database."""
    return sum(len(path) if path.isascii() else len(path.encode("utf-8", "surrogateescape")) for path in paths if path)


def take(task_id: uuid.UUID, rows: int, octets: int) -> None:
    """Count rows that this transaction has written for a task. Raises TooMuchError: then it must be rolled back."""
    if not rows:
        return
    limits = settings.LIMITS
    found = query_rows(_COUNT, {"task": task_id, "rows": rows, "octets": octets})
    [(task_rows, task_octets, user_rows, user_octets)] = found
    if task_rows > limits.task_files:
        _refuse("task_files", "A task has at most {} items, files and folders")
    if task_octets > limits.task_octets:
        _refuse("task_octets", "The paths of a task have at most {} octets")
    if user_rows > limits.user_files:
        _refuse("user_files", "All tasks of a user together have at most {} items, files and folders")
    if user_octets > limits.user_octets:
        _refuse("user_octets", "The paths of all tasks of a user together have at most {} octets")


def give_back(task_id: uuid.UUID, rows: int, octets: int) -> None:
    """Count rows that this transaction has deleted. A task gives back no more than was counted for it."""
    if rows:
        execute(_COUNT, {"task": task_id, "rows": -rows, "octets": -octets})


def take_task(user_id: uuid.UUID) -> None:
    """Count a new task. Raises TooMuchError: then it must not be created."""
    [(tasks,)] = query_rows(_TAKE_TASK, [user_id])
    if tasks > settings.LIMITS.user_tasks:
        _refuse("user_tasks", "A user has at most {} tasks, those that are done included")


def room_for_events(task_id: uuid.UUID, octets: int) -> int:
    """Count octets of events; return their new number. Above MAX_EVENTS, the events must not be written."""
    [(now,)] = query_rows(_TAKE_EVENTS, [octets, task_id])
    return int(now)


def _refuse(field: str, text: str) -> NoReturn:
    limit = getattr(settings.LIMITS, field)
    raise TooMuchError(f"{text.format(limit)} on this service ({VARIABLES[field].name}).")


#: The space of the task then, and that of its owner.
_COUNT = """
    WITH before AS (
        SELECT id, kept_rows, kept_octets FROM tasks_task WHERE id = %(task)s FOR NO KEY UPDATE
    ), task AS (
        UPDATE tasks_task t SET kept_rows = greatest(0, before.kept_rows + %(rows)s),
            kept_octets = greatest(0, before.kept_octets + %(octets)s)
        FROM before WHERE t.id = before.id
        RETURNING t.owner_id, t.kept_rows, t.kept_octets,
            t.kept_rows - before.kept_rows AS rows, t.kept_octets - before.kept_octets AS octets
    ), mine AS (
        INSERT INTO tasks_space AS old (owner_id, tasks, rows, octets)
        SELECT owner_id, 0, greatest(0, rows), greatest(0, octets) FROM task
        ON CONFLICT (owner_id) DO UPDATE SET
            rows = greatest(0, old.rows + (SELECT rows FROM task)),
            octets = greatest(0, old.octets + (SELECT octets FROM task))
        RETURNING rows, octets
    )
    SELECT task.kept_rows, task.kept_octets, mine.rows, mine.octets FROM task, mine"""

_TAKE_TASK = """
    INSERT INTO tasks_space AS old (owner_id, tasks, rows, octets) VALUES (%s, 1, 0, 0)
    ON CONFLICT (owner_id) DO UPDATE SET tasks = old.tasks + 1 RETURNING tasks"""

_TAKE_EVENTS = "UPDATE tasks_task SET event_octets = event_octets + %s WHERE id = %s RETURNING event_octets"
