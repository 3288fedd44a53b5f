"""What is asked of forecasts: before a task, and while it runs. The arithmetic is in `forecast.py`."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime
from typing import NamedTuple

from django.db.models import QuerySet, Sum

from endpoints import registry
from endpoints.models import Endpoint
from endpoints.permissions import Verb
from identity.models import User

from .forecast import ENOUGH, Forecast, Model, Past, Work, at_pace
from .models import Event, Run, Task
from .pace import Pace
from .states import Phase, Status, TaskType

#: The latest runs of a pair, and of all others, that a forecast is made from.
RUNS_SEEN = 200
#: Seconds for which a pair's model serves while nothing runs there, and how many of them a process keeps.
FRESH = 60.0
MODELS_KEPT = 256

#: Seconds of work after which a task is known by its own pace, and no more by what others did.
MEASURED = 60.0
#: Seconds from a request to its lease that are our own; longer is a wait for a turn.
BEGIN = 1.0

_COLUMNS = (
    "seconds",
    "files",
    "bytes",
    "faults",
    "round_trip",
    "concurrency",
    "parallelism",
    "pipelining",
    "whole",
    "ended_at",
    "task__request_time",
)

Pair = tuple[uuid.UUID, uuid.UUID]


class Kept(NamedTuple):
    """latest: the last run of the pair that the model knows. expires: by the monotonic clock."""

    latest: int | None
    expires: float
    model: Model


#: The one made first goes first.
_models: dict[Pair, Kept] = {}
_keeping = threading.Lock()


def before(user: User, source: str, destination: str, work: Work) -> tuple[Endpoint, Endpoint, Forecast]:
    """How long it would take to move this much if it began now. -> as `registry.resolve`"""
    from_ = registry.resolve(user, source, Verb.TRANSFER_FROM)
    to = registry.resolve(user, destination, Verb.TRANSFER_TO)
    return from_, to, model((from_.host_id or from_.pk, to.host_id or to.pk)).whole(work)


def during(task: Task, now: datetime | None = None) -> Forecast | None:
    """How long the rest of a transfer will take. None: it is over, waits, is paused, or has found nothing yet."""
    if task.type != TaskType.TRANSFER or task.status != Status.ACTIVE or task.destination_host_id is None:
        return None
    if task.phase == Phase.PAUSED:
        return None
    left, scanning = _left(task), is_scanning(task)
    if scanning and not left.files:
        return None
    done, seconds = _so_far(task, now or datetime.now(UTC))
    return model((task.source_host_id, task.destination_host_id)).rest(done, left, seconds, scanning=scanning)


def rest(task: Task, pace: Pace, now: datetime) -> float | None:
    """Seconds that the rest of a running task takes as it goes by now; None: nobody can say yet.

    Its own pace in the last minutes goes before that of its earlier slices, and both before what others did: on a day
    on which all is slower, history would say too little until the task is nearly over.
    """
    left = _left(task)
    for done, seconds in (pace.recent(task, now), _so_far(task, now)):
        found = _at_pace(task, done, left, seconds) if left.files and seconds >= MEASURED else None
        if found is not None:
            return found
    forecast = during(task, now)
    return forecast.expected if forecast else None


def _at_pace(task: Task, done: Work, left: Work, seconds: float) -> float | None:
    if task.destination_host_id is None:
        return max(at_pace(Work(done.files, 0), left, seconds), default=None)
    return model((task.source_host_id, task.destination_host_id)).at_pace(done, left, seconds)


def is_scanning(task: Task) -> bool:
    """More may be found."""
    return task.items_scanned < task.items_total


def _left(task: Task) -> Work:
    files = task.files - task.files_transferred - task.files_skipped - task.files_failed
    return Work(files, max(0, task.bytes_total - task.bytes_transferred) if files else 0)


def model(pair: Pair) -> Model:
    """What the history says of this way by now; of other ways, a moment ago."""
    own = Run.objects.filter(source=pair[0], destination=pair[1]).order_by("-ended_at")
    latest = own.values_list("pk", flat=True).first()
    kept = _models.get(pair)
    if kept is None or kept.latest != latest or time.monotonic() >= kept.expires:
        kept = Kept(latest, time.monotonic() + FRESH, _read(pair, own))
        _keep(pair, kept)
    return kept.model


def _keep(pair: Pair, kept: Kept) -> None:
    with _keeping:
        _models.pop(pair, None)
        while len(_models) >= MODELS_KEPT:
            del _models[next(iter(_models))]
        _models[pair] = kept


def _read(pair: Pair, runs: QuerySet[Run]) -> Model:
    own = _pasts(runs)
    if len(own) >= ENOUGH:
        return Model(own)
    return Model(own, _pasts(Run.objects.exclude(source=pair[0], destination=pair[1]).order_by("-id")))


def _pasts(runs: QuerySet[Run]) -> list[Past]:
    return [_past(run) for run in runs.select_related("task").only(*_COLUMNS)[:RUNS_SEEN]]


def _past(run: Run) -> Past:
    work = Work(run.files, run.bytes)
    return Past(_seconds(run), work, run.faults, run.round_trip, run.concurrency, run.parallelism, run.pipelining)


def _seconds(run: Run) -> float:
    """Of a whole task from its request on; what it waited for its turn, and not for us, does not count."""
    waited = (run.ended_at - run.task.request_time).total_seconds() - run.seconds
    return run.seconds + (min(max(0.0, waited), BEGIN) if run.whole else 0.0)


def _so_far(task: Task, now: datetime) -> tuple[Work, float]:
    """What this task has moved, and in how many seconds of work: waiting and suspension are none.

    By its earlier slices, when there were any; else since it was started.
    """
    sums = Run.objects.filter(task=task).aggregate(Sum("files"), Sum("bytes"), Sum("seconds"))
    if sums["seconds__sum"]:
        return Work(sums["files__sum"], sums["bytes__sum"]), sums["seconds__sum"]
    started = Event.objects.filter(task=task, code="STARTED").values_list("time", flat=True).first()
    seconds = max(0.0, (now - started).total_seconds()) if started else 0.0
    return Work(task.files_transferred, task.bytes_transferred), seconds
