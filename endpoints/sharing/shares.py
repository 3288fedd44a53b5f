"""Shared endpoints: a folder of an endpoint, with its own document, roles and rules.

`registry.py` has the functions for all endpoints (find, change, delete), `permissions.py` the permissions.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from endpoints import paths, registry
from endpoints.fields import checked_of_share
from endpoints.models import Endpoint
from endpoints.paths import BadPathError
from endpoints.permissions import Permission, reachable
from identity.error_categories import InvalidFieldError
from identity.models import User

MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class SharePage:
    """A page of a list; next_token: None if it is the last page."""

    rows: list[Endpoint]
    next_token: str | None


def create(user: User, host_ref: str, host_path: str, fields: Mapping[str, object]) -> Endpoint:
    """Share a folder of an endpoint; without a `name` the name of the share is its UUID.

    No server is asked whether the folder exists. Raises the errors of `registry.resolve` and `registry.create`.
    """
    host = registry.resolve(user, host_ref, Permission.VIEW)
    if host.host_id is not None:
        raise InvalidFieldError("host_endpoint", "This is a shared endpoint itself; share from the one it lies on.")
    registry.require(user, Permission.SHARE, host)
    share = Endpoint(id=uuid.uuid4(), owner=user, host=host, host_path=_folder(host_path), default_directory="/")
    with transaction.atomic():
        registry.lock_existing(user, host, Permission.SHARE)
        registry.insert(share, checked_of_share(share, host, fields))
    return share


def of_host(user: User, host_ref: str, *, limit: int = MAX_PAGE, token: str | None = None) -> SharePage:
    """The shares on this endpoint, of all owners, in pages, for managers of the endpoint.

    Raises the errors of `registry.resolve`, and InvalidFieldError for an invalid token.
    """
    host = registry.resolve(user, host_ref, Permission.OVERSEE)
    found = Endpoint.objects.filter(reachable(), host=host, deleted_at__isnull=True).order_by("id")
    if token:
        found = found.filter(id__gt=_token(token))
    rows = list(found[: limit + 1])
    return SharePage(rows[:limit], str(rows[limit - 1].pk) if len(rows) > limit else None)


def mine(user: User, host_ref: str) -> list[Endpoint]:
    """The user's own shares on this endpoint, by name. Raises the errors of `registry.resolve`."""
    host = registry.resolve(user, host_ref, Permission.VIEW)
    found = registry.existing().filter(reachable(), host=host, owner=user).prefetch_related(*registry.SERVERS)
    return list(found.order_by("display_name", "name", "id"))


def _folder(text: str) -> str:
    try:
        return paths.folder(text)
    except BadPathError as error:
        raise InvalidFieldError("host_path", str(error)) from None


def _token(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise InvalidFieldError("next_token", "This is not a valid page token.") from None
