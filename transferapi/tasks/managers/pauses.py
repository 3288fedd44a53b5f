"""Pauses: the tasks that are paused, and why.

Facts in the database pause a task: pause rules for its owner at one of its endpoints (a rule of a host also holds on
its shares), and `Task.admin_pauses`, of managers and of the owner. The phase follows the facts. A queued task is moved
at once by the change of a fact, by `leases.acquire` and by the sweep. A running task is notified by its heartbeat and
moved when its worker releases it. So the next look corrects the phase after any race. A task that waits for a
credential keeps waiting: a person must act, paused or not.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from endpoints.models import Endpoint, PauseRule
from endpoints.registry import canonical_name
from identity.clock import moment
from identity.database_rows import query_rows
from identity.error_categories import RefusedError
from identity.gsi.sentences import Sentence, joined
from identity.models import User
from transferapi.tasks import doorbell, moves, queries
from transferapi.tasks.errors import TASK_COMPLETE
from transferapi.tasks.models import WITH_OWNERS, Task
from transferapi.tasks.moves import PAUSED, QUEUED, PauseReason, state_of
from transferapi.tasks.states import Phase, TaskType

BY_RULE, BY_ADMIN, BY_OWNER, BY_OPERATOR = "PAUSED", "PAUSED_BY_ADMIN", "PAUSED_BY_OWNER", "PAUSED_BY_OPERATOR"
#: The keys of `Task.admin_pauses` for the pauses of the owner and of the operator; the others are sides of the task.
OWNER, OPERATOR = "owner", "operator"
#: Causes that the reason lists; `pause_info` has all of them.
TOLD = 5
#: Tasks that one look moves in each direction.
LIMIT = 100

#: The rules `r` that pause the task `t` by one of its sides; "now" is filled in.
_RULES = """
    (VALUES (t.source_id, TRUE), (t.destination_id, FALSE)) AS side(endpoint_id, is_source)
    JOIN endpoints_endpoint e ON e.id = side.endpoint_id
    JOIN endpoints_pauserule r ON r.endpoint_id IN (e.id, e.host_id)
    JOIN endpoints_endpoint p ON p.id = r.endpoint_id AND p.deleted_at IS NULL
    WHERE r.start_time <= {now} AND (r.identity_id IS NULL OR r.identity_id = t.owner_id) AND CASE
        WHEN NOT side.is_source THEN r.pause_task_transfer_write
        WHEN t.type = 'DELETE' THEN r.pause_task_delete
        ELSE r.pause_task_transfer_read END"""


def stopped(now: str) -> str:
    """SQL: whether anything pauses the task `t`. now: an expression."""
    return f"(t.admin_pauses <> '{{}}' OR EXISTS (SELECT FROM {_RULES.format(now=now)}))"


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of a pause: rules, each with whether it is on the source's side, messages of managers, the owner.

    by_operator: the reason that the operator gave; None: the operator does not hold the task.
    """

    rules: Sequence[tuple[PauseRule, bool]]
    messages: Mapping[str, str]
    by_owner: bool = False
    by_operator: str | None = None

    def __bool__(self) -> bool:
        return bool(self.rules or self.messages or self.by_owner or self.by_operator is not None)


def causes(tasks: Collection[Task], now: datetime | None = None) -> dict[uuid.UUID, Causes]:
    """The causes for each of these tasks, in any phase; two queries for all."""
    parameters = {"ids": [task.pk for task in tasks], "now": moment(now)}
    rows = query_rows(_RULES_OF, parameters)
    found = PauseRule.objects.select_related("endpoint__owner").in_bulk({rule for _, rule, _ in rows})
    by_task: dict[uuid.UUID, list[tuple[PauseRule, bool]]] = defaultdict(list)
    for task_id, rule_id, is_source in rows:
        if rule_id in found:
            by_task[task_id].append((found[rule_id], is_source))
    return {task.pk: _causes(task, by_task[task.pk]) for task in tasks}


def _causes(task: Task, rules: Sequence[tuple[PauseRule, bool]]) -> Causes:
    messages = {place: text for place, text in task.admin_pauses.items() if place not in (OWNER, OPERATOR)}
    return Causes(rules, messages, OWNER in task.admin_pauses, task.admin_pauses.get(OPERATOR))


def current(task: Task) -> Causes:
    """The causes that pause this task now; none where it is done."""
    return Causes((), {}) if task.phase == Phase.DONE else causes([task])[task.pk]


def info(user: User, task_id: uuid.UUID) -> tuple[Task, Causes]:
    """A task of this user, and the causes that pause it. Raises TaskNotFoundError."""
    task = queries.get(user, task_id)
    return task, current(task)


def why(task: Task, now: datetime | None = None) -> PauseReason | None:
    """The reason of the pause; None: nothing pauses the task."""
    return _reason(task, causes([task], now)[task.pk])


def set_cause(task_id: uuid.UUID, key: str, text: str | None, now: datetime | None, *conditions: Q) -> None:
    """Set the cause OWNER or OPERATOR of a task under these conditions, with its text; None: remove it.

    Raises TaskNotFoundError, TASK_COMPLETE.
    """
    with transaction.atomic():
        task = queries.locked(task_id, *conditions)
        if task.phase == Phase.DONE:
            raise RefusedError(TASK_COMPLETE)
        others = {place: message for place, message in task.admin_pauses.items() if place != key}
        task.admin_pauses = others if text is None else {**others, key: text}
        task.save(update_fields=["admin_pauses"])
        look([task_id], now)


def settle(now: datetime | None = None, limit: int = LIMIT) -> int:
    """Pause and unpause tasks by their causes; return the number of tasks that were moved."""
    now = moment(now)
    ids = [id_ for (id_,) in query_rows(_UNSETTLED, {"now": now, "limit": limit})]
    return look(ids, now) if ids else 0


def look(task_ids: Collection[uuid.UUID], now: datetime | None = None) -> int:
    """Correct the phases of these tasks, without those that others have locked; return the number of moved ones."""
    with transaction.atomic():
        now = moment(now)
        rows = Task.objects.select_related(*WITH_OWNERS)
        tasks = list(rows.select_for_update(of=("self",), skip_locked=True).filter(pk__in=task_ids).order_by("pk"))
        found = causes(tasks, now)
        moved = [task for task in tasks if _look(task, _reason(task, found[task.pk]), now)]
        free = [task.pk for task in sorted(moved, key=lambda task: task.request_time) if state_of(task) == PAUSED]
        transaction.on_commit(lambda: doorbell.ring(free))
        return len(moved)


def _look(task: Task, reason: PauseReason | None, now: datetime) -> bool:
    state = state_of(task)
    if state == QUEUED and reason:
        moves.pause(task.pk, QUEUED, reason, now)
    elif state == PAUSED and not reason:
        moves.unpause(task.pk, now)
    else:
        if state == PAUSED and reason:
            moves.change_pause_reason(task.pk, reason)
        return False
    return True


def rules_changed(sender: object, **_: object) -> None:
    """Apply changed rules of an endpoint to waiting tasks at once. The sweep finds tasks that this call misses."""
    settle()


# ---- reasons


def _reason(task: Task, found: Causes) -> PauseReason | None:
    if not found:
        return None
    texts: list[str] = []
    if found.by_operator is not None:
        texts.append(moves.with_message(Sentence("The operator of this service holds this task"), found.by_operator))
    texts += [Sentence("The owner has paused this task.")] if found.by_owner else []
    texts += [_by_admin(task.ends.get(place.removesuffix("_share")), text) for place, text in found.messages.items()]
    texts += [_by_rule(task, rule, is_source=is_source) for rule, is_source in found.rules]
    texts = list(dict.fromkeys(texts))
    more = [Sentence("There are %(number)s more reasons.", number=len(texts) - TOLD)] if len(texts) > TOLD else []
    return PauseReason(_code(found), joined(" ", [*texts[:TOLD], *more]))


def _code(found: Causes) -> str:
    if found.by_operator is not None:
        return BY_OPERATOR
    return BY_ADMIN if found.messages else BY_RULE if found.rules else BY_OWNER


def _by_admin(endpoint: Endpoint | None, message: str) -> str:
    who = Sentence("A manager has paused this task")
    if endpoint:
        who = Sentence("A manager of %(endpoint)s has paused this task", endpoint=canonical_name(endpoint))
    return moves.with_message(who, message)


def _by_rule(task: Task, rule: PauseRule, *, is_source: bool) -> str:
    endpoint = canonical_name(rule.endpoint)
    if task.type == TaskType.DELETE:
        what = Sentence("A manager of %(endpoint)s has paused deletions on it", endpoint=endpoint)
    elif is_source:
        what = Sentence("A manager of %(endpoint)s has paused transfers from it", endpoint=endpoint)
    else:
        what = Sentence("A manager of %(endpoint)s has paused transfers to it", endpoint=endpoint)
    return moves.with_message(what, rule.message)


# ---- rows

_RULES_OF = f"""
    SELECT t.id, found.* FROM tasks_task t, LATERAL (
        SELECT r.id, side.is_source FROM {_RULES.format(now="%(now)s")}
    ) AS found(rule_id, is_source)
    WHERE t.id = ANY(%(ids)s::uuid[]) ORDER BY found.is_source DESC, found.rule_id"""  # noqa: S608 (constants)

_QUEUED_AT = """
    SELECT t.id FROM places r JOIN tasks_task t ON t.{side}_id = r.place
    WHERE t.phase <> 'done' AND t.phase = 'queued' AND (r.identity_id IS NULL OR r.identity_id = t.owner_id)"""
#: From the rules to their tasks, by the indexes of unfinished tasks, so that the query does not read the history.
_UNSETTLED = f"""
    WITH holding AS (
        SELECT r.* FROM endpoints_pauserule r JOIN endpoints_endpoint p ON p.id = r.endpoint_id
        WHERE r.start_time <= %(now)s AND p.deleted_at IS NULL
            AND (r.pause_task_delete OR r.pause_task_transfer_read OR r.pause_task_transfer_write)
    ),
    places AS (
        SELECT endpoint_id AS place, holding.* FROM holding
        UNION ALL
        SELECT e.id, holding.* FROM holding JOIN endpoints_endpoint e ON e.host_id = holding.endpoint_id
    ),
    stopped AS (
        {_QUEUED_AT.format(side="source")}
            AND CASE WHEN t.type = 'DELETE' THEN r.pause_task_delete ELSE r.pause_task_transfer_read END
        UNION
        {_QUEUED_AT.format(side="destination")} AND r.pause_task_transfer_write
        UNION
        SELECT t.id FROM tasks_task t WHERE t.phase <> 'done' AND t.phase = 'queued' AND t.admin_pauses <> '{{}}'
        LIMIT %(limit)s
    ),
    free AS (
        SELECT t.id FROM tasks_task t
        WHERE t.phase = '{Phase.PAUSED.value}' AND NOT {stopped("%(now)s")} ORDER BY t.paused_at LIMIT %(limit)s
    )
    SELECT id FROM stopped UNION ALL SELECT id FROM free"""  # noqa: S608
