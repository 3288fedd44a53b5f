"""The name of a task for people: its label, else a text from its first item, such as "godata and 3 more to results".

Pages, the shell and mails show it, in the language that is active. It is not stored: in documents of the API, a task
without a label has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from endpoints.registry import canonical_name

from .models import Item, Task


def of(task: Task) -> str:
    """The name of a task. It may have characters that are not shown, as paths may."""
    return task.label or made(task)


def made(task: Task) -> str:
    """The name that a task without a label has. task: with its endpoints and their owners."""
    item = task.first_item
    if item is None:
        return _of_endpoints(task)
    words = {"what": _last(item.source_path) or _place(task), "count": task.items_total - 1}
    if task.destination is None:
        one, several = _("Deletion of %(what)s"), _several_deleted(task.items_total - 1)
    else:
        words["where"] = _target(item, task.items_total) or canonical_name(task.destination)
        one, several = _("%(what)s to %(where)s"), _several_copied(task.items_total - 1)
    return (several if task.items_total > 1 else one) % words


def read(tasks: Sequence[Task]) -> None:
    """Read the first items of these tasks at once, for their names."""
    found = {item.task_id: item for item in Item.objects.filter(task__in=tasks, position=0)}
    for task in tasks:
        task.first_item = found.get(task.pk)


def _several_copied(more: int) -> str:
    return ngettext("%(what)s and %(count)d more to %(where)s", "%(what)s and %(count)d more to %(where)s", more)


def _several_deleted(more: int) -> str:
    return ngettext("Deletion of %(what)s and %(count)d more", "Deletion of %(what)s and %(count)d more", more)


def _of_endpoints(task: Task) -> str:
    """The name of a task whose items are no longer known."""
    if task.destination is None:
        return _("Deletion on %(source)s") % {"source": canonical_name(task.source)}
    ends = {"source": canonical_name(task.source), "destination": canonical_name(task.destination)}
    return _("Transfer from %(source)s to %(destination)s") % ends


def _place(task: Task) -> str:
    """The word for a whole endpoint: the path of the item is its root or the home directory."""
    return canonical_name(task.source)


def _target(item: Item, items: int) -> str:
    """The name of the folder to which the item goes, or its new name; "" for the root and for the home directory."""
    path = item.destination_path or ""
    renamed = items == 1 and _last(path) != _last(item.source_path)
    return _last(path) if renamed else _last(path.rstrip("/").rpartition("/")[0])


def _last(path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return "" if name == "~" else name
