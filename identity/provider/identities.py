"""Who our users are, for those who share with them: our users are all the identities there are."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from urllib.parse import urlsplit

from identity.models import User

from . import openid


def by_id(ids: Sequence[uuid.UUID]) -> list[User]:
    """Those that there are, in the order asked; also those who were shut out, for old rules still name them."""
    found = User.objects.in_bulk(list(ids))
    return [found[one] for one in dict.fromkeys(ids) if one in found]


def by_username(names: Sequence[str]) -> list[User]:
    """Those that there are, in the order asked, active ones only.

    A name may have our domain behind an @, for some clients take nothing else for a name; who is called so wins.
    """
    plain = {name: name.removesuffix(f"@{domain()}") for name in names if "\0" not in name}
    rows = User.objects.filter(username__in={*plain, *plain.values()}, is_active=True)
    known = {user.username: user for user in rows}
    found = [known.get(name) or known.get(short) for name, short in plain.items()]
    return [user for user in dict.fromkeys(found) if user is not None]


def domain() -> str:
    return urlsplit(openid.issuer()).hostname or "localhost"


def provider_id() -> str:
    """The one identity provider that we are: always the same for the same address."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, openid.issuer()))
