"""Pending files of a task, and how much is left of it.

Each function is one short transaction under the worker's lease. It raises LeaseLostError, and has written nothing,
where the lease is no longer that of this epoch. `now` None is the database's clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from identity.database_rows import execute
from transferapi.tasks.records import Checksum, FileRow, SettledFile, TaskCounts

from . import arrays
from .arrays import ARRIVED_ROWS, PENDING_ROWS, decoded, encoded
from .leases import hold, read_held

#: `counts` counts pending files up to here: the engine needs to know whether there are any, and roughly how many.
PENDING_COUNTED = 10_000


def pending(
    task_id: uuid.UUID, epoch: int, limit: int, exclude: Collection[int] = (), now: datetime | None = None
) -> list[FileRow]:
    """Pending files that are due, by size, without those in `exclude`.

    Of those whose backoff is over, only the `limit` that have been due for longest are considered.
    """
    rows = read_held(task_id, epoch, _PENDING, {"exclude": [*exclude], "limit": limit}, now)
    return [_file_row(row) for row in rows]


def begun(task_id: uuid.UUID, epoch: int, limit: int, now: datetime | None = None) -> list[FileRow]:
    """Pending files of which something may lie at the destination: with a temporary path or ranges, or suspect.

    Those with a recorded path or with ranges come first.
    """
    return [_file_row(row) for row in read_held(task_id, epoch, _BEGUN, {"limit": limit}, now)]


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


def source_changed(task_id: uuid.UUID, epoch: int, files: Sequence[FileRow], now: datetime | None = None) -> None:
    """Record the new size and time of these sources, and forget what has arrived of the earlier version."""
    with hold(task_id, epoch, now):
        ids = arrays.integers(file.id for file in files)
        sizes = arrays.integers(file.size for file in files)
        times = arrays.moments(file.modified for file in files)
        execute(_SOURCE_CHANGED, {"ids": ids, "sizes": sizes, "times": times, "task": task_id})


def arrived(
    task_id: uuid.UUID, epoch: int, after: int, up_to: int, limit: int, now: datetime | None = None
) -> list[SettledFile]:
    """Files with ids in (after, up_to] that have arrived where the destination may have had an entry, in order."""
    rows = read_held(task_id, epoch, _ARRIVED, {"after": after, "up_to": up_to, "limit": limit}, now)
    return [SettledFile(file, 0, checksum=file.checksum) for file in map(_file_row, rows)]


def send_again(task_id: uuid.UUID, epoch: int, files: Sequence[FileRow], now: datetime | None = None) -> None:
    """Make files pending that have arrived, and are not at the destination any more as they arrived."""
    with hold(task_id, epoch, now):
        execute(_SEND_AGAIN, {"ids": arrays.integers(file.id for file in files), "task": task_id})


def counts(task_id: uuid.UUID, epoch: int, now: datetime | None = None) -> TaskCounts:
    """The work that the task has left."""
    [row] = read_held(task_id, epoch, _COUNTS, {"most": PENDING_COUNTED}, now)
    return TaskCounts(*row)


def _file_row(row: tuple[Any, ...]) -> FileRow:
    id_, item_id, source, destination, size, kind, attempts, ranges, temporary, *rest = row
    suspect, modified, link_target, algorithm, value, absent, last_fault = rest
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
        absent=absent,
        last_fault=last_fault or "",
    )


_COLUMNS = """id, item_id, source_path, destination_path, size, kind, attempts, ranges, temporary_path,
        id <= (SELECT suspect_up_to FROM tasks_task WHERE id = %(task)s) AS suspect, modified,
        link_target, checksum_algorithm, checksum, absent, error_code"""

_PENDING = f"""
    (SELECT {_COLUMNS} FROM tasks_file
    WHERE task_id = %(task)s AND state = 0 AND next_try_at IS NULL AND id <> ALL(%(exclude)s::bigint[])
    ORDER BY size, id LIMIT %(limit)s)
    UNION ALL
    (SELECT {_COLUMNS} FROM tasks_file
    WHERE task_id = %(task)s AND state = 0 AND next_try_at <= lease.now AND id <> ALL(%(exclude)s::bigint[])
    ORDER BY next_try_at LIMIT %(limit)s)
    ORDER BY size, id LIMIT %(limit)s"""  # noqa: S608 (constants)

_BEGUN = f"""
    SELECT {_COLUMNS} FROM tasks_file
    WHERE task_id = %(task)s AND state = 0 AND (temporary_path IS NOT NULL OR ranges <> ''
        OR id <= (SELECT suspect_up_to FROM tasks_task WHERE id = %(task)s))
    ORDER BY temporary_path IS NULL AND ranges = '' LIMIT %(limit)s"""  # noqa: S608

_TEMPORARY = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s::bigint[], %(names)s::bytea[]) AS given(id, path)
    ), old AS MATERIALIZED (
        SELECT * FROM given {PENDING_ROWS} WHERE known.temporary_path IS DISTINCT FROM given.path
    ), renamed AS (
        UPDATE tasks_file new SET temporary_path = old.path, ranges = '', bytes_done = 0
        FROM old WHERE new.ctid = old.place
        RETURNING old.bytes_done
    )
    UPDATE tasks_task SET bytes_transferred = greatest(0, bytes_transferred - lost.bytes)
    FROM (SELECT sum(bytes_done) AS bytes FROM renamed) AS lost WHERE id = %(task)s AND lost.bytes > 0"""  # noqa: S608

_SOURCE_CHANGED = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s::bigint[], %(sizes)s::bigint[], %(times)s::timestamptz[])
            AS given(id, new_size, modified)
    ), old AS MATERIALIZED (
        SELECT * FROM given {PENDING_ROWS}
    ), changed AS (
        UPDATE tasks_file new SET size = old.new_size, modified = old.modified, ranges = '', bytes_done = 0
        FROM old WHERE new.ctid = old.place
        RETURNING old.bytes_done, new.size - old.size AS more
    )
    UPDATE tasks_task SET bytes_transferred = greatest(0, bytes_transferred - changed.bytes),
        bytes_total = greatest(0, least(bytes_total + changed.more, 9223372036854775807))
    FROM (SELECT coalesce(sum(bytes_done), 0) AS bytes, coalesce(sum(more), 0) AS more FROM changed) AS changed
    WHERE id = %(task)s"""  # noqa: S608

_ARRIVED = f"""
    SELECT {_COLUMNS} FROM tasks_file
    WHERE task_id = %(task)s AND id > %(after)s AND id <= %(up_to)s AND state = 1 AND kind = 0 AND NOT absent
    ORDER BY id LIMIT %(limit)s"""  # noqa: S608

_SEND_AGAIN = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s::bigint[]) AS given(id)
    ), old AS MATERIALIZED (
        SELECT * FROM given {ARRIVED_ROWS}
    ), again AS (
        UPDATE tasks_file new SET state = 0, settled_at = NULL, bytes_done = 0,
            checksum_algorithm = old.extra->>'checksum_algorithm', checksum = old.extra->>'external_checksum'
        FROM old WHERE new.ctid = old.place
        RETURNING old.bytes_done
    )
    UPDATE tasks_task SET files_transferred = files_transferred - again.files,
        bytes_transferred = greatest(0, bytes_transferred - again.bytes)
    FROM (SELECT count(*) AS files, coalesce(sum(bytes_done), 0) AS bytes FROM again) AS again WHERE id = %(task)s"""  # noqa: S608

#: The columns are the fields of `TaskCounts`, in its order. Two partial indexes have the pending files.
_COUNTS = """
    SELECT items_total - items_scanned,
        (SELECT count(*) FROM (
            (SELECT FROM tasks_file WHERE task_id = %(task)s AND state = 0 AND next_try_at IS NULL LIMIT %(most)s)
            UNION ALL
            (SELECT FROM tasks_file WHERE task_id = %(task)s AND state = 0 AND next_try_at IS NOT NULL LIMIT %(most)s)
            LIMIT %(most)s) AS few),
        files_failed,
        least((SELECT min(next_try_at) FROM tasks_item WHERE task_id = %(task)s AND scanned_at IS NULL),
            (SELECT next_try_at FROM tasks_file
                WHERE task_id = %(task)s AND state = 0 AND next_try_at IS NOT NULL ORDER BY next_try_at LIMIT 1)),
        skipped_errors
    FROM tasks_task WHERE id = %(task)s"""
