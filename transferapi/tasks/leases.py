"""Leases: which worker holds which task, and who may have his turn next (truth 1, the fair share)."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

TTL = timedelta(seconds=6)
HEARTBEAT = timedelta(seconds=1)
#: Live leases of one user on tasks of one type.
MAX_PER_USER = 3
#: Sessions to each endpoint of a task.
MIN_SESSIONS, WANTED_SESSIONS = 3, 9


class Refusal(Enum):
    NOT_RUNNABLE = "done, suspended or unknown"
    HELD = "another worker has it"
    QUOTA = "the user or an endpoint has enough under way, or an older task has its turn first"
    NOT_DUE = "its next try is later"


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease, and the facts of the task that do not change while it is held."""

    task_id: uuid.UUID
    epoch: int
    sessions: int
    owner_id: uuid.UUID
    is_delete: bool
    source_id: uuid.UUID
    source_name: str
    destination_id: uuid.UUID | None
    destination_name: str | None
    options: dict[str, object]
    suspect_up_to: int


def acquire(task_id: uuid.UUID, worker: str, *, ttl: timedelta = TTL, now: datetime | None = None) -> Grant | Refusal:
    """Take the task, if it is its turn. now None: the database's clock, which all workers share."""
    raise NotImplementedError


def next_runnable(limit: int = 100, now: datetime | None = None) -> list[uuid.UUID]:
    """Tasks that `acquire` would grant, in the order of their turns; for the sweep and the end of a slice."""
    raise NotImplementedError
