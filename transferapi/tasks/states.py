"""The one table of task states (docs/architecture.md, truth 2).

`Status` is the value in documents, as in the Globus Transfer API; `Phase` is finer and internal. A move that is not in
`MOVES` cannot happen: `moves.py` is the only code that writes either column.
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
    QUEUED = "queued"  # waits for a worker, for its turn, or for the next attempt
    RUNNING = "running"  # a worker holds the lease
    PAUSED = "paused"  # a manager of an endpoint has paused it
    SUSPENDED = "suspended"  # INACTIVE
    DONE = "done"  # SUCCEEDED or FAILED


class FileState(models.IntegerChoices):
    """The state of a file row. Only PENDING changes."""

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
            (Status.FAILED, Phase.DONE),  # before a worker took it: canceled, past the deadline, or no longer permitted
        }
    ),
    (Status.ACTIVE, Phase.RUNNING): frozenset(
        {
            (Status.ACTIVE, Phase.QUEUED),  # end of a slice, or the lease ran out several times in a row
            (Status.ACTIVE, Phase.RUNNING),  # taken over from a lost worker
            (Status.ACTIVE, Phase.PAUSED),  # by its worker at the end of a slice, or after that was lost
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
