"""The end of what a deleted user owned or was given: endpoints with shares, roles, access rules and bookmarks."""

from __future__ import annotations

from django.db.models import Q
from django.db.models.functions import Now

from endpoints.models import AccessRule, Bookmark, Endpoint, Role
from identity.models import User
from identity.vault import store as vault

from . import principals


def user_deleted(user: User, **_: object) -> None:
    """In the transaction of the deletion. The rows of endpoints stay while tasks refer to them."""
    owned = Endpoint.objects.filter(Q(owner=user) | Q(host__owner=user), deleted_at__isnull=True)
    keys = list(owned.values_list("pk", flat=True))
    # First the hosts: a transaction that creates a share on one locks its row.
    for rows in (owned.filter(host__isnull=True), owned):
        rows.update(deleted_at=Now())
    for key in keys:
        vault.forget_all(vault.endpoint_binding(key))
    for model in (Role, AccessRule):
        model.objects.filter(principal_type=principals.IDENTITY, principal=user.pk).delete()
    Bookmark.objects.filter(user=user).delete()
