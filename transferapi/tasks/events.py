"""The history of a task: lines that are written in the transaction of the change that they tell."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from .models import Event

#: More text than this no event keeps.
MAX_DETAILS = 20_000


@dataclass(frozen=True, slots=True)
class NewEvent:
    """details: text, or what is written as JSON (STARTED, PROGRESS, SUCCEEDED, as the Transfer API has them)."""

    code: str
    description: str
    details: object = ""
    is_error: bool = False


def append(task_id: uuid.UUID, new: Sequence[NewEvent], now: datetime) -> None:
    """Write these lines; call it inside the transaction of the change."""
    Event.objects.bulk_create(
        Event(
            task_id=task_id,
            time=now,
            code=event.code,
            is_error=event.is_error,
            description=printable(event.description),
            details=text(event.details),
        )
        for event in new
    )


def printable(text: str) -> str:
    """Text that PostgreSQL takes and people can read: undecodable bytes and NUL become `�`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\ufffd")


def text(details: object) -> str:
    """Details as they are kept."""
    words = details if isinstance(details, str) else json.dumps(details, ensure_ascii=False)
    return printable(words)[:MAX_DETAILS]
