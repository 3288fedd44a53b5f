"""Submit anew what a task has not moved or deleted: only these files, with the options of the task."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime

from identity.error_categories import RefusedError
from identity.models import User
from transferapi.tasks import causes, options, queries, submission
from transferapi.tasks.errors import NOTHING_TO_RETRY, TASK_NOT_COMPLETE
from transferapi.tasks.models import File, Task
from transferapi.tasks.states import FileKind, Phase, TaskType

from .rows import TransferItem
from .spool import Spool, SpooledPaths

_NONE = "No file of this task has failed: there is nothing to do again."
_UNKNOWN = "The files of this task are not known any more; submit it anew."
_UNSEEN = "This task ended before all of its folders were listed; submit it anew, with a sync level to pass over files."


@dataclass(frozen=True, slots=True)
class NewTask:
    """The fields of the new task. label None: the label of the old task; submission_id None: any."""

    submission_id: uuid.UUID | None = None
    task_id: uuid.UUID | None = None
    label: str | None = None
    deadline: datetime | None = None
    command: str = ""


def retry(user: User, task_id: uuid.UUID, new: NewTask) -> tuple[Task, bool]:
    """The new task, and whether this call created it.

    Raises TaskNotFoundError, TASK_NOT_COMPLETE, NOTHING_TO_RETRY, and the errors of `submission`.
    """
    old = queries.get(user, task_id)
    if old.phase != Phase.DONE:
        raise RefusedError(TASK_NOT_COMPLETE)
    if old.history_deleted:
        raise RefusedError(NOTHING_TO_RETRY, reason=_UNKNOWN)
    if old.is_scanning:
        raise RefusedError(NOTHING_TO_RETRY, reason=_UNSEEN)
    with Spool(user.pk) as spool:
        for _, file in causes.files(user, task_id):
            spool.add(*_record(file))
        if not len(spool):
            raise RefusedError(NOTHING_TO_RETRY, reason=_NONE)
        return _submit(user, old, new, spool)


def _record(file: File) -> tuple[str, ...]:
    return (
        file.source_path,
        file.destination_path or "",
        str(file.kind),
        file.checksum_algorithm or "",
        file.checksum or "",
    )


def _submit(user: User, old: Task, new: NewTask, spool: Spool) -> tuple[Task, bool]:
    common = asdict(new)
    common["submission_id"] = new.submission_id or new.task_id or uuid.uuid4()
    common["label"] = old.label if new.label is None else new.label
    source = str(old.source_id)
    if old.type == TaskType.DELETE:
        common["options"] = {name: old.options.get(name) for name in options.DELETE if name != "interpret_globs"}
        paths = SpooledPaths(spool)
        return submission.submit_delete(user, submission.DeleteRequest(endpoint=source, paths=paths, **common))
    # Single files have nothing beside them at the destination that could be deleted.
    left_out = "delete_destination_extra"
    common["options"] = {name: old.options.get(name) for name in options.TRANSFER if name != left_out}
    transfer = submission.TransferRequest(
        source_endpoint=source, destination_endpoint=str(old.destination_id), items=_FailedItems(spool), **common
    )
    return submission.submit_transfer(user, transfer)


class _FailedItems:
    """The failed files of a transfer as items. A folder is an item whose own scan has failed."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool

    def __len__(self) -> int:
        return len(self._spool)

    def __iter__(self) -> Iterator[TransferItem]:
        for source, destination, kind, algorithm, checksum in self._spool.records():
            yield TransferItem(
                source,
                destination,
                recursive=True if int(kind) == FileKind.DIRECTORY else None,
                external_checksum=checksum or None,
                checksum_algorithm=algorithm or None,
                symlink=int(kind) == FileKind.SYMLINK,
            )
