"""The load and the troubles of endpoints, as their managers see them: counts of unfinished tasks, and their faults."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models import Count, F

from endpoints import managed_endpoints
from endpoints.models import Endpoint
from endpoints.permissions import reachable
from identity.models import User
from transferapi.tasks import endpoint_failures
from transferapi.tasks.models import EndpointFailure, Task
from transferapi.tasks.states import Phase, Status

from . import managed_tasks
from .managed_tasks import ManagedTask, ManagedTaskFilter

#: Tasks with faults that are read for all endpoints, and that are shown of one.
MAX_READ, MAX_SHOWN = 100, 3


@dataclass(frozen=True, slots=True)
class Health:
    """active: running or queued tasks. waiting: tasks that wait for a credential. troubled: tasks with a fault now.

    failure: the endpoint itself fails, since when and by what; None if it is not known to fail.
    """

    endpoint: Endpoint
    active: int
    paused: int
    waiting: int
    troubled: Sequence[ManagedTask]
    failure: EndpointFailure | None = None


def of_managed(user: User) -> list[Health]:
    """All endpoints whose tasks this user may see. The number of queries does not depend on the number of endpoints.

    Raises RequestError where the query takes too long.
    """
    found = managed_endpoints.monitored(user)
    counts = unfinished([one.pk for one in found])
    troubled = _troubled(user) if counts else []
    failing = endpoint_failures.of(found)
    return [
        Health(
            one,
            counts[one.pk, Phase.RUNNING] + counts[one.pk, Phase.QUEUED],
            counts[one.pk, Phase.PAUSED],
            counts[one.pk, Phase.SUSPENDED],
            [seen for seen in troubled if one.pk in (seen.task.source_id, seen.task.destination_id)][:MAX_SHOWN],
            failing.get(one.pk),
        )
        for one in found
    ]


def unfinished(places: Collection[uuid.UUID]) -> Counter[tuple[uuid.UUID, str]]:
    """The unfinished tasks by endpoint and phase. A task with both ends at one endpoint counts once."""
    tasks = Task.objects.filter(reachable("source"), reachable("destination")).exclude(phase=Phase.DONE)
    sides = {"source_id": tasks, "destination_id": tasks.exclude(source=F("destination"))}
    counts: Counter[tuple[uuid.UUID, str]] = Counter()
    with managed_tasks.bounded_time():
        for side, rows in sides.items():
            grouped = rows.filter(**{f"{side}__in": places}).values_list(side, "phase").annotate(Count("pk"))
            for place, phase, number in grouped:
                counts[place, phase] += number
    return counts


def _troubled(user: User) -> list[ManagedTask]:
    """The latest unfinished tasks that report a fault now."""
    wanted = ManagedTaskFilter(statuses=(Status.ACTIVE, Status.INACTIVE), min_faults=1)
    found, _more = managed_tasks.list_tasks(user, wanted, limit=MAX_READ)
    return [seen for seen in found if seen.task.nice_status is not None and seen.task.phase != Phase.PAUSED]
