"""The engine's TaskStore on PostgreSQL: each call is one short transaction, in a thread of a small pool."""

from __future__ import annotations

from transferapi.tasks.leases import Grant
from workers.engine.ports import TaskSpec


def task_spec(grant: Grant) -> TaskSpec:
    """What the engine is told of the task."""
    raise NotImplementedError


class PostgresTaskStore:
    """`workers.engine.ports.TaskStore` for the task of this grant. `worker` threads are shared by all stores."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
