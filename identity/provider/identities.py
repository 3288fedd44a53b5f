"""Identities, for those who share data with them, and the identity providers that clients may look up.

Every user of this service is an identity, and so is each linked one. The providers are this service, and those by which
its users sign in. The id of a provider is made from who vouches (`LinkedIdentity.provider`), so it cannot be turned
back: it is compared with the ids of what is configured, of the institutions of the metadata, and of the identities of
the user who asks, whose providers may be configured no more.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Q

from identity import linked_identities, user_names
from identity import shown_names as shown_identity
from identity.models import Institution, LinkedIdentity, User

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
    this service comes before the same name of another provider. A user name with a foreign domain, which a directory
    may give to anybody, comes after the identity that a provider of this name has proven.
    """
    plain = {name: user_names.local(name) for name in names if "\0" not in name}
    known = _users({*plain, *plain.values()})
    ours = {name for name, one in known.items() if user_names.is_of_this_service(one.user)}
    known |= _linked([name for name, short in plain.items() if not {name, short} & ours and "@" in name])
    found = [known.get(name) or known.get(short) for name, short in plain.items()]
    return [one for one in dict.fromkeys(found) if one is not None]


def _users(names: Collection[str]) -> dict[str, Identity]:
    """By name: the own identities of the active users with these names."""
    return {user.username: Identity(user) for user in User.objects.filter(username__in=names, is_active=True)}


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


#: Institutions in one answer.
MAX_PROVIDERS = 100


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """short_name: of the line of the operator; "": none. domains: of the names that it gives."""

    id: str
    name: str
    short_name: str
    domains: list[str]


def own_provider() -> IdentityProvider:
    domain = user_names.domain()
    return IdentityProvider(provider_id(), f"Waybill at {domain}", "waybill", [domain])


def find_providers(viewer: User, ids: Collection[str] = (), domains: Collection[str] = ()) -> list[IdentityProvider]:
    """Find providers by ids and by domains. Without both: this service, and the configured ones."""
    found = {one.id: one for one in (own_provider(), *_configured())}
    if missing := set(ids) - found.keys():
        found |= {one.id: one for one in (*_of_user(viewer, missing), *_institutions_with_ids(missing))}
    elif domains:
        found |= {one.id: one for one in _institutions_of(domains) if one.id not in found}
    return [
        one for one in found.values() if (not ids or one.id in ids) and (not domains or set(one.domains) & set(domains))
    ]


def _configured() -> Iterator[IdentityProvider]:
    servers: list[Any] = [*settings.PROVIDERS.values(), *settings.MYPROXY_SIGN_IN.values()]
    for server in servers:
        domains = [server.domain] if server.domain else []
        yield IdentityProvider(id_of_provider(server.id), server.label, server.name, domains)


def _of_user(viewer: User, ids: Collection[str]) -> Iterator[IdentityProvider]:
    for one in of(viewer):
        if one.provider_id in ids:
            yield IdentityProvider(one.provider_id, one.provider_name, "", [one.username.rpartition("@")[2].lower()])


def _institutions_with_ids(ids: Collection[str]) -> Iterator[IdentityProvider]:
    """A federation has some thousands: their entity ids are compared, and the rows of the right ones are read."""
    entities = Institution.objects.values_list("entity_id", flat=True).iterator()
    right = [entity for entity in entities if id_of_provider(f"saml:{entity}") in ids]
    yield from map(_institution, Institution.objects.filter(entity_id__in=right).order_by("name")[:MAX_PROVIDERS])


def _institutions_of(domains: Collection[str]) -> Iterator[IdentityProvider]:
    wanted = Q()
    for domain in domains:
        wanted |= Q(scopes__contains=[domain])
    yield from map(_institution, Institution.objects.filter(wanted).order_by("name")[:MAX_PROVIDERS])


def _institution(row: Institution) -> IdentityProvider:
    domains = [scope for scope in row.scopes if isinstance(scope, str)]
    return IdentityProvider(id_of_provider(f"saml:{row.entity_id}"), row.name, "", domains)
