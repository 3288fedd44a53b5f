"""The event history of a task. An event is written in the transaction of the change that it reports."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from identity.database_rows import execute
from identity.gsi.printable import readable_lines
from identity.gsi.sentences import Sentence

from .upkeep import space

#: Listeners get a notification for each task with new events: {"task": id, "owner": id}. See `notify/feed.py`.
CHANNEL = "waybill_tasks"
#: Characters that an event keeps of its details.
MAX_DETAILS = 20_000
#: Descriptions of faults of files (`worker/settling.py`): numbers and times, and neither a path nor a server's words.
FAULT_SUMMARY = re.compile(
    r"[A-Za-z ]+(?: at the (?:source|destination))? on [0-9]+ files?: "
    r"(?:tried again from [0-9: -]+ UTC|given up|passed over)\.\Z"
)


@dataclass(frozen=True, slots=True)
class NewEvent:
    """description: a `Sentence` where readers of pages should have it in their language.

    details: text, or data that is written as JSON (STARTED, PROGRESS, SUCCEEDED, as in the Transfer API).
    """

    code: str
    description: str
    details: object = ""
    is_error: bool = False


def append(task_id: uuid.UUID, new: Sequence[NewEvent], now: datetime) -> None:
    """Write these events, and notify listeners at the commit. Call it inside the transaction of the change."""
    execute(_APPEND, {
        "task": task_id,
        "now": now,
        "codes": [event.code for event in new],
        "errors": [event.is_error for event in new],
        "descriptions": [printable(event.description) for event in new],
        "details": [text(event.details) for event in new],
        "sentences": [_record(event.description) for event in new],
        "channel": CHANNEL,
    })  # fmt: skip


def append_bounded(task_id: uuid.UUID, new: Sequence[NewEvent], now: datetime) -> None:
    """As `append`, for events that servers can cause without limit.

    Once a task has `space.MAX_EVENTS` octets of events, one last event says that no more follow. Events written by
    `append`, about the progress and the end of the task, still follow.
    """
    octets = sum(map(_octets, new))
    there = space.room_for_events(task_id, octets)
    if there <= space.MAX_EVENTS:
        append(task_id, new, now)
    elif there - octets <= space.MAX_EVENTS:
        append(task_id, [NewEvent("LIMIT_EXCEEDED", ENOUGH, is_error=True)], now)


#: Octets of an event besides its text.
ROW = 200
ENOUGH = Sentence("This task has so many events that further faults are counted, but not listed.")


#: Append and notify in one round trip. NOTIFY holds a lock of the whole database during the commit: it is used with
#: events, which are few, and never with a batch of files.
_APPEND = """
    WITH appended AS (
        INSERT INTO tasks_event (task_id, time, code, is_error, description, details, sentence)
        SELECT %(task)s, %(now)s, code, is_error, description, details, sentence::jsonb
        FROM unnest(%(codes)s::varchar[], %(errors)s::boolean[], %(descriptions)s::text[], %(details)s::text[],
            %(sentences)s::text[]) WITH ORDINALITY AS new(code, is_error, description, details, sentence, number)
        ORDER BY number
    )
    SELECT pg_notify(%(channel)s, json_build_object('task', id, 'owner', owner_id)::text)
    FROM tasks_task WHERE id = %(task)s"""


def _octets(event: NewEvent) -> int:
    record = _record(event.description) or ""
    return ROW + len(printable(event.description)) + len(text(event.details)) + len(record)


def _record(description: str) -> str | None:
    """A sentence as the database keeps it; None for a text in English only."""
    return json.dumps(description.record(printable)) if isinstance(description, Sentence) else None


def printable(text: str) -> str:
    """Text that PostgreSQL accepts and people can read: octets that are no UTF-8 and active characters become `�`."""
    return readable_lines(text)


def text(details: object) -> str:
    """Details as the database keeps them."""
    words = details if isinstance(details, str) else json.dumps(details, ensure_ascii=False)
    return printable(words)[:MAX_DETAILS]
