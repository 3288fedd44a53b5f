"""The one place that says who may do what to an endpoint."""

from __future__ import annotations

from enum import StrEnum

from identity.models import User

from .models import Endpoint


class Verb(StrEnum):
    VIEW = "view"  # know that it exists, read its document
    ACTIVATE = "activate"  # give a credential of one's own for it, take it back
    BROWSE = "browse"  # ls, stat
    WRITE = "write"  # mkdir, rename, delete tasks
    TRANSFER_FROM = "transfer_from"
    TRANSFER_TO = "transfer_to"
    MANAGE = "manage"  # change the document and the servers, delete it


#: A public endpoint is visible to all and usable by all, as far as the server behind it lets them.
_PUBLIC = frozenset(Verb) - {Verb.MANAGE}


def may(user: User, verb: Verb, endpoint: Endpoint) -> bool:
    """Whether this user may do this to this endpoint. A deleted endpoint is nobody's."""
    if endpoint.deleted_at is not None or not user.is_active:
        return False
    if endpoint.owner_id == user.pk:
        return True
    return endpoint.public and verb in _PUBLIC
