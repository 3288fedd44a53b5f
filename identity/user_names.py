"""The names of users: `alice` here and in names of endpoints, `alice@example.org` as an identity that clients know.

Clients of Globus take a user name with an @ only. The domain is the operator's (WAYBILL_DOMAIN), else the host of the
service. Whatever takes a name of a user takes both forms, by `canonical`.
"""

from __future__ import annotations

from typing import Protocol
from urllib.parse import urlsplit

from django.conf import settings

#: Characters of a domain with its @.
MAX_DOMAIN = 254


class Named(Protocol):
    username: str


def domain() -> str:
    """The domain of the identities of this service, in lower case."""
    return str(settings.IDENTITY_DOMAIN or urlsplit(settings.PUBLIC_URL).hostname or "localhost").lower()


def identity_name(user: Named) -> str:
    """The name of a user as an identity. A user name that has a domain of its own stays as it is."""
    return user.username if "@" in user.username else f"{user.username}@{domain()}"


def is_of_this_service(user: Named) -> bool:
    """Whether the domain of the user's name as an identity is ours.

    A user name may have another domain, as directories and operators give them: it proves nothing about that domain.
    """
    return identity_name(user).rpartition("@")[2].lower() == domain()


def local(text: str) -> str:
    """A name without the domain of this service, in any case of its letters; another name stays as it is."""
    name, at, given = text.rpartition("@")
    return name if at and name and "@" not in name and given.lower() == domain() else text


def canonical(text: str) -> str:
    """The user name that this text means. A user whose very name it is comes first: an operator may have made one."""
    from .models import User

    short = local(text)
    if short == text or "\0" in text or User.objects.filter(username=text).exists():
        return text
    return short
