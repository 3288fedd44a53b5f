"""The errors of the files of a task, grouped by cause, and the files of a cause."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Count, Min, Q, QuerySet

from identity.models import User

from . import queries
from .models import File, Task
from .states import FileState, Phase

#: The files with errors that are grouped, and the files of one cause that are shown.
MOST_GROUPED, MOST_SHOWN = 100_000, 20
_PAGE = 1000


class Outcome(StrEnum):
    """The fate of a file with an error."""

    RETRIED = "retried"
    FAILED = "failed"
    PASSED_OVER = "passed-over"


@dataclass(frozen=True, slots=True)
class Cause:
    """Files of a task with the same error. next_try: the time of the first attempt that follows."""

    code: str
    outcome: Outcome
    files: int
    next_try: datetime | None
    #: The answer of the server about the first of them.
    raw: str
    first: list[File]


def causes(task: Task) -> list[Cause]:
    """The causes, those with the most files first. task: as `queries.get` returns it."""
    among = _with_errors(task.pk).order_by("pk").values("pk")[:MOST_GROUPED]
    found = File.objects.filter(pk__in=among).values_list("error_code", "state")
    grouped = found.annotate(files=Count("pk"), next_try=Min("next_try_at")).order_by("-files", "error_code", "state")
    return [_cause(task, str(code), state, files, next_try) for code, state, files, next_try in grouped]


def files(user: User, task_id: uuid.UUID) -> Iterator[tuple[Outcome, File]]:
    """All files with an error, page by page. Raises TaskNotFoundError at the call."""
    task = queries.get(user, task_id)
    return _all(task)


def _cause(task: Task, code: str, state: int, count: int, next_try: datetime | None) -> Cause:
    first = list(_with_errors(task.pk).filter(error_code=code, state=state).order_by("pk")[:MOST_SHOWN])
    raw = next((row.error_details for row in first if row.error_details), None)
    return Cause(code, _outcome(task, state), count, next_try, raw or "", first)


def _outcome(task: Task, state: int) -> Outcome:
    if state == FileState.SKIPPED:
        return Outcome.PASSED_OVER
    return Outcome.FAILED if state == FileState.FAILED or task.phase == Phase.DONE else Outcome.RETRIED


def _with_errors(task_id: uuid.UUID) -> QuerySet[File]:
    return File.objects.filter(~Q(state=FileState.DONE), task=task_id, error_code__isnull=False)


def _all(task: Task) -> Iterator[tuple[Outcome, File]]:
    last = 0
    while rows := list(_with_errors(task.pk).filter(pk__gt=last).order_by("pk")[:_PAGE]):
        yield from ((_outcome(task, row.state), row) for row in rows)
        last = rows[-1].pk
