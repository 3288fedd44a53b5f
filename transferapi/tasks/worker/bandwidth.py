"""The rate that a slice may move now: its fair share of the limits of its endpoints among the slices that run there.

Only transfers at the two endpoints of the task are read. A limit of a third one, which slows another transfer there
down, is shared among those that are known: the share that is found is never too large.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from endpoints import bandwidth
from endpoints.sharing.access import Access
from identity.database_rows import query_rows
from transferapi.tasks.events import NewEvent
from transferapi.tasks.fair_rates import DESTINATION, PRIORITY, SOURCE, TASK, FairRate, Flow, Limit, fair_rates
from transferapi.tasks.records import BACKGROUND, TaskSpec

from . import measurements

CODE = "BANDWIDTH_LIMITED"
_WHY = {
    TASK: "The task has a bandwidth limit of its own.",
    SOURCE: "The source endpoint has a bandwidth limit, which all transfers there share.",
    DESTINATION: "The destination endpoint has a bandwidth limit, which all transfers there share.",
    PRIORITY: "The task is in the background, and gives way to a normal one at the same endpoint.",
}
#: How a lane is paced (`Pacer.how`), for the details of the event.
_HOW = {
    "parts": "The servers are asked for the next part of a file when its time has come.",
    "files": "These servers move no parts of files: the next file begins later, and each is sent at full speed.",
    "streamed": "The worker reads and writes at this rate.",
}


def can_be_limited(spec: TaskSpec, accesses: Mapping[Any, Access]) -> bool:
    """Whether anything may limit a slice that begins now; limits that an endpoint gets later hold for the next one."""
    asked = spec.options.get("bandwidth_limit") or spec.options.get("priority") == BACKGROUND
    return not spec.is_delete and bool(asked or any(access.host.bandwidth_limits for access in accesses.values()))


def read(task_id: uuid.UUID, noted: int | None, now: datetime | None = None) -> FairRate | None:
    """The rate of this task, which runs; None: nothing limits it. noted: the rate of before, for its document.

    One statement. Raises LookupError where the task does not run any more.
    """
    rows = query_rows(_READ, {"task": task_id, "noted": noted, "now": now})
    flows, limits = [], dict[str, list[Mapping[str, Any]]]()
    for moment, id_, source, destination, source_name, destination_name, limit, priority, *of_hosts in rows:
        own = int(limit) if limit is not None else None
        names = (source_name, destination_name)
        flows.append(Flow(id_, source, destination, names, own, priority == BACKGROUND))
        for host, text in zip((source, destination), of_hosts, strict=True):
            limits[host] = bandwidth.in_force(json.loads(text), moment)
    if str(task_id) not in {flow.id for flow in flows}:
        raise LookupError(task_id)
    found = (Limit(host, row["limit"], row.get("peer")) for host, held in limits.items() for row in held)
    return fair_rates(flows, found).get(str(task_id))


#: The note is left out where a batch of the worker holds the row: a heartbeat waits for no transaction.
_READ = """
    WITH noted AS (
        UPDATE tasks_task SET present_bandwidth_limit = %(noted)s WHERE id = (
            SELECT id FROM tasks_task WHERE id = %(task)s AND phase = 'running'
                AND present_bandwidth_limit IS DISTINCT FROM %(noted)s::bigint
            FOR NO KEY UPDATE SKIP LOCKED)
    )
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()), t.id::text, t.source_host_id::text,
        t.destination_host_id::text, t.source_id::text, t.destination_id::text, t.options->>'bandwidth_limit',
        t.options->>'priority', s.bandwidth_limits::text, d.bandwidth_limits::text
    FROM tasks_task me
    JOIN tasks_lease l ON l.worker <> '' AND l.expires_at > coalesce(%(now)s::timestamptz, clock_timestamp())
    JOIN tasks_task t ON t.id = l.task_id
    JOIN endpoints_endpoint s ON s.id = t.source_host_id
    JOIN endpoints_endpoint d ON d.id = t.destination_host_id
    WHERE me.id = %(task)s AND (t.source_host_id IN (me.source_host_id, me.destination_host_id)
        OR t.destination_host_id IN (me.source_host_id, me.destination_host_id))"""


def report(task_id: uuid.UUID, epoch: int, rate: FairRate, how: str) -> None:
    """The event that says by what the task is limited, and how it is held to that. Raises LeaseLostError."""
    details = {"bytes_per_second": int(rate.octets), "limited_by": rate.by, "how": _HOW.get(how, how)}
    measurements.add_event(task_id, epoch, NewEvent(CODE, _WHY[rate.by], details))
