"""Endpoints that fail now, for operators: one line of log at the begin, one at the end, a metric, and a mark in lists.

A task that cannot use an endpoint writes the row of this endpoint (of its host, for a share), and one that reaches it
deletes the row: whichever task it is, there are two lines. Faults of one user's login say nothing about an endpoint.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction

from endpoints.gridftp.faults import Fault, Kind, Side
from endpoints.models import Endpoint
from endpoints.registry import canonical_name
from identity.clock import moment
from identity.database_rows import query_rows
from transferapi.tasks.models import EndpointFailure, Task

log = logging.getLogger(__name__)

#: After so long without an attempt of any task it is not known any more whether the endpoint fails.
KNOWN = timedelta(hours=2)
#: Faults that say something about the endpoint itself.
KINDS = frozenset(
    (
        Kind.CONNECT_FAILED, Kind.CONNECTION_BROKEN, Kind.CONNECTION_RESET, Kind.TIMEOUT, Kind.ENDPOINT_ERROR,
        Kind.ENDPOINT_TOO_BUSY, Kind.GSI_DN_MISMATCH, Kind.HOST_KEY_CHANGED, Kind.INSECURE_SERVER,
        Kind.INVALID_SERVICE_CREDENTIAL,
    )
)  # fmt: skip


def failed(task: Task, fault: Fault, now: datetime) -> None:
    """A task could not use the endpoint of the fault's side. task: with WITH_ENDS. Call it inside a transaction."""
    end = task.ends.get(fault.side)
    if end is None or fault.kind not in KINDS:
        return
    host = end.host or end
    [(is_new,)] = query_rows(_FAILED, {"endpoint": host.pk, "code": fault.kind.value, "now": now})
    if is_new:
        server = f" ({fault.server})" if fault.server else ""
        line = "endpoint %s%s begins to fail: %s"
        transaction.on_commit(lambda: log.warning(line, canonical_name(host), server, fault.kind.value))


def answered(task: Task, sides: Sequence[Side], now: datetime) -> None:
    """A task has reached servers of these sides. task: with WITH_ENDS. Call it inside a transaction."""
    hosts = {host.pk: host for side in sides if (end := task.ends.get(side)) for host in [end.host or end]}
    rows = EndpointFailure.objects.filter(endpoint__in=hosts).order_by("pk")
    for row in rows.select_for_update(of=("self",)):
        say = partial(_log_answer, hosts[row.endpoint_id], (now - row.since).total_seconds())
        row.delete()
        transaction.on_commit(say)


def _log_answer(host: Endpoint, seconds: float) -> None:
    log.warning("endpoint %s answers again after %.0f s", canonical_name(host), seconds)


def of(endpoints: Collection[Endpoint], now: datetime | None = None) -> dict[uuid.UUID, EndpointFailure]:
    """The failures that are known now, by the endpoint; a share has those of its host."""
    hosts = {end.pk: end.host_id or end.pk for end in endpoints}
    rows = EndpointFailure.objects.filter(endpoint__in=set(hosts.values()), seen_at__gt=moment(now) - KNOWN)
    found = {row.endpoint_id: row for row in rows}
    return {place: found[host] for place, host in hosts.items() if host in found}


@transaction.atomic
def forget_old(now: datetime | None = None) -> int:
    """Delete the failures of endpoints that no task tries any more; return their number."""
    rows = EndpointFailure.objects.filter(seen_at__lte=moment(now) - KNOWN).select_related("endpoint__owner")
    count = 0
    for row in rows.order_by("pk").select_for_update(of=("self",), skip_locked=True):
        line = "endpoint %s: no task has tried it for %s; whether it answers is not known"
        log.info(line, canonical_name(row.endpoint), KNOWN)
        row.delete()
        count += 1
    return count


#: A row of a failure that is not known any more begins anew.
_FAILED = f"""
    INSERT INTO tasks_endpointfailure AS known (endpoint_id, code, since, seen_at)
    VALUES (%(endpoint)s, %(code)s, %(now)s, %(now)s)
    ON CONFLICT (endpoint_id) DO UPDATE SET code = excluded.code, seen_at = excluded.seen_at, since = CASE
        WHEN known.seen_at <= excluded.seen_at - interval '{KNOWN.total_seconds():.0f} s' THEN excluded.since
        ELSE known.since END
    RETURNING since = seen_at"""  # noqa: S608 - a constant
