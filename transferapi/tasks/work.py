"""What a worker reads and writes of its task: each function is one short transaction under the worker's lease.

Every function raises LeaseLostError when the lease is not (any more) the one of this epoch, and has then
written nothing. `now` None is the database's clock. Settling is in `settling.py`.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Count, F

from . import arrays, events, moves, pauses, renewal, space
from .errors import AmbiguousPathError
from .leases import hold
from .models import File, Item, Task
from .rows import FileFacts, ItemFacts, NewFile, Tally, Trouble
from .states import FileKind, FileState

#: `tally` counts pending files up to here: a worker wants to know whether there are any, and roughly how many.
PENDING_COUNTED = 10_000


def unscanned(
    task_id: uuid.UUID, epoch: int, limit: int, exclude: Collection[int] = (), now: datetime | None = None
) -> list[ItemFacts]:
    """Items whose scan is not complete and whose next try is due, in the user's order."""
    with hold(task_id, epoch, now) as now:
        return _item_facts(_UNSCANNED, [task_id, now, [*exclude], limit])


def add_found(
    task_id: uuid.UUID, epoch: int, found: Sequence[NewFile], now: datetime | None = None, *, durable: bool = False
) -> list[FileFacts]:
    """Write what the scan found; the rows that are new. Raises AmbiguousPathError, TooMuchError: nothing is written

    durable: not even a crash of the database's host loses them. A scan that compares needs that: what is half
    written at the destination is told from what was there before by its row alone.
    """
    with hold(task_id, epoch, now) as now:
        return _insert_found(task_id, found, now, durable=durable)


def has_found(task_id: uuid.UUID, epoch: int, item_id: int, now: datetime | None = None) -> bool:
    """Whether any scan of this item has found something."""
    with hold(task_id, epoch, now):
        return File.objects.filter(task=task_id, item=item_id).exists()


def items(
    task_id: uuid.UUID, epoch: int, after: int, limit: int, now: datetime | None = None
) -> list[tuple[ItemFacts, bool]]:
    """Items in the user's order behind the one of this id (0: from the first), each with whether it is one file."""
    with hold(task_id, epoch, now):
        found = _item_facts(_ITEMS, {"task": task_id, "after": after, "limit": limit})
        files = _files_at(task_id, [item.destination_path or item.source_path for item in found])
        return [(item, (item.destination_path or item.source_path) in files) for item in found]


def known(task_id: uuid.UUID, epoch: int, destinations: Sequence[str], now: datetime | None = None) -> set[str]:
    """Those of these paths that are the destination of a file of this task."""
    with hold(task_id, epoch, now):
        return _files_at(task_id, destinations)


def _files_at(task_id: uuid.UUID, paths: Sequence[str]) -> set[str]:
    by_key = {file_key(path): path for path in paths}
    keys = File.objects.filter(task=task_id, key__in=list(by_key)).values_list("key", flat=True)
    return {by_key[bytes(key)] for key in keys}


def item_scanned(
    task_id: uuid.UUID, epoch: int, item_id: int, directories: int, symlinks: int, now: datetime | None = None
) -> None:
    """The scan of this item is complete; a second time changes nothing."""
    with hold(task_id, epoch, now) as now:
        _mark_scanned(
            task_id, [item_id], now, directories=F("directories") + directories, symlinks=F("symlinks") + symlinks
        )


def file_items_scanned(
    task_id: uuid.UUID, epoch: int, found: Sequence[NewFile], now: datetime | None = None, *, durable: bool = False
) -> list[FileFacts]:
    """`add_found` and `item_scanned` for items that are one file, or one kept link, each. Raises as `add_found`."""
    with hold(task_id, epoch, now) as now:
        rows = _insert_found(task_id, found, now, durable=durable)
        links = sum(file.link_target is not None for file in found)
        _mark_scanned(task_id, [file.item_id for file in found], now, symlinks=F("symlinks") + links)
        return rows


def _mark_scanned(task_id: uuid.UUID, item_ids: Sequence[int], now: datetime, **counters: object) -> None:
    items = Item.objects.filter(task=task_id, id__in=item_ids, scanned_at=None)
    changed = items.update(scanned_at=now, next_try_at=None)
    if changed:
        Task.objects.filter(pk=task_id).update(items_scanned=F("items_scanned") + changed, **counters)


def file_key(path: str) -> bytes:
    """What makes a file the same one in a second scan: BLAKE2b of its path, 96 bits of it.

    Before them 32 bits of its folder: files that are found together then stand together in the index, which a million
    of them would otherwise fill from all ends at once.
    """
    octets = path.encode("utf-8", "surrogateescape")
    folder = hashlib.blake2b(octets[: octets.rfind(b"/") + 1], digest_size=4).digest()
    return folder + hashlib.blake2b(octets, digest_size=12).digest()


def _insert_found(task_id: uuid.UUID, found: Sequence[NewFile], now: datetime, *, durable: bool) -> list[FileFacts]:
    by_key: dict[bytes, NewFile] = {}
    for file in found:
        target = file.source_path if file.destination_path is None else file.destination_path
        first = by_key.setdefault(file_key(target), file)
        if first.source_path != file.source_path:
            raise AmbiguousPathError(target)
    if durable:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO on")
    new = _insert(task_id, by_key, now)
    _check_same_sources(task_id, by_key, new)
    written = [by_key[key] for key in new]
    octets = sum(space.octets(file.source_path, file.destination_path, file.link_target) for file in written)
    space.take(task_id, len(written), octets)
    files = [file for key, file in by_key.items() if key in new and file.kind == FileKind.FILE]
    if files:
        skipped = sum(file.skipped for file in files)
        size = sum(file.size for file in files if not file.skipped)
        checksummed = sum(file.checksummed for file in files)
        with connection.cursor() as cursor:
            cursor.execute(_COUNT_FOUND, [len(files), skipped, size, checksummed, task_id])
    return [_pending_file(new[key], file) for key, file in by_key.items() if key in new and not file.skipped]


def _pending_file(id_: int, file: NewFile) -> FileFacts:
    known = (file.modified, file.link_target, file.checksum_algorithm, file.checksum)
    return FileFacts(id_, *file[:4], file.kind, 0, "", None, *known)


def _insert(task_id: uuid.UUID, by_key: dict[bytes, NewFile], now: datetime) -> dict[bytes, int]:
    """Insert what is not there yet: the ids of the new rows by key."""
    files = by_key.values()
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [
            task_id,
            now,
            arrays.integers(file.item_id for file in files),
            arrays.integers(file.kind for file in files),
            arrays.octets(encoded(file.source_path) for file in files),
            arrays.octets(encoded(file.destination_path) for file in files),
            arrays.octets(by_key),
            arrays.integers(file.size for file in files),
            arrays.moments(file.modified for file in files),
            arrays.integers(FileState.SKIPPED if file.skipped else FileState.PENDING for file in files),
            arrays.octets(encoded(file.link_target) for file in files),
            [file.checksum_algorithm for file in files],
            [file.checksum for file in files],
        ])  # fmt: skip
        return {bytes(key): id_ for id_, key in cursor.fetchall()}


def encoded(path: str | None) -> bytes | None:
    """A path as the octets that the database keeps."""
    return None if path is None else path.encode("utf-8", "surrogateescape")


def _check_same_sources(task_id: uuid.UUID, by_key: dict[bytes, NewFile], new: Collection[bytes]) -> None:
    """What is there already must have come from the same source: then it was found by an earlier scan."""
    old = {key: file for key, file in by_key.items() if key not in new}
    if not old:
        return
    sources = arrays.octets(encoded(file.source_path) for file in old.values())
    with connection.cursor() as cursor:
        cursor.execute(_OTHER_SOURCE, [arrays.octets(old), sources, task_id])
        other = cursor.fetchone()
    if other:
        file = old[bytes(other[0])]
        raise AmbiguousPathError(file.destination_path or file.source_path)


def pending(
    task_id: uuid.UUID, epoch: int, limit: int, exclude: Collection[int] = (), now: datetime | None = None
) -> list[FileFacts]:
    """Pending files that are due, by size, without those in `exclude`.

    Of those that come back from a backoff, the `limit` that have been due for longest are considered.
    """
    with hold(task_id, epoch, now) as now:
        columns = {"task": task_id, "now": now, "exclude": [*exclude], "limit": limit}
        return [FileFacts(*row) for row in _rows(_PENDING, columns, FILE_PATHS)]


def begun(task_id: uuid.UUID, epoch: int, limit: int, now: datetime | None = None) -> list[FileFacts]:
    """Pending files with a temporary path, or with something of them on the destination's disk."""
    with hold(task_id, epoch, now):
        return [FileFacts(*row) for row in _rows(_BEGUN, {"task": task_id, "limit": limit}, FILE_PATHS)]


def write_temporary_paths(
    task_id: uuid.UUID, epoch: int, paths: Sequence[tuple[int, str | None]], now: datetime | None = None
) -> None:
    """Record under which names these files are about to be written: (file id, path).

    What was on disk under another name is worth nothing then: it is forgotten, lest it be taken for a part of this.
    """
    with hold(task_id, epoch, now), connection.cursor() as cursor:
        ids, names = (
            arrays.integers(file_id for file_id, _ in paths),
            arrays.octets(encoded(path) for _, path in paths),
        )
        cursor.execute(_TEMPORARY, {"ids": ids, "names": names, "task": task_id})


def event(task_id: uuid.UUID, epoch: int, new: events.NewEvent, now: datetime | None = None) -> None:
    """Append an event, as far as there is room (`events.append_bounded`)."""
    with hold(task_id, epoch, now) as now:
        events.append_bounded(task_id, [new], now)


def tally(task_id: uuid.UUID, epoch: int, now: datetime | None = None) -> Tally:
    """Where the task stands."""
    with hold(task_id, epoch, now):
        ((unscanned_, failed, skipped, pending_, item_try, file_try),) = _rows(
            _TALLY, {"task": task_id, "most": PENDING_COUNTED}
        )
        tries = [moment for moment in (item_try, file_try) if moment]
        return Tally(unscanned_, pending_, failed, min(tries, default=None), skipped)


def finish(task_id: uuid.UUID, epoch: int, now: datetime | None = None) -> None:
    """End the task: SUCCEEDED when nothing failed, else FAILED. ValueError while something is still to do."""
    with hold(task_id, epoch, now, to_end=True) as now:
        task = Task.objects.select_for_update().get(pk=task_id)
        left = File.objects.filter(task=task_id, state=FileState.PENDING).exists()
        if left or task.items_scanned < task.items_total:
            raise ValueError(f"task {task_id} is not done: files or items are left")
        if task.skipped_errors:
            events.append(task_id, [_passed_over(task.skipped_errors)], now)
        if task.files_failed:
            _fail_for_files(task, now)
        else:
            told = events.NewEvent("SUCCEEDED", "The task succeeded.", _numbers(task))
            moves.move(task_id, moves.RUNNING, moves.SUCCEEDED, now=now, event=told, changes=moves.NO_TROUBLE)


def _passed_over(count: int) -> events.NewEvent:
    what = "1 file or folder" if count == 1 else f"{count} files or folders"
    text = f"{what} could not be read and were left out, as skip_source_errors asks."
    return events.NewEvent("SKIPPED_ERRORS", text, {"skipped_errors": count})


def _fail_for_files(task: Task, now: datetime) -> None:
    """The task's error is the one that most of its files have."""
    failed = File.objects.filter(task=task, state=FileState.FAILED, error_code__isnull=False)
    code = failed.values_list("error_code").annotate(files=Count("id")).order_by("-files", "error_code")[0][0]
    done = task.files - task.files_failed
    text = f"{task.files_failed} of {task.files} file(s) failed, {done} arrived or were in place already."
    moves.fail(task.pk, moves.RUNNING, str(code), text, now, _numbers(task))


def _numbers(task: Task) -> dict[str, int]:
    return {
        "files_succeeded": task.files_transferred,
        "files_skipped": task.files_skipped,
        "files_failed": task.files_failed,
        "bytes_transferred": task.bytes_transferred,
    }


def fail(task_id: uuid.UUID, epoch: int, code: str, description: str, now: datetime | None = None) -> None:
    """End the task as FAILED: CANCELED, EXPIRED, or a fault that spoils all of it. What arrived stays counted."""
    with hold(task_id, epoch, now, to_end=True) as now:
        moves.fail(task_id, moves.RUNNING, code, description, now)


def suspend(
    task_id: uuid.UUID,
    epoch: int,
    trouble: Trouble,
    had_credential: datetime | None = None,
    now: datetime | None = None,
) -> None:
    """Make the task INACTIVE: a person must act. One whose cancel came meanwhile ends instead.

    had_credential: when the one was stored that is of no use; any other lets it go on. None: there was none.
    """
    with hold(task_id, epoch, now, to_end=True) as now:
        if not _cancel_came(task_id, now):
            task = Task.objects.select_related(*renewal.WITH_ENDS).get(pk=task_id)
            renewal.suspend(task, trouble, had_credential, now)


def release(
    task_id: uuid.UUID,
    epoch: int,
    next_run_at: datetime,
    connection_failures: int = 0,
    now: datetime | None = None,
) -> None:
    """Give the task back: it may run again from then on, or at its deadline.

    One whose cancel came meanwhile ends; one that somebody has paused meanwhile stays so.
    """
    with hold(task_id, epoch, now, to_end=True) as now:
        if _cancel_came(task_id, now):
            return
        task = Task.objects.select_related("source__owner", "destination__owner").get(pk=task_id)
        turn = {"next_run_at": max(now, min(next_run_at, task.deadline)), "connection_failures": connection_failures}
        if why := pauses.why(task, now):
            moves.pause(task_id, moves.RUNNING, why, now, turn)
        else:
            moves.move(task_id, moves.RUNNING, moves.QUEUED, now=now, changes=turn)


def _cancel_came(task_id: uuid.UUID, now: datetime) -> bool:
    task = Task.objects.select_for_update().only("cancel_requested_at").get(pk=task_id)
    if task.cancel_requested_at is None:
        return False
    moves.fail(task_id, moves.RUNNING, "CANCELED", moves.CANCELED_TEXT, now)
    return True


#: Which columns of the rows below are paths.
ITEM_PATHS = (1, 2)
FILE_PATHS = (2, 3, 8, 10)


def _rows(query: str, parameters: Any, paths: Collection[int] = ()) -> list[list[Any]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        rows = [list(row) for row in cursor.fetchall()]
    for row in rows:
        for column in paths:
            row[column] = row[column] and bytes(row[column]).decode("utf-8", "surrogateescape")
    return rows


def _item_facts(query: str, parameters: Any) -> list[ItemFacts]:
    rows = _rows(query, parameters, ITEM_PATHS)
    for row in rows:
        row[-1] = json.loads(row[-1])
    return [ItemFacts(*row) for row in rows]


_UNSCANNED = """
    SELECT id, source_path, destination_path, recursive, attempts, extra FROM tasks_item
    WHERE task_id = %s AND scanned_at IS NULL AND (next_try_at IS NULL OR next_try_at <= %s)
        AND id <> ALL(%s::bigint[])
    ORDER BY position LIMIT %s"""

_ITEMS = """
    SELECT id, source_path, destination_path, recursive, attempts, extra FROM tasks_item
    WHERE task_id = %(task)s
        AND position > coalesce((SELECT position FROM tasks_item WHERE id = %(after)s AND task_id = %(task)s), -1)
    ORDER BY position LIMIT %(limit)s"""

_INSERT = """
    INSERT INTO tasks_file (task_id, settled_at, item_id, kind, source_path, destination_path, key, size, modified,
        state, link_target, checksum_algorithm, checksum, attempts, ranges, bytes_done)
    SELECT %s, CASE WHEN f.state > 0 THEN %s::timestamptz END, f.*, 0, '', 0
    FROM unnest(%s::bigint[], %s::smallint[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bigint[],
        %s::timestamptz[], %s::smallint[], %s::bytea[], %s::varchar[], %s::varchar[])
        AS f(item, kind, source, destination, key, size, modified, state, target, algorithm, checksum)
    ON CONFLICT (task_id, key) DO NOTHING
    RETURNING id, key"""

_OTHER_SOURCE = """
    SELECT given.key FROM unnest(%s::bytea[], %s::bytea[]) AS given(key, source)
    JOIN tasks_file f ON f.task_id = %s AND f.key = given.key AND f.source_path <> given.source LIMIT 1"""

#: A server may claim exabytes for each of its files: the sum stops at the largest number there is.
_COUNT_FOUND = """
    UPDATE tasks_task SET files = files + %s, files_skipped = files_skipped + %s,
        bytes_total = least(bytes_total + %s::numeric, 9223372036854775807),
        bytes_checksummed = least(bytes_checksummed + %s::numeric, 9223372036854775807) WHERE id = %s"""

_COLUMNS = (
    "id, item_id, source_path, destination_path, size, kind, attempts, ranges, temporary_path, modified, link_target,"
    " checksum_algorithm, checksum"
)
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

_TALLY = """
    SELECT items_total - items_scanned, files_failed, skipped_errors,
        (SELECT count(*) FROM (SELECT FROM tasks_file WHERE task_id = %(task)s AND state = 0 LIMIT %(most)s) AS few),
        (SELECT min(next_try_at) FROM tasks_item WHERE task_id = %(task)s AND scanned_at IS NULL),
        (SELECT min(next_try_at) FROM tasks_file
            WHERE task_id = %(task)s AND state = 0 AND next_try_at IS NOT NULL)
    FROM tasks_task WHERE id = %(task)s"""
