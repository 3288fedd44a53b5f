"""Tasks that wait because an ssh server shows another host key than the registered one.

Nothing was sent to that server. The owner of the endpoint looks at both keys and accepts the new one, or has the old
one restored and confirms it; then the tasks go on.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, OuterRef, Q

from endpoints.gridftp.faults import Fault, Kind
from endpoints.models import Endpoint, Server
from identity.gsi.sentences import Sentence
from transferapi.tasks import events, moves
from transferapi.tasks.models import Task
from transferapi.tasks.notify.mails import host_key as host_key_mails
from transferapi.tasks.states import Phase

from . import troubles


def suspend(task: Task, fault: Fault, now: datetime) -> None:
    """Move a running task to INACTIVE; its worker holds the lease. Both owners get a mail, once for each new key."""
    endpoint = task.ends.get(fault.side, task.source)
    text = Sentence(
        "%(endpoint)s: %(advice)s The task waits for that.",
        endpoint=troubles.named(endpoint, fault.side), advice=Sentence(fault.advice),
    )  # fmt: skip
    changes = {
        "nice_status": fault.kind,
        "nice_status_details": events.printable(text),
        "suspended_at": now,
        "waits_at": None,
        "had_credential": None,
    }
    event = events.NewEvent(fault.kind, text, fault.raw, is_error=True)
    moves.move(task.pk, moves.RUNNING, moves.SUSPENDED, now=now, event=event, changes=changes)
    host_key_mails.changed(task, endpoint, fault, text, now)


def settled(sender: object, endpoint: Endpoint, **_: object) -> None:
    """Resume the tasks at this endpoint (`endpoints.signals.host_key_settled`)."""
    _resume(Q(source_host=endpoint.pk) | Q(destination_host=endpoint.pk))


def resume_settled(now: datetime | None = None) -> int:
    """Resume tasks whose endpoints have no unsettled host key, if a signal was lost; return their number."""
    unsettled = Server.objects.exclude(shown_host_key="")
    at_source = unsettled.filter(endpoint=OuterRef("source_host"))
    at_destination = unsettled.filter(endpoint=OuterRef("destination_host"))
    return _resume(~Exists(at_source) & ~Exists(at_destination), now)


def _resume(condition: Q, now: datetime | None = None) -> int:
    waiting = Task.objects.filter(condition, phase=Phase.SUSPENDED, nice_status=Kind.HOST_KEY_CHANGED)
    return sum(moves.resume(task.owner, task.pk, now) for task in waiting.select_related("owner"))
