"""Leases: which worker holds which task (truth 1). A lease lives from heartbeat to heartbeat.

Locks are taken in one order: turns (advisory), lease row, task row.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import Max

from endpoints.limits import limits
from endpoints.models import Endpoint
from endpoints.registry import canonical_name

from . import locks, moves, pauses
from .clock import moment
from .errors import LeaseLostError, StaleStateError
from .events import NewEvent
from .models import Event, File, Lease, PathMemory, Task
from .states import Phase, TaskType
from .turns import Standing

TTL = timedelta(seconds=6)
HEARTBEAT = timedelta(seconds=1)

#: Events that a task has once at most: a worker must know whether an earlier one has told them.
ONCE = ("STARTED", "PRESERVE_TIMESTAMP_SKIPPED", "UDT_NOT_USED")


_WITH_ENDS = ("source__owner", "source__host", "destination__owner", "destination__host")


class Refusal(Enum):
    NOT_RUNNABLE = "done, paused, suspended or unknown"
    HELD = "another worker has it"
    PAUSED = "a manager of an endpoint has paused it"
    QUOTA = "the user or an endpoint has enough under way, or an older task has its turn first"
    NOT_DUE = "its next try is later"


class End(NamedTuple):
    """An endpoint of the task, with what one task may ask of its servers (None: no word about it).

    host_id: whose servers these are. root: of a shared endpoint, what stands before its paths there; else None.
    """

    id: uuid.UUID
    name: str
    host_id: uuid.UUID
    root: str | None
    max_concurrency: int | None
    preferred_concurrency: int | None
    max_parallelism: int | None
    preferred_parallelism: int | None


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease, and the facts of the task that do not change while it is held."""

    task_id: uuid.UUID
    epoch: int
    #: To each of the endpoints.
    sessions: int
    owner_id: uuid.UUID
    is_delete: bool
    source: End
    destination: End | None
    options: dict[str, object]
    #: Files with an id up to this may still have a stale writer.
    suspect_up_to: int
    #: Of ONCE, the events that there are.
    told: frozenset[str]
    #: How often in a row an endpoint could not be reached, as the last slice left it.
    connection_failures: int
    #: Something is wrong with it, as far as its status shows.
    troubled: bool
    #: What the tuner knows of this pair of endpoints.
    knowledge: dict[str, object]

    @property
    def started(self) -> bool:
        """There is a STARTED event."""
        return "STARTED" in self.told


class Beat(NamedTuple):
    """What a heartbeat brings back."""

    cancel_requested: bool
    deadline: datetime
    #: Something pauses the task: it is to be given back.
    pause_requested: bool


def acquire(task_id: uuid.UUID, worker: str, *, ttl: timedelta = TTL, now: datetime | None = None) -> Grant | Refusal:
    """Take the task, if it is its turn. now None: the database's clock, which all workers share.

    The locks of the user and of the endpoints make the counts of `Standing` stand still until the lease is written.
    """
    columns = ("owner_id", "type", "source_host_id", "destination_host_id")
    ends = Task.objects.filter(pk=task_id).values_list(*columns).first()
    if ends is None:
        return Refusal.NOT_RUNNABLE
    with transaction.atomic():
        locks.take(f"turns of {ends[0]} {ends[1]}", *(f"sessions of {end}" for end in {*ends[2:]} - {None}))
        now = moment(now)
        task = Task.objects.select_related(*_WITH_ENDS).get(pk=task_id)
        refusal = _refusal(task, now)
        if refusal:
            return refusal
        if why := pauses.why(task, now):
            return _pause(task, why, now)
        sessions = Standing(now).sessions_for(task_id, (task.owner_id, task.type))
        if not sessions:
            return Refusal.QUOTA
        try:
            return _take(task, worker, sessions, now, ttl)
        except StaleStateError:
            return Refusal.NOT_RUNNABLE


def _refusal(task: Task, now: datetime) -> Refusal | None:
    if task.phase not in (Phase.QUEUED, Phase.RUNNING):
        return Refusal.NOT_RUNNABLE
    if Lease.objects.filter(pk=task.pk, expires_at__gt=now).exclude(worker="").exists():
        return Refusal.HELD
    return Refusal.NOT_DUE if task.next_run_at > now else None


def _pause(task: Task, why: moves.Pause, now: datetime) -> Refusal:
    """It was queued when a rule came, or its worker has died since."""
    lost = {"suspect_up_to": _last_file(task)} if task.phase == Phase.RUNNING else None
    try:
        moves.pause(task.pk, moves.state_of(task), why, now, lost)
    except StaleStateError:
        return Refusal.NOT_RUNNABLE
    return Refusal.PAUSED


def _last_file(task: Task) -> int:
    """Up to this one, a worker that was lost may still have files under way."""
    return File.objects.filter(task=task).aggregate(last=Max("id"))["last"] or 0


def _take(task: Task, worker: str, sessions: int, now: datetime, ttl: timedelta) -> Grant:
    """Write the lease with a new epoch and move the task. -> StaleStateError when it was ended meanwhile"""
    if task.phase == Phase.QUEUED:
        moves.move(task.pk, moves.QUEUED, moves.RUNNING, now=now)
    else:
        task.suspect_up_to = _last_file(task)
        lost = NewEvent("RESUMED", "The worker that had the task was lost; another one goes on where it was.")
        changes = {"suspect_up_to": task.suspect_up_to}
        moves.move(task.pk, moves.RUNNING, moves.RUNNING, now=now, event=lost, changes=changes)
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, [task.pk, worker, now + ttl, sessions])
        (epoch,) = cursor.fetchone()
    destination = task.destination
    return Grant(
        task_id=task.pk,
        epoch=epoch,
        sessions=sessions,
        owner_id=task.owner_id,
        is_delete=task.type == TaskType.DELETE,
        source=_end(task.source),
        destination=_end(destination) if destination else None,
        options=task.options,
        suspect_up_to=task.suspect_up_to,
        told=frozenset(Event.objects.filter(task=task, code__in=ONCE).values_list("code", flat=True)),
        connection_failures=task.connection_failures,
        troubled=task.nice_status is not None,
        knowledge=_knowledge(task),
    )


def _end(endpoint: Endpoint) -> End:
    if endpoint.host is None:
        return End(endpoint.id, canonical_name(endpoint), endpoint.id, None, *limits(endpoint))
    root = endpoint.host_path.rstrip("/")
    return End(endpoint.id, canonical_name(endpoint), endpoint.host.id, root, *limits(endpoint.host))


def _knowledge(task: Task) -> dict[str, object]:
    pair = PathMemory.objects.filter(source=task.source_host_id, destination=task.destination_host_id)
    return pair.values_list("knowledge", flat=True).first() or {}


_TAKE = """
    INSERT INTO tasks_lease AS old (task_id, epoch, worker, expires_at, sessions) VALUES (%s, 1, %s, %s, %s)
    ON CONFLICT (task_id) DO UPDATE SET epoch = old.epoch + 1, worker = excluded.worker,
        expires_at = excluded.expires_at, sessions = excluded.sessions
    RETURNING epoch"""


def heartbeat(task_id: uuid.UUID, epoch: int, *, ttl: timedelta = TTL, now: datetime | None = None) -> Beat:
    """Renew the lease. -> LeaseLostError, also when it ran out and nobody has taken it yet: quotas counted on that"""
    parameters: dict[str, Any] = {"task": task_id, "epoch": epoch, "ttl": ttl, "now": now}
    with connection.cursor() as cursor:
        cursor.execute(_BEAT, parameters)
        row = cursor.fetchone()
    if row is None:
        raise LeaseLostError(task_id, epoch)
    return Beat(*row)


_NOW = "coalesce(%(now)s::timestamptz, clock_timestamp())"
_HELD = f"l.task_id = %(task)s AND l.epoch = %(epoch)s AND l.worker <> '' AND l.expires_at > {_NOW}"
_BEAT = f"""
    UPDATE tasks_lease l SET expires_at = {_NOW} + %(ttl)s FROM tasks_task t
    WHERE {_HELD} AND t.id = l.task_id
    RETURNING t.cancel_requested_at IS NOT NULL, t.deadline, {pauses.stopped(_NOW)}"""  # noqa: S608 (constants)
_HOLD = f"SELECT {_NOW} FROM tasks_lease l WHERE {_HELD} FOR NO KEY UPDATE"  # noqa: S608


#: Rows of a batch are looked up by their ids, one by one. Statistics of a table that has just begun to grow make
#: PostgreSQL expect a single row of this task, and then it reads the whole table for each batch.
_FOR_A_BATCH = "SET LOCAL synchronous_commit TO off; SET LOCAL enable_seqscan TO off; "


@contextmanager
def hold(task_id: uuid.UUID, epoch: int, now: datetime | None = None, *, to_end: bool = False) -> Iterator[datetime]:
    """A transaction of a worker: nobody takes the task, and no other thread of the worker writes, before it ends.

    Gives the time. to_end: the lease itself is given back in it. -> LeaseLostError

    Only the end is waited for until it is on the database's disk. All else may be lost with the last half second of a
    database that crashes, in order and never in part, and is then done again.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            statement = _HOLD if to_end else _FOR_A_BATCH + _HOLD
            cursor.execute(statement, {"task": task_id, "epoch": epoch, "now": now})
            row = cursor.fetchone()
        if row is None:
            raise LeaseLostError(task_id, epoch)
        yield row[0]
        if to_end:
            Lease.objects.filter(pk=task_id).update(worker="", expires_at=None, sessions=0)


def next_runnable(limit: int = 100, now: datetime | None = None) -> list[uuid.UUID]:
    """Tasks that `acquire` would grant, in the order of their turns; for the sweep and the end of a slice."""
    return Standing(moment(now)).next(limit)
