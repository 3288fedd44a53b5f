"""Groups of people."""

from __future__ import annotations

import uuid

from .models import Membership, User


def of(user: User) -> list[uuid.UUID]:
    """The ids of the groups that this user is an active member of."""
    return list(Membership.objects.filter(user=user, status="active").values_list("group_id", flat=True))
