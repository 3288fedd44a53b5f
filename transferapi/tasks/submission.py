"""Submit a transfer or a delete: checked, written with its items and its first event, then the doorbell."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import prefetch_related_objects

from endpoints import access, activation, registry
from endpoints.access import Access
from endpoints.permissions import Verb
from identity.models import User
from identity.one import one

from . import bases, doorbell, events, locks, moves, options, pauses, rules, space
from .clock import moment
from .errors import NoCredentialError, RequestError, TooManyPendingError
from .models import Task
from .states import Phase, TaskType

#: Unfinished tasks of one user; more are refused.
MAX_PENDING = 100
DEFAULT_DEADLINE = timedelta(hours=24)
NO_ITEMS = "ClientError.BadRequest.NoTransferItems"
NO_LINKS = "No symbolic links are made on a shared endpoint: they could lead out of what is shared."


@dataclass(frozen=True, slots=True)
class TransferItem:
    """recursive None: the scan looks whether the source is a folder."""

    source_path: str
    destination_path: str
    recursive: bool | None = None
    #: Hexadecimal, of a file only.
    external_checksum: str | None = None
    #: MD5 where only the checksum is given; without a checksum, what to verify the files with.
    checksum_algorithm: str | None = None
    #: The source is a symlink, to be made anew at the destination and not followed.
    symlink: bool = False


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """A transfer as the user asked for it. Endpoints by UUID, `user#name` or bare own name.

    options: by wire name (sync_level, verify_checksum, perf_cc, notify_on_failed ...); absent or None means the
    default; `options.TRANSFER` holds those that are known, whose types are checked here (RequestError).
    """

    submission_id: uuid.UUID
    source_endpoint: str
    destination_endpoint: str
    items: Sequence[TransferItem]
    label: str | None = None
    #: Aware. None: 24 hours, moved on by progress.
    deadline: datetime | None = None
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """A delete as the user asked for it. options: recursive, ignore_missing, interpret_globs, notify_on_*."""

    submission_id: uuid.UUID
    endpoint: str
    paths: Sequence[str]
    label: str | None = None
    #: Aware. None: 24 hours, whatever happens.
    deadline: datetime | None = None
    options: Mapping[str, object] = field(default_factory=dict)


class _Row(NamedTuple):
    """An item, checked."""

    source: str
    destination: str | None
    recursive: bool | None
    #: `models.Item.extra`.
    extra: Mapping[str, object] = {}


class _Filled(NamedTuple):
    """What is in a task, checked, and how its owner reaches its endpoints."""

    rows: list[_Row]
    ends: Sequence[Access]


def submit_transfer(user: User, request: TransferRequest, now: datetime | None = None) -> tuple[Task, bool]:
    """The task, and whether it was made now (False: this user has used this submission_id before).

    Raises RequestError, TooManyPendingError, TooMuchError, EndpointNotFoundError, NotPermittedError;
    PathNotPermittedError where no access rule of a shared endpoint gives the user a path of it.
    """

    return _submit(user, request, partial(_fill_transfer, user, request), now)


def check_transfer(user: User, request: TransferRequest) -> tuple[uuid.UUID, uuid.UUID]:
    """Whether this user could submit this at some time: all but his credentials, and how many tasks he has.

    The ids of its source and its destination. -> as `submit_transfer`
    """
    task = Task(owner=user)
    rules.label(request.label)
    source, destination = _fill_transfer(user, request, task).ends
    return source.endpoint.pk, destination.endpoint.pk


def submit_delete(user: User, request: DeleteRequest, now: datetime | None = None) -> tuple[Task, bool]:
    """As `submit_transfer`. Its deadline is fixed: progress does not move it."""

    def fill(task: Task) -> _Filled:
        task.type = TaskType.DELETE
        source = _access(user, request.endpoint, Verb.WRITE)
        task.source = source.endpoint
        task.deadline_is_fixed = True
        task.options = options.complete(options.DELETE, request.options)
        if task.options["interpret_globs"]:
            rules.patterns(request.paths)
        rows = _delete_rows(request.paths, source, recursive=bool(task.options["recursive"]))
        return _Filled(rows, (source,))

    return _submit(user, request, fill, now)


def _fill_transfer(user: User, request: TransferRequest, task: Task) -> _Filled:
    task.type = TaskType.TRANSFER
    source = _access(user, request.source_endpoint, Verb.TRANSFER_FROM)
    destination = _access(user, request.destination_endpoint, Verb.TRANSFER_TO)
    task.source, task.destination = source.endpoint, destination.endpoint
    task.options = options.complete(options.TRANSFER, request.options) | _demanded(source, destination)
    if destination.shared and task.options["recursive_symlinks"] == "keep":
        raise RequestError("recursive_symlinks", NO_LINKS)
    rows = _transfer_rows(request.items, source, destination)
    # Whether files may have to be compared decides over sessions before the first item is looked at.
    task.options["external_checksum"] = any("external_checksum" in row.extra for row in rows)
    if task.options["store_base_path_info"]:
        task.source_base_path, task.destination_base_path = _bases(rows)
    return _Filled(rows, (source, destination))


def _demanded(*ends: Access) -> dict[str, object]:
    """What the endpoints of a transfer, and the hosts of shared ones, say of every transfer. Who wants files compared
    goes before who does not."""
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
    fill: Callable[[Task], _Filled],
    now: datetime | None,
) -> tuple[Task, bool]:
    """One submission of a user at a time: so a repeated one finds the first, and nobody has too many tasks.

    The look for an earlier one comes before the checks: what was accepted once stays accepted.
    """
    with transaction.atomic():
        locks.take(f"submissions of {user.pk}")
        mine = Task.objects.select_related("source__owner", "destination__owner", "owner").filter(owner=user)
        earlier = one(mine.filter(submission_id=request.submission_id))
        if earlier is not None:
            return earlier, False
        now = moment(now)
        task = Task(owner=user, submission_id=request.submission_id, request_time=now, next_run_at=now)
        task.label = rules.label(request.label)
        task.deadline = rules.deadline(request.deadline, now) if request.deadline else now + DEFAULT_DEADLINE
        task.deadline_is_fixed = request.deadline is not None
        rows, ends = fill(task)
        if not task.options.get("skip_activation_check"):
            _check_credentials(user, ends, now)
        if mine.exclude(phase=Phase.DONE).count() >= MAX_PENDING:
            raise TooManyPendingError(MAX_PENDING)
        _write(task, rows)
    return task, True


def _access(user: User, ref: str, verb: Verb) -> Access:
    """-> EndpointNotFoundError, NotPermittedError"""
    return access.of(user, registry.resolve(user, ref, verb), verb)


def _check_credentials(user: User, ends: Sequence[Access], now: datetime) -> None:
    """What the user is not active at, the task could not use. Without this check it would wait for him to activate.

    On a shared endpoint that is its owner's matter, and its owner's credential for the host.
    """
    prefetch_related_objects([end.host for end in ends], "servers")
    for actor_id in {end.actor_id: None for end in ends}:
        mine = [end for end in ends if end.actor_id == actor_id]
        found = activation.standings(actor_id, {end.host.pk: end.host for end in mine}.values(), now)
        for end in mine:
            if not found[end.host.pk].active:
                raise NoCredentialError(end.endpoint, activation.why_not_active(end.endpoint, user.pk))


def _write(task: Task, rows: Sequence[_Row]) -> None:
    task.items_total = len(rows)
    task.save(force_insert=True)
    _copy_items(task.pk, rows)
    # Not before the rows are there: other tasks of the user wait for this lock.
    space.take_task(task.owner_id)
    space.take(task.pk, len(rows), sum(space.octets(row.source, row.destination) for row in rows))
    told = events.NewEvent("SUBMITTED", f"The task was accepted, with {len(rows)} item(s).")
    events.append(task.pk, [told], task.request_time)
    if why := pauses.why(task, task.request_time):
        moves.pause(task.pk, moves.QUEUED, why, task.request_time)
        return
    task_id = task.pk
    transaction.on_commit(lambda: doorbell.ring([task_id]))


def _transfer_rows(items: Sequence[TransferItem], source: Access, destination: Access) -> list[_Row]:
    _check_number(len(items))
    rows: list[_Row] = []
    destinations: set[str] = set()
    same_servers = source.host.pk == destination.host.pk
    for number, item in enumerate(items):
        row = _transfer_row(f"DATA[{number}]", item)
        if destination.shared and item.symlink:
            raise RequestError(f"DATA[{number}].DATA_TYPE", NO_LINKS)
        from_, to = _real(source, row.source, write=False), _real(destination, str(row.destination), write=True)
        if to in destinations:
            raise RequestError(f"DATA[{number}].destination_path", "Another item has the same destination.")
        destinations.add(to)
        if same_servers:
            _check_apart(f"DATA[{number}].destination_path", from_, to, item.recursive)
        rows.append(row)
    return rows


def _real(end: Access, path: str, *, write: bool) -> str:
    """What the servers will be asked for, without a slash at its end. -> PathNotPermittedError"""
    if end.shared:
        end.check(path, write=write)
        path = end.real(path)
    return path.rstrip("/")


def _transfer_row(where: str, item: TransferItem) -> _Row:
    extra: dict[str, object] = {}
    if item.symlink:
        extra = {"symlink": True}
    elif item.external_checksum or item.checksum_algorithm:
        extra = _checksum(where, item)
    return _Row(
        rules.path(item.source_path, f"{where}.source_path"),
        rules.path(item.destination_path, f"{where}.destination_path"),
        item.recursive,
        extra,
    )


def _bases(rows: Sequence[_Row]) -> tuple[str, str]:
    """What store_base_path_info shows, of the source and of the destination."""
    whole = [not row.extra.get("symlink") and (row.recursive or row.source.endswith("/")) for row in rows]
    sources = bases.common((row.source, bool(is_folder)) for row, is_folder in zip(rows, whole, strict=True))
    targets = bases.common(
        (str(row.destination), is_folder or str(row.destination).endswith("/"))
        for row, is_folder in zip(rows, whole, strict=True)
    )
    return bases.storable(sources), bases.storable(targets)


def _checksum(where: str, item: TransferItem) -> dict[str, object]:
    algorithm = rules.algorithm(item.checksum_algorithm or "MD5", f"{where}.checksum_algorithm")
    if not item.external_checksum:
        return {"checksum_algorithm": algorithm}
    field_ = f"{where}.external_checksum"
    if item.recursive:
        raise RequestError(field_, "Only a file has a checksum that can be given, and this is a folder.")
    value = rules.checksum(item.external_checksum, algorithm, field_)
    return {"checksum_algorithm": algorithm, "external_checksum": value}


def _check_apart(field_: str, source: str, destination: str, recursive: bool | None) -> None:
    """On the same servers: nothing onto itself, no folder into itself, as far as the paths alone can tell."""
    if source == destination:
        raise RequestError(field_, "The destination is the source itself.")
    if recursive is not False and destination.startswith(source + "/"):
        raise RequestError(field_, "The destination lies inside the source.")


def _delete_rows(paths: Sequence[str], source: Access, *, recursive: bool) -> list[_Row]:
    _check_number(len(paths))
    checked = [rules.path(path, f"DATA[{number}].path") for number, path in enumerate(paths)]
    for number, path in enumerate(checked):
        if path in ("/", "/~/"):
            raise RequestError(f"DATA[{number}].path", "The root of an endpoint or of a home cannot be deleted.")
        _real(source, path, write=True)
    return [_Row(path, None, recursive) for path in checked]


def _check_number(items: int) -> None:
    if not items:
        raise RequestError("DATA", "There is no item in this request.", NO_ITEMS)
    if items > settings.LIMITS.items:
        raise RequestError("DATA", rules.too_many_items())


def _copy_items(task_id: uuid.UUID, rows: Iterable[_Row]) -> None:
    """COPY: a hundred thousand rows in a second, without a copy of them all in memory."""
    columns = "task_id, position, source_path, destination_path, recursive, attempts, extra"
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY tasks_item ({columns}) FROM STDIN", _Lines(_copy_lines(task_id, rows)), 1 << 18)


def _copy_lines(task_id: uuid.UUID, rows: Iterable[_Row]) -> Iterator[bytes]:
    """COPY's text format: tabs between columns, `\\N` for NULL, every backslash twice."""
    words = {None: "\\N", True: "t", False: "f"}
    for position, row in enumerate(rows):
        destination = "\\N" if row.destination is None else _octets(row.destination)
        columns = (str(task_id), str(position), _octets(row.source), destination, words[row.recursive], "0")
        extra = json.dumps(row.extra).replace("\\", "\\\\") if row.extra else "{}"
        yield ("\t".join((*columns, extra)) + "\n").encode()


def _octets(path: str) -> str:
    return "\\\\x" + path.encode("utf-8", "surrogateescape").hex()


class _Lines:
    """An iterator of lines as the file that COPY reads."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines

    def read(self, size: int) -> bytes:
        found: list[bytes] = []
        length = 0
        for line in self._lines:
            found.append(line)
            length += len(line)
            if length >= size:
                break
        return b"".join(found)
