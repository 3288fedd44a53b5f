"""The history of a task: lines that are written in the transaction of the change that they tell."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from . import space

#: Who listens hears of each task that has new lines: {"task": id, "owner": id}. See `feed.py`.
CHANNEL = "waybill_tasks"
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
    """Write these lines, and wake who listens once they are committed; call it inside the transaction of the change."""
    with connection.cursor() as cursor:
        cursor.execute(_APPEND, {
            "task": task_id,
            "now": now,
            "codes": [event.code for event in new],
            "errors": [event.is_error for event in new],
            "descriptions": [printable(event.description) for event in new],
            "details": [text(event.details) for event in new],
            "channel": CHANNEL,
        })  # fmt: skip


def append_bounded(task_id: uuid.UUID, new: Sequence[NewEvent], now: datetime) -> None:
    """As `append`, for what servers can cause again and again: once a task has `space.MAX_EVENTS` octets of events, one
    says that no more are told. How the task goes on and ends is told in any case."""
    octets = sum(ROW + len(printable(event.description)) + len(text(event.details)) for event in new)
    there = space.room_for_events(task_id, octets)
    if there <= space.MAX_EVENTS:
        append(task_id, new, now)
    elif there - octets <= space.MAX_EVENTS:
        append(task_id, [NewEvent("LIMIT_EXCEEDED", ENOUGH, is_error=True)], now)


#: What an event takes besides its text.
ROW = 200
ENOUGH = "There are so many events that further faults of this task are counted, but not told."


#: In one round trip. NOTIFY takes a lock of the whole database for as long as the commit takes: it comes with events,
#: which are few, and never with a batch of files.
_APPEND = """
    WITH told AS (
        INSERT INTO tasks_event (task_id, time, code, is_error, description, details)
        SELECT %(task)s, %(now)s, code, is_error, description, details
        FROM unnest(%(codes)s::varchar[], %(errors)s::boolean[], %(descriptions)s::text[], %(details)s::text[])
            WITH ORDINALITY AS new(code, is_error, description, details, number)
        ORDER BY number
    )
    SELECT pg_notify(%(channel)s, json_build_object('task', id, 'owner', owner_id)::text)
    FROM tasks_task WHERE id = %(task)s"""


def printable(text: str) -> str:
    """Text that PostgreSQL takes and people can read: undecodable bytes and NUL become `�`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\0", "\ufffd")


def text(details: object) -> str:
    """Details as they are kept."""
    words = details if isinstance(details, str) else json.dumps(details, ensure_ascii=False)
    return printable(words)[:MAX_DETAILS]
