"""Settle files, give them back with their faults, note their progress: one short transaction for a whole batch.

The task's counters change by what the rows changed by, so that they add up whatever is written twice.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from . import arrays, events, space, troubles
from .leases import hold
from .models import Task
from .rows import FaultedFile, FaultedItem, MissedFile, MovedBytes, SettledFile, Settlement, Trouble
from .states import FileKind, FileState
from .work import encoded, file_key

#: A task has this long after its last progress, unless its deadline is fixed.
GRACE = timedelta(hours=72)
#: What becomes of something that met a fault: tried again from then on, "given up", or "passed over".
_Fate = datetime | str
_PASSED_OVER = "passed over"
#: (path, what it met, what becomes of it)
_Told = tuple[str, Trouble, _Fate]
#: Paths that the event of a fault names, and characters kept of a server's words: there, and with each file.
PATHS_TOLD, MAX_RAW, MAX_DETAILS = 20, 2000, 500


class _Changes(NamedTuple):
    """By how much a task's counters change."""

    files: int = 0
    transferred: int = 0
    skipped: int = 0
    failed: int = 0
    size: int = 0
    moved: int = 0
    #: Of `skipped`: those that could not be read.
    skipped_errors: int = 0
    #: Rows that changed.
    rows: int = 0


def write(task_id: uuid.UUID, epoch: int, batch: Settlement, now: datetime | None = None) -> None:
    """Write the batch, the task's counters and the events of its faults. -> LeaseLostError

    A file that is not pending any more is left as it is and not counted again.
    """
    with hold(task_id, epoch, now) as now:
        settled = _settle(task_id, batch.settled, now) if batch.settled else _Changes()
        moved = _move(task_id, batch.moved) if batch.moved else _Changes()
        faulted = _give_back(task_id, batch.faulted, now) if batch.faulted else _Changes()
        total = _Changes(*map(sum, zip(settled, moved, faulted, strict=True)))
        checksummed = sum(file.checksummed for file in batch.settled)
        checksummed += sum(file.checksummed for file in batch.faulted)
        progressed = bool(settled.rows or moved.rows)
        faults = [file.trouble for file in batch.faulted if not file.skipped]
        retry_at = _earliest(file.retry_at for file in batch.faulted)
        _count(task_id, total, now, progressed=progressed, faults=faults, checksummed=checksummed, retry_at=retry_at)
        _tell(task_id, [(file.path, file.trouble, _fate(file)) for file in batch.faulted], now)


def items_faulted(task_id: uuid.UUID, epoch: int, faulted: Sequence[FaultedItem], now: datetime | None = None) -> None:
    """Items whose scan met a fault. One that is given up, or passed over, becomes a file that the user's lists show."""
    with hold(task_id, epoch, now) as now:
        waiting = [fault for fault in faulted if fault.retry_at]
        failed = _give_up(task_id, [fault for fault in faulted if not fault.retry_at and not fault.skipped], now)
        skipped = _give_up(task_id, [fault for fault in faulted if fault.skipped], now, FileState.SKIPPED)
        if waiting:
            with connection.cursor() as cursor:
                tries = arrays.moments(fault.retry_at for fault in waiting)
                cursor.execute(_RETRY_ITEMS, [arrays.integers(fault.item.id for fault in waiting), tries, task_id])
        changes = _Changes(files=failed + skipped, failed=failed, skipped=skipped, skipped_errors=skipped)
        faults = [fault.trouble for fault in faulted if not fault.skipped]
        retry_at = _earliest(fault.retry_at for fault in faulted)
        _count(task_id, changes, now, progressed=False, faults=faults, items=failed + skipped, retry_at=retry_at)
        _tell(task_id, [(fault.item.source_path, fault.trouble, _fate(fault)) for fault in faulted], now)


def pass_over(task_id: uuid.UUID, epoch: int, missed: Sequence[MissedFile], now: datetime | None = None) -> None:
    """What a scan leaves out becomes rows that the user's lists show; again, it is there. Raises TooMuchError."""
    with hold(task_id, epoch, now) as now:
        # No path has such a key: where another source has this destination, both have their row.
        by_key = {file_key(f"passed over\0{file.item_id}\0{file.source_path}"): file for file in missed}
        new = [by_key[key] for key in _insert_missed(task_id, by_key, now)]
        space.take(task_id, len(new), sum(space.octets(file.source_path, file.destination_path) for file in new))
        changes = _Changes(files=len(new), skipped=len(new), skipped_errors=len(new))
        _count(task_id, changes, now, progressed=False, faults=())
        _tell(task_id, [(file.source_path, file.trouble, _PASSED_OVER) for file in new], now)


def _insert_missed(task_id: uuid.UUID, by_key: Mapping[bytes, MissedFile], now: datetime) -> list[bytes]:
    """The keys of the new rows."""
    files = by_key.values()
    with connection.cursor() as cursor:
        cursor.execute(_MISSED, {
            "task": task_id,
            "now": now,
            "items": arrays.integers(file.item_id for file in files),
            "kinds": arrays.integers(file.kind for file in files),
            "sources": arrays.octets(encoded(file.source_path) for file in files),
            "destinations": arrays.octets(encoded(file.destination_path) for file in files),
            "keys": arrays.octets(by_key),
            "codes": [file.trouble.code for file in files],
            "details": [_details(file.trouble) for file in files],
        })  # fmt: skip
        return [bytes(key) for (key,) in cursor.fetchall()]


def _settle(task_id: uuid.UUID, settled: Sequence[SettledFile], now: datetime) -> _Changes:
    return _changes(_SETTLE, {
        "task": task_id,
        "now": now,
        "ids": arrays.integers(file.id for file in settled),
        "skipped": arrays.integers(int(file.skipped) for file in settled),
        "sizes": [file.new_size for file in settled],
        "algorithms": [file.checksum_algorithm for file in settled],
        "checksums": [file.checksum for file in settled],
    })  # fmt: skip


def _give_back(task_id: uuid.UUID, faulted: Sequence[FaultedFile], now: datetime) -> _Changes:
    return _changes(_GIVE_BACK, {
        "task": task_id,
        "now": now,
        "ids": arrays.integers(file.id for file in faulted),
        "codes": [file.trouble.code for file in faulted],
        "details": [_details(file.trouble) for file in faulted],
        "tries": arrays.moments(file.retry_at for file in faulted),
        "ranges": [file.ranges for file in faulted],
        "done": arrays.integers(file.bytes_done for file in faulted),
        "sizes": [file.new_size for file in faulted],
        "states": arrays.integers(_state(file) for file in faulted),
    })  # fmt: skip


def _state(file: FaultedFile) -> FileState:
    if file.skipped:
        return FileState.SKIPPED
    return FileState.PENDING if file.retry_at else FileState.FAILED


def _move(task_id: uuid.UUID, moved: Sequence[MovedBytes]) -> _Changes:
    last = {file.id: file for file in moved}.values()
    return _changes(_MOVE, {
        "task": task_id,
        "ids": arrays.integers(file.id for file in last),
        "ranges": [file.ranges for file in last],
        "done": arrays.integers(file.bytes_done for file in last),
    })  # fmt: skip


def _changes(query: str, parameters: dict[str, Any]) -> _Changes:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return _Changes(*map(int, cursor.fetchone()))


def _give_up(
    task_id: uuid.UUID, faulted: Sequence[FaultedItem], now: datetime, state: FileState = FileState.FAILED
) -> int:
    """How many items were given up now: those whose scan was not complete already."""
    if not faulted:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_GIVE_UP_ITEMS, {
            "task": task_id,
            "now": now,
            "ids": arrays.integers(fault.item.id for fault in faulted),
            "kinds": arrays.integers(
                FileKind.DIRECTORY if fault.item.recursive else FileKind.FILE for fault in faulted
            ),
            # No path has this key: a given-up item stands beside files of it that were found before.
            "keys": arrays.octets(file_key(f"item\0{fault.item.id}") for fault in faulted),
            "codes": [fault.trouble.code for fault in faulted],
            "details": [_details(fault.trouble) for fault in faulted],
            "state": state,
        })  # fmt: skip
        given_up = int(cursor.rowcount)
    items = [fault.item for fault in faulted[:given_up]]
    space.take(task_id, given_up, sum(space.octets(item.source_path, item.destination_path) for item in items))
    return given_up


def _count(
    task_id: uuid.UUID,
    changes: _Changes,
    now: datetime,
    *,
    progressed: bool,
    faults: Sequence[Trouble],
    items: int = 0,
    checksummed: int = 0,
    retry_at: datetime | None = None,
) -> None:
    """Add to the task's counters. Trouble shows until the next progress; progress moves the deadline, never back."""
    code, count = Counter(fault.code for fault in faults).most_common(1)[0] if faults else (None, 0)
    worst = next((fault for fault in faults if fault.code == code), None)
    parameters: dict[str, Any] = {
        **changes._asdict(),
        "task": task_id,
        "now": now,
        "progressed": progressed,
        "grace": GRACE,
        "items": items,
        "checksummed": checksummed,
        "faults": len(faults),
        "quiet": progressed and not worst,
        "code": code,
        "advice": _sentence(task_id, worst, count, retry_at) if worst else None,
    }
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, parameters)


def _sentence(task_id: uuid.UUID, trouble: Trouble, count: int, retry_at: datetime | None) -> str:
    task = Task.objects.select_related(*troubles.WITH_ENDS).get(pk=task_id)
    return troubles.sentence(task, trouble, retry_at, what=f"{count} file{'' if count == 1 else 's'}")


def _earliest(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment), default=None)


def _details(trouble: Trouble) -> str:
    return events.printable(trouble.raw or trouble.advice)[:MAX_DETAILS]


def _fate(fault: FaultedFile | FaultedItem) -> _Fate:
    """What becomes of it: tried again from then on, or one of the two words."""
    if fault.skipped:
        return _PASSED_OVER
    return fault.retry_at or "given up"


def _tell(task_id: uuid.UUID, faults: Iterable[_Told], now: datetime) -> None:
    """One event for each kind of fault on each side, however many files met it."""
    groups: dict[tuple[str, str, str | None], list[_Told]] = defaultdict(list)
    for path, trouble, fate in faults:
        groups[trouble.code, trouble.side, fate if isinstance(fate, str) else None].append((path, trouble, fate))
    if groups:
        events.append_bounded(task_id, [_event(*key, group) for key, group in groups.items()], now)


#: What `_event` says of faults: numbers and times, no path and no words of a server.
SUMMARY = re.compile(
    r"[A-Za-z ]+(?: at the (?:source|destination))? on [0-9]+ files?: "
    r"(?:tried again from [0-9: -]+ UTC|given up|passed over)\.\Z"
)


def _event(code: str, side: str, end: str | None, group: Sequence[_Told]) -> events.NewEvent:
    what = code.replace("_", " ").capitalize()
    where = f" at the {side}" if side != "unknown" else ""
    number = "1 file" if len(group) == 1 else f"{len(group)} files"
    tries = [fate for _, _, fate in group if isinstance(fate, datetime)]
    then = end or f"tried again from {min(tries):%Y-%m-%d %H:%M:%S} UTC"
    trouble = group[0][1]
    lines = [trouble.advice, trouble.raw[:MAX_RAW], *(f"File: {path}" for path, _, _ in group[:PATHS_TOLD])]
    if len(group) > PATHS_TOLD:
        lines.append(f"... and {len(group) - PATHS_TOLD} more")
    text = "\n".join(line for line in lines if line)
    return events.NewEvent(code, f"{what}{where} on {number}: {then}.", text, is_error=end != _PASSED_OVER)


#: IS NOT DISTINCT FROM: no index of the task serves that, so that rows are found by their ids alone (see leases.hold).
#: Each of these three gives back by how much the counters change: what `_Changes` names, in its order.
#: `old` is the row as it was, `new` as it is now; DELETE's folders and links are no `files` until they fail.
_SETTLE = """
    WITH given AS (
        SELECT * FROM unnest(%(ids)s::bigint[], %(skipped)s::int[], %(sizes)s::bigint[], %(algorithms)s::varchar[],
            %(checksums)s::varchar[]) AS given(id, skipped, size, algorithm, checksum)
    ), done AS (
        UPDATE tasks_file new SET
            state = 1 + given.skipped, settled_at = %(now)s, size = coalesce(given.size, old.size),
            bytes_done = CASE given.skipped WHEN 0 THEN coalesce(given.size, old.size) ELSE 0 END,
            next_try_at = NULL, ranges = '', temporary_path = NULL,
            error_code = NULL, error_details = NULL, error_time = NULL,
            checksum_algorithm = given.algorithm, checksum = given.checksum
        FROM given JOIN tasks_file old ON old.id = given.id
        WHERE new.id = old.id AND new.task_id IS NOT DISTINCT FROM %(task)s AND new.state = 0
        RETURNING new.kind = 0 AS is_file, given.skipped, new.size - old.size AS size,
            new.bytes_done - old.bytes_done AS moved
    )
    SELECT 0, count(*) FILTER (WHERE is_file AND skipped = 0), count(*) FILTER (WHERE is_file AND skipped = 1), 0,
        coalesce(sum(size), 0), coalesce(sum(moved), 0), 0, count(*) FROM done"""

_GIVE_BACK = """
    WITH given AS (
        SELECT *, retry_at IS NULL AS given_up
        FROM unnest(%(ids)s::bigint[], %(codes)s::varchar[], %(details)s::text[], %(tries)s::timestamptz[],
            %(ranges)s::text[], %(done)s::bigint[], %(sizes)s::bigint[], %(states)s::int[])
            AS given(id, code, details, retry_at, ranges, done, size, state)
    ), back AS (
        UPDATE tasks_file new SET
            state = given.state, settled_at = CASE WHEN given_up THEN %(now)s::timestamptz END,
            attempts = old.attempts + 1, next_try_at = retry_at,
            error_code = code, error_details = details, error_time = %(now)s,
            size = coalesce(given.size, old.size), ranges = given.ranges,
            bytes_done = CASE WHEN given_up THEN 0 ELSE least(given.done, coalesce(given.size, old.size)) END
        FROM given JOIN tasks_file old ON old.id = given.id
        WHERE new.id = old.id AND new.task_id IS NOT DISTINCT FROM %(task)s AND new.state = 0
        RETURNING new.kind = 0 AS is_file, given.state, new.size - old.size AS size,
            new.bytes_done - old.bytes_done AS moved
    )
    SELECT count(*) FILTER (WHERE state > 0 AND NOT is_file), 0, count(*) FILTER (WHERE state = 2),
        count(*) FILTER (WHERE state = 3), coalesce(sum(size), 0), coalesce(sum(moved), 0),
        count(*) FILTER (WHERE state = 2), count(*) FROM back"""

_MOVE = """
    WITH given AS (
        SELECT * FROM unnest(%(ids)s::bigint[], %(ranges)s::text[], %(done)s::bigint[]) AS given(id, ranges, done)
    ), moved AS (
        UPDATE tasks_file new SET ranges = given.ranges, bytes_done = least(given.done, old.size)
        FROM given JOIN tasks_file old ON old.id = given.id
        WHERE new.id = old.id AND new.task_id IS NOT DISTINCT FROM %(task)s AND new.state = 0
        RETURNING new.bytes_done - old.bytes_done AS moved
    )
    SELECT 0, 0, 0, 0, 0, coalesce(sum(moved), 0), 0, count(*) FILTER (WHERE moved > 0) FROM moved"""

_RETRY_ITEMS = """
    UPDATE tasks_item i SET attempts = attempts + 1, next_try_at = given.retry_at
    FROM unnest(%s::bigint[], %s::timestamptz[]) AS given(id, retry_at)
    WHERE i.id = given.id AND i.task_id = %s AND i.scanned_at IS NULL"""

_GIVE_UP_ITEMS = """
    WITH given AS (
        SELECT * FROM unnest(%(ids)s::bigint[], %(kinds)s::smallint[], %(keys)s::bytea[], %(codes)s::varchar[],
            %(details)s::text[]) AS given(id, kind, key, code, details)
    ), items AS (
        UPDATE tasks_item i SET attempts = attempts + 1, next_try_at = NULL, scanned_at = %(now)s
        FROM given WHERE i.id = given.id AND i.task_id = %(task)s AND i.scanned_at IS NULL
        RETURNING i.*
    )
    INSERT INTO tasks_file (task_id, item_id, kind, source_path, destination_path, key, size, state, attempts,
        ranges, bytes_done, error_code, error_details, error_time, settled_at, checksum_algorithm, checksum)
    SELECT items.task_id, items.id, given.kind, source_path, destination_path, key, 0, %(state)s, attempts, '', 0,
        code, details, %(now)s, %(now)s, extra->>'checksum_algorithm', extra->>'external_checksum'
    FROM items JOIN given USING (id)
    ON CONFLICT (task_id, key) DO NOTHING"""

_MISSED = """
    INSERT INTO tasks_file (task_id, item_id, kind, source_path, destination_path, key, size, state, attempts,
        ranges, bytes_done, error_code, error_details, error_time, settled_at)
    SELECT %(task)s, item, kind, source, destination, key, 0, 2, 1, '', 0, code, details, %(now)s, %(now)s
    FROM unnest(%(items)s::bigint[], %(kinds)s::smallint[], %(sources)s::bytea[], %(destinations)s::bytea[],
        %(keys)s::bytea[], %(codes)s::varchar[], %(details)s::text[])
        AS given(item, kind, source, destination, key, code, details)
    ON CONFLICT (task_id, key) DO NOTHING RETURNING key"""

_COUNT = """
    UPDATE tasks_task SET
        files = files + %(files)s, files_transferred = files_transferred + %(transferred)s,
        files_skipped = files_skipped + %(skipped)s, files_failed = files_failed + %(failed)s,
        bytes_total = greatest(0, least(bytes_total + %(size)s::numeric, 9223372036854775807)),
        bytes_transferred = greatest(0, least(bytes_transferred + %(moved)s::numeric, 9223372036854775807)),
        items_scanned = items_scanned + %(items)s, faults = faults + %(faults)s,
        skipped_errors = skipped_errors + %(skipped_errors)s, bytes_checksummed = bytes_checksummed + %(checksummed)s,
        last_progress_at = CASE WHEN %(progressed)s THEN %(now)s ELSE last_progress_at END,
        deadline = CASE WHEN %(progressed)s AND NOT deadline_is_fixed
            THEN greatest(deadline, %(now)s + %(grace)s) ELSE deadline END,
        nice_status = CASE WHEN %(quiet)s THEN NULL ELSE coalesce(%(code)s, nice_status) END,
        nice_status_details = CASE WHEN %(quiet)s THEN NULL ELSE coalesce(%(advice)s, nice_status_details) END
    WHERE id = %(task)s"""
