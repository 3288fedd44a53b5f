"""The permission of a task's owner to use its endpoints: checked when a worker takes the task, and while it holds it.

On an endpoint that is not shared, the servers themselves decide who may read and write which path.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from django.db.models import prefetch_related_objects

from endpoints.errors import NotPermittedError
from endpoints.gridftp.faults import Side
from endpoints.models import Endpoint
from endpoints.permissions import Permission
from endpoints.registry import canonical_name
from endpoints.sharing import access
from endpoints.sharing.access import Access
from identity.models import User
from transferapi.tasks.models import Task
from transferapi.tasks.states import TaskType

NOT_SHARED = (
    "The owner of the task has no access to the shared endpoint {} any more: "
    "its access rules were withdrawn or have expired, or it was deleted."
)
NOT_PERMITTED = "The owner of the task may not use one of its endpoints any more, or the endpoint was deleted."


class AccessRefusal(NamedTuple):
    """The code and the description of the fatal error of a task whose owner has no access any more."""

    code: str
    description: str


def accesses(task: Task) -> Mapping[Side, Access] | AccessRefusal:
    """The owner's access to each endpoint of the task, which has read them (`queries.read_endpoints`)."""
    ends = {Side(side): endpoint for side, endpoint in task.ends.items()}
    prefetch_related_objects([*ends.values()], "servers", "host__servers")
    found: dict[Side, Access] = {}
    for side, endpoint in ends.items():
        if (granted := _access(task.owner, endpoint, _needed(side, is_delete=task.type == TaskType.DELETE))) is None:
            return _refusal(endpoint)
        found[side] = granted
    return found


def present_access(owner_id: uuid.UUID, endpoint_id: uuid.UUID, side: Side, *, is_delete: bool) -> Access | None:
    """The access of a task's owner to one of its endpoints now; None: the owner has none any more."""
    owner = User.objects.get(pk=owner_id)
    rows = Endpoint.objects.select_related("owner", "host__owner").prefetch_related("servers", "host__servers")
    return _access(owner, rows.get(pk=endpoint_id), _needed(side, is_delete=is_delete))


def _access(user: User, endpoint: Endpoint, permission: Permission) -> Access | None:
    try:
        return access.of(user, endpoint, permission)
    except NotPermittedError:
        return None


def _needed(side: Side, *, is_delete: bool) -> Permission:
    if side is Side.DESTINATION:
        return Permission.TRANSFER_TO
    return Permission.WRITE if is_delete else Permission.TRANSFER_FROM


def _refusal(endpoint: Endpoint) -> AccessRefusal:
    if endpoint.host_id is None:
        return AccessRefusal("PERMISSION_DENIED", NOT_PERMITTED)
    return AccessRefusal("ACL_CHANGED", NOT_SHARED.format(canonical_name(endpoint)))
