"""Shared endpoints: a folder of an endpoint, with a document, roles and rules of its own.

What is common to all endpoints (find, change, delete) is in `registry.py`; who may do what on them in `permissions.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction

from identity.models import User

from . import paths, registry
from .errors import EndpointInvalidError
from .fields import checked_of_share
from .models import Endpoint
from .paths import BadPathError
from .permissions import Verb

MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class SharePage:
    """A part of a list; next_token None: nothing comes after it."""

    rows: list[Endpoint]
    next_token: str | None


def create(user: User, host_ref: str, host_path: str, fields: Mapping[str, object]) -> Endpoint:
    """Share a folder of an endpoint; without a `name` the share is called by its UUID.

    Whether the folder is there, nobody asks: no server is looked at. -> as `registry.resolve` and `registry.create`
    """
    host = registry.resolve(user, host_ref, Verb.VIEW)
    if host.host_id is not None:
        raise EndpointInvalidError("host_endpoint", "This is a shared endpoint itself; share from the one it lies on.")
    registry.require(user, Verb.SHARE, host)
    share = Endpoint(id=uuid.uuid4(), owner=user, host=host, host_path=_folder(host_path), default_directory="/")
    with transaction.atomic():
        registry.still(user, host, Verb.SHARE)
        registry.insert(share, checked_of_share(share, host, fields))
    return share


def of_host(user: User, host_ref: str, *, limit: int = MAX_PAGE, token: str | None = None) -> SharePage:
    """What is shared from this endpoint, by whomever, in pages. For those who run it.

    -> as `registry.resolve`; EndpointInvalidError for a token that is none
    """
    host = registry.resolve(user, host_ref, Verb.OVERSEE)
    found = Endpoint.objects.filter(host=host, deleted_at__isnull=True).order_by("id")
    if token:
        found = found.filter(id__gt=_token(token))
    rows = list(found[: limit + 1])
    return SharePage(rows[:limit], str(rows[limit - 1].pk) if len(rows) > limit else None)


def mine(user: User, host_ref: str) -> list[Endpoint]:
    """What this user shares from this endpoint, by name. -> as `registry.resolve`"""
    host = registry.resolve(user, host_ref, Verb.VIEW)
    found = registry.living().filter(host=host, owner=user).prefetch_related(*registry.SERVERS)
    return list(found.order_by("display_name", "name", "id"))


def _folder(text: str) -> str:
    try:
        return paths.folder(text)
    except BadPathError as error:
        raise EndpointInvalidError("host_path", str(error)) from None


def _token(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise EndpointInvalidError("next_token", "This is no token of a page.") from None
