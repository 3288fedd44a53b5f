"""Records that slices leave: events, the tuner's knowledge of a pair of endpoints, and runs for forecasts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from django.db import transaction
from django.db.models import Subquery

from identity.clock import moment
from transferapi.tasks import events
from transferapi.tasks.events import NewEvent
from transferapi.tasks.models import PathMemory, Run, Task
from transferapi.tasks.records import SliceMeasurement

from .leases import hold

#: Runs of a pair of endpoints; older ones are deleted.
RUNS_KEPT = 500


def add_event(task_id: uuid.UUID, epoch: int, new: NewEvent, now: datetime | None = None) -> None:
    """Append an event, as far as there is room (`events.append_bounded`). Raises LeaseLostError."""
    with hold(task_id, epoch, now) as now:
        events.append_bounded(task_id, [new], now)


def learn(
    task_id: uuid.UUID,
    knowledge: Mapping[str, object] | None,
    run: SliceMeasurement | None,
    now: datetime | None = None,
) -> None:
    """Replace the knowledge of the task's pair of endpoints, and add the run. None: leave it unchanged; no run.

    A shared endpoint counts as its host. The call needs no lease because it does not change the task. Of two tasks on
    one pair, the later call wins: each began with the knowledge of an earlier one.
    """
    with transaction.atomic():
        now = moment(now)
        source, destination = Task.objects.values_list("source_host_id", "destination_host_id").get(pk=task_id)
        if destination is None:
            return
        if knowledge is not None:
            PathMemory.objects.update_or_create(
                source_id=source,
                destination_id=destination,
                defaults={"knowledge": dict(knowledge), "updated_at": now},
            )
        if run is not None:
            pair = {"source_id": source, "destination_id": destination}
            Run.objects.create(task_id=task_id, ended_at=now, **pair, **asdict(run))
            _forget_all_but_the_latest(pair)


def _forget_all_but_the_latest(pair: Mapping[str, uuid.UUID]) -> None:
    """Delete all but the latest RUNS_KEPT runs of the pair. Only the index is read to find the first to delete."""
    runs = Run.objects.filter(**pair)
    first = runs.order_by("-ended_at").values_list("ended_at", flat=True)[RUNS_KEPT : RUNS_KEPT + 1]
    runs.filter(ended_at__lte=Subquery(first)).delete()
