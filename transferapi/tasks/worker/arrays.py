"""The rows of a batch: array literals for `unnest`, five times as fast as the driver's, and paths as their octets.

And the joins by which a statement finds rows, with one plan only. PostgreSQL plans by statistics. It has none, or wrong
ones, of a table that has just begun to grow or was emptied, and then compares each row of the table with each id of the
batch. MATERIALIZED, LATERAL and OFFSET 0 fix the order: the ids are read once, and for each one the row is looked up by
the primary key, because `IS NOT DISTINCT FROM` matches no other index. An UPDATE finds the rows again by their places
(ctid): the only plan for that is one look at each place, as `leases.hold` excludes that whole tables are read. A place
does not change within the statement: only the holder of the lease writes these rows, in one transaction at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import overload


def integers(values: Iterable[int]) -> str:
    """An array of numbers, as for `%s::bigint[]`."""
    return f"{{{','.join(map(str, values))}}}"


def octets(values: Iterable[bytes | None]) -> str:
    """An array for `%s::bytea[]`."""
    return f"{{{','.join(['NULL' if value is None else _OCTETS % value.hex() for value in values])}}}"


def moments(values: Iterable[datetime | None]) -> str:
    """An array for `%s::timestamptz[]`."""
    return f"{{{','.join(['NULL' if value is None else value.isoformat() for value in values])}}}"


_OCTETS = r'"\\x%s"'

#: To follow `FROM given`, which has the column `id`: the row of each file of this task that is pending.
PENDING_ROWS = """CROSS JOIN LATERAL (
            SELECT f.ctid AS place, f.size, f.bytes_done, f.attempts, f.temporary_path FROM tasks_file f
            WHERE f.id = given.id AND f.task_id IS NOT DISTINCT FROM %(task)s AND f.state = 0 OFFSET 0) AS known"""
#: The same for each file that has arrived, with the options of its item.
ARRIVED_ROWS = """CROSS JOIN LATERAL (
            SELECT f.ctid AS place, f.bytes_done, (SELECT i.extra FROM tasks_item i WHERE i.id = f.item_id)
            FROM tasks_file f
            WHERE f.id = given.id AND f.task_id IS NOT DISTINCT FROM %(task)s AND f.state = 1 OFFSET 0) AS known"""
#: The same for each item of this task whose scan is not complete. Asked outside, because a partial index has those.
UNSCANNED_ROWS = """CROSS JOIN LATERAL (
            SELECT place FROM (
                SELECT i.ctid AS place, i.scanned_at FROM tasks_item i
                WHERE i.id = given.id AND i.task_id IS NOT DISTINCT FROM %(task)s OFFSET 0) AS item
            WHERE scanned_at IS NULL OFFSET 0) AS known"""
#: To follow `FROM given`, which has the column `key`, with the condition `known.key = given.key`: the file of this task
#: with that key. Only the index of the keys has this order.
FILES_BY_KEY = """CROSS JOIN LATERAL (
            SELECT f.key, f.source_path FROM tasks_file f WHERE f.task_id = %(task)s AND f.key >= given.key
            ORDER BY f.key LIMIT 1) AS known"""


@overload
def encoded(path: str) -> bytes: ...
@overload
def encoded(path: str | None) -> bytes | None: ...
def encoded(path: str | None) -> bytes | None:
    """A path as the octets that the database keeps."""
    return None if path is None else path.encode("utf-8", "surrogateescape")


@overload
def decoded(kept: bytes) -> str: ...
@overload
def decoded(kept: bytes | None) -> str | None: ...
def decoded(kept: bytes | None) -> str | None:
    """A path from the octets that the database keeps."""
    return None if kept is None else bytes(kept).decode("utf-8", "surrogateescape")
