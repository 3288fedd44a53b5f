"""Pending files of a task, and how much is left of it.

Each function is one short transaction under the worker's lease. It raises LeaseLostError, and has written nothing,
where the lease is no longer that of this epoch. `now` None is the database's clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from identity.database_rows import execute, query_rows
from transferapi.tasks.records import Checksum, FileRow, TaskCounts

from . import arrays
from .arrays import decoded, encoded
from .leases import hold

#: `counts` counts pending files up to here: the engine needs to know whether there are any, and roughly how many.
PENDING_COUNTED = 10_000


def pending(
    task_id: uuid.UUID, epoch: int, limit: int, exclude: Collection[int] = (), now: datetime | None = None
) -> list[FileRow]:
    """Pending files that are due, by size, without those in `exclude`.

    Of those whose backoff is over, only the `limit` that have been due for longest are considered.
    """
    with hold(task_id, epoch, now) as now:
        parameters = {"task": task_id, "now": now, "exclude": [*exclude], "limit": limit}
        return [_file_row(row) for row in query_rows(_PENDING, parameters)]


def begun(task_id: uuid.UUID, epoch: int, limit: int, now: datetime | None = None) -> list[FileRow]:
    """Pending files with a temporary path, or with some of their content on the destination's disk."""
    with hold(task_id, epoch, now):
        return [_file_row(row) for row in query_rows(_BEGUN, {"task": task_id, "limit": limit})]


def write_temporary_paths(
    task_id: uuid.UUID, epoch: int, files: Sequence[FileRow], now: datetime | None = None
) -> None:
    """Record the names under which these files are about to be written.

    Ranges that are on disk under another name are forgotten, because they are no part of the new file.
    """
    with hold(task_id, epoch, now):
        ids = arrays.integers(file.id for file in files)
        names = arrays.octets(encoded(file.temporary_path) for file in files)
        execute(_TEMPORARY, {"ids": ids, "names": names, "task": task_id})


def counts(task_id: uuid.UUID, epoch: int, now: datetime | None = None) -> TaskCounts:
    """The work that the task has left."""
    with hold(task_id, epoch, now):
        [row] = query_rows(_COUNTS, {"task": task_id, "most": PENDING_COUNTED})
        return TaskCounts(*row)


def _file_row(row: tuple[Any, ...]) -> FileRow:
    id_, item_id, source, destination, size, kind, attempts, ranges, temporary, *rest = row
    suspect, modified, link_target, algorithm, value, last_fault = rest
    return FileRow(
        id_,
        item_id,
        decoded(source),
        decoded(destination),
        size,
        kind,
        attempts,
        ranges,
        decoded(temporary),
        suspect,
        modified,
        decoded(link_target),
        Checksum(algorithm, value or "") if algorithm else None,
        last_fault=last_fault or "",
    )


_COLUMNS = """id, item_id, source_path, destination_path, size, kind, attempts, ranges, temporary_path,
        id <= (SELECT suspect_up_to FROM tasks_task WHERE id = %(task)s), modified, link_target,
        checksum_algorithm, checksum, error_code"""

_PENDING = f"""
    (SELECT {_COLUMNS} FROM tasks_file
    WHERE task_id = %(task)s AND state = 0 AND next_try_at IS NULL AND id <> ALL(%(exclude)s::bigint[])
    ORDER BY size, id LIMIT %(limit)s)
    UNION ALL
    (SELECT {_COLUMNS} FROM tasks_file
    WHERE task_id = %(task)s AND state = 0 AND next_try_at <= %(now)s AND id <> ALL(%(exclude)s::bigint[])
    ORDER BY next_try_at LIMIT %(limit)s)
    ORDER BY size, id LIMIT %(limit)s"""  # noqa: S608 (constants)

_BEGUN = f"""
    SELECT {_COLUMNS} FROM tasks_file
    WHERE task_id = %(task)s AND state = 0 AND (temporary_path IS NOT NULL OR ranges <> '') LIMIT %(limit)s"""  # noqa: S608

_TEMPORARY = """
    WITH renamed AS (
        UPDATE tasks_file new SET temporary_path = given.path, ranges = '', bytes_done = 0
        FROM unnest(%(ids)s::bigint[], %(names)s::bytea[]) AS given(id, path) JOIN tasks_file old USING (id)
        WHERE new.id = old.id AND new.task_id IS NOT DISTINCT FROM %(task)s AND new.state = 0
            AND old.temporary_path IS DISTINCT FROM given.path
        RETURNING old.bytes_done
    )
    UPDATE tasks_task SET bytes_transferred = greatest(0, bytes_transferred - lost.bytes)
    FROM (SELECT sum(bytes_done) AS bytes FROM renamed) AS lost WHERE id = %(task)s AND lost.bytes > 0"""

#: The columns are the fields of `TaskCounts`, in its order.
_COUNTS = """
    SELECT items_total - items_scanned,
        (SELECT count(*) FROM (SELECT FROM tasks_file WHERE task_id = %(task)s AND state = 0 LIMIT %(most)s) AS few),
        files_failed,
        least((SELECT min(next_try_at) FROM tasks_item WHERE task_id = %(task)s AND scanned_at IS NULL),
            (SELECT min(next_try_at) FROM tasks_file
                WHERE task_id = %(task)s AND state = 0 AND next_try_at IS NOT NULL)),
        skipped_errors
    FROM tasks_task WHERE id = %(task)s"""
