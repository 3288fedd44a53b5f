"""Identities for those who share data with them: every user of this service is one, and so is each linked one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from identity import user_names
from identity.linked import services as linked_identities
from identity.linked import shown as shown_identity
from identity.linked.models import LinkedIdentity
from identity.models import User

from . import openid


@dataclass(frozen=True, slots=True)
class Identity:
    """The user's own identity (linked None), which has the id of the user, or a linked one of another provider."""

    user: User
    linked: LinkedIdentity | None = None

    @property
    def id(self) -> uuid.UUID:
        return self.user.pk if self.linked is None else self.linked.pk

    @property
    def username(self) -> str:
        return user_names.identity_name(self.user) if self.linked is None else self.linked.username

    @property
    def name(self) -> str:
        return (self.linked.name if self.linked is not None else "") or openid.name_of(self.user)

    @property
    def email(self) -> str:
        return self.user.email if self.linked is None else self.linked.email

    @property
    def organization(self) -> str | None:
        return (self.linked.organization or None) if self.linked is not None else None

    @property
    def provider_id(self) -> str:
        """The same for the same provider."""
        return provider_id() if self.linked is None else id_of_provider(self.linked.provider)

    @property
    def provider_name(self) -> str:
        if self.linked is None:
            return f"Waybill at {user_names.domain()}"
        return self.linked.organization or self.linked.username.rpartition("@")[2]


def of(user: User) -> list[Identity]:
    """All identities of a user, the primary one first."""
    found = [Identity(user, one) for one in linked_identities.of(user)]
    own = Identity(user)
    return [found[0], own, *found[1:]] if found and found[0].linked and found[0].linked.primary else [own, *found]


def shown(user: User) -> Identity:
    """The one that is shown for the user."""
    return Identity(user, shown_identity.primary_of(user))


def of_sign_in(user: User, username: str) -> Identity:
    """The identity with which the user has signed in. username: `name@domain`, or "": the user's own."""
    same = (one for one in linked_identities.of(user) if one.username.lower() == username.lower())
    return Identity(user, next(same, None))


def with_ids(ids: Sequence[uuid.UUID]) -> list[Identity]:
    """The identities with these ids, in the given order."""
    users = User.objects.in_bulk(list(ids))
    rest = [one for one in ids if one not in users]
    known = {pk: Identity(user) for pk, user in users.items()}
    known |= {pk: Identity(row.user, row) for pk, row in (linked_identities.by_id(rest) if rest else {}).items()}
    return [known[one] for one in dict.fromkeys(ids) if one in known]


def with_usernames(names: Sequence[str]) -> list[Identity]:
    """The identities of active users with these names, in the given order.

    Both forms of a name are accepted; a user whose very name it is comes first (`user_names.canonical`), and a name of
    this service comes before the same name of another provider.
    """
    plain = {name: user_names.local(name) for name in names if "\0" not in name}
    rows = User.objects.filter(username__in={*plain, *plain.values()}, is_active=True)
    known = {user.username: Identity(user) for user in rows}
    known |= _linked([name for name, short in plain.items() if not {name, short} & known.keys() and "@" in name])
    found = [known.get(name) or known.get(short) for name, short in plain.items()]
    return [one for one in dict.fromkeys(found) if one is not None]


def _linked(names: Sequence[str]) -> dict[str, Identity]:
    """By name: the linked identities with these names."""
    rows = linked_identities.by_username(names) if names else {}
    return {name: Identity(rows[name.lower()].user, rows[name.lower()]) for name in names if name.lower() in rows}


def by_id(ids: Sequence[uuid.UUID]) -> list[User]:
    """The users with these ids, in the given order; also inactive ones, because old rules still name them."""
    found = User.objects.in_bulk(list(ids))
    return [found[one] for one in dict.fromkeys(ids) if one in found]


def by_username(names: Sequence[str]) -> list[User]:
    """The active users with these names, in the given order, as `with_usernames`."""
    return list(dict.fromkeys(one.user for one in with_usernames(names)))


def id_of_provider(provider: str) -> str:
    """The id that clients see of a provider (`LinkedIdentity.provider`)."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, provider))


def provider_id() -> str:
    """The id of this service as an identity provider: the same for the same address."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, openid.issuer()))
