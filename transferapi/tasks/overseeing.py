"""What those who run endpoints see of the tasks of others (Transfer API, `endpoint_manager`).

A task is seen by who oversees its source or its destination. Whoever oversees one side alone sees that the task is
there, whose it is, between which endpoints and how it goes; the paths on the other side, and texts of servers that may
hold some, are no business of his: they are left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import OperationalError, connection, transaction
from django.db.models import Q, QuerySet

from endpoints import pausing, registry
from endpoints.models import Endpoint, PauseRule
from endpoints.permissions import Verb, running
from identity.models import User

from . import pauses, queries
from .errors import OwnerNotFoundError, RequestError, TaskNotFoundError, TasksNotPermittedError
from .models import AdminCancel, Event, File, Task
from .queries import MarkerPage, Page, TimeRange
from .settling import SUMMARY
from .states import Phase, Status

#: Ids in one filter, or in one request to pause, resume or cancel.
MAX_TASKS = 50
#: Milliseconds after which a list is given up.
PATIENCE = 10_000
SIDES = ("source", "destination")
_UNFINISHED = frozenset({Status.ACTIVE.value, Status.INACTIVE.value})
#: Events whose details are ours, and hold no path. Those of PROGRESS may name what was left out, or deleted.
_OUR_DETAILS = frozenset({"STARTED", "SUCCEEDED", "SKIPPED_ERRORS"})
#: What the owner is told in words of ours, without a path.
_OUR_WORDS = frozenset({pauses.BY_RULE, pauses.BY_ADMIN, "CANCELED", "EXPIRED"})
_WITH = ("owner", "source__owner", "source__host__owner", "destination__owner", "destination__host__owner")


@dataclass(frozen=True, slots=True)
class Seen:
    """A task with the endpoints of it, and their hosts, that the manager oversees. What he may not see is gone."""

    task: Task
    overseen: frozenset[uuid.UUID]

    def sees(self, side: str) -> bool:
        """Whether this side is his. A task without a destination has one side only."""
        endpoint_id = self.task.source_id if side == "source" else self.task.destination_id
        return endpoint_id is None or endpoint_id in self.overseen

    @property
    def sees_all(self) -> bool:
        return all(map(self.sees, SIDES))


class LastKey(NamedTuple):
    """The place of a task in the list: what is not done comes first."""

    completion_time: datetime | None
    request_time: datetime
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Filter:
    """All that are given must hold; within a sequence one suffices. endpoint: an id or a name, shares of it too."""

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
    user: User, wanted: Filter, after: LastKey | None = None, limit: int = 100
) -> tuple[list[Seen], LastKey | None]:
    """What is not done first, then what was done last; and where the next page begins (None: there is none).

    -> RequestError, TasksNotPermittedError, EndpointNotFoundError, NotPermittedError
    """
    _check(wanted)
    if wanted.task_ids is not None:
        return _by_ids(user, wanted.task_ids), None
    if wanted.local_user is not None:
        return [], None  # no account of a server is known of any task
    ids = _page(wanted, _places(user, wanted.endpoint), after, limit + 1)
    rows = Task.objects.select_related(*_WITH).in_bulk(ids[:limit])
    found = _seen(user, [rows[pk] for pk in ids[:limit] if pk in rows])
    last = found[-1].task if found and len(ids) > limit else None
    return found, LastKey(last.completion_time, last.request_time, last.pk) if last else None


def _check(wanted: Filter) -> None:
    """What makes no sense together, and what nobody may ask, since all of the history would have to be looked at."""
    others = Filter(**{**{name: getattr(wanted, name) for name in Filter.__slots__}, "task_ids": None})
    if wanted.task_ids is not None:
        if others != Filter():
            raise RequestError("filter_task_id", "This filter stands alone.")
        if len(wanted.task_ids) > MAX_TASKS:
            raise RequestError("filter_task_id", f"At most {MAX_TASKS} ids are looked for at a time.")
        return
    if wanted.endpoint is None:
        for name, value in (("filter_endpoint_use", wanted.use), ("filter_local_user", wanted.local_user)):
            if value is not None:
                raise RequestError(name, "This filter needs filter_endpoint beside it.")
        if not wanted.of_unfinished:
            reason = "Needed, or filter_task_id, where filter_status is not within ACTIVE,INACTIVE."
            raise RequestError("filter_endpoint", reason)
    if wanted.is_paused is not None and not wanted.of_unfinished:
        raise RequestError("filter_is_paused", "This filter needs a filter_status within ACTIVE,INACTIVE beside it.")
    if wanted.owner_id is not None and not User.objects.filter(pk=wanted.owner_id).exists():
        raise OwnerNotFoundError(wanted.owner_id)


def _by_ids(user: User, task_ids: Sequence[uuid.UUID]) -> list[Seen]:
    """What is not there, and what he may not see, is refused in the same words."""
    found = _seen(user, list(Task.objects.select_related(*_WITH).filter(pk__in=task_ids)))
    if len(found) < len(set(task_ids)):
        raise TasksNotPermittedError
    by_id = {seen.task.pk: seen for seen in found}
    return [by_id[task_id] for task_id in dict.fromkeys(task_ids)]


def _places(user: User, ref: str | None) -> list[uuid.UUID]:
    """The endpoints whose tasks are wanted."""
    mine = Endpoint.objects.filter(running(user, Verb.OVERSEE))
    if ref is not None:
        endpoint = registry.resolve(user, ref, Verb.OVERSEE)
        mine = mine.filter(Q(pk=endpoint.pk) | Q(host=endpoint))
    return list(mine.values_list("pk", flat=True))


def _page(wanted: Filter, places: Collection[uuid.UUID], after: LastKey | None, limit: int) -> list[uuid.UUID]:
    """Of each endpoint the first of each side, by the index that has them in this order; of those the first."""
    conditions, parameters = _conditions(wanted, after)
    sides = [wanted.use] if wanted.use else SIDES
    parts = [_ONE_SIDE.format(side=side, conditions=conditions) for side in sides]
    query = _PAGE.format(parts=" UNION ALL ".join(parts))
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout TO %s", [PATIENCE])
            cursor.execute(query, {**parameters, "places": list(places), "limit": limit})
            ids = [id_ for id_, *_ in cursor.fetchall()]
            cursor.execute("SET LOCAL statement_timeout TO DEFAULT")
            return ids
    except OperationalError as error:
        if getattr(error.__cause__, "pgcode", None) != _TIMED_OUT:
            raise
        raise RequestError("filter", "This takes too long; ask for less, such as a shorter time.") from error


def _conditions(wanted: Filter, after: LastKey | None) -> tuple[str, dict[str, Any]]:
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
    if wanted.is_paused is not None:
        conditions.append(f"t.phase {'=' if wanted.is_paused else '<>'} '{Phase.PAUSED.value}'")
    if after is not None:
        values |= {"completed": after.completion_time, "requested": after.request_time, "id": after.id}
        conditions.append(_AFTER_UNFINISHED if after.completion_time is None else _AFTER_DONE)
    return " AND ".join(["TRUE", *conditions]), values


_CONDITIONS = {
    "statuses": "t.status = ANY(%(statuses)s::varchar[])",
    "owner": "t.owner_id = %(owner)s",
    "faults": "t.faults >= %(faults)s",
    "start": "t.completion_time >= %(start)s",
    # Without an end what is not done belongs to it: it will be done one day.
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


def get(user: User, task_id: uuid.UUID) -> Seen:
    """-> TaskNotFoundError, where he oversees none of its endpoints"""
    found = _seen(user, list(Task.objects.select_related(*_WITH).filter(pk=task_id)))
    if not found:
        raise TaskNotFoundError(str(task_id))
    return found[0]


def events(
    user: User, task_id: uuid.UUID, *, is_error: bool | None = None, limit: int = 10, offset: int = 0
) -> Page[Event]:
    """Newest first. -> TaskNotFoundError"""
    seen = get(user, task_id)
    page = queries.events(seen.task.owner, task_id, is_error=is_error, limit=limit, offset=offset)
    if not seen.sees_all:
        for event in page.rows:
            _mask_event(event)
    return page


def _mask_event(event: Event) -> None:
    """What ends a task, or stops it, is described in the words of a fault, which may name a path."""
    if event.code not in _OUR_DETAILS:
        event.details = ""
    if event.is_error and event.code not in _OUR_WORDS and not SUMMARY.match(event.description):
        event.description = f"{event.code.replace('_', ' ').capitalize()}."


def successful_transfers(
    user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100
) -> MarkerPage[File]:
    """As the owner's, without the paths of the other side. -> TaskNotFoundError"""
    seen = get(user, task_id)
    return _masked(seen, queries.successful_transfers(seen.task.owner, task_id, marker=marker, limit=limit))


def skipped_errors(user: User, task_id: uuid.UUID, *, marker: int | None = None, limit: int = 100) -> MarkerPage[File]:
    """As the owner's, without the paths of the other side and what a server said. -> TaskNotFoundError"""
    seen = get(user, task_id)
    return _masked(seen, queries.skipped_errors(seen.task.owner, task_id, marker=marker, limit=limit))


def pause_info(user: User, task_id: uuid.UUID) -> tuple[pauses.Causes, list[PauseRule], set[uuid.UUID]]:
    """What pauses it; of that the rules on his sides, whole; and which of those he may change. -> TaskNotFoundError"""
    seen = get(user, task_id)
    found = pauses.current(seen.task)
    rules = [rule for rule, is_source in found.rules if seen.sees("source" if is_source else "destination")]
    rules = list({rule.pk: rule for rule in rules}.values())
    return found, rules, pausing.editable_ones(user, rules)


def cancel_status(user: User, ref: str) -> tuple[AdminCancel, bool]:
    """What this manager has asked for, and whether it is done. -> TaskNotFoundError"""
    try:
        row = AdminCancel.objects.filter(pk=uuid.UUID(ref), user=user).first()
    except ValueError:
        row = None
    if row is None:
        raise TaskNotFoundError(ref)
    return row, is_done(row)


def is_done(row: AdminCancel) -> bool:
    """Whether none of its tasks goes on."""
    return not Task.objects.filter(pk__in=row.task_ids).exclude(phase=Phase.DONE).exists()


def _seen(user: User, tasks: Sequence[Task]) -> list[Seen]:
    """Those that he may see, each without what he may not."""
    overseen = held(user, Verb.OVERSEE, tasks)
    found = [Seen(task, overseen) for task in tasks if {task.source_id, task.destination_id} & overseen]
    for seen in found:
        _mask(seen)
    return found


def held(user: User, verb: Verb, tasks: Iterable[Task]) -> frozenset[uuid.UUID]:
    """Of the endpoints of these tasks, and of their hosts, those that this user may do this to."""
    ends = [end for task in tasks for end in (task.source, task.destination) if end is not None]
    places = {end.pk for end in ends} | {end.host_id for end in ends if end.host_id}
    mine: QuerySet[Endpoint] = Endpoint.objects.filter(running(user, verb), pk__in=places)
    return frozenset(mine.values_list("pk", flat=True))


def _mask(seen: Seen) -> None:
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


def _masked(seen: Seen, page: MarkerPage[File]) -> MarkerPage[File]:
    for row in page.rows:
        hidden: Mapping[str, object] = {f"{side}_path": None for side in SIDES if not seen.sees(side)}
        for name, value in hidden.items():
            setattr(row, name, value)
        if hidden:
            row.error_details = None
    return page
