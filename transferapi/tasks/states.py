"""The one table of task states (truth 2).

`Status` is what the wire shows, as the Globus Transfer API has it; `Phase` is finer and ours. A move that is
not in `MOVES` cannot happen: `moves.py` is the only code that writes either column.
"""

from __future__ import annotations

from django.db import models


class TaskType(models.TextChoices):
    TRANSFER = "TRANSFER"
    DELETE = "DELETE"


class Status(models.TextChoices):
    ACTIVE = "ACTIVE"  # in progress, also while queued, paused or between retries
    INACTIVE = "INACTIVE"  # a person must act (credential, consent)
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"  # failed, past its deadline, or canceled


class Phase(models.TextChoices):
    QUEUED = "queued"  # waits for a worker, for its turn, or for the next try
    RUNNING = "running"  # a worker holds the lease
    PAUSED = "paused"  # a manager of an endpoint has stopped it for a while
    SUSPENDED = "suspended"  # INACTIVE
    DONE = "done"  # SUCCEEDED or FAILED


class FileState(models.IntegerChoices):
    """State of one file row. PENDING is the only one that changes."""

    PENDING = 0
    DONE = 1
    SKIPPED = 2
    FAILED = 3


class FileKind(models.IntegerChoices):
    FILE = 0
    DIRECTORY = 1
    SYMLINK = 2


#: (status, phase) -> the pairs it may move to.
MOVES: dict[tuple[Status, Phase], frozenset[tuple[Status, Phase]]] = {
    (Status.ACTIVE, Phase.QUEUED): frozenset(
        {
            (Status.ACTIVE, Phase.RUNNING),
            (Status.ACTIVE, Phase.PAUSED),
            (Status.INACTIVE, Phase.SUSPENDED),
            (Status.FAILED, Phase.DONE),  # canceled, or past the deadline, before a worker had it
        }
    ),
    (Status.ACTIVE, Phase.RUNNING): frozenset(
        {
            (Status.ACTIVE, Phase.QUEUED),  # end of a slice, or the lease ran out
            (Status.ACTIVE, Phase.RUNNING),  # taken over from a worker that died
            (Status.ACTIVE, Phase.PAUSED),  # by its worker at the end of a slice, or when that had died
            (Status.INACTIVE, Phase.SUSPENDED),
            (Status.SUCCEEDED, Phase.DONE),
            (Status.FAILED, Phase.DONE),
        }
    ),
    (Status.ACTIVE, Phase.PAUSED): frozenset({(Status.ACTIVE, Phase.QUEUED), (Status.FAILED, Phase.DONE)}),
    (Status.INACTIVE, Phase.SUSPENDED): frozenset({(Status.ACTIVE, Phase.QUEUED), (Status.FAILED, Phase.DONE)}),
    (Status.SUCCEEDED, Phase.DONE): frozenset(),
    (Status.FAILED, Phase.DONE): frozenset(),
}


def may_move(old: tuple[Status, Phase], new: tuple[Status, Phase]) -> bool:
    """Whether the table allows this move."""
    return new in MOVES[old]
