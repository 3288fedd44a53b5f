"""How the data channels of a task are protected: what its document shows, and the event that says why not better.

Lanes come and go, and servers of one endpoint differ. The document has the weakest protection that any lane of the task
had, and an event tells the first and each weaker one: three of them at most.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from endpoints.registry import canonical_name

from . import events
from .leases import hold
from .models import Task
from .rows import ProtectionFacts
from .troubles import WITH_ENDS

CODE = "DATA_PROTECTION"
#: The weakest first.
LEVELS = ("clear", "authenticated", "encrypted")

_TEXTS = {
    "clear": "The data channels are neither authenticated nor encrypted: {why}",
    "authenticated": "The data channels are authenticated: each server proves that it is the one that is meant. "
    "The data is not encrypted; encrypt_data asks for that.",
    "encrypted": "The data channels are authenticated and encrypted.",
}


def note(task_id: uuid.UUID, epoch: int, held: ProtectionFacts, now: datetime | None = None) -> None:
    """A lane of the task is protected so: written, and told, where no lane before it was as weak.

    Raises LeaseLostError.
    """
    with hold(task_id, epoch, now) as now:
        task = Task.objects.select_related(*WITH_ENDS).get(pk=task_id)
        known = task.data_protection
        if known in LEVELS and LEVELS.index(known) <= LEVELS.index(held.level):
            return
        Task.objects.filter(pk=task_id).update(data_protection=held.level)
        text = _TEXTS[held.level].format(why=_why(task, held))
        events.append(task_id, [events.NewEvent(CODE, text, held.raw)], now)


def _why(task: Task, held: ProtectionFacts) -> str:
    """A sentence about the side that is in the way, and what can be done about it."""
    end = task.destination if held.side == "destination" else task.source
    one = f"the server of {canonical_name(end)} (the {held.side})" if end and held.side != "unknown" else "one server"
    return f"{one} {held.why}.{' ' if held.remedy else ''}{held.remedy}"
