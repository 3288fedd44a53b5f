"""Tasks as managers of their endpoints see them (Transfer API, `endpoint_manager`).

A task is visible to monitors of its source or its destination. A monitor of one side sees the task, its owner, its
endpoints and its progress, without the paths on the other side and without texts of servers, which may hold paths.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Q, QuerySet

from endpoints import pause_rules, registry
from endpoints.models import Endpoint, PauseRule
from endpoints.permissions import Permission, endpoints_by_role, in_reach
from identity import shown_names
from identity.database_rows import row_by_id
from identity.error_categories import RefusedError
from identity.models import User
from transferapi.tasks import queries
from transferapi.tasks.errors import OWNER_NOT_FOUND, TASKS_NOT_PERMITTED, RequestError, TaskNotFoundError
from transferapi.tasks.events import FAULT_SUMMARY
from transferapi.tasks.models import AdminCancel, Event, File, Task
from transferapi.tasks.queries import MarkerPage, Page, TimeRange
from transferapi.tasks.states import Phase, Status

from . import pauses

#: Ids in one filter, or in one request to pause, resume or cancel.
MAX_TASKS = 50
#: Milliseconds after which the query of a list is canceled.
STATEMENT_TIMEOUT = 10_000
SIDES = ("source", "destination")
_UNFINISHED = frozenset({Status.ACTIVE.value, Status.INACTIVE.value})
#: Events whose details hold no path. Details of PROGRESS may list skipped or deleted paths.
_OUR_DETAILS = frozenset({"STARTED", "SUCCEEDED", "SKIPPED_ERRORS"})
#: Codes of errors whose descriptions hold no path.
_OUR_WORDS = frozenset({pauses.BY_RULE, pauses.BY_ADMIN, pauses.BY_OPERATOR, "CANCELED", "EXPIRED"})


@dataclass(frozen=True, slots=True)
class ManagedTask:
    """A task without the fields that the manager may not see, and the manager's endpoints among its own."""

    task: Task
    overseen: frozenset[uuid.UUID]

    def sees(self, side: str) -> bool:
        """Whether the manager monitors this side. A task without a destination has one side only."""
        endpoint_id = self.task.source_id if side == "source" else self.task.destination_id
        return endpoint_id is None or endpoint_id in self.overseen

    @property
    def sees_all(self) -> bool:
        return all(map(self.sees, SIDES))


class LastKey(NamedTuple):
    """The position of a task in the list: unfinished tasks come first."""

    completion_time: datetime | None
    request_time: datetime
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class ManagedTaskFilter:
    """Conditions that must all hold; of a sequence, one must match. endpoint: id or name; includes its shares."""

    statuses: Sequence[str] | None = None
    task_ids: Sequence[uuid.UUID] | None = None
    owner_id: uuid.UUID | None = None
    endpoint: str | None = None
    #: "source" or "destination".
    use: str | None = None
    is_paused: bool | None = None
    completion_time: TimeRange | None = None
    min_faults: int | None = None
    local_user: str | None = None

    @property
    def of_unfinished(self) -> bool:
        return bool(self.statuses) and set(self.statuses or ()) <= _UNFINISHED


# ---- lists


def list_tasks(
    user: User, wanted: ManagedTaskFilter, after: LastKey | None = None, limit: int = 100
) -> tuple[list[ManagedTask], LastKey | None]:
    """Unfinished tasks, then the ones that ended last; and the key of the next page (None if there is none).

    Raises RequestError, TASKS_NOT_PERMITTED, EndpointNotFoundError, NotPermittedError.
    """
    _check(wanted)
    if wanted.task_ids is not None:
        return _by_ids(user, wanted.task_ids), None
    if wanted.local_user is not None:
        return [], None  # the account on a server is not known for any task
    ids = _page(wanted, _places(user, wanted.endpoint), after, limit + 1)
    rows = Task.objects.select_related("owner").in_bulk(ids[:limit])
    found = _seen(user, [rows[pk] for pk in ids[:limit] if pk in rows])
    last = found[-1].task if found and len(ids) > limit else None
    return found, LastKey(last.completion_time, last.request_time, last.pk) if last else None


def _check(wanted: ManagedTaskFilter) -> None:
    """Refuse contradictory filters, and filters that would have to search the whole history."""
    if wanted.task_ids is not None:
        if replace(wanted, task_ids=None) != ManagedTaskFilter():
            raise RequestError("filter_task_id", "This filter stands alone.")
        if len(wanted.task_ids) > MAX_TASKS:
            raise RequestError("filter_task_id", f"At most {MAX_TASKS} ids are looked for at a time.")
        return
    if wanted.endpoint is None:
        _check_without_endpoint(wanted)
    if wanted.is_paused is not None and not wanted.of_unfinished:
        raise RequestError("filter_is_paused", "This filter needs a filter_status within ACTIVE,INACTIVE beside it.")
    if wanted.owner_id is not None and not User.objects.filter(pk=wanted.owner_id).exists():
        raise RefusedError(OWNER_NOT_FOUND, ref=wanted.owner_id)


def _check_without_endpoint(wanted: ManagedTaskFilter) -> None:
    for name, value in (("filter_endpoint_use", wanted.use), ("filter_local_user", wanted.local_user)):
        if value is not None:
            raise RequestError(name, "This filter needs filter_endpoint beside it.")
    if not wanted.of_unfinished:
        reason = "Needed, or filter_task_id, where filter_status is not within ACTIVE,INACTIVE."
        raise RequestError("filter_endpoint", reason)


def _by_ids(user: User, task_ids: Sequence[uuid.UUID]) -> list[ManagedTask]:
    """The tasks of these ids. Missing ones and invisible ones raise the same error."""
    found = _seen(user, list(Task.objects.select_related("owner").filter(pk__in=task_ids)))
    if len(found) < len(set(task_ids)):
        raise RefusedError(TASKS_NOT_PERMITTED)
    by_id = {seen.task.pk: seen for seen in found}
    return [by_id[task_id] for task_id in dict.fromkeys(task_ids)]


def _places(user: User, ref: str | None) -> list[uuid.UUID]:
    """The endpoints of the filter."""
    mine = Endpoint.objects.filter(endpoints_by_role(user, Permission.OVERSEE))
    if ref is not None:
        endpoint = registry.resolve(user, ref, Permission.OVERSEE)
        mine = mine.filter(Q(pk=endpoint.pk) | Q(host=endpoint))
    return list(mine.values_list("pk", flat=True))


def _page(
    wanted: ManagedTaskFilter, places: Collection[uuid.UUID], after: LastKey | None, limit: int
) -> list[uuid.UUID]:
    """A page: the first tasks of each side of each endpoint, in the order of an index, merged."""
    conditions, parameters = _conditions(wanted, after)
    sides = [wanted.use] if wanted.use else SIDES
    parts = [_ONE_SIDE.format(side=side, conditions=conditions) for side in sides]
    query = _PAGE.format(parts=" UNION ALL ".join(parts))
    with bounded_time() as cursor:
        cursor.execute(query, {**parameters, "places": list(places), "limit": limit})
        return [id_ for id_, *_ in cursor.fetchall()]


@contextmanager
def bounded_time() -> Iterator[CursorWrapper]:
    """Each query in this block is canceled after STATEMENT_TIMEOUT; then RequestError is raised."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout TO %s", [STATEMENT_TIMEOUT])
            yield cursor
            cursor.execute("SET LOCAL statement_timeout TO DEFAULT")
    except OperationalError as error:
        if getattr(error.__cause__, "pgcode", None) != _TIMED_OUT:
            raise
        raise RequestError("filter", "This takes too long; ask for less, such as a shorter time.") from error


def _conditions(wanted: ManagedTaskFilter, after: LastKey | None) -> tuple[str, dict[str, Any]]:
    times = wanted.completion_time or TimeRange()
    values: dict[str, Any] = {
        "statuses": list(wanted.statuses or ()) or None,
        "owner": wanted.owner_id,
        "faults": wanted.min_faults or None,
        "start": times.start if times.end else None,
        "open_start": None if times.end else times.start,
        "end": times.end,
    }
    conditions = [_CONDITIONS[name] for name, value in values.items() if value is not None]
    if wanted.of_unfinished:
        conditions.append("t.completion_time IS NULL")
    if after is not None:
        values |= {"completed": after.completion_time, "requested": after.request_time, "id": after.id}
        conditions.append(_AFTER_UNFINISHED if after.completion_time is None else _AFTER_DONE)
    return " AND ".join(["TRUE", _PAUSED[wanted.is_paused], *conditions]), values


_PAUSED = {
    None: "TRUE",
    True: f"t.phase = '{Phase.PAUSED.value}'",
    False: f"t.phase <> '{Phase.PAUSED.value}'",
}

_CONDITIONS = {
    "statuses": "t.status = ANY(%(statuses)s::varchar[])",
    "owner": "t.owner_id = %(owner)s",
    "faults": "t.faults >= %(faults)s",
    "start": "t.completion_time >= %(start)s",
    # A range without an end includes unfinished tasks.
    "open_start": "(t.completion_time >= %(open_start)s OR t.completion_time IS NULL)",
    "end": "t.completion_time <= %(end)s",
}
_AFTER_UNFINISHED = "(t.completion_time IS NOT NULL OR (t.request_time, t.id) < (%(requested)s, %(id)s))"
_AFTER_DONE = "(t.completion_time, t.request_time, t.id) < (%(completed)s, %(requested)s, %(id)s)"
_ORDER = "completion_time DESC NULLS FIRST, request_time DESC, id DESC"
_ONE_SIDE = f"""
    (SELECT t.id, t.completion_time, t.request_time FROM tasks_task t
    WHERE t.{{side}}_id = place.id AND {{conditions}} ORDER BY {_ORDER} LIMIT %(limit)s)"""  # noqa: S608 (constants)
_PAGE = f"""
    SELECT DISTINCT found.* FROM unnest(%(places)s::uuid[]) AS place(id), LATERAL ({{parts}}) AS found
    ORDER BY {_ORDER} LIMIT %(limit)s"""  # noqa: S608
_TIMED_OUT = "57014"


# ---- one task


def get(user: User, task_id: uuid.UUID) -> ManagedTask:
    """The task. Raises TaskNotFoundError where the user monitors none of its endpoints."""
    found = _seen(user, list(Task.objects.select_related("owner").filter(pk=task_id)))
    if not found:
        raise TaskNotFoundError(str(task_id))
    return found[0]


def events(
    user: User, task_id: uuid.UUID, *, is_error: bool | None = None, limit: int = 10, offset: int = 0
) -> Page[Event]:
    """The events of a task, newest first. Raises TaskNotFoundError."""
    seen = get(user, task_id)
    page = queries.events(seen.task.owner, task_id, is_error=is_error, limit=limit, offset=offset)
    if not seen.sees_all:
        for event in page.rows:
            _mask_event(event)
    return page


def _mask_event(event: Event) -> None:
    """Replace the description where it comes from a fault, because that may name a path."""
    if event.code not in _OUR_DETAILS:
        event.details = ""
    if event.is_error and event.code not in _OUR_WORDS and not FAULT_SUMMARY.match(event.description):
        event.description, event.sentence = f"{event.code.replace('_', ' ').capitalize()}.", None


def successful_transfers(
    user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100
) -> MarkerPage[File]:
    """The owner's list, without the paths of the other side. Raises TaskNotFoundError."""
    seen = get(user, task_id)
    return _masked(seen, queries.successful_transfers(seen.task.owner, task_id, marker=marker, limit=limit))


def skipped_errors(user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100) -> MarkerPage[File]:
    """The owner's list, without the paths of the other side and texts of servers. Raises TaskNotFoundError."""
    seen = get(user, task_id)
    return _masked(seen, queries.skipped_errors(seen.task.owner, task_id, marker=marker, limit=limit))


def pause_info(user: User, task_id: uuid.UUID) -> tuple[pauses.Causes, list[PauseRule], set[uuid.UUID]]:
    """The pauses of a task, the rules on the manager's sides, and those of them that the manager may change.

    Raises TaskNotFoundError.
    """
    seen = get(user, task_id)
    found = pauses.current(seen.task)
    rules = [rule for rule, is_source in found.rules if seen.sees("source" if is_source else "destination")]
    rules = list({rule.pk: rule for rule in rules}.values())
    return found, rules, pause_rules.editable_ones(user, rules)


def cancel_status(user: User, ref: str) -> tuple[AdminCancel, bool]:
    """The state of a cancel request of this manager. Raises TaskNotFoundError."""
    row = row_by_id(AdminCancel.objects.filter(user=user), ref, TaskNotFoundError(ref))
    return row, is_done(row)


def is_done(row: AdminCancel) -> bool:
    """Whether all tasks of the request are done."""
    return not Task.objects.filter(pk__in=row.task_ids).exclude(phase=Phase.DONE).exists()


def _seen(user: User, tasks: Sequence[Task]) -> list[ManagedTask]:
    """The visible tasks, each without the fields that the user may not see."""
    queries.read_endpoints(tasks)
    overseen = held(user, Permission.OVERSEE, tasks)
    found = [ManagedTask(task, overseen) for task in tasks if is_overseen(task, overseen)]
    for seen in found:
        _mask(seen)
    shown_names.load(seen.task.owner for seen in found)
    return found


def is_overseen(task: Task, overseen: frozenset[uuid.UUID]) -> bool:
    """Whether a manager of these endpoints sees the task."""
    ends = (task.source_id, task.destination_id)
    return bool({*ends} & overseen) and in_reach(*ends)


def held(user: User, verb: Permission, tasks: Iterable[Task]) -> frozenset[uuid.UUID]:
    """The endpoints of these tasks, and their hosts, for which this user has this permission."""
    ends = [end for task in tasks for end in task.ends.values()]
    places = {end.pk for end in ends} | {end.host_id for end in ends if end.host_id}
    mine: QuerySet[Endpoint] = Endpoint.objects.filter(endpoints_by_role(user, verb), pk__in=places)
    return frozenset(mine.values_list("pk", flat=True))


def _mask(seen: ManagedTask) -> None:
    task = seen.task
    if seen.sees_all:
        return
    for side in SIDES:
        if not seen.sees(side):
            setattr(task, f"{side}_base_path", None)
    if task.nice_status not in _OUR_WORDS:
        task.nice_status_details = None
    if task.fatal_error_code not in _OUR_WORDS:
        task.fatal_error_description = None


def _masked(seen: ManagedTask, page: MarkerPage[File]) -> MarkerPage[File]:
    hidden = [side for side in SIDES if not seen.sees(side)]
    for row in page.rows if hidden else ():
        for side in hidden:
            setattr(row, f"{side}_path", None)
        row.error_details = None
    return page
