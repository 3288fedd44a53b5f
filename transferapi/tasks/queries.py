"""Read tasks, events and files; a user sees only what is his own."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from identity.models import User

from .models import Event, File, Task

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """A part of a list, and how long the whole of it is."""

    rows: list[Row]
    total: int


@dataclass(frozen=True, slots=True)
class MarkerPage(Generic[Row]):
    """A part of a list; next_marker None: nothing comes after it."""

    rows: list[Row]
    next_marker: int | None


@dataclass(frozen=True, slots=True)
class TextMatch:
    """`x` exact; `~pat` with `*` and `?`, of any case; `!` in front turns it round."""

    text: str
    glob: bool = False
    negate: bool = False


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Both ends belong to it; None: open."""

    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """All that are given must hold; within a sequence one suffices. None or empty: no condition.

    endpoints: ids, as source or destination.
    """

    task_ids: Sequence[uuid.UUID] | None = None
    types: Sequence[str] | None = None
    statuses: Sequence[str] | None = None
    labels: Sequence[TextMatch] = ()
    request_time: TimeRange | None = None
    completion_time: TimeRange | None = None
    endpoints: Sequence[uuid.UUID] | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """field: one of ORDERS."""

    field: str = "request_time"
    descending: bool = True


#: What task lists can be ordered by: wire name -> column.
ORDERS = {
    "task_id": "id",
    "type": "type",
    "status": "status",
    "label": "label",
    "request_time": "request_time",
    "completion_time": "completion_time",
    "deadline": "deadline",
    "faults": "faults",
    "bytes_transferred": "bytes_transferred",
}


def get(user: User, task_id: uuid.UUID) -> Task:
    """With its owner, endpoints and their owners. -> TaskNotFoundError"""
    raise NotImplementedError


def list_tasks(
    user: User, filters: TaskFilter, order: Sequence[Order] = (), *, limit: int = 10, offset: int = 0
) -> Page[Task]:
    """Newest first when no order is asked for. Unknown orders -> KeyError: check against ORDERS before."""
    raise NotImplementedError


def events(
    user: User, task_id: uuid.UUID, *, is_error: bool | None = None, limit: int = 10, offset: int = 0
) -> Page[Event]:
    """Newest first. -> TaskNotFoundError"""
    raise NotImplementedError


def successful_transfers(
    user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100
) -> MarkerPage[File]:
    """Files that were moved, not those that were skipped, nor folders. -> TaskNotFoundError"""
    raise NotImplementedError


def skipped_errors(user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100) -> MarkerPage[File]:
    """Files that were given up, with error_code, error_details, error_time. -> TaskNotFoundError"""
    raise NotImplementedError
