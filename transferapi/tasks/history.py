"""What slices leave behind of the way between two endpoints: the tuner's knowledge, and runs to forecast from."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import Subquery

from .clock import moment
from .models import PathMemory, Run, Task
from .rows import RunFacts

#: Of a pair of endpoints; older ones go.
RUNS_KEPT = 500


def learn(
    task_id: uuid.UUID,
    knowledge: Mapping[str, object] | None,
    run: RunFacts | None,
    now: datetime | None = None,
) -> None:
    """Put the knowledge in the place of what was known of the task's pair of endpoints; add the run. None: neither.

    Shared endpoints stand for their hosts: what is learned of one serves all that is shared there.

    Needs no lease: it changes nothing of the task. Of two tasks on one pair the later word counts: each began with what
    an earlier one knew.
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
            Run.objects.create(task_id=task_id, ended_at=now, **pair, **run._asdict())
            _forget_all_but_the_latest(pair)


def _forget_all_but_the_latest(pair: Mapping[str, uuid.UUID]) -> None:
    """A forecast looks at fewer than are kept; where the rest begins, the index alone tells."""
    runs = Run.objects.filter(**pair)
    first = runs.order_by("-ended_at").values_list("ended_at", flat=True)[RUNS_KEPT : RUNS_KEPT + 1]
    runs.filter(ended_at__lte=Subquery(first)).delete()
