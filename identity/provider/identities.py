"""Identities for those who share data with them: every user of this service is one identity."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from identity import user_names
from identity.models import User

from . import openid


def by_id(ids: Sequence[uuid.UUID]) -> list[User]:
    """The users with these ids, in the given order; also inactive ones, because old rules still name them."""
    found = User.objects.in_bulk(list(ids))
    return [found[one] for one in dict.fromkeys(ids) if one in found]


def by_username(names: Sequence[str]) -> list[User]:
    """The active users with these names, in the given order.

    Both forms of a name are accepted; a user whose very name it is comes first (`user_names.canonical`).
    """
    plain = {name: user_names.local(name) for name in names if "\0" not in name}
    rows = User.objects.filter(username__in={*plain, *plain.values()}, is_active=True)
    known = {user.username: user for user in rows}
    found = [known.get(name) or known.get(short) for name, short in plain.items()]
    return [user for user in dict.fromkeys(found) if user is not None]


def provider_id() -> str:
    """The id of this service as an identity provider: the same for the same address."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, openid.issuer()))
