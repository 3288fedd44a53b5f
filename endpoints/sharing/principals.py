"""Principals of roles and access rules: a user or a group, by id."""

from __future__ import annotations

import uuid

from identity import audit
from identity.error_categories import InvalidFieldError
from identity.models import Group, LinkedIdentity, User

IDENTITY, GROUP = "identity", "group"
EVERYBODY = frozenset({"all_authenticated_users", "anonymous"})


def known(principal_type: str, principal: str | None) -> uuid.UUID:
    """The id of an existing user, linked identity or group. Raises InvalidFieldError."""
    try:
        found = uuid.UUID(principal or "")
    except ValueError:
        raise InvalidFieldError("principal", "Expected the id of a user or of a group, a UUID.") from None
    if principal_type == IDENTITY and User.objects.filter(pk__in=users_of(found), is_active=True).exists():
        return found
    if principal_type == GROUP and Group.objects.filter(pk=found).exists():
        return found
    what = "group" if principal_type == GROUP else "user"
    raise InvalidFieldError("principal", f"There is no {what} with this id.")


def users_of(principal: uuid.UUID | None) -> list[uuid.UUID]:
    """The ids of the users that this id names: a user, or the user of a linked identity. At most one exists."""
    if principal is None:
        return []
    return [principal, *LinkedIdentity.objects.filter(pk=principal).values_list("user", flat=True)]


def record(what: audit.What, actor: User, principal_type: str, principal: uuid.UUID | None, facts: audit.Facts) -> None:
    """Write a grant to this principal to the audit log. Raises TOO_MANY_ACTS."""
    users = users_of(principal) if principal_type == IDENTITY else []
    user = User.objects.filter(pk__in=users).first()
    group = principal if principal_type == GROUP else ""
    audit.record_act(what, user, {"principal_type": principal_type, "group": group, **facts}, actor=actor)
