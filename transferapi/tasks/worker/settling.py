"""Write outcomes of files: settled, faulted, progress. One short transaction for a whole batch: `write`.

A file counts as done when it is written here as settled, and not before (truth 3).

The task's counters change by as much as the rows change, so that they add up when an outcome is written twice.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.gridftp.ranges import RangeSet
from identity.database_rows import execute, query_rows
from identity.gsi.sentences import ErrorName, Sentence, Value
from transferapi.tasks import events, standstill
from transferapi.tasks.models import WITH_ENDS, Task
from transferapi.tasks.records import FaultedFile, FaultedItem, PartialFile, SettledFile, Settlement, SkippedSource
from transferapi.tasks.states import FileKind, FileState
from transferapi.tasks.upkeep import space

from . import arrays, troubles
from .arrays import PENDING_ROWS, UNSCANNED_ROWS, encoded
from .leases import hold
from .scan_results import file_key

#: The deadline moves to this long after the last progress, unless it is fixed.
GRACE = timedelta(hours=72)
#: The outcome of a fault: the time of the retry, "given up", or "passed over".
_Fate = datetime | str
_PASSED_OVER, _GIVEN_UP = Sentence("passed over"), Sentence("given up")
#: (path, fault, outcome)
_Reported = tuple[str, Fault, _Fate]
#: Paths that the event of a fault lists; characters of a server's reply in the event, and in the row of a file.
PATHS_TOLD, MAX_RAW, MAX_DETAILS = 20, 2000, 500


class _Changes(NamedTuple):
    """Changes of a task's counters."""

    files: int = 0
    transferred: int = 0
    skipped: int = 0
    failed: int = 0
    size: int = 0
    moved: int = 0
    #: The part of `skipped` that could not be read.
    skipped_errors: int = 0
    #: Rows that changed.
    rows: int = 0


class SettledCounts(NamedTuple):
    """The additions of a batch to its task: files that have arrived (or are deleted), and octets."""

    files: int
    octets: int


def write(task_id: uuid.UUID, epoch: int, batch: Settlement, now: datetime | None = None) -> SettledCounts:
    """Write the batch, the task's counters and the events of its faults. Raises LeaseLostError.

    A file that is not pending any more is not changed and not counted again.
    """
    with hold(task_id, epoch, now) as now:
        settled = _settle(task_id, batch.settled, now) if batch.settled else _Changes()
        moved = _move(task_id, batch.progress) if batch.progress else _Changes()
        faulted = _give_back(task_id, batch.faulted, now) if batch.faulted else _Changes()
        total = _Changes(*map(sum, zip(settled, moved, faulted, strict=True)))
        checksummed = sum(file.checksummed for file in batch.settled)
        checksummed += sum(file.checksummed for file in batch.faulted)
        progressed = bool(settled.rows or moved.rows)
        faults = [file.fault for file in batch.faulted if not file.skipped]
        retry_at = _earliest(file.retry_at for file in batch.faulted)
        _count(
            task_id,
            total,
            now,
            progressed=progressed,
            settled=settled.rows > 0,
            faults=faults,
            checksummed=checksummed,
            retry_at=retry_at,
        )
        _report(task_id, [(file.path, file.fault, _fate(file)) for file in batch.faulted], now)
        return SettledCounts(total.transferred, total.moved)


def items_faulted(task_id: uuid.UUID, epoch: int, faulted: Sequence[FaultedItem], now: datetime | None = None) -> None:
    """Write faults of scans. An item that has failed or is skipped gets a file row, which the user's lists show."""
    with hold(task_id, epoch, now) as now:
        failed = _give_up(task_id, [one for one in faulted if not one.retry_at and not one.skipped], now)
        skipped = _give_up(task_id, [one for one in faulted if one.skipped], now, FileState.SKIPPED)
        _try_later(task_id, [one for one in faulted if one.retry_at])
        changes = _Changes(files=failed + skipped, failed=failed, skipped=skipped, skipped_errors=skipped)
        faults = [one.fault for one in faulted if not one.skipped]
        retry_at = _earliest(one.retry_at for one in faulted)
        _count(task_id, changes, now, progressed=False, faults=faults, items=failed + skipped, retry_at=retry_at)
        _report(task_id, [(one.item.source_path, one.fault, _fate(one)) for one in faulted], now)


def _try_later(task_id: uuid.UUID, waiting: Sequence[FaultedItem]) -> None:
    if waiting:
        ids, tries = arrays.integers(one.item.id for one in waiting), arrays.moments(one.retry_at for one in waiting)
        execute(_RETRY_ITEMS, {"task": task_id, "ids": ids, "tries": tries})


def skip_sources(
    task_id: uuid.UUID, epoch: int, item_id: int, skipped: Sequence[SkippedSource], now: datetime | None = None
) -> None:
    """Write rows for sources of an item that its scan skips; a repeated scan adds none. Raises TooMuchError."""
    with hold(task_id, epoch, now) as now:
        # No path has such a key: a file from another source with this destination has a row of its own.
        by_key = {file_key(f"passed over\0{item_id}\0{file.source_path}"): file for file in skipped}
        new = [by_key[key] for key in _insert_skipped(task_id, item_id, by_key, now)]
        space.take(task_id, len(new), sum(space.octets(file.source_path, file.destination_path) for file in new))
        changes = _Changes(files=len(new), skipped=len(new), skipped_errors=len(new))
        _count(task_id, changes, now, progressed=False, faults=())
        _report(task_id, [(file.source_path, file.fault, _PASSED_OVER) for file in new], now)


def _insert_skipped(
    task_id: uuid.UUID, item_id: int, by_key: Mapping[bytes, SkippedSource], now: datetime
) -> list[bytes]:
    """The keys of the new rows."""
    files = by_key.values()
    new = query_rows(_SKIPPED, {
        "task": task_id,
        "item": item_id,
        "now": now,
        "kinds": arrays.integers(file.kind for file in files),
        "sources": arrays.octets(encoded(file.source_path) for file in files),
        "destinations": arrays.octets(encoded(file.destination_path) for file in files),
        "keys": arrays.octets(by_key),
        "codes": _codes(files),
        "details": [_details(file.fault) for file in files],
    })  # fmt: skip
    return [bytes(key) for (key,) in new]


def _codes(faulted: Iterable[FaultedFile | FaultedItem | SkippedSource]) -> list[str]:
    return [one.fault.kind.value for one in faulted]


def _settle(task_id: uuid.UUID, settled: Sequence[SettledFile], now: datetime) -> _Changes:
    return _changes(_SETTLE, {
        "task": task_id,
        "now": now,
        "ids": arrays.integers(one.file.id for one in settled),
        "skipped": arrays.integers(int(one.skipped) for one in settled),
        "sizes": [one.new_size for one in settled],
        "algorithms": [one.checksum and one.checksum.algorithm for one in settled],
        "checksums": [one.checksum and one.checksum.value for one in settled],
    })  # fmt: skip


def _give_back(task_id: uuid.UUID, faulted: Sequence[FaultedFile], now: datetime) -> _Changes:
    return _changes(_GIVE_BACK, {
        "task": task_id,
        "now": now,
        "ids": arrays.integers(one.file.id for one in faulted),
        "codes": _codes(faulted),
        "details": [_details(one.fault) for one in faulted],
        "tries": arrays.moments(one.retry_at for one in faulted),
        "ranges": [one.ranges for one in faulted],
        "names": arrays.octets(encoded(one.file.temporary_path) for one in faulted),
        "done": arrays.integers(RangeSet.parse(one.ranges).total if one.ranges else 0 for one in faulted),
        "sizes": [one.new_size for one in faulted],
        "states": arrays.integers(_state(one) for one in faulted),
    })  # fmt: skip


def _state(faulted: FaultedFile) -> FileState:
    if faulted.skipped:
        return FileState.SKIPPED
    return FileState.PENDING if faulted.retry_at else FileState.FAILED


def _move(task_id: uuid.UUID, progress: Sequence[PartialFile]) -> _Changes:
    last = {one.file.id: one for one in progress}
    return _changes(_MOVE, {
        "task": task_id,
        "ids": arrays.integers(last),
        "ranges": [one.ranges for one in last.values()],
        "names": arrays.octets(encoded(one.file.temporary_path) for one in last.values()),
        "done": arrays.integers(one.bytes for one in last.values()),
    })  # fmt: skip


def _changes(query: str, parameters: dict[str, Any]) -> _Changes:
    [row] = query_rows(query, parameters)
    return _Changes(*map(int, row))


def _give_up(
    task_id: uuid.UUID, faulted: Sequence[FaultedItem], now: datetime, state: FileState = FileState.FAILED
) -> int:
    """Give up items whose scan is not complete; return their number."""
    if not faulted:
        return 0
    given_up = execute(_GIVE_UP_ITEMS, {
        "task": task_id,
        "now": now,
        "ids": arrays.integers(one.item.id for one in faulted),
        "kinds": arrays.integers(FileKind.DIRECTORY if one.item.recursive else FileKind.FILE for one in faulted),
        # No path has this key: the row of a failed item stands beside files of it that were found before.
        "keys": arrays.octets(file_key(f"item\0{one.item.id}") for one in faulted),
        "codes": _codes(faulted),
        "details": [_details(one.fault) for one in faulted],
        "state": state,
    })  # fmt: skip
    items = [one.item for one in faulted[:given_up]]
    space.take(task_id, given_up, sum(space.octets(item.source_path, item.destination_path) for item in items))
    return given_up


def _count(
    task_id: uuid.UUID,
    changes: _Changes,
    now: datetime,
    *,
    progressed: bool,
    settled: bool = False,
    faults: Sequence[Fault],
    items: int = 0,
    checksummed: int = 0,
    retry_at: datetime | None = None,
) -> None:
    """Add to the task's counters. A fault is its status until the next progress that stays.

    The deadline moves with progress that stays: settled files, and octets beyond the most that there have been.
    """
    kind, count = Counter(fault.kind for fault in faults).most_common(1)[0] if faults else (None, 0)
    worst = next((fault for fault in faults if fault.kind is kind), None)
    status = _status(task_id, worst, count, retry_at, now) if worst else {"code": None, "advice": None, "stalls": None}
    execute(_COUNT, {
        **changes._asdict(),
        **status,
        "task": task_id,
        "now": now,
        "progressed": progressed,
        "settled": settled,
        "grace": GRACE,
        "items": items,
        "checksummed": checksummed,
        "faults": len(faults),
        "quiet": progressed and not worst,
    })  # fmt: skip


def _status(
    task_id: uuid.UUID, fault: Fault, files: int, retry_at: datetime | None, now: datetime
) -> dict[str, str | None]:
    """The status of a task by this fault of so many files. stalls: the record for a task that does not go on."""
    task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
    begun = standstill.since(task, fault.kind, now)
    advice = troubles.sentence(task, fault, retry_at, files=files, since=begun if begun < now else None)
    stalls = json.dumps(troubles.of_files(task, fault, retry_at, now)) if retry_at else None
    return {"code": fault.kind.value, "advice": events.printable(advice), "stalls": stalls}


def _earliest(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment), default=None)


def _details(fault: Fault) -> str:
    return events.printable(fault.raw or fault.advice)[:MAX_DETAILS]


def _fate(faulted: FaultedFile | FaultedItem) -> _Fate:
    """The outcome: the time of the retry, or one of the two words."""
    if faulted.skipped:
        return _PASSED_OVER
    return faulted.retry_at or _GIVEN_UP


def _report(task_id: uuid.UUID, faults: Iterable[_Reported], now: datetime) -> None:
    """Append one event for each kind of fault on each side, for any number of files."""
    groups: dict[tuple[Kind, Side, str | None], list[_Reported]] = defaultdict(list)
    for path, fault, fate in faults:
        groups[fault.kind, fault.side, fate if isinstance(fate, str) else None].append((path, fault, fate))
    if groups:
        events.append_bounded(task_id, [_event(*key, group) for key, group in groups.items()], now)


#: The name of an error with the side where it was met.
_WHERE: dict[Side, Callable[[ErrorName], Value]] = {
    Side.SOURCE: lambda error: Sentence("%(error)s at the source", error=error),
    Side.DESTINATION: lambda error: Sentence("%(error)s at the destination", error=error),
    Side.UNKNOWN: lambda error: error,
}


def _event(kind: Kind, side: Side, end: str | None, group: Sequence[_Reported]) -> events.NewEvent:
    tries = [fate for _, _, fate in group if isinstance(fate, datetime)]
    then = end or Sentence("tried again from %(time)s", time=min(tries))
    what = _WHERE[side](ErrorName(kind.value, kind.replace("_", " ").capitalize()))
    summary = Sentence.counted(
        "%(what)s on %(number)s file: %(then)s.", "%(what)s on %(number)s files: %(then)s.", len(group),
        what=what, then=then,
    )  # fmt: skip
    fault = group[0][1]
    lines = [fault.advice, fault.raw[:MAX_RAW], *(f"File: {path}" for path, _, _ in group[:PATHS_TOLD])]
    if len(group) > PATHS_TOLD:
        lines.append(f"... and {len(group) - PATHS_TOLD} more")
    text = "\n".join(line for line in lines if line)
    return events.NewEvent(kind.value, summary, text, is_error=end != _PASSED_OVER)


#: Each of these three statements returns the changes of the counters, in the order of `_Changes`.
#: `old` is the row before, `new` after the statement. Folders and links of a DELETE count in `files` only if they fail.
_SETTLE = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s::bigint[], %(skipped)s::int[], %(sizes)s::bigint[], %(algorithms)s::varchar[],
            %(checksums)s::varchar[]) AS given(id, skipped, new_size, algorithm, checksum)
    ), old AS MATERIALIZED (
        SELECT * FROM given {PENDING_ROWS}
    ), done AS (
        UPDATE tasks_file new SET
            state = 1 + old.skipped, settled_at = %(now)s, size = coalesce(old.new_size, old.size),
            bytes_done = CASE old.skipped WHEN 0 THEN coalesce(old.new_size, old.size) ELSE 0 END,
            next_try_at = NULL, ranges = '', temporary_path = NULL,
            error_code = NULL, error_details = NULL, error_time = NULL,
            checksum_algorithm = old.algorithm, checksum = old.checksum
        FROM old WHERE new.ctid = old.place
        RETURNING new.kind = 0 AS is_file, old.skipped, new.size - old.size AS size,
            new.bytes_done - old.bytes_done AS moved
    )
    SELECT 0, count(*) FILTER (WHERE is_file AND skipped = 0), count(*) FILTER (WHERE is_file AND skipped = 1), 0,
        coalesce(sum(size), 0), coalesce(sum(moved), 0), 0, count(*) FROM done"""  # noqa: S608 (constants)

_GIVE_BACK = f"""
    WITH given AS MATERIALIZED (
        SELECT *, retry_at IS NULL AS given_up
        FROM unnest(%(ids)s::bigint[], %(codes)s::varchar[], %(details)s::text[], %(tries)s::timestamptz[],
            %(ranges)s::text[], %(names)s::bytea[], %(done)s::bigint[], %(sizes)s::bigint[], %(states)s::int[])
            AS given(id, code, details, retry_at, ranges, name, done, new_size, state)
    ), old AS MATERIALIZED (
        SELECT * FROM given {PENDING_ROWS}
    ), back AS (
        UPDATE tasks_file new SET
            state = old.state, settled_at = CASE WHEN given_up THEN %(now)s::timestamptz END,
            attempts = old.attempts + 1, next_try_at = retry_at,
            error_code = code, error_details = details, error_time = %(now)s,
            size = coalesce(old.new_size, old.size), ranges = old.ranges,
            temporary_path = CASE old.ranges WHEN '' THEN old.temporary_path ELSE old.name END,
            bytes_done = CASE WHEN given_up THEN 0 ELSE least(old.done, coalesce(old.new_size, old.size)) END
        FROM old WHERE new.ctid = old.place
        RETURNING new.kind = 0 AS is_file, old.state, new.size - old.size AS size,
            new.bytes_done - old.bytes_done AS moved
    )
    SELECT count(*) FILTER (WHERE state > 0 AND NOT is_file), 0, count(*) FILTER (WHERE state = 2),
        count(*) FILTER (WHERE state = 3), coalesce(sum(size), 0), coalesce(sum(moved), 0),
        count(*) FILTER (WHERE state = 2), count(*) FROM back"""  # noqa: S608

_MOVE = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s::bigint[], %(ranges)s::text[], %(names)s::bytea[], %(done)s::bigint[])
            AS given(id, ranges, name, done)
    ), old AS MATERIALIZED (
        SELECT * FROM given {PENDING_ROWS}
    ), moved AS (
        UPDATE tasks_file new SET ranges = old.ranges, bytes_done = least(old.done, old.size),
            temporary_path = CASE old.ranges WHEN '' THEN old.temporary_path ELSE old.name END
        FROM old WHERE new.ctid = old.place
        RETURNING new.bytes_done - old.bytes_done AS moved
    )
    SELECT 0, 0, 0, 0, 0, coalesce(sum(moved), 0), 0, count(*) FILTER (WHERE moved > 0) FROM moved"""  # noqa: S608

_RETRY_ITEMS = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s::bigint[], %(tries)s::timestamptz[]) AS given(id, retry_at)
    ), old AS MATERIALIZED (
        SELECT * FROM given {UNSCANNED_ROWS}
    )
    UPDATE tasks_item new SET attempts = attempts + 1, next_try_at = retry_at FROM old WHERE new.ctid = old.place"""  # noqa: S608

_GIVE_UP_ITEMS = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(ids)s::bigint[], %(kinds)s::smallint[], %(keys)s::bytea[], %(codes)s::varchar[],
            %(details)s::text[]) AS given(id, kind, key, code, details)
    ), old AS MATERIALIZED (
        SELECT * FROM given {UNSCANNED_ROWS}
    ), items AS (
        UPDATE tasks_item new SET attempts = attempts + 1, next_try_at = NULL, scanned_at = %(now)s
        FROM old WHERE new.ctid = old.place
        RETURNING new.*, old.kind, old.key, old.code, old.details
    )
    INSERT INTO tasks_file (task_id, item_id, kind, source_path, destination_path, key, size, state, attempts,
        ranges, bytes_done, error_code, error_details, error_time, settled_at, checksum_algorithm, checksum)
    SELECT task_id, id, kind, source_path, destination_path, key, 0, %(state)s, attempts, '', 0,
        code, details, %(now)s, %(now)s, extra->>'checksum_algorithm', extra->>'external_checksum'
    FROM items
    ON CONFLICT (task_id, key) DO NOTHING"""  # noqa: S608

_SKIPPED = """
    INSERT INTO tasks_file (task_id, item_id, kind, source_path, destination_path, key, size, state, attempts,
        ranges, bytes_done, error_code, error_details, error_time, settled_at)
    SELECT %(task)s, %(item)s, kind, source, destination, key, 0, 2, 1, '', 0, code, details, %(now)s, %(now)s
    FROM unnest(%(kinds)s::smallint[], %(sources)s::bytea[], %(destinations)s::bytea[], %(keys)s::bytea[],
        %(codes)s::varchar[], %(details)s::text[]) AS given(kind, source, destination, key, code, details)
    ON CONFLICT (task_id, key) DO NOTHING RETURNING key"""

#: Progress that stays: settled files, and octets beyond the most that there have been.
_KEPT = "(%(settled)s OR %(progressed)s AND bytes_transferred + %(moved)s::numeric > bytes_kept)"
_COUNT = f"""
    UPDATE tasks_task SET
        files = files + %(files)s, files_transferred = files_transferred + %(transferred)s,
        files_skipped = files_skipped + %(skipped)s, files_failed = files_failed + %(failed)s,
        bytes_total = greatest(0, least(bytes_total + %(size)s::numeric, 9223372036854775807)),
        bytes_transferred = greatest(0, least(bytes_transferred + %(moved)s::numeric, 9223372036854775807)),
        items_scanned = items_scanned + %(items)s, faults = faults + %(faults)s,
        skipped_errors = skipped_errors + %(skipped_errors)s, bytes_checksummed = bytes_checksummed + %(checksummed)s,
        last_progress_at = CASE WHEN %(progressed)s THEN %(now)s ELSE last_progress_at END,
        bytes_kept = greatest(bytes_kept, least(bytes_transferred + %(moved)s::numeric, 9223372036854775807)),
        deadline = CASE WHEN NOT deadline_is_fixed AND {_KEPT}
            THEN greatest(deadline, %(now)s + %(grace)s) ELSE deadline END,
        nice_status = CASE WHEN %(quiet)s AND {_KEPT} THEN NULL ELSE coalesce(%(code)s, nice_status) END,
        nice_status_details = CASE WHEN %(quiet)s AND {_KEPT} THEN NULL
            ELSE coalesce(%(advice)s, nice_status_details) END,
        trouble = CASE WHEN {_KEPT} THEN trouble - '{standstill.OF_FILES}'
            WHEN %(stalls)s::jsonb IS NULL THEN trouble
            ELSE coalesce(trouble, '{{}}') || jsonb_build_object('{standstill.OF_FILES}', %(stalls)s::jsonb) END
    WHERE id = %(task)s"""  # noqa: S608 (constants)
