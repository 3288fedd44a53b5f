"""Submit a transfer or a delete: check it, write it with its items and first event, then ring the doorbell."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import prefetch_related_objects

from endpoints import registry
from endpoints.activation import status as activation
from endpoints.permissions import Permission, in_reach
from endpoints.sharing import access
from endpoints.sharing.access import Access
from identity.database_rows import constraint_of, query_rows, single_row
from identity.error_categories import RefusedError
from identity.gsi.sentences import Sentence
from identity.models import User
from transferapi.traces import submissions as traces

from . import bases, doorbell, events, locks, moves, options, request_rules
from .errors import TOO_MANY_PENDING, NoCredentialError, RequestError
from .items import copying
from .items.rows import NO_LINKS, CheckedItem, DeleteRows, ItemList, TransferItem, TransferRows
from .managers import pauses
from .models import WITH_OWNERS, Task
from .states import TaskType
from .upkeep import space

DEFAULT_DEADLINE = timedelta(hours=24)
#: Characters of the command that a task keeps.
MAX_COMMAND = 1000
UNUSABLE_ID = "This id cannot be used for a task; take one that is new and random."
__all__ = [
    "DeleteRequest",
    "TransferItem",
    "TransferRequest",
    "check_delete",
    "check_transfer",
    "submit_delete",
    "submit_transfer",
]


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """A transfer as the user requests it. Endpoints by UUID, `user#name`, or the name of an own endpoint.

    options: by wire name (sync_level, verify_checksum, perf_cc, notify_on_failed ...); absent or None means the
    default. `options.TRANSFER` lists the known ones and checks their types (RequestError).
    """

    submission_id: uuid.UUID
    source_endpoint: str
    destination_endpoint: str
    #: A list that is no sequence may have more items (`spool.Spool`).
    items: ItemList[TransferItem]
    label: str | None = None
    #: Aware. None: 24 hours, extended by progress.
    deadline: datetime | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    #: The id of the new task; None: any.
    task_id: uuid.UUID | None = None
    #: The command of the shell, for people.
    command: str = ""


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """A delete as the user requests it. options: recursive, ignore_missing, interpret_globs, notify_on_*."""

    submission_id: uuid.UUID
    endpoint: str
    paths: ItemList[str]
    label: str | None = None
    #: Aware. None: 24 hours.
    deadline: datetime | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    task_id: uuid.UUID | None = None
    command: str = ""


class _Checked(NamedTuple):
    """A request after its checks.

    fields: of its task, by the names of the model. rows: its items. ends: its owner's access to its endpoints.
    """

    fields: dict[str, object]
    rows: Iterable[CheckedItem]
    ends: Sequence[Access]


def submit_transfer(user: User, request: TransferRequest, now: datetime | None = None) -> tuple[Task, bool]:
    """The task, and whether this call created it (False: the user has used this submission_id or task_id before).

    Raises RequestError, TOO_MANY_PENDING, TooMuchError, EndpointNotFoundError, NotPermittedError;
    PathNotPermittedError where no access rule of a shared endpoint covers a path.
    """
    return _submit(user, request, partial(_check_transfer, user, request), now)


def check_transfer(user: User, request: TransferRequest) -> tuple[uuid.UUID, uuid.UUID]:
    """Check that this user could submit this later: all checks but those of credentials and of the number of tasks.

    Returns the ids of the source and of the destination. Raises as `submit_transfer`.
    """
    request_rules.label(request.label)
    source, destination = _check_transfer(user, request).ends
    return source.endpoint.pk, destination.endpoint.pk


def submit_delete(user: User, request: DeleteRequest, now: datetime | None = None) -> tuple[Task, bool]:
    """As `submit_transfer`. Its deadline is fixed: progress does not move it."""
    return _submit(user, request, partial(_check_delete, user, request), now)


def check_delete(user: User, request: DeleteRequest) -> uuid.UUID:
    """As `check_transfer`. Returns the id of the endpoint."""
    request_rules.label(request.label)
    [access_] = _check_delete(user, request).ends
    return access_.endpoint.pk


def _check_delete(user: User, request: DeleteRequest) -> _Checked:
    source = _access(user, request.endpoint, Permission.WRITE)
    chosen = options.complete(options.DELETE, request.options)
    if chosen["interpret_globs"]:
        request_rules.patterns(request.paths)
    rows = _checked(DeleteRows(request.paths, source, recursive=bool(chosen["recursive"])), request.paths)
    fields = {"type": TaskType.DELETE, "source": source.endpoint, "options": chosen, "deadline_is_fixed": True}
    return _Checked(fields, rows, (source,))


def _check_transfer(user: User, request: TransferRequest) -> _Checked:
    source = _access(user, request.source_endpoint, Permission.TRANSFER_FROM)
    destination = _access(user, request.destination_endpoint, Permission.TRANSFER_TO)
    chosen = options.complete(options.TRANSFER, request.options) | _demanded(source, destination)
    if destination.shared and chosen["recursive_symlinks"] == "keep":
        raise RequestError("recursive_symlinks", NO_LINKS)
    rows = _checked(TransferRows(request.items, source, destination), request.items)
    # The number of sessions depends on it, and is chosen before the scan reads the first item.
    chosen["external_checksum"] = any("external_checksum" in row.extra for row in rows)
    fields = {"type": TaskType.TRANSFER, "source": source.endpoint, "destination": destination.endpoint}
    if chosen["store_base_path_info"]:
        fields["source_base_path"], fields["destination_base_path"] = _bases(rows)
    return _Checked({**fields, "options": chosen}, rows, (source, destination))


def _checked(rows: Iterable[CheckedItem], items: ItemList[object]) -> Iterable[CheckedItem]:
    """The rows after a check of all. Those of a list that is too long for memory are made again whenever needed."""
    if isinstance(items, Sequence):
        return list(rows)
    deque(rows, maxlen=0)
    return rows


def _demanded(*ends: Access) -> dict[str, object]:
    """Options that the endpoints of a transfer, or the hosts of shared ones, prescribe.

    An endpoint that demands verification wins over one that forbids it.
    """
    places = [place for end in ends for place in (end.endpoint, end.host)]
    found: dict[str, object] = {}
    if any(place.force_encryption for place in places):
        found["encrypt_data"] = True
    if any(place.force_verify for place in places):
        found["verify_checksum"] = True
    elif any(place.disable_verify for place in places):
        found["verify_checksum"] = False
    return found


def _submit(
    user: User,
    request: TransferRequest | DeleteRequest,
    check: Callable[[], _Checked],
    now: datetime | None,
) -> tuple[Task, bool]:
    """Submit under a lock of the user, so that a repeated submission finds the first, and limits hold.

    An earlier submission is looked up before the checks: a request that was accepted once stays accepted.
    """
    with transaction.atomic():
        time, unfinished, earlier_id = _lock_and_read(user, request)
        if earlier_id and (earlier := _earlier(earlier_id)):
            return earlier, False
        now = now or time
        _check_task_id(request.task_id)
        label = request_rules.label(request.label)
        deadline = request_rules.deadline(request.deadline, now) if request.deadline else now + DEFAULT_DEADLINE
        fields, rows, ends = check()
        task = Task(
            pk=request.task_id or uuid.uuid4(),
            owner=user,
            submission_id=request.submission_id,
            request_time=now,
            next_run_at=now,
            command=events.printable(request.command)[:MAX_COMMAND],
            label=label,
            deadline=deadline,
            items_total=len(request.items if isinstance(request, TransferRequest) else request.paths),
            **{"deadline_is_fixed": request.deadline is not None, **fields},
        )
        if not task.options.get("skip_activation_check"):
            _check_credentials(user, ends, now)
        if unfinished >= settings.LIMITS.pending_tasks:
            raise RefusedError(TOO_MANY_PENDING, limit=settings.LIMITS.pending_tasks)
        if trace := traces.submission():
            task.trace_context = trace.context
            transaction.on_commit(trace.committed)
        _write(task, rows)
    return task, True


def _lock_and_read(user: User, request: TransferRequest | DeleteRequest) -> tuple[datetime, int, uuid.UUID | None]:
    """Lock the submissions of the user, and read in the same message: the time, the number of the user's unfinished
    tasks, and the id of the task that the same submission has made; None: nearly always there is none.
    """
    [row] = query_rows(f"{locks.TAKE}; {_STATE_OF_USER}", {
        "locks": locks.numbers(f"submissions of {user.pk}"),
        "owner": user.pk,
        "submission": request.submission_id,
        "task": request.task_id,
    })  # fmt: skip
    return row[0], row[1], row[2]


_STATE_OF_USER = """
    SELECT clock_timestamp(), (SELECT count(*) FROM tasks_task WHERE owner_id = %(owner)s AND phase <> 'done'),
        coalesce((SELECT id FROM tasks_task WHERE owner_id = %(owner)s AND submission_id = %(submission)s),
            (SELECT id FROM tasks_task WHERE owner_id = %(owner)s AND id = %(task)s))"""


def _earlier(task_id: uuid.UUID) -> Task | None:
    """Raises RequestError when the task is at an endpoint that does not exist for this session."""
    earlier = single_row(Task.objects.select_related(*WITH_OWNERS).filter(pk=task_id))
    if earlier and not in_reach(earlier.source_id, earlier.destination_id):
        raise RequestError("submission_id", "This id belongs to a task at endpoints that this session cannot use.")
    return earlier


def _check_task_id(task_id: uuid.UUID | None) -> None:
    """Raises RequestError where another user has a task of this id. The error is the same for every unusable id."""
    if task_id is not None and (task_id.version is None or Task.objects.filter(pk=task_id).exists()):
        raise RequestError("task_id", UNUSABLE_ID)


def _access(user: User, ref: str, verb: Permission) -> Access:
    """The user's access to an endpoint. Raises EndpointNotFoundError, NotPermittedError."""
    return access.of(user, registry.resolve(user, ref, verb), verb)


def _check_credentials(user: User, ends: Sequence[Access], now: datetime) -> None:
    """Check that each endpoint is activated. Without this check, the task would wait for its owner to activate it.

    A shared endpoint uses the credential of its own owner for the host.
    """
    prefetch_related_objects([end.host for end in ends], "servers")
    for actor_id in {end.actor_id: None for end in ends}:
        mine = [end for end in ends if end.actor_id == actor_id]
        found = activation.activation_statuses(actor_id, {end.host.pk: end.host for end in mine}.values(), now)
        for end in mine:
            if not found[end.host.pk].active:
                raise NoCredentialError(end.endpoint, activation.why_not_active(end.endpoint, user.pk))


def _write(task: Task, rows: Iterable[CheckedItem]) -> None:
    try:
        task.save(force_insert=True)
    except IntegrityError as error:
        # Another user has made a task of the same id at the same time.
        if constraint_of(error) == "tasks_task_pkey":
            raise RequestError("task_id", UNUSABLE_ID) from None
        raise
    written = copying.copy(task.pk, rows)
    # Take this lock after the rows are written: other tasks of the user wait for it.
    space.take_task(task.owner_id)
    space.take(task.pk, *written)
    submitted = events.NewEvent(
        "SUBMITTED", Sentence("The task was accepted, with %(items)s item(s).", items=written.rows)
    )
    events.append(task.pk, [submitted], task.request_time)
    if why := pauses.why(task, task.request_time):
        moves.pause(task.pk, moves.QUEUED, why, task.request_time)
        return
    task_id = task.pk
    transaction.on_commit(lambda: doorbell.ring([task_id]))


def _bases(rows: Iterable[CheckedItem]) -> tuple[str, str]:
    """The base paths of the source and of the destination (option store_base_path_info)."""
    sources = bases.common((row.source, _is_folder(row)) for row in rows)
    targets = bases.common(
        (str(row.destination), _is_folder(row) or str(row.destination).endswith("/")) for row in rows
    )
    return events.printable(sources), events.printable(targets)


def _is_folder(row: CheckedItem) -> bool:
    return not row.extra.get("symlink") and (bool(row.recursive) or row.source.endswith("/"))
