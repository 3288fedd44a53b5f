"""Forecasts before a task and while it runs. The arithmetic is in `model.py`."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime
from typing import NamedTuple

from django.db.models import QuerySet, Sum

from endpoints import registry
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from identity.models import User
from transferapi.tasks import standstill
from transferapi.tasks.models import Event, Run, Task
from transferapi.tasks.states import Phase, Status, TaskType

from .model import ENOUGH, Forecast, ForecastWork, Model, Past, at_pace
from .pace import Pace

#: The latest runs of a pair, and of all others, that a forecast uses.
RUNS_SEEN = 200
#: Seconds for which a model of a pair is used while no new run ends, and the number of models in a process.
FRESH = 60.0
MODELS_KEPT = 256

#: Seconds of work after which a forecast uses only the task's own pace.
MEASURED = 60.0
#: Seconds from a request to its lease that count as work of this service; more is a wait for a turn.
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


class CachedModel(NamedTuple):
    """A model in the cache. latest: the last run of the pair in it. expires: by the monotonic clock."""

    latest: int | None
    expires: float
    model: Model


#: The oldest is removed first.
_models: dict[Pair, CachedModel] = {}
_keeping = threading.Lock()


def before(user: User, source: str, destination: str, work: ForecastWork) -> tuple[Endpoint, Endpoint, Forecast]:
    """The forecast for a transfer that begins now. Raises as `registry.resolve`."""
    from_ = registry.resolve(user, source, Permission.TRANSFER_FROM)
    to = registry.resolve(user, destination, Permission.TRANSFER_TO)
    return from_, to, model((from_.host_id or from_.pk, to.host_id or to.pk)).whole(work)


def during(task: Task, now: datetime | None = None) -> Forecast | None:
    """The forecast for the rest of a transfer. None if it is over, waits, is paused, or has found nothing yet."""
    if task.type != TaskType.TRANSFER or task.status != Status.ACTIVE or task.destination_host_id is None:
        return None
    if task.phase == Phase.PAUSED:
        return None
    left = _left(task)
    if task.is_scanning and not left.files:
        return None
    done, seconds = _so_far(task, now or datetime.now(UTC))
    found = model((task.source_host_id, task.destination_host_id)).rest(done, left, seconds, scanning=task.is_scanning)
    return found.at_most(_limit(task))


def _limit(task: Task) -> int | None:
    """Octets a second that the task may move: its share now, or its own limit; None if it has none."""
    now = task.present_bandwidth_limit if task.phase == Phase.RUNNING else None
    own = task.options.get("bandwidth_limit")
    return now or (int(own) if own else None)


def shown(task: Task, now: datetime | None = None) -> Forecast | None:
    """The forecast that people and programs are given: none while the task does not go on."""
    return None if standstill.of(task) else during(task, now)


def rest(task: Task, pace: Pace, now: datetime) -> float | None:
    """Seconds for the rest of a running task at its present pace; None: not known yet.

    The pace of the last minutes has priority over that of earlier slices, and both over the history: on a slow day, a
    forecast from the history would be too short until the task is nearly done.
    """
    left = _left(task)
    for done, seconds in (pace.recent(task, now), _so_far(task, now)):
        found = _at_pace(task, done, left, seconds) if left.files and seconds >= MEASURED else None
        if found is not None:
            return found
    forecast = during(task, now)
    return forecast.expected if forecast else None


def _at_pace(task: Task, done: ForecastWork, left: ForecastWork, seconds: float) -> float | None:
    if task.destination_host_id is None:
        return max(at_pace(ForecastWork(done.files, 0), left, seconds), default=None)
    return model((task.source_host_id, task.destination_host_id)).at_pace(done, left, seconds)


def _left(task: Task) -> ForecastWork:
    files = task.files_left
    return ForecastWork(files, max(0, task.bytes_total - task.bytes_transferred) if files else 0)


def model(pair: Pair) -> Model:
    """The model of this pair of endpoints from its present history; the history of other pairs may be older."""
    own = Run.objects.filter(source=pair[0], destination=pair[1]).order_by("-ended_at")
    latest = own.values_list("pk", flat=True).first()
    kept = _models.get(pair)
    if kept is None or kept.latest != latest or time.monotonic() >= kept.expires:
        kept = CachedModel(latest, time.monotonic() + FRESH, _read(pair, own))
        _keep(pair, kept)
    return kept.model


def _keep(pair: Pair, kept: CachedModel) -> None:
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
    work = ForecastWork(run.files, run.bytes)
    return Past(_seconds(run), work, run.faults, run.round_trip, run.concurrency, run.parallelism, run.pipelining)


def _seconds(run: Run) -> float:
    """The duration of a whole task from its request, without the wait for its turn."""
    waited = (run.ended_at - run.task.request_time).total_seconds() - run.seconds
    return run.seconds + (min(max(0.0, waited), BEGIN) if run.whole else 0.0)


def _so_far(task: Task, now: datetime) -> tuple[ForecastWork, float]:
    """The work of this task so far, and its seconds, without waits and suspensions.

    From its earlier slices, if there are any; else since it was started.
    """
    sums = Run.objects.filter(task=task).aggregate(Sum("files"), Sum("bytes"), Sum("seconds"))
    if sums["seconds__sum"]:
        return ForecastWork(sums["files__sum"], sums["bytes__sum"]), sums["seconds__sum"]
    started = Event.objects.filter(task=task, code="STARTED").values_list("time", flat=True).first()
    seconds = max(0.0, (now - started).total_seconds()) if started else 0.0
    return ForecastWork(task.files_transferred, task.bytes_transferred), seconds
