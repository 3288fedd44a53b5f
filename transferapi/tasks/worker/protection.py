"""The protection and the way of a task's data channels: the values in its document, and events with the reason.

A task uses several lanes, and servers of one endpoint differ. The document shows the weakest protection that any lane
of the task had. An event reports the first level and each weaker one: three events at most.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from identity.gsi.sentences import Sentence, joined
from transferapi.tasks import events
from transferapi.tasks.models import WITH_ENDS, Event, Task
from transferapi.tasks.records import (
    AUTHENTICATED,
    CLEAR,
    DIRECT,
    ENCRYPTED,
    LEVELS,
    RELAYED,
    STREAMED,
    DataProtection,
    DataWay,
)

from . import troubles
from .leases import hold

CODE = "DATA_PROTECTION"
WAY_CODE = "DATA_WAY"
_WAY_TEXTS = {
    DIRECT: Sentence("The data go directly from the source to the destination."),
    RELAYED: Sentence("The data are relayed through this service."),
    STREAMED: Sentence("A worker of this service reads the data from the source and writes them to the destination."),
}

_TEXTS = {
    AUTHENTICATED: Sentence(
        "The data channels are authenticated: each server proves its identity to the other. "
        "The data is not encrypted; encrypt_data asks for that."
    ),
    ENCRYPTED: Sentence("The data channels are authenticated and encrypted."),
}


def note(task_id: uuid.UUID, epoch: int, held: DataProtection, now: datetime | None = None) -> None:
    """Record the protection of a lane, with an event, where no earlier lane was as weak. Raises LeaseLostError."""
    with hold(task_id, epoch, now) as now:
        as_weak = LEVELS[: LEVELS.index(held.level) + 1]
        rows = Task.objects.filter(pk=task_id).exclude(data_protection__in=as_weak)
        if not rows.update(data_protection=held.level):
            return
        text = _unprotected(task_id, held) if held.level == CLEAR else _TEXTS[held.level]
        events.append(task_id, [events.NewEvent(CODE, text, held.raw)], now)


def note_way(task_id: uuid.UUID, epoch: int, way: DataWay, now: datetime | None = None) -> None:
    """Record the way of the data, with an event where it or its reason has changed. Raises LeaseLostError."""
    with hold(task_id, epoch, now) as now:
        changed = Task.objects.filter(pk=task_id).exclude(data_way=way.way).update(data_way=way.way)
        last = Event.objects.filter(task=task_id, code=WAY_CODE).order_by("-pk").first()
        if changed or last is None or last.details != way.why:
            events.append_bounded(task_id, [events.NewEvent(WAY_CODE, _WAY_TEXTS[way.way], way.why)], now)


def _unprotected(task_id: uuid.UUID, held: DataProtection) -> Sentence:
    """The sentence about the side that prevents protection, with the remedy."""
    task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
    end, why = task.ends.get(held.side), held.why
    text = Sentence("The data channels are neither authenticated nor encrypted: one server %(why)s.", why=why)
    if end:
        text = Sentence(
            "The data channels are neither authenticated nor encrypted: the server of %(endpoint)s %(why)s.",
            endpoint=troubles.named(end, held.side), why=why,
        )  # fmt: skip
    return joined(" ", [text, held.remedy]) if held.remedy else text
