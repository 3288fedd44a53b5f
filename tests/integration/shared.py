"""Short ways to shared endpoints and their rules."""

from __future__ import annotations

from datetime import datetime

from endpoints.models import AccessRule, Endpoint
from identity.models import User


def make_share(host: Endpoint, name: str, folder: str = "/shared/", *, owner: User | None = None) -> Endpoint:
    """Create a share of a folder of the host, by the host's owner or by another user whom the host allows to share."""
    if owner is not None and owner != host.owner:
        host.allow_guest_collections = True
        host.save(update_fields=["allow_guest_collections"])
    return Endpoint.objects.create(owner=owner or host.owner, name=name, display_name=name, host=host, host_path=folder)


def give(
    share: Endpoint, user: User, path: str = "/", *, write: bool = False, expires_at: datetime | None = None
) -> AccessRule:
    return AccessRule.objects.create(
        endpoint=share,
        principal_type="identity",
        principal=user.pk,
        path=path,
        permissions="rw" if write else "r",
        created_by=share.owner,
        expires_at=expires_at,
    )
