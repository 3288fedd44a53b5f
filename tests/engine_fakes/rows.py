"""The rows and counters of a task in memory."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime

from endpoints.gridftp.faults import Fault
from transferapi.tasks.records import FileRow, ItemRow


class State(enum.Enum):
    PENDING = "pending"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(slots=True)
class Row:
    """A file row and its result."""

    file: FileRow
    state: State = State.PENDING
    next_try_at: datetime | None = None
    fault: Fault | None = None


@dataclass(slots=True)
class Item:
    row: ItemRow
    scanned: bool = False
    given_up: bool = False
    next_try_at: datetime | None = None
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Event:
    code: str
    description: str
    details: object
    is_error: bool


@dataclass(slots=True)
class Totals:
    """The counters of the task."""

    files: int = 0
    transferred: int = 0
    skipped: int = 0
    failed: int = 0
    directories: int = 0
    symlinks: int = 0
    bytes_transferred: int = 0
    bytes_checksummed: int = 0
    skipped_errors: int = 0
    faults: int = 0


def is_due(at: datetime | None, now: datetime) -> bool:
    return at is None or at <= now
