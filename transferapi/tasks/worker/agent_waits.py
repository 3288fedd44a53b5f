"""Tasks that wait for the agent of an endpoint: a computer that sleeps, is switched off, or has lost its network.

Nothing counts as a fault meanwhile. The task has the status GC_NOT_CONNECTED (or GC_PAUSED), an event reports when the
agent went and another one when it is back. The relay calls `wake` as soon as the agent is connected again.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from endpoints.connect import presence
from endpoints.gridftp.faults import AWAY_KINDS, Fault, FaultScope, Kind, Side, make_fault
from identity.clock import moment
from transferapi.tasks import doorbell
from transferapi.tasks.models import WITH_ENDS, Task
from transferapi.tasks.states import Phase

from . import slice_end, troubles
from .leases import hold

#: The longest delay, in seconds, of a task whose agent is connected and loses connections.
LONGEST = 300.0
_EVER = datetime.min.replace(tzinfo=UTC)


def wait(
    task_id: uuid.UUID,
    epoch: int,
    fault: Fault,
    look_at: datetime,
    connection_failures: int = 0,
    now: datetime | None = None,
) -> None:
    """End the slice: the task waits until `wake`, or until `look_at`. Raises LeaseLostError.

    An agent that is connected all the same has only lost this connection, or is back already: the task goes on at once
    the first time, and later with the delays of a server that breaks connections.
    """
    with hold(task_id, epoch, now, to_end=True) as now:
        task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
        host = task.destination_host_id if fault.side is Side.DESTINATION else task.source_host_id
        if fault.kind is Kind.AGENT_AWAY and host and presence.is_connected(host):
            _connection_lost(task, epoch, fault, connection_failures, now)
        else:
            since = presence.away_since(host) if host else None
            troubles.agent_gone(task, fault, min(since, now) if since and since > _EVER else now, look_at, now)
            slice_end.release(task_id, epoch, look_at, 0, now)


def _connection_lost(task: Task, epoch: int, fault: Fault, failures: int, now: datetime) -> None:
    at = now
    if failures:
        at += timedelta(seconds=min(LONGEST, 2.0 ** min(failures, 16)))
        lost = replace(make_fault(Kind.CONNECTION_BROKEN, fault.raw, side=fault.side), scope=FaultScope.ENDPOINT)
        troubles.endpoint_failed(task.pk, epoch, lost, at, now=now)
    slice_end.release(task.pk, epoch, at, failures + 1, now)


def wake(endpoint_id: uuid.UUID, now: datetime | None = None) -> int:
    """Let all tasks run that wait for the agent of this endpoint, and ring for them; return their number.

    A lost message costs seconds: the sweep finds the tasks too, because they are due.
    """
    waiting = Task.objects.filter(
        Q(source_host=endpoint_id) | Q(destination_host=endpoint_id),
        phase=Phase.QUEUED,
        nice_status__in=AWAY_KINDS,
    )
    found = list(waiting.values_list("pk", flat=True))
    Task.objects.filter(pk__in=found, phase=Phase.QUEUED).update(next_run_at=moment(now))
    doorbell.ring(found)
    return len(found)
