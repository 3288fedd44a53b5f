"""What slices leave behind of the way between two endpoints: the tuner's knowledge, and runs to forecast from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime

from .leases import hold
from .models import PathMemory, Run, Task
from .rows import RunFacts


def learn(
    task_id: uuid.UUID,
    epoch: int,
    knowledge: Mapping[str, object] | None,
    run: RunFacts | None,
    now: datetime | None = None,
) -> None:
    """Put the knowledge in the place of what was known of the task's pair of endpoints; add the run. None: neither.

    -> LeaseLostError. Of two tasks on one pair the later word counts: each began with what the earlier one knew.
    """
    with hold(task_id, epoch, now) as now:
        source, destination = Task.objects.values_list("source_id", "destination_id").get(pk=task_id)
        if destination is None:
            return
        if knowledge is not None:
            PathMemory.objects.update_or_create(
                source_id=source,
                destination_id=destination,
                defaults={"knowledge": dict(knowledge), "updated_at": now},
            )
        if run is not None:
            Run.objects.create(
                task_id=task_id, source_id=source, destination_id=destination, ended_at=now, **run._asdict()
            )
