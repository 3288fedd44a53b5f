"""The fair share: the order in which waiting tasks of all users run, and their sessions.

A task waits where it is queued, or its worker was lost, and its time has come. For each user and type, at most
MAX_PER_USER tasks run, the oldest first; MAX_SILENT of them do not count while they wait for a silent server. All tasks
together hold at most `max_sessions` sessions to an endpoint; sessions to a shared endpoint count for its host.

A task whose endpoint is full is skipped, so that it does not delay others. Two reservations keep it from starving: one
slot of each user for the user's oldest waiting task, and MIN_SESSIONS of each endpoint for the oldest waiting task that
needs it. For the oldest task of all, everything is reserved; it runs when the present slices end, after minutes at
most. Then the next task is the oldest.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from datetime import datetime
from typing import Any, NamedTuple

from identity.database_rows import query_rows

#: The most live leases of one user on tasks of one type.
MAX_PER_USER = 3
#: Live leases that do not count as long as their servers do not answer (`troubles.endpoint_failed`, TIMEOUT).
MAX_SILENT = 3
#: Sessions to each endpoint of a task: the least that it needs, and the most that it gets.
MIN_SESSIONS, WANTED_SESSIONS = 3, 9
#: The most for a task from a server to an agent: small files need many, which mostly wait (docs/decisions/agents.md).
TO_AGENT_SESSIONS = 65

Share = tuple[uuid.UUID, str]


class WaitingTask(NamedTuple):
    """A waiting task; sorts by age, oldest first. For shared endpoints, it has their hosts."""

    next_run_at: datetime
    request_time: datetime
    id: uuid.UUID
    owner_id: uuid.UUID
    type: str
    source_id: uuid.UUID
    destination_id: uuid.UUID | None
    source_max: int
    destination_max: int | None
    #: From a server to an agent.
    to_agent: bool = False
    #: A worker had it, and was lost.
    lost: bool = False

    @property
    def share(self) -> Share:
        return self.owner_id, self.type

    def endpoints(self) -> list[tuple[uuid.UUID, int, int]]:
        """(endpoint, number of sides of the task, its max_sessions) for each endpoint of this task."""
        if self.destination_id is None or self.destination_max is None:
            return [(self.source_id, 1, self.source_max)]
        if self.source_id == self.destination_id:
            return [(self.source_id, 2, self.source_max)]
        return [(self.source_id, 1, self.source_max), (self.destination_id, 1, self.destination_max)]


class Runnable(NamedTuple):
    """Tasks that may run now, in the order in which they are to begin: first those of lost workers."""

    lost: list[uuid.UUID]
    others: list[uuid.UUID]


class WaitingKeys(NamedTuple):
    """The owner, the type and the hosts of a task. older: tasks of the same, MAX_PER_USER at most, that go first."""

    owner_id: uuid.UUID
    type: str
    hosts: frozenset[uuid.UUID]
    older: int


def waiting_keys(task_id: uuid.UUID, now: datetime | None) -> WaitingKeys | None:
    """Read them without a lock; None where the task cannot run in its phase.

    Older tasks between the same hosts hold or get the share of the user before this one, whatever room the hosts have.
    """
    row = next(iter(query_rows(_KEYS, {"task": task_id, "now": now, "most": MAX_PER_USER})), None)
    return WaitingKeys(row[0], row[1], frozenset(host for host in row[2:4] if host), row[4]) if row else None


class SchedulerSnapshot:
    """The leases and the waiting tasks at one moment; now None: by the database's clock."""

    def __init__(self, now: datetime | None) -> None:
        self._held: list[uuid.UUID] = []
        self._running: Counter[Share] = Counter()
        self._used: Counter[uuid.UUID] = Counter()
        self._max: dict[uuid.UUID, int] = {}
        self._oldest: dict[uuid.UUID, tuple[uuid.UUID, int] | None] = {}
        silent: Counter[Share] = Counter()
        for time, task_id, owner_id, type_, is_silent, sessions, *sides in query_rows(_LIVE, {"now": now}):
            self._now: datetime = time
            if task_id is None:
                continue
            self._held.append(task_id)
            silent[owner_id, type_] += is_silent
            self._running[owner_id, type_] += not is_silent or silent[owner_id, type_] > MAX_SILENT
            for endpoint_id, max_sessions in (sides[:2], sides[2:]):
                if endpoint_id is not None:
                    self._used[endpoint_id] += sessions
                    self._max[endpoint_id] = max_sessions

    def sessions_for(self, task_id: uuid.UUID, share: Share) -> int:
        """The sessions to each endpoint that this waiting task may open now; 0 where it is not its turn."""
        turns = self._turns(_SOMEBODY, {"owner": share[0], "type": share[1]})[share]
        task = next((waiting for waiting in turns if waiting.id == task_id), None)
        return self._sessions(task) if task else 0

    def next(self, limit: int) -> Runnable:
        """Tasks that may run now, `limit` at most.

        Those of lost workers, which had their turn, then those of users with the fewest running tasks, then by age.
        """
        turns = self._turns(_EVERYBODY, {})
        queue = [
            (not waiting.lost, self._running[share] + place, waiting)
            for share, tasks in turns.items()
            for place, waiting in enumerate(tasks)
        ]
        chosen: list[WaitingTask] = []
        for _, _, waiting in sorted(queue):
            if len(chosen) < limit and self._sessions(waiting):
                chosen.append(waiting)
                self._use(waiting, MIN_SESSIONS)
        return Runnable([task.id for task in chosen if task.lost], [task.id for task in chosen if not task.lost])

    def _turns(self, users: str, parameters: dict[str, Any]) -> dict[Share, list[WaitingTask]]:
        """The waiting tasks that fit into the share of each user: the oldest, and others that fit."""
        busy = self._running.items()
        parameters = {
            **self._parameters(),
            **parameters,
            "busy_owners": [share[0] for share, _ in busy],
            "busy_types": [share[1] for share, _ in busy],
            "busy_tasks": [tasks for _, tasks in busy],
            "full": self._with_less_than(MIN_SESSIONS),
            "tight": self._with_less_than(2 * MIN_SESSIONS),
        }
        found: dict[Share, list[WaitingTask]] = defaultdict(list)
        for waiting in sorted({WaitingTask(*row) for row in query_rows(_TURNS.format(users=users), parameters)}):
            if len(found[waiting.share]) + self._running[waiting.share] < MAX_PER_USER:
                found[waiting.share].append(waiting)
        return found

    def _sessions(self, task: WaitingTask) -> int:
        """The sessions for a task: at most half of the free ones, so that the next task need not wait."""
        room = min(self._room(task, *endpoint) // endpoint[1] for endpoint in task.endpoints())
        wanted = TO_AGENT_SESSIONS if task.to_agent else WANTED_SESSIONS
        return min(max(room // 2, MIN_SESSIONS), wanted) if room >= MIN_SESSIONS else 0

    def _room(self, task: WaitingTask, endpoint_id: uuid.UUID, sides: int, max_sessions: int) -> int:
        """The free sessions of an endpoint for this task, without those that are reserved for the oldest."""
        free = max_sessions - self._used[endpoint_id]
        if free - sides * WANTED_SESSIONS >= 2 * MIN_SESSIONS:
            return free
        oldest = self._oldest_at(endpoint_id)
        return free if oldest is None or oldest[0] == task.id else free - oldest[1]

    def _oldest_at(self, endpoint_id: uuid.UUID) -> tuple[uuid.UUID, int] | None:
        """The oldest waiting task that needs this endpoint and whose user has room, with its need of sessions."""
        if endpoint_id not in self._oldest:
            at_quota = [share for share, tasks in self._running.items() if tasks >= MAX_PER_USER]
            parameters = {
                **self._parameters(),
                "endpoint": endpoint_id,
                "quota_owners": [share[0] for share in at_quota],
                "quota_types": [share[1] for share in at_quota],
            }
            row = next(iter(query_rows(_OLDEST_AT, parameters)), None)
            self._oldest[endpoint_id] = (row[0], row[1] * MIN_SESSIONS) if row else None
        return self._oldest[endpoint_id]

    def _parameters(self) -> dict[str, Any]:
        return {"now": self._now, "held": self._held, "most": MAX_PER_USER}

    def _with_less_than(self, sessions: int) -> list[uuid.UUID]:
        return [id_ for id_, max_sessions in self._max.items() if max_sessions - self._used[id_] < sessions]

    def _use(self, task: WaitingTask, sessions: int) -> None:
        for endpoint_id, sides, _ in task.endpoints():
            self._used[endpoint_id] += sides * sessions
            if (self._oldest.get(endpoint_id) or (None,))[0] == task.id:
                self._oldest[endpoint_id] = None


_LIVE = """
    SELECT now.time, t.id, t.owner_id, t.type,
        coalesce(t.nice_status = 'TIMEOUT' AND t.trouble->>'code' = 'TIMEOUT', FALSE),
        l.sessions, s.id, s.max_sessions, d.id, d.max_sessions
    FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp())) AS now(time)
    LEFT JOIN (tasks_lease l
        JOIN tasks_task t ON t.id = l.task_id
        JOIN endpoints_endpoint s ON s.id = t.source_host_id
    ) ON l.worker <> '' AND l.expires_at > now.time
    LEFT JOIN endpoints_endpoint d ON d.id = t.destination_host_id"""

_SOMEBODY = "SELECT %(owner)s::uuid AS owner_id, %(type)s::varchar AS type"
#: All users with unfinished tasks: a loose index scan, which jumps from one user to the next.
_EVERYBODY = """
    (SELECT owner_id, type FROM tasks_task WHERE phase <> 'done' ORDER BY owner_id, type LIMIT 1)
    UNION ALL
    SELECT later.* FROM users, LATERAL (
        SELECT owner_id, type FROM tasks_task
        WHERE phase <> 'done' AND (owner_id, type) > (users.owner_id, users.type)
        ORDER BY owner_id, type LIMIT 1
    ) AS later"""

#: `phase <> 'done'` is redundant; it lets PostgreSQL use the partial indexes.
_CAN_RUN = "phase <> 'done' AND phase IN ('queued', 'running')"
_WAITS = f"""
    {_CAN_RUN} AND t.next_run_at <= %(now)s AND t.id <> ALL(%(held)s::uuid[])"""
_BY_AGE = "ORDER BY t.next_run_at, t.request_time, t.id"

_TURNS = f"""
    WITH RECURSIVE users AS ({{users}}),
    busy AS (
        SELECT * FROM unnest(%(busy_owners)s::uuid[], %(busy_types)s::varchar[], %(busy_tasks)s::int[])
        AS busy(owner_id, type, tasks)
    )
    SELECT w.next_run_at, w.request_time, w.id, w.owner_id, w.type, w.source_host_id, w.destination_host_id,
        s.max_sessions, d.max_sessions, coalesce(d.personal, FALSE) AND NOT s.personal, w.phase = 'running'
    FROM users LEFT JOIN busy USING (owner_id, type), LATERAL (
        (SELECT t.* FROM tasks_task t
        WHERE t.owner_id = users.owner_id AND t.type = users.type AND {_WAITS} {_BY_AGE} LIMIT 1)
        UNION ALL
        (SELECT t.* FROM tasks_task t
        WHERE t.owner_id = users.owner_id AND t.type = users.type AND {_WAITS}
            AND t.source_host_id <> ALL(%(full)s::uuid[])
            AND (t.destination_host_id IS NULL OR t.destination_host_id <> ALL(%(full)s::uuid[]))
            AND (t.source_host_id IS DISTINCT FROM t.destination_host_id
                OR t.source_host_id <> ALL(%(tight)s::uuid[]))
        {_BY_AGE} LIMIT %(most)s)
    ) AS w
    JOIN endpoints_endpoint s ON s.id = w.source_host_id
    LEFT JOIN endpoints_endpoint d ON d.id = w.destination_host_id
    WHERE coalesce(busy.tasks, 0) < %(most)s"""  # noqa: S608 (constants)

_KEYS = f"""
    SELECT t.owner_id, t.type, t.source_host_id, t.destination_host_id, (
        SELECT count(*) FROM (
            SELECT FROM tasks_task o
            WHERE {_CAN_RUN} AND o.owner_id = t.owner_id AND o.type = t.type
                AND o.next_run_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
                AND o.source_host_id = t.source_host_id
                AND o.destination_host_id IS NOT DISTINCT FROM t.destination_host_id
                AND (o.next_run_at, o.request_time, o.id) < (t.next_run_at, t.request_time, t.id)
            LIMIT %(most)s) AS older)
    FROM tasks_task t WHERE t.id = %(task)s AND {_CAN_RUN}"""  # noqa: S608

_HAS_ROOM = """
    (t.owner_id, t.type) NOT IN (SELECT * FROM unnest(%(quota_owners)s::uuid[], %(quota_types)s::varchar[]))"""
_OLDEST_AT = f"""
    SELECT t.id, CASE WHEN t.source_host_id = t.destination_host_id THEN 2 ELSE 1 END
    FROM (
        (SELECT t.* FROM tasks_task t
        WHERE t.source_host_id = %(endpoint)s AND {_WAITS} AND {_HAS_ROOM} {_BY_AGE} LIMIT 1)
        UNION ALL
        (SELECT t.* FROM tasks_task t
        WHERE t.destination_host_id = %(endpoint)s AND {_WAITS} AND {_HAS_ROOM} {_BY_AGE} LIMIT 1)
    ) AS t
    {_BY_AGE} LIMIT 1"""  # noqa: S608
