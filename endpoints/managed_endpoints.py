"""Endpoints as their managers see them: which ones they manage, the shares on them, and the shares' access rules.

Every function raises the errors of `registry.resolve`, and NotSharedError.
"""

from __future__ import annotations

from identity.models import User

from . import registry
from .models import AccessRule, Endpoint
from .permissions import Permission, endpoints_by_role, reachable
from .sharing import access_rules as rules

#: Rows of one list.
MAX_LISTED = 1000


def monitored(user: User) -> list[Endpoint]:
    """The endpoints whose tasks this user may see, by name, at most MAX_LISTED."""
    found = registry.existing().filter(endpoints_by_role(user, Permission.OVERSEE))
    return list(found.order_by("display_name", "name", "id")[:MAX_LISTED])


def has_any(user: User) -> bool:
    """Whether `monitored` returns an endpoint."""
    return Endpoint.objects.filter(endpoints_by_role(user, Permission.OVERSEE)).exists()


def get(user: User, ref: str) -> Endpoint:
    """One of these endpoints."""
    return registry.resolve(user, ref, Permission.OVERSEE)


def shares_on(user: User, ref: str) -> list[Endpoint]:
    """The shared endpoints on one of these endpoints, of all owners."""
    found = registry.existing().filter(reachable(), host=get(user, ref))
    return list(found.order_by("display_name", "name", "id")[:MAX_LISTED])


def access_rules(user: User, ref: str) -> tuple[Endpoint, list[AccessRule]]:
    """The access rules of a shared endpoint, whose number is limited."""
    return rules.of_share(user, ref, Permission.OVERSEE)
