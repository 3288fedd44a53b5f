"""Read tasks, events and files; a user sees only their own tasks.

A session that is restricted to some endpoints sees the tasks all of whose endpoints are among them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Generic, TypeVar

from django.db.models import CharField, Count, F, Func, Lookup, Q, QuerySet, Value
from django.db.models.expressions import OrderBy
from django.db.models.functions import Coalesce
from django.utils import timezone

from endpoints import registry
from endpoints.gridftp.patterns import like
from endpoints.models import Endpoint
from endpoints.permissions import in_reach, reachable
from endpoints.registry import SearchFilters, SearchScope
from identity.database_rows import single_row
from identity.models import User

from .display_state import CONDITIONS, DisplayState
from .errors import RequestError, TaskNotFoundError
from .models import WITH_OWNERS, Event, File, Item, RemovedTask, Task
from .states import FileKind, FileState, Phase

Row = TypeVar("Row")

#: The age of tasks whose endpoints count as recently used.
RECENT_DAYS = 30
#: Tasks that are counted by state.
MOST_COUNTED = 10_000
#: Endpoints that wait for a credential, in one answer.
MOST_WAITING = 20


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """A part of a list, and the length of the whole list."""

    rows: list[Row]
    total: int


@dataclass(frozen=True, slots=True)
class MarkerPage(Generic[Row]):
    """A part of a list. next_marker: None if it is the last part."""

    rows: list[Row]
    next_marker: int | None


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A text condition: `x` exact; `~pattern` with `*` and `?`, in any case; a leading `!` negates it."""

    text: str
    glob: bool = False
    negate: bool = False


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range that includes both ends; None: open."""

    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Conditions that must all hold; of a sequence, one must match. None or empty: no condition.

    endpoints: ids of sources or destinations. text: a part of the label or of a path of the first item, with `*` and
    `?`, in any case; or the task is at one of the endpoints text_endpoints.
    """

    task_ids: Sequence[uuid.UUID] | None = None
    types: Sequence[str] | None = None
    statuses: Sequence[str] | None = None
    labels: Sequence[TextMatch] = ()
    request_time: TimeRange | None = None
    completion_time: TimeRange | None = None
    endpoints: Sequence[uuid.UUID] | None = None
    states: Sequence[DisplayState] | None = None
    text: str = ""
    text_endpoints: Sequence[uuid.UUID] = ()


@dataclass(frozen=True, slots=True)
class Order:
    """field: one of ORDERS."""

    field: str = "request_time"
    descending: bool = True


@CharField.register_lookup
class ILike(Lookup):
    """An SQL pattern in any case. Unlike a regular expression, it cannot backtrack without end."""

    lookup_name = "ilike"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        column, of_column = self.process_lhs(compiler, connection)
        pattern, of_pattern = self.process_rhs(compiler, connection)
        return f"{column} ILIKE {pattern}", (*of_column, *of_pattern)


#: The columns of a task that show how far it is.
PROGRESS = (
    *("status", "phase", "files", "files_transferred", "files_skipped", "files_failed", "bytes_transferred"),
    *("bytes_total", "request_time", "completion_time", "last_progress_at", "type", "directories", "symlinks"),
)
#: More rows than any list has.
EVERY = 2**40

#: The fields that order task lists: wire name -> column.
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
    """A task with its owner, its endpoints and their owners. Raises TaskNotFoundError."""
    task = single_row(Task.objects.select_related(*WITH_OWNERS).filter(_shown_to(user), pk=task_id))
    if task is None:
        raise TaskNotFoundError(str(task_id))
    return task


def locked(task_id: uuid.UUID, *conditions: Q) -> Task:
    """A task under these conditions, locked until the transaction ends. Raises TaskNotFoundError."""
    task = single_row(Task.objects.select_for_update().filter(*conditions, pk=task_id))
    if task is None:
        raise TaskNotFoundError(str(task_id))
    return task


def read_endpoints(tasks: Sequence[Task]) -> None:
    """Give these tasks their endpoints, with the owners of these and the hosts of shared ones, each read once.

    PostgreSQL takes longer to plan a join of a task with all of them than it takes for this query.
    """
    ids = {end for task in tasks for end in (task.source_id, task.destination_id) if end}
    found = Endpoint.objects.select_related("owner", "host__owner").in_bulk(ids)
    for task in tasks:
        task.source = found[task.source_id]
        task.destination = found[task.destination_id] if task.destination_id else None


def progress(user: User, task_ids: Collection[uuid.UUID]) -> list[Task]:
    """Tasks with the columns of PROGRESS only, for those who ask many times a second. Raises TaskNotFoundError."""
    found = {task.pk: task for task in Task.objects.filter(_shown_to(user), pk__in=task_ids).only(*PROGRESS)}
    missing = next((one for one in task_ids if one not in found), None)
    if missing is not None:
        raise TaskNotFoundError(str(missing))
    return list(found.values())


def list_tasks(
    user: User, filters: TaskFilter, order: Sequence[Order] = (), *, limit: int = 10, offset: int = 0
) -> Page[Task]:
    """Tasks of a user, newest first by default. An unknown order raises KeyError: check it against ORDERS before.

    The rows of the page are selected by id and sort columns alone: sorting whole tasks with their endpoints takes six
    times as long. Tasks share endpoints, so each endpoint is read once, and not joined to each task: half the time of a
    page. The length of the list comes from an index; removed tasks, which are few, are counted separately.
    """
    found = _matching(user, filters)
    removed = RemovedTask.objects.filter(owner=user).values("task_id")
    columns: list[str | OrderBy] = [*(_ordering(part) for part in order or [Order()]), "-id"]
    ids = found.exclude(pk__in=removed).order_by(*columns).values("pk")[offset : offset + limit]
    rows = list(Task.objects.filter(pk__in=ids).order_by(*columns))
    read_endpoints(rows)
    for row in rows:
        row.owner = user
    return _paged(rows, limit, offset, lambda: found.count() - found.filter(pk__in=removed).count())


def endpoints_of(user: User, *, unfinished: bool, days: int = RECENT_DAYS) -> set[uuid.UUID]:
    """The endpoints of this user's tasks: of unfinished ones, or of those of the last days."""
    found = Task.objects.filter(of_owner(user))
    if unfinished:
        found = found.exclude(phase=Phase.DONE)
    else:
        found = found.filter(request_time__gt=timezone.now() - timedelta(days=days))
    sources = found.values_list("source_id", flat=True)
    destinations = found.exclude(destination=None).values_list("destination_id", flat=True)
    return set(sources.union(destinations))


def _matching(user: User, filters: TaskFilter) -> QuerySet[Task]:
    """The user's tasks under these conditions, with removed ones."""
    found = Task.objects.filter(_condition(filters), of_owner(user))
    if filters.labels:
        # Search the index of labels alone: PostgreSQL cannot estimate how many labels a pattern matches, and where it
        # expects few, it reads all of the user's tasks. The limit keeps it from merging the two queries.
        labelled = Task.objects.filter(reduce(or_, map(_label, filters.labels)), owner=user)
        found = found.filter(pk__in=labelled.values("pk")[:EVERY])
    return found.filter(_with_text(user, filters)) if filters.text else found


def _with_text(user: User, filters: TaskFilter) -> Q:
    """The condition on the text. Each search is a query of its own, for the reason above."""
    labelled = Task.objects.filter(_label(TextMatch(f"*{filters.text}*", glob=True)), owner=user).values("pk")
    # Paths are octets: they are compared as PostgreSQL writes them in its format `escape`.
    octets = filters.text.encode("utf-8", "surrogateescape").replace(b"\\", rb"\\")
    pattern = like("*" + "".join(chr(one) if 0 < one < 0x80 else f"\\{one:03o}" for one in octets) + "*")
    paths = {
        name: Func(F(name), Value("escape"), function="encode", output_field=CharField())
        for name in ("source_path", "destination_path")
    }
    items = Item.objects.filter(task__owner=user, position=0).alias(
        source_text=paths["source_path"], destination_text=paths["destination_path"]
    )
    moved = items.filter(Q(source_text__ilike=pattern) | Q(destination_text__ilike=pattern)).values("task")
    ends = list(filters.text_endpoints)
    return Q(pk__in=labelled[:EVERY]) | Q(pk__in=moved[:EVERY]) | Q(source__in=ends) | Q(destination__in=ends)


def state_counts(user: User, filters: TaskFilter) -> dict[DisplayState, int]:
    """The number of tasks in each state, whatever states the filter names: of the newest MOST_COUNTED tasks."""
    removed = RemovedTask.objects.filter(owner=user).values("task_id")
    newest = _matching(user, replace(filters, states=None)).exclude(pk__in=removed).order_by("-request_time", "-id")
    counted = Task.objects.filter(pk__in=newest.values("pk")[:MOST_COUNTED])
    columns = {state.name: Count("pk", filter=condition) for state, condition in CONDITIONS.items()}
    found = counted.aggregate(**columns)
    return {state: found[state.name] for state in CONDITIONS}


def waiting_for(user: User) -> list[tuple[Endpoint, int]]:
    """The endpoints that wait for a credential of this user, with the number of tasks, the largest number first.

    Tasks of others at endpoints that this user shares wait for the user's credential at the host.
    """
    own = Q(owner=user, waits_at__host__isnull=True)
    shared = Q(waits_at__host__isnull=False, waits_at__owner=user)
    waiting = Task.objects.filter(own | shared, reachable("waits_at"), phase=Phase.SUSPENDED, waits_at__isnull=False)
    place = Coalesce("waits_at__host_id", "waits_at_id")
    counted = dict(waiting.values_list(place).annotate(tasks=Count("pk")).order_by("-tasks")[:MOST_WAITING])
    found = Endpoint.objects.select_related("owner").in_bulk(counted)
    return [(found[endpoint], tasks) for endpoint, tasks in counted.items() if in_reach(endpoint)]


#: Scopes of a search among the endpoints of the user's tasks.
_OF_TASKS = (SearchScope.RECENTLY_USED, SearchScope.IN_USE)


def search_endpoints(
    user: User,
    *,
    scope: SearchScope,
    fulltext: str = "",
    filters: SearchFilters | None = None,
    limit: int = 100,
    offset: int = 0,
) -> tuple[list[Endpoint], bool]:
    """`registry.search`, also for the scopes about tasks. Raises RequestError where the scope ALL has no text."""
    if scope is SearchScope.ALL and not fulltext.strip():
        raise RequestError("filter_fulltext", "It is needed with the scope 'all'.")
    among = endpoints_of(user, unfinished=scope is SearchScope.IN_USE) if scope in _OF_TASKS else ()
    return registry.search(
        user, scope=scope, fulltext=fulltext, filters=filters, among=among, limit=limit, offset=offset
    )


def events(
    user: User,
    task_id: uuid.UUID,
    *,
    is_error: bool | None = None,
    limit: int = 10,
    offset: int = 0,
    oldest_first: bool = False,
) -> Page[Event]:
    """Events of a task, newest first by default. Raises TaskNotFoundError."""
    found = Event.objects.filter(task=_known(user, task_id))
    if is_error is not None:
        found = found.filter(is_error=is_error)
    return page(found.order_by("id" if oldest_first else "-id"), limit, offset)


def successful_transfers(
    user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100
) -> MarkerPage[File]:
    """Files that were moved, without skipped files and folders. Raises TaskNotFoundError."""
    moved = File.objects.filter(state=FileState.DONE, kind=FileKind.FILE)
    return _after(moved.filter(task=_known(user, task_id)), marker, limit)


def skipped_errors(user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100) -> MarkerPage[File]:
    """Files that failed or were skipped for an error, with error_code, error_details, error_time.

    Of a task that is done, also the files that were still pending, with the last fault of each. Raises
    TaskNotFoundError.
    """
    lost = File.objects.filter(error_code__isnull=False, task=_known(user, task_id))
    lost = lost.filter(
        Q(state__in=[FileState.FAILED, FileState.SKIPPED]) | Q(state=FileState.PENDING, task__phase=Phase.DONE)
    )
    return _after(lost, marker, limit)


def of_owner(user: User) -> Q:
    """The user's tasks, without those at endpoints that do not exist for this session; removed tasks too."""
    return Q(owner=user) & reachable("source") & reachable("destination")


def _shown_to(user: User) -> Q:
    """The user's tasks without removed ones. Removed ones are few: a column for them would spoil the indexes."""
    return of_owner(user) & ~Q(pk__in=RemovedTask.objects.filter(owner=user).values("task_id"))


def _known(user: User, task_id: uuid.UUID) -> uuid.UUID:
    if not Task.objects.filter(_shown_to(user), pk=task_id).exists():
        raise TaskNotFoundError(str(task_id))
    return task_id


def page(found: QuerySet[Any], limit: int, offset: int) -> Page[Any]:
    """A page of a list."""
    return _paged(list(found[offset : offset + limit]), limit, offset, found.count)


def _paged(rows: list[Row], limit: int, offset: int, count: Callable[[], int]) -> Page[Row]:
    """A page of rows. A page that is not full gives the length of the list; a count could contradict it."""
    whole = len(rows) < limit and (rows or offset == 0)
    return Page(rows, offset + len(rows) if whole else count())


def _after(found: QuerySet[File], marker: int | None, limit: int) -> MarkerPage[File]:
    """The rows behind the marker, which is the id of the last row before: every page costs the same."""
    rows = list(found.filter(pk__gt=marker or 0).order_by("pk")[: limit + 1])
    return MarkerPage(rows[:limit], rows[limit - 1].pk if len(rows) > limit else None)


def _ordering(order: Order) -> OrderBy:
    """The ordering. A missing value sorts as the smallest, where a column may lack one: no index sorts so."""
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
    if filters.states:
        condition &= reduce(or_, (CONDITIONS[state] for state in filters.states))
    return condition


def _within(column: str, times: TimeRange) -> Q:
    bounds = {f"{column}__gte": times.start, f"{column}__lte": times.end}
    return Q(**{bound: time for bound, time in bounds.items() if time})


def _label(match: TextMatch) -> Q:
    """The condition on labels. A task without a label matches no pattern, and therefore every negated one."""
    text = match.text.replace("\0", "\ufffd")
    condition = Q(label__ilike=like(text)) if match.glob else Q(label=text)
    return (~condition | Q(label=None)) if match.negate else condition
