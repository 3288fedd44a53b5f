"""Two tasks that write to one place: the second says at its submission that the first is under way.

Each file arrives whole, from one of them, because neither writes under its real name (`engine/queue/queue_feeder.py`);
which of the two stays is not certain. Bounded: the first items of a few unfinished tasks at the same servers are
compared, by an index.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from endpoints.models import Endpoint
from endpoints.permissions import in_reach
from identity.gsi.printable import quoted
from identity.models import User
from transferapi.tasks.models import Item, Task
from transferapi.tasks.states import Phase, TaskType

#: Other tasks that are compared, items of each of them, and items of the new one.
MAX_TASKS, MAX_OTHER_ITEMS, MAX_ITEMS = 50, 200, 2000


@dataclass(slots=True)
class _Targets:
    """Paths on the servers that a task writes. folders: those among them whose contents it may write."""

    paths: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def add(self, path: str, item: Item) -> None:
        self.paths.setdefault(path, item.destination_path or "")
        if item.recursive is not False and not item.extra.get("symlink"):
            self.folders.add(path)


def warning(user: User, task: Task) -> str | None:
    """A sentence about the first task under way that may write the same files as this new one; None if there is none.

    The other task is named if it is the user's own, and within reach of the session.
    """
    if task.type != TaskType.TRANSFER or task.destination is None:
        return None
    hits = _hits(task, _unfinished(task).filter(request_time__lte=task.request_time))
    if not hits:
        return None
    other, path = min(hits, key=lambda one: one[0].owner_id != user.pk)
    return f"{_name(user, other)} is under way and writes to the same place: {quoted(path)}. {UNCERTAIN}"


def others_write(task_id: uuid.UUID, epoch: int) -> bool:
    """Whether another unfinished task, begun earlier or later, may write files of this one. epoch: not needed to read.

    Both tasks ask: of two that begin at the same time at least one sees the other.
    """
    task = Task.objects.select_related("destination").get(pk=task_id)
    return bool(_hits(task, _unfinished(task)))


def _unfinished(task: Task) -> QuerySet[Task]:
    """The other unfinished transfers to the servers of its destination."""
    rows = Task.objects.filter(destination_host=task.destination_host_id, type=TaskType.TRANSFER)
    return rows.exclude(phase=Phase.DONE).exclude(pk=task.pk)


def _hits(task: Task, others: QuerySet[Task]) -> list[tuple[Task, str]]:
    """Those of the first of these tasks that may write files of this one, each with a path of this one."""
    # The index gives them in the order in which they run.
    compared = list(others.select_related("destination").order_by("next_run_at")[:MAX_TASKS])
    if not compared:
        return []
    mine = _targets([task], MAX_ITEMS)[task.pk]
    found = _targets(compared, MAX_OTHER_ITEMS)
    return [(other, hit) for other in compared if (hit := _overlap(mine, found[other.pk])) is not None]


UNCERTAIN = "Each file arrives whole, but which of the two tasks writes it last is not certain."


def _name(user: User, task: Task) -> str:
    if task.owner_id != user.pk or not in_reach(task.source_id, task.destination_id):
        return "Another task"
    return f"Your task {task.pk}" + (f" ({quoted(task.label)})" if task.label else "")


def _targets(tasks: Collection[Task], most: int) -> dict[uuid.UUID, _Targets]:
    """The paths that each of these tasks writes, by its first items."""
    by_id = {task.pk: task for task in tasks}
    found = {task_id: _Targets() for task_id in by_id}
    for item in Item.objects.filter(Q(task__in=list(by_id)) & Q(position__lt=most)).order_by("task", "position"):
        task = by_id[item.task_id]
        found[task.pk].add(_on_servers(task, task.destination, item.destination_path or ""), item)
    return found


def _on_servers(task: Task, destination: Endpoint | None, path: str) -> str:
    """The path on the servers. A path in a home is one of the account, and is compared with those of its user only."""
    path = path.rstrip("/")
    if destination is not None and destination.host_id is not None:
        return (destination.host_path or "").rstrip("/") + (path[2:] if f"{path}/".startswith("/~/") else path)
    return f"{task.owner_id}:{path}" if f"{path}/".startswith("/~/") else path


def _overlap(mine: _Targets, theirs: _Targets) -> str | None:
    """A destination of mine that they write, too: the same path, or one inside a folder of the other."""
    for path, shown in mine.paths.items():
        if path in theirs.paths or any(above in theirs.folders for above in _above(path)):
            return shown
    inside = (above for path in theirs.paths for above in _above(path) if above in mine.folders)
    return next((mine.paths[above] for above in inside), None)


def _above(path: str) -> Iterator[str]:
    """The folders above a path, up to the root, which is ""."""
    while path:
        path = path.rpartition("/")[0]
        yield path
