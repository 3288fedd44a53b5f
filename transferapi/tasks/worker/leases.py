"""Leases: the exclusive right of a worker to work on a task (docs/architecture.md, truth 1). Heartbeats renew it.

Locks are taken in one order: turns (advisory), batches of the task (advisory), lease row, task row.

A heartbeat waits for no transaction of its worker: `hold` locks the lease row against an acquisition (FOR KEY SHARE
against FOR UPDATE), and not against an update of its time. `acquire` does not wait for a row that is locked: somebody
lives who holds it. See docs/decisions/leases-and-fence.md.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from django.conf import settings
from django.db import connection, transaction

from endpoints import protocols
from endpoints.gridftp.faults import Side
from endpoints.models import Endpoint
from endpoints.network_use import limits
from endpoints.registry import canonical_name
from endpoints.sharing.access import Access
from identity.clock import ClockReading, boottime, moment, read
from identity.database_rows import execute, query_rows
from identity.gsi.sentences import Sentence
from transferapi.tasks import endpoint_failures, locks, moves, queries
from transferapi.tasks.errors import LeaseLostError, StaleStateError
from transferapi.tasks.events import NewEvent
from transferapi.tasks.managers import pauses
from transferapi.tasks.models import Event, Lease, PathMemory, Task
from transferapi.tasks.records import HeartbeatReply, TaskEndpoint, TaskSpec
from transferapi.tasks.states import Phase, TaskType

from . import losses
from .endpoint_access import AccessRefusal, accesses
from .fair_share import MAX_PER_USER, Runnable, SchedulerSnapshot, waiting_keys
from .losses import Loss

#: Five heartbeats of the engine. See docs/decisions/leases-and-fence.md, Takeover.
TTL = timedelta(seconds=5)

#: The phases of tasks that a worker may take.
RUNNABLE = (Phase.QUEUED, Phase.RUNNING)

#: Events that a task has once at most: a worker must know whether the task has them already.
ONCE = ("STARTED", "PRESERVE_TIMESTAMP_SKIPPED", "UDT_NOT_USED")


class LeaseRefusal(Enum):
    NOT_RUNNABLE = "done, paused, suspended or unknown"
    HELD = "another worker holds it"
    PAUSED = "its owner, or a manager of an endpoint, has paused it"
    QUOTA = "the user or an endpoint has enough running tasks, or an older task comes first"
    NOT_DUE = "its next attempt is later"
    LOST = "workers were lost with it several times in a row: it waits"
    NOT_PERMITTED = "its owner may not use one of its endpoints any more: it has failed"


class LeaseEpoch(int):
    """The number of a lease, with the nonce that its holder has drawn; None: only the number is compared.

    A standby that takes over without the last commits gives numbers out again, and no nonce.
    """

    nonce: int | None = None

    @classmethod
    def of(cls, number: int, nonce: int) -> LeaseEpoch:
        made = cls(number)
        made.nonce = nonce
        return made


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease on a task, with the facts that its holder needs."""

    task_id: uuid.UUID
    epoch: int
    owner_id: uuid.UUID
    spec: TaskSpec
    #: How the owner of the task reaches its endpoints.
    accesses: Mapping[Side, Access]
    #: Another worker had the task, and was lost.
    taken_over: bool = False
    #: The span that submitted the task; None if it has no trace.
    trace_context: str | None = None
    #: The database's time from which the lease lasts, for the clock of the slice; None if there will be no slice.
    reading: ClockReading | None = None


def acquire(
    task_id: uuid.UUID, worker: str, *, ttl: timedelta = TTL, now: datetime | None = None
) -> Grant | LeaseRefusal:
    """Take the task, if it is its turn; end it, if its owner may not use its endpoints any more.

    The locks of the user and of the endpoints freeze the counts of `SchedulerSnapshot` until the lease is written. now
    None: the database's clock, which all workers share.
    """
    keys = waiting_keys(task_id, now)
    if keys is None:
        return LeaseRefusal.NOT_RUNNABLE
    if keys.older >= MAX_PER_USER:
        return LeaseRefusal.QUOTA
    limit = _limit_of_transaction()
    with transaction.atomic():
        if limit:
            execute(limit)
        locks.take(f"turns of {keys.owner_id} {keys.type}", *(f"sessions of {host}" for host in keys.hosts))
        task = Task.objects.get(pk=task_id)
        if refusal := _refusal(task, moment(now)):
            return refusal
        lost = losses.read(task) if task.phase == Phase.RUNNING else None
        # Only now: a new lease begins whole, however long the locks took.
        reading = read(now)
        if refusal := _held_after_all(task, lost, reading.time) or _put_off(task, lost, reading.time):
            return refusal
        sessions = SchedulerSnapshot(reading.time).sessions_for(task_id, (task.owner_id, task.type))
        if not sessions:
            return LeaseRefusal.QUOTA
        try:
            return _take_if_permitted(task, lost, worker, sessions, reading, ttl)
        except StaleStateError:
            return LeaseRefusal.NOT_RUNNABLE


def _take_if_permitted(
    task: Task, lost: Loss | None, worker: str, sessions: int, reading: ClockReading, ttl: timedelta
) -> Grant | LeaseRefusal:
    queries.read_endpoints([task])
    ends = accesses(task)
    if isinstance(ends, AccessRefusal):
        moves.fail(task.pk, moves.state_of(task), *ends, reading.time)
        return LeaseRefusal.NOT_PERMITTED
    return _take(task, lost, ends, worker, sessions, reading, ttl)


def _refusal(task: Task, now: datetime) -> LeaseRefusal | None:
    if task.phase not in RUNNABLE:
        return LeaseRefusal.NOT_RUNNABLE
    if _is_held(task, now):
        return LeaseRefusal.HELD
    return LeaseRefusal.NOT_DUE if task.next_run_at > now else None


def _is_held(task: Task, now: datetime) -> bool:
    return Lease.objects.filter(pk=task.pk, expires_at__gt=now).exclude(worker="").exists()


def _held_after_all(task: Task, lost: Loss | None, now: datetime) -> LeaseRefusal | None:
    """The row of a lease that ran out is locked, or a transaction that has just ended has renewed it."""
    is_taken = task.phase == Phase.RUNNING and (lost is None or _is_held(task, now))
    return LeaseRefusal.HELD if is_taken else None


def _put_off(task: Task, lost: Loss | None, now: datetime) -> LeaseRefusal | None:
    """Pause the task, or put it off, if it must not run now. Returns the reason, or None if it may run.

    A pause rule may have come while the task was queued, or since its worker was lost. A task with which several
    workers were lost in a row waits (`losses`).
    """
    try:
        if why := pauses.why(task, now):
            moves.pause(task.pk, moves.state_of(task), why, now, lost.changes if lost else None)
            return LeaseRefusal.PAUSED
        if lost and losses.delay(lost.in_a_row):
            losses.wait(task, lost, now)
            return LeaseRefusal.LOST
    except StaleStateError:
        return LeaseRefusal.NOT_RUNNABLE
    return None


def _take(
    task: Task,
    lost: Loss | None,
    ends: Mapping[Side, Access],
    worker: str,
    sessions: int,
    reading: ClockReading,
    ttl: timedelta,
) -> Grant:
    """Write the lease with a new epoch and move the task. Raises StaleStateError where it was ended meanwhile."""
    now, nonce = reading.time, secrets.randbits(63)
    if lost is None:
        moves.move(task.pk, moves.QUEUED, moves.RUNNING, now=now)
    else:
        task.suspect_up_to, task.lost_marks = lost.last_file, lost.marks
        resumed = NewEvent(
            "RESUMED", Sentence("The worker that had the task was lost; another one goes on where it was.")
        )
        moves.move(task.pk, moves.RUNNING, moves.RUNNING, now=now, event=resumed, changes=lost.changes)
    [(epoch,)] = query_rows(_TAKE, {
        "task": task.pk,
        "nonce": nonce,
        "worker": worker,
        "until": now + ttl,
        "sessions": sessions,
        "losses": lost.in_a_row if lost else None,
        "progress": losses.progress(task),
    })  # fmt: skip
    spec, mark = _spec(task, sessions, nonce), LeaseEpoch.of(epoch, nonce)
    grant = Grant(task.pk, mark, task.owner_id, spec, ends, lost is not None, task.trace_context)
    return replace(grant, reading=reading)


def _spec(task: Task, sessions: int, nonce: int) -> TaskSpec:
    there = frozenset(Event.objects.filter(task=task, code__in=ONCE).values_list("code", flat=True))
    return TaskSpec(
        task_id=str(task.pk),
        is_delete=task.type == TaskType.DELETE,
        source=_endpoint(task.source),
        destination=_endpoint(task.destination) if task.destination else None,
        options=task.options,
        max_sessions=sessions,
        suspect_up_to=task.suspect_up_to,
        mark=losses.mark_of(task.pk, nonce),
        lost_marks=task.lost_marks.split(),
        started="STARTED" in there,
        connection_failures=task.connection_failures,
        knowledge=_knowledge(task),
        troubled=task.nice_status is not None
        or bool((task.trouble or {}).get("away"))
        or endpoint_failures.are_failing(task.ends.values()),
        relay_rate=settings.RELAY_SMALL_FILES_RATE,
        warned=there,
    )


def _endpoint(endpoint: Endpoint) -> TaskEndpoint:
    host = endpoint.host or endpoint
    protocol = protocols.of_endpoint(host)
    return TaskEndpoint(
        str(endpoint.pk),
        canonical_name(endpoint),
        host_id=str(host.pk),
        root=endpoint.host_path.rstrip("/") if endpoint.host else None,
        personal=host.personal,
        streamed=protocol is not None and protocol.streamed,
        **limits(host)._asdict(),
    )


def _knowledge(task: Task) -> dict[str, object]:
    pair = PathMemory.objects.filter(source=task.source_host_id, destination=task.destination_host_id)
    return pair.values_list("knowledge", flat=True).first() or {}


_TAKE = """
    INSERT INTO tasks_lease AS old (task_id, epoch, nonce, worker, expires_at, sessions, losses, progress)
    VALUES (%(task)s, 1, %(nonce)s, %(worker)s, %(until)s, %(sessions)s, 0, %(progress)s)
    ON CONFLICT (task_id) DO UPDATE SET epoch = old.epoch + 1, nonce = excluded.nonce, worker = excluded.worker,
        expires_at = excluded.expires_at, sessions = excluded.sessions,
        losses = coalesce(%(losses)s, old.losses), progress = excluded.progress
    RETURNING epoch"""


def heartbeat(task_id: uuid.UUID, epoch: int, *, ttl: timedelta = TTL, now: datetime | None = None) -> HeartbeatReply:
    """Renew the lease. Raises LeaseLostError, also where it has run out and no other worker has taken it yet.

    Its sessions do not count any more after that, so that its holder must not go on. It waits neither for transactions
    of the same worker nor for the database's disk: a crash of the database may take the last heartbeat back, and its
    restart lasts longer than the lease.
    """
    rows = query_rows(_NOT_DURABLE + _BEAT, {**_key(task_id, epoch), "ttl": ttl, "now": now})
    if not rows:
        raise LeaseLostError(task_id, epoch)
    return HeartbeatReply(*rows[0])


def _key(task_id: uuid.UUID, epoch: int) -> dict[str, object]:
    """The parameters of `_MINE`."""
    return {"task": task_id, "epoch": int(epoch), "nonce": epoch.nonce if isinstance(epoch, LeaseEpoch) else None}


_NOT_DURABLE = "SET LOCAL synchronous_commit TO off; "
_NOW = "coalesce(%(now)s::timestamptz, clock_timestamp())"
_MINE = """l.task_id = %(task)s AND l.epoch = %(epoch)s
        AND l.nonce IS NOT DISTINCT FROM coalesce(%(nonce)s::bigint, l.nonce) AND l.worker <> ''"""
_HELD = f"{_MINE} AND l.expires_at > {_NOW}"
_BEAT = f"""
    UPDATE tasks_lease l SET expires_at = {_NOW} + %(ttl)s FROM tasks_task t
    WHERE {_HELD} AND t.id = l.task_id
    RETURNING t.cancel_requested_at IS NOT NULL, t.deadline, {pauses.stopped(_NOW)}, {_NOW}"""  # noqa: S608 (constants)
#: For one transaction of the worker at a time.
_BATCHES = "SELECT pg_advisory_xact_lock(%(batches)s)"
_HOLD = f"SELECT {_NOW}, l.expires_at FROM tasks_lease l WHERE {_HELD}"  # noqa: S608
_OUTLASTED = f"UPDATE tasks_lease l SET expires_at = greatest(l.expires_at, {_NOW} + %(ttl)s) WHERE {_MINE}"  # noqa: S608


def _limit_of_transaction() -> str:
    """For the first statement of a transaction that begins now: "" within another one, whose limit is not ours.

    The server ends the session, and so the transaction, of a worker that stands still in it (a frozen machine, a cut
    line) before its lease ends: nobody could take the task over while it holds the row. `on_a_connection` tries again.
    """
    return "" if connection.in_atomic_block else "SET LOCAL idle_in_transaction_session_timeout TO 4000; "


#: Rows are looked up one by one, and read in the order of an index: what remains of the ways in which PostgreSQL could
#: do it is right for few rows of a large table, whatever its statistics say (`arrays`).
_BY_INDEXES = "".join(
    f"SET LOCAL enable_{way} TO off; " for way in ("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin")
)


@contextmanager
def hold(task_id: uuid.UUID, epoch: int, now: datetime | None = None, *, to_end: bool = False) -> Iterator[datetime]:
    """A transaction of a worker, which excludes other workers and other threads of this one; yields the time.

    to_end: the transaction also ends the lease. Raises LeaseLostError.

    Only a transaction that ends the lease waits for the database's disk. A crash of the database may lose the others of
    the last half second, in order and never in part; their work is then done again.

    Heartbeats go on meanwhile. A transaction that may have outlasted the lease renews it at its end, unless another
    worker has it: the lock of an older version's `acquire` does not exclude this one.
    """
    key = {**_key(task_id, epoch), "now": now, "batches": locks.number(f"batches of {task_id}")}
    before = _limit_of_transaction() + _BY_INDEXES + ("" if to_end else _NOT_DURABLE)
    lock = "FOR NO KEY UPDATE" if to_end else "FOR KEY SHARE"
    with transaction.atomic():
        begun = boottime()
        rows = query_rows(f"{before}{_BATCHES}; {_HOLD} {lock}", key)
        if not rows:
            raise LeaseLostError(task_id, epoch)
        [(now, expires_at)] = rows
        yield now
        if to_end:
            Lease.objects.filter(pk=task_id).update(worker="", expires_at=None, sessions=0, losses=0)
        elif boottime() - begun >= (expires_at - now).total_seconds() and not execute(_OUTLASTED, {**key, "ttl": TTL}):
            raise LeaseLostError(task_id, epoch)


def next_runnable(limit: int = 100, now: datetime | None = None) -> Runnable:
    """Tasks that `acquire` would grant, in their order; for the sweep and the end of a slice."""
    return SchedulerSnapshot(moment(now)).next(limit)
