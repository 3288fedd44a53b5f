"""The scan's reads and writes of a task: items whose scan is not complete, and the rows of the files that it finds.

Each function is one short transaction under the worker's lease. It raises LeaseLostError, and has written nothing,
where the lease is no longer that of this epoch. `now` None is the database's clock.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from identity.database_rows import execute, query_rows
from transferapi.tasks.models import File
from transferapi.tasks.records import Checksum, FileRow, FoundFile, ItemRow
from transferapi.tasks.states import FileKind, FileState
from transferapi.tasks.upkeep import space

from . import arrays
from .arrays import FILES_BY_KEY, UNSCANNED_ROWS, decoded, encoded
from .leases import hold, read_held

#: The advice of the fault where two sources have one destination.
TWO_SOURCES = "Two sources would be written to this path; change one of the items."

#: A found file with the id of its item.
_Found = tuple[int, FoundFile]


def unscanned(
    task_id: uuid.UUID, epoch: int, limit: int, exclude: Collection[int] = (), now: datetime | None = None
) -> list[ItemRow]:
    """Items whose scan is not complete and whose next try is due, in the user's order."""
    rows = read_held(task_id, epoch, _UNSCANNED, {"exclude": [*exclude], "limit": limit}, now)
    return [_item_row(*row) for row in rows]


def add_found(
    task_id: uuid.UUID,
    epoch: int,
    item_id: int,
    found: Sequence[FoundFile],
    now: datetime | None = None,
    *,
    durable: bool = False,
) -> list[FileRow]:
    """Write found files of an item; return the rows that are new and pending.

    Raises FaultError (AMBIGUOUS_PATH) or TooMuchError; then nothing is written. durable: wait until the rows are on the
    disk of the database's host. A scan that compares needs that: only its row distinguishes a file that is half written
    at the destination from one that was there before.
    """
    with hold(task_id, epoch, now) as now:
        return _insert_found(task_id, [(item_id, file) for file in found], now, durable=durable)


def has_found(task_id: uuid.UUID, epoch: int, item_id: int, now: datetime | None = None) -> bool:
    """Whether any scan of this item has found something."""
    with hold(task_id, epoch, now):
        return File.objects.filter(task=task_id, item=item_id).exists()


def items(
    task_id: uuid.UUID, epoch: int, after: int, limit: int, now: datetime | None = None
) -> list[tuple[ItemRow, bool]]:
    """Items in the user's order behind the one of this id (0: from the first), each with whether it is one file."""
    with hold(task_id, epoch, now):
        rows = query_rows(_ITEMS, {"task": task_id, "after": after, "limit": limit})
        found = [_item_row(*row) for row in rows]
        files = _files_at(task_id, [item.target for item in found])
        return [(item, item.target in files) for item in found]


def known(task_id: uuid.UUID, epoch: int, destinations: Sequence[str], now: datetime | None = None) -> set[str]:
    """Return the paths among `destinations` that a file of this task has as its destination."""
    with hold(task_id, epoch, now):
        return _files_at(task_id, destinations)


def _files_at(task_id: uuid.UUID, paths: Sequence[str]) -> set[str]:
    by_key = {file_key(path): path for path in paths}
    found = query_rows(_KNOWN, {"task": task_id, "keys": arrays.octets(by_key)})
    return {by_key[bytes(key)] for (key,) in found}


def item_scanned(
    task_id: uuid.UUID, epoch: int, item_id: int, directories: int, symlinks: int, now: datetime | None = None
) -> None:
    """Mark the item as scanned; a second call changes nothing."""
    with hold(task_id, epoch, now) as now:
        _count_found(task_id, (), now, _Scanned([item_id], directories, symlinks))


def file_items_scanned(
    task_id: uuid.UUID,
    epoch: int,
    found: Sequence[tuple[ItemRow, FoundFile]],
    now: datetime | None = None,
    *,
    durable: bool = False,
) -> list[FileRow]:
    """`add_found` and `item_scanned` for items that are one file, or one kept link, each. Raises as `add_found`."""
    with hold(task_id, epoch, now) as now:
        links = sum(file.link_target is not None for _, file in found)
        scanned = _Scanned([item.id for item, _ in found], symlinks=links)
        return _insert_found(task_id, [(item.id, file) for item, file in found], now, durable=durable, scanned=scanned)


class _Scanned(NamedTuple):
    """Items whose scan is complete, and what it has found besides files. An item that was complete counts nothing."""

    item_ids: Sequence[int] = ()
    directories: int = 0
    symlinks: int = 0


def file_key(path: str) -> bytes:
    """The key by which a second scan recognizes a file: BLAKE2b of its folder (32 bits) and of its path (96 bits).

    The folder comes first so that files that are found together lie together in the index; a million random keys would
    fill it from all ends at once.
    """
    octets = path.encode("utf-8", "surrogateescape")
    folder = hashlib.blake2b(octets[: octets.rfind(b"/") + 1], digest_size=4).digest()
    return folder + hashlib.blake2b(octets, digest_size=12).digest()


def _insert_found(
    task_id: uuid.UUID, found: Sequence[_Found], now: datetime, *, durable: bool, scanned: _Scanned | None = None
) -> list[FileRow]:
    by_key = _by_key(found)
    if durable:
        execute("SET LOCAL synchronous_commit TO on")
    new = _insert(task_id, by_key, now)
    _check_same_sources(task_id, by_key, new)
    _count_found(task_id, [by_key[key][1] for key in new], now, scanned or _Scanned())
    return [_file_row(new[key], *one) for key, one in by_key.items() if key in new and not one[1].skipped]


def _by_key(found: Sequence[_Found]) -> dict[bytes, _Found]:
    by_key: dict[bytes, _Found] = {}
    for one in found:
        target = one[1].target
        if by_key.setdefault(file_key(target), one)[1].source_path != one[1].source_path:
            raise _ambiguous(target)
    return by_key


def _ambiguous(path: str) -> FaultError:
    return FaultError(Fault(Kind.AMBIGUOUS_PATH, Side.DESTINATION, retryable=False, advice=TWO_SOURCES, raw=path))


def _count_found(task_id: uuid.UUID, written: Sequence[FoundFile], now: datetime, scanned: _Scanned) -> None:
    octets = sum(space.octets(file.source_path, file.destination_path, file.link_target) for file in written)
    space.take(task_id, len(written), octets)
    files = [file for file in written if file.kind == FileKind.FILE]
    if files or scanned.item_ids:
        execute(_COUNT_FOUND, {
            **scanned._asdict(),
            "item_ids": arrays.integers(scanned.item_ids),
            "task": task_id,
            "now": now,
            "files": len(files),
            "skipped": sum(file.skipped for file in files),
            "size": sum(file.size for file in files if not file.skipped),
            "checksummed": sum(file.checksummed for file in files),
        })  # fmt: skip


def _file_row(id_: int, item_id: int, file: FoundFile) -> FileRow:
    return FileRow(
        id_,
        item_id,
        file.source_path,
        file.destination_path,
        file.size,
        file.kind,
        modified=file.modified,
        link_target=file.link_target,
        checksum=file.checksum,
        absent=file.absent,
    )


def _insert(task_id: uuid.UUID, by_key: Mapping[bytes, _Found], now: datetime) -> dict[bytes, int]:
    """Insert the rows that are not there yet; return their ids by key."""
    items = arrays.integers(item_id for item_id, _ in by_key.values())
    files = [file for _, file in by_key.values()]
    columns = [items, *_path_columns(files), arrays.octets(by_key), *_columns(files)]
    return {bytes(key): id_ for id_, key in query_rows(_INSERT, [task_id, now, *columns])}


def _path_columns(files: Sequence[FoundFile]) -> list[str]:
    """The kinds and paths of new rows, in the order of `_INSERT`."""
    return [
        arrays.integers(file.kind for file in files),
        arrays.octets(encoded(file.source_path) for file in files),
        arrays.octets(encoded(file.destination_path) for file in files),
    ]


def _columns(files: Sequence[FoundFile]) -> list[str | list[str | None]]:
    """The columns of new rows behind the key, in the order of `_INSERT`."""
    return [
        arrays.integers(file.size for file in files),
        arrays.moments(file.modified for file in files),
        arrays.integers(FileState.SKIPPED if file.skipped else FileState.PENDING for file in files),
        arrays.octets(encoded(file.link_target) for file in files),
        [file.checksum and file.checksum.algorithm for file in files],
        [(file.checksum and file.checksum.value) or None for file in files],
        arrays.integers(int(file.absent) for file in files),
    ]


def _check_same_sources(task_id: uuid.UUID, by_key: Mapping[bytes, _Found], new: Collection[bytes]) -> None:
    """Check that rows that were there already have the same source: then an earlier scan found the same file."""
    old = {key: file for key, (_, file) in by_key.items() if key not in new}
    if not old:
        return
    sources = arrays.octets(encoded(file.source_path) for file in old.values())
    others = query_rows(_OTHER_SOURCE, {"task": task_id, "keys": arrays.octets(old), "sources": sources})
    if others:
        raise _ambiguous(old[bytes(others[0][0])].target)


def _item_row(
    id_: int, source: bytes, destination: bytes | None, recursive: bool | None, attempts: int, extra: str
) -> ItemRow:
    options = json.loads(extra)
    algorithm, value = (options.get(name) for name in ("checksum_algorithm", "external_checksum"))
    checksum = Checksum(str(algorithm), str(value or "")) if algorithm else None
    symlink = bool(options.get("symlink"))
    return ItemRow(id_, decoded(source), decoded(destination), recursive, attempts, checksum, symlink)


_UNSCANNED = """
    SELECT id, source_path, destination_path, recursive, attempts, extra FROM tasks_item
    WHERE task_id = %(task)s AND scanned_at IS NULL AND (next_try_at IS NULL OR next_try_at <= lease.now)
        AND id <> ALL(%(exclude)s::bigint[])
    ORDER BY position LIMIT %(limit)s"""

_ITEMS = """
    SELECT id, source_path, destination_path, recursive, attempts, extra FROM tasks_item
    WHERE task_id = %(task)s
        AND position > coalesce((SELECT position FROM tasks_item WHERE id = %(after)s), -1)
    ORDER BY position LIMIT %(limit)s"""

_INSERT = """
    INSERT INTO tasks_file (task_id, settled_at, item_id, kind, source_path, destination_path, key, size, modified,
        state, link_target, checksum_algorithm, checksum, absent, attempts, ranges, bytes_done)
    SELECT %s, CASE WHEN f.state > 0 THEN %s::timestamptz END, f.*, 0, '', 0
    FROM unnest(%s::bigint[], %s::smallint[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bigint[],
        %s::timestamptz[], %s::smallint[], %s::bytea[], %s::varchar[], %s::varchar[], %s::boolean[])
        AS f(item, kind, source, destination, key, size, modified, state, target, algorithm, checksum, absent)
    ON CONFLICT (task_id, key) DO NOTHING
    RETURNING id, key"""

_KNOWN = f"""
    WITH given AS MATERIALIZED (SELECT * FROM unnest(%(keys)s::bytea[]) AS given(key))
    SELECT given.key FROM given {FILES_BY_KEY} WHERE known.key = given.key"""  # noqa: S608 (constants)

_OTHER_SOURCE = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(keys)s::bytea[], %(sources)s::bytea[]) AS given(key, source)
    )
    SELECT given.key FROM given {FILES_BY_KEY}
    WHERE known.key = given.key AND known.source_path <> given.source LIMIT 1"""  # noqa: S608

#: A server may claim exabytes for each of its files: the sum stops at the largest bigint.
_COUNT_FOUND = f"""
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(%(item_ids)s::bigint[]) AS given(id)
    ), old AS MATERIALIZED (
        SELECT * FROM given {UNSCANNED_ROWS}
    ), scanned AS (
        UPDATE tasks_item new SET scanned_at = %(now)s, next_try_at = NULL FROM old WHERE new.ctid = old.place
        RETURNING new.id
    )
    UPDATE tasks_task SET files = files + %(files)s, files_skipped = files_skipped + %(skipped)s,
        bytes_total = least(bytes_total + %(size)s::numeric, 9223372036854775807),
        bytes_checksummed = least(bytes_checksummed + %(checksummed)s::numeric, 9223372036854775807),
        items_scanned = items_scanned + done.items,
        directories = directories + CASE WHEN done.items > 0 THEN %(directories)s ELSE 0 END,
        symlinks = symlinks + CASE WHEN done.items > 0 THEN %(symlinks)s ELSE 0 END
    FROM (SELECT count(*) AS items FROM scanned) AS done WHERE id = %(task)s"""  # noqa: S608
