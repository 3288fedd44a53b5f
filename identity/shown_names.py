"""The name that is shown for a user: of the primary identity, else the user's own.

Lists `load` it for all of their users in one query; otherwise it is looked up when it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import user_names
from .database_rows import single_row
from .models import LinkedIdentity, User

_LOADED = "_shown_identity"


def load(users: Iterable[User]) -> None:
    """Look up what is shown for these users, at once; the objects keep it."""
    found = list(users)
    rows = LinkedIdentity.objects.filter(user__in={user.pk for user in found}, primary=True) if found else ()
    primary = {row.user_id: row for row in rows}
    for user in found:
        setattr(user, _LOADED, primary.get(user.pk))


def primary_of(user: User) -> LinkedIdentity | None:
    """The identity that is shown for the user; None: the user's own name."""
    if hasattr(user, _LOADED):
        loaded: LinkedIdentity | None = getattr(user, _LOADED)
        return loaded
    return single_row(LinkedIdentity.objects.filter(user=user, primary=True))


def name_of(user: User) -> str:
    """For programs: `name@domain`."""
    primary = primary_of(user)
    return user_names.identity_name(user) if primary is None else primary.username


def short_name_of(user: User) -> str:
    """For people: a name of this service stands without its domain."""
    primary = primary_of(user)
    return user.username if primary is None else primary.username
