"""Read tasks, events and files; a user sees only what is his own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

from django.db.models import CharField, F, Lookup, Q, QuerySet
from django.db.models.expressions import OrderBy
from django.utils import timezone

from endpoints.gridftp.patterns import like
from identity.models import User
from identity.one import one

from .errors import TaskNotFoundError
from .models import Event, File, RemovedTask, Task
from .states import FileKind, FileState, Phase

Row = TypeVar("Row")

#: Endpoints of tasks that are not older were used recently.
RECENT_DAYS = 30


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


@CharField.register_lookup
class ILike(Lookup):
    """A pattern of SQL, of any case: unlike a regex it is never too complex, and tries nothing twice."""

    lookup_name = "ilike"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        column, of_column = self.process_lhs(compiler, connection)
        pattern, of_pattern = self.process_rhs(compiler, connection)
        return f"{column} ILIKE {pattern}", (*of_column, *of_pattern)


#: More rows than there are.
EVERY = 2**40

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
    task = one(_mine(user).filter(pk=task_id))
    if task is None:
        raise TaskNotFoundError(str(task_id))
    return task


def list_tasks(
    user: User, filters: TaskFilter, order: Sequence[Order] = (), *, limit: int = 10, offset: int = 0
) -> Page[Task]:
    """Newest first when no order is asked for. Unknown orders -> KeyError: check against ORDERS before.

    Which rows make the page is found among narrow ones: to sort whole tasks, with their endpoints, costs six times as
    much. How long the list is an index alone says; removed tasks, which are few, are counted apart.
    """
    found = Task.objects.filter(_condition(filters), owner=user)
    if filters.labels:
        # Sought in the index of labels alone: PostgreSQL cannot guess how many a pattern matches, and where it expects
        # few it reads all of the user's tasks instead. The limit keeps it from making one question of the two.
        labelled = Task.objects.filter(reduce(or_, map(_label, filters.labels)), owner=user)
        found = found.filter(pk__in=labelled.values("pk")[:EVERY])
    removed = RemovedTask.objects.filter(owner=user).values("task_id")
    columns: list[str | OrderBy] = [*(_ordering(part) for part in order or [Order()]), "-id"]
    page = found.exclude(pk__in=removed).order_by(*columns).values("pk")[offset : offset + limit]
    rows = _with_places().filter(pk__in=page).order_by(*columns)
    return _paged(list(rows), limit, offset, lambda: found.count() - found.filter(pk__in=removed).count())


def endpoints_of(user: User, *, unfinished: bool, days: int = RECENT_DAYS) -> set[uuid.UUID]:
    """The endpoints of this user's tasks: of those that are not done, or of those of the last days."""
    found = Task.objects.filter(owner=user)
    if unfinished:
        found = found.exclude(phase=Phase.DONE)
    else:
        found = found.filter(request_time__gt=timezone.now() - timedelta(days=days))
    sources = found.values_list("source_id", flat=True)
    destinations = found.exclude(destination=None).values_list("destination_id", flat=True)
    return set(sources.union(destinations))


def events(
    user: User, task_id: uuid.UUID, *, is_error: bool | None = None, limit: int = 10, offset: int = 0
) -> Page[Event]:
    """Newest first. -> TaskNotFoundError"""
    found = Event.objects.filter(task=_known(user, task_id))
    if is_error is not None:
        found = found.filter(is_error=is_error)
    return _page(found.order_by("-id"), limit, offset)


def successful_transfers(
    user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100
) -> MarkerPage[File]:
    """Files that were moved, not those that were skipped, nor folders. -> TaskNotFoundError"""
    moved = File.objects.filter(state=FileState.DONE, kind=FileKind.FILE)
    return _after(moved.filter(task=_known(user, task_id)), marker, limit)


def skipped_errors(user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100) -> MarkerPage[File]:
    """Files that were given up or passed over, with error_code, error_details, error_time. -> TaskNotFoundError

    When the task is done, also those that it was still trying to move, with the last fault of each.
    """
    lost = File.objects.filter(error_code__isnull=False, task=_known(user, task_id))
    lost = lost.filter(
        Q(state__in=[FileState.FAILED, FileState.SKIPPED]) | Q(state=FileState.PENDING, task__phase=Phase.DONE)
    )
    return _after(lost, marker, limit)


def _mine(user: User) -> QuerySet[Task]:
    return _with_places().filter(_shown_to(user))


def _with_places() -> QuerySet[Task]:
    return Task.objects.select_related("owner", "source__owner", "destination__owner")


def _shown_to(user: User) -> Q:
    """His own, but for those that he has removed, which are few: a column of theirs would be in the way of indexes."""
    return Q(owner=user) & ~Q(pk__in=RemovedTask.objects.filter(owner=user).values("task_id"))


def _known(user: User, task_id: uuid.UUID) -> uuid.UUID:
    if not Task.objects.filter(_shown_to(user), pk=task_id).exists():
        raise TaskNotFoundError(str(task_id))
    return task_id


def _page(found: QuerySet[Any], limit: int, offset: int) -> Page[Any]:
    return _paged(list(found[offset : offset + limit]), limit, offset, found.count)


def _paged(rows: list[Row], limit: int, offset: int, count: Callable[[], int]) -> Page[Row]:
    """A page that is not full says itself how long the list is; asking would cost, and could contradict it."""
    whole = len(rows) < limit and (rows or offset == 0)
    return Page(rows, offset + len(rows) if whole else count())


def _after(found: QuerySet[File], marker: int | None, limit: int) -> MarkerPage[File]:
    """The marker is the id of the last row given: a page costs the same wherever it is."""
    rows = list(found.filter(pk__gt=marker or 0).order_by("pk")[: limit + 1])
    return MarkerPage(rows[:limit], rows[limit - 1].pk if len(rows) > limit else None)


def _ordering(order: Order) -> OrderBy:
    """Tasks without a value come as if it were the smallest. Only where there may be some: no index sorts so."""
    column = F(ORDERS[order.field])
    nullable = True if order.field in _NULLABLE else None
    return column.desc(nulls_last=nullable) if order.descending else column.asc(nulls_first=nullable)


_NULLABLE = ("label", "completion_time")


def _condition(filters: TaskFilter) -> Q:
    condition = Q()
    for column, values in (("pk", filters.task_ids), ("type", filters.types), ("status", filters.statuses)):
        if values:
            condition &= Q(**{f"{column}__in": values})
    for column, times in (("request_time", filters.request_time), ("completion_time", filters.completion_time)):
        condition &= _within(column, times or TimeRange())
    if filters.endpoints:
        condition &= Q(source__in=filters.endpoints) | Q(destination__in=filters.endpoints)
    return condition


def _within(column: str, times: TimeRange) -> Q:
    bounds = {f"{column}__gte": times.start, f"{column}__lte": times.end}
    return Q(**{bound: time for bound, time in bounds.items() if time})


def _label(match: TextMatch) -> Q:
    """A task without a label matches no pattern, and so every negated one."""
    text = match.text.replace("\0", "\ufffd")
    condition = Q(label__ilike=like(text)) if match.glob else Q(label=text)
    return (~condition | Q(label=None)) if match.negate else condition
