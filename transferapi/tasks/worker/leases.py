"""Leases: the exclusive right of a worker to work on a task (docs/architecture.md, truth 1). Heartbeats renew it.

Locks are taken in one order: turns (advisory), batches of the task (advisory), lease row, task row.

A heartbeat waits for no transaction of its worker: `hold` locks the lease row against an acquisition (FOR KEY SHARE
against FOR UPDATE), and not against an update of its time. `acquire` does not wait for a row that is locked: somebody
lives who holds it. See docs/decisions/leases-and-fence.md.
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection, transaction

from endpoints import protocols
from endpoints.gridftp.faults import Side
from endpoints.models import Endpoint
from endpoints.network_use import limits
from endpoints.registry import canonical_name
from endpoints.sharing.access import Access
from identity.clock import ClockReading, boottime, read
from identity.database_rows import execute, query_rows
from identity.gsi.sentences import Sentence
from transferapi.tasks import locks, moves, queries
from transferapi.tasks.errors import LeaseLostError, StaleStateError
from transferapi.tasks.events import NewEvent
from transferapi.tasks.managers import pauses
from transferapi.tasks.models import Lease, Task
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
ONCE = ("STARTED", "PRESERVE_TIMESTAMP_SKIPPED", "UDT_NOT_USED", "BANDWIDTH_LIMITED")


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
    turns = [f"turns of {keys.owner_id} {keys.type}", *(f"sessions of {host}" for host in keys.hosts)]
    limit = _limit_of_transaction()
    with transaction.atomic():
        facts = _lock_and_read(task_id, turns, limit, now)
        task = Task.objects.select_related("owner").filter(pk=task_id).first()
        if facts is None or task is None:
            return LeaseRefusal.NOT_RUNNABLE
        if refusal := _refusal(task, facts):
            return refusal
        lost = None
        if task.phase == Phase.RUNNING:
            lost, facts = losses.read(task), facts._replace(reading=read(now))
        if refusal := _held_after_all(task, lost, facts.time) or _put_off(task, lost, facts):
            return refusal
        sessions = SchedulerSnapshot(facts.time).sessions_for(task_id, (task.owner_id, task.type))
        if not sessions:
            return LeaseRefusal.QUOTA
        try:
            return _take_if_permitted(task, lost, worker, sessions, facts, ttl)
        except StaleStateError:
            return LeaseRefusal.NOT_RUNNABLE


class _Facts(NamedTuple):
    """The facts about a waiting task that its lease depends on, at one time."""

    #: Read after the locks: a new lease begins whole, however long they took.
    reading: ClockReading
    is_held: bool
    is_stopped: bool
    #: The codes among ONCE of the events that it has.
    once: frozenset[str]
    #: The knowledge of its pair of endpoints.
    knowledge: dict[str, object]
    #: One of its endpoints is known to fail.
    is_failing: bool

    @property
    def time(self) -> datetime:
        return self.reading.time


def _lock_and_read(task_id: uuid.UUID, turns: Sequence[str], limit: str, now: datetime | None) -> _Facts | None:
    """Take these locks, and then read the facts of the task, in one message; None if there is no such task."""
    parameters = {"task": task_id, "now": now, "once": [*ONCE], "locks": locks.numbers(*turns)}
    before = boottime()
    rows = query_rows(f"{limit}{locks.TAKE}; {_FACTS}", parameters)
    if not rows:
        return None
    [(time, held, stopped, once, knowledge, failing)] = rows
    reading = ClockReading(time, before, boottime())
    return _Facts(reading, bool(held), stopped, frozenset(once), json.loads(knowledge or "{}"), failing)


def _take_if_permitted(
    task: Task, lost: Loss | None, worker: str, sessions: int, facts: _Facts, ttl: timedelta
) -> Grant | LeaseRefusal:
    queries.read_endpoints([task])
    ends = accesses(task)
    if isinstance(ends, AccessRefusal):
        moves.fail(task.pk, moves.state_of(task), *ends, facts.time)
        return LeaseRefusal.NOT_PERMITTED
    return _take(task, lost, ends, worker, sessions, facts, ttl)


def _refusal(task: Task, facts: _Facts) -> LeaseRefusal | None:
    if task.phase not in RUNNABLE:
        return LeaseRefusal.NOT_RUNNABLE
    if facts.is_held:
        return LeaseRefusal.HELD
    return LeaseRefusal.NOT_DUE if task.next_run_at > facts.time else None


def _is_held(task: Task, now: datetime) -> bool:
    return Lease.objects.filter(pk=task.pk, expires_at__gt=now).exclude(worker="").exists()


def _held_after_all(task: Task, lost: Loss | None, now: datetime) -> LeaseRefusal | None:
    """The row of a lease that ran out is locked, or a transaction that has just ended has renewed it."""
    is_taken = task.phase == Phase.RUNNING and (lost is None or _is_held(task, now))
    return LeaseRefusal.HELD if is_taken else None


def _put_off(task: Task, lost: Loss | None, facts: _Facts) -> LeaseRefusal | None:
    """Pause the task, or put it off, if it must not run now. Returns the reason, or None if it may run.

    A pause rule may have come while the task was queued, or since its worker was lost. A task with which several
    workers were lost in a row waits (`losses`).
    """
    now = facts.time
    try:
        if facts.is_stopped and (why := pauses.why(task, now)):
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
    facts: _Facts,
    ttl: timedelta,
) -> Grant:
    """Write the lease with a new epoch and move the task. Raises StaleStateError where it was ended meanwhile."""
    now, nonce = facts.time, secrets.randbits(63)
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
    spec, mark = _spec(task, sessions, nonce, facts), LeaseEpoch.of(epoch, nonce)
    grant = Grant(task.pk, mark, task.owner_id, spec, ends, lost is not None, task.trace_context)
    return replace(grant, reading=facts.reading)


def _spec(task: Task, sessions: int, nonce: int, facts: _Facts) -> TaskSpec:
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
        started="STARTED" in facts.once,
        connection_failures=task.connection_failures,
        knowledge=facts.knowledge,
        troubled=task.nice_status is not None or bool((task.trouble or {}).get("away")) or facts.is_failing,
        relay_rate=settings.RELAY_SMALL_FILES_RATE,
        warned=facts.once,
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
    rows = query_rows(NOT_DURABLE + _BEAT, {**_key(task_id, epoch), "ttl": ttl, "now": now})
    if not rows:
        raise LeaseLostError(task_id, epoch)
    return HeartbeatReply(*rows[0])


def _key(task_id: uuid.UUID, epoch: int) -> dict[str, object]:
    """The parameters of `_MINE`."""
    return {"task": task_id, "epoch": int(epoch), "nonce": epoch.nonce if isinstance(epoch, LeaseEpoch) else None}


#: Before a statement: the transaction does not wait for the disk of the database.
NOT_DURABLE = "SET LOCAL synchronous_commit TO off; "
_NOW = "coalesce(%(now)s::timestamptz, clock_timestamp())"
_MINE = """l.task_id = %(task)s AND l.epoch = %(epoch)s
        AND l.nonce IS NOT DISTINCT FROM coalesce(%(nonce)s::bigint, l.nonce) AND l.worker <> ''"""
_HELD = f"{_MINE} AND l.expires_at > {_NOW}"
_BEAT = f"""
    UPDATE tasks_lease l SET expires_at = {_NOW} + %(ttl)s FROM tasks_task t
    WHERE {_HELD} AND t.id = l.task_id
    RETURNING t.cancel_requested_at IS NOT NULL, t.deadline, {pauses.stopped(_NOW)}, {_NOW}"""  # noqa: S608 (constants)
_FACTS = f"""
    SELECT {_NOW}, l.worker <> '' AND l.expires_at > {_NOW}, {pauses.stopped(_NOW)},
        ARRAY(SELECT e.code FROM tasks_event e WHERE e.task_id = t.id AND e.code = ANY(%(once)s)),
        (SELECT m.knowledge FROM tasks_pathmemory m
            WHERE m.source_id = t.source_host_id AND m.destination_id = t.destination_host_id),
        EXISTS (SELECT FROM tasks_endpointfailure f WHERE f.endpoint_id IN (t.source_host_id, t.destination_host_id))
    FROM tasks_task t LEFT JOIN tasks_lease l ON l.task_id = t.id WHERE t.id = %(task)s"""  # noqa: S608 (constants)
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
    before = _limit_of_transaction() + _BY_INDEXES + ("" if to_end else NOT_DURABLE)
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


def read_held(
    task_id: uuid.UUID, epoch: int, query: str, parameters: Mapping[str, object], now: datetime | None = None
) -> list[tuple[Any, ...]]:
    """The rows of a query under the lease, in one message to the database. Raises LeaseLostError.

    query: its first column is never NULL. It may name `%(task)s` and the time, `lease.now`. The rows are those after
    all transactions of this worker that have begun before, and nobody else has the task while they are read.
    """
    key = {**parameters, **_key(task_id, epoch), "now": now, "batches": locks.number(f"batches of {task_id}")}
    held = f"({_HOLD} FOR KEY SHARE) AS lease(now, expires_at)"
    rows = query_rows(f"{_BY_INDEXES}{_BATCHES}; SELECT row.* FROM {held} LEFT JOIN LATERAL ({query}) row ON TRUE", key)  # noqa: S608
    if not rows:
        raise LeaseLostError(task_id, epoch)
    return [row for row in rows if row[0] is not None]


def next_runnable(limit: int = 100, now: datetime | None = None) -> Runnable:
    """Tasks that `acquire` would grant, in their order; for the sweep and the end of a slice."""
    return SchedulerSnapshot(now).next(limit)
