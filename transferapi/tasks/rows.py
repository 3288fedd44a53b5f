"""Rows as they travel between a worker and the database, free of the ORM. Paths are surrogateescape `str`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class ItemFacts(NamedTuple):
    """An item whose scan is not complete."""

    id: int
    source_path: str
    destination_path: str | None
    recursive: bool | None
    attempts: int


class NewFile(NamedTuple):
    """What the scan of an item found. kind: states.FileKind."""

    item_id: int
    source_path: str
    destination_path: str | None
    size: int
    modified: datetime | None
    kind: int


class FileFacts(NamedTuple):
    """A pending file."""

    id: int
    item_id: int
    source_path: str
    destination_path: str | None
    size: int
    kind: int
    attempts: int
    ranges: str
    temporary_path: str | None


class Trouble(NamedTuple):
    """A fault, as the history tells it. side: "source", "destination" or "unknown"; raw: the server's own words."""

    code: str
    side: str
    advice: str
    raw: str


class SettledFile(NamedTuple):
    """new_size: what arrived, when that is not what the scan saw."""

    id: int
    skipped: bool
    new_size: int | None


class FaultedFile(NamedTuple):
    """retry_at None: it is given up. bytes_done: how much of it `ranges` says is on disk."""

    id: int
    path: str
    trouble: Trouble
    retry_at: datetime | None
    ranges: str
    bytes_done: int
    new_size: int | None


class MovedBytes(NamedTuple):
    """What of a file is on the destination's disk by now."""

    id: int
    ranges: str
    bytes_done: int


class FaultedItem(NamedTuple):
    """retry_at None: its scan is given up, and it counts as one failed file."""

    item: ItemFacts
    trouble: Trouble
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """All that is written in one transaction."""

    settled: Sequence[SettledFile] = ()
    faulted: Sequence[FaultedFile] = ()
    moved: Sequence[MovedBytes] = ()


class Tally(NamedTuple):
    """Where a task stands. files_pending is exact up to work.PENDING_COUNTED."""

    items_unscanned: int
    files_pending: int
    files_failed: int
    next_try_at: datetime | None
