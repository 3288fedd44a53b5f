"""The identity providers that clients may look up: this service, and those by which its users sign in.

The id of a provider is made from who vouches (`LinkedIdentity.provider`), so it cannot be turned back: it is compared
with the ids of what is configured, of the institutions of the metadata, and of the identities of the user who asks,
whose providers may be configured no more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Q

from identity import user_names
from identity.models import Institution, User

from . import identities

#: Institutions in one answer.
MOST = 100


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """short_name: of the line of the operator; "": none. domains: of the names that it gives."""

    id: str
    name: str
    short_name: str
    domains: list[str]


def own() -> IdentityProvider:
    domain = user_names.domain()
    return IdentityProvider(identities.provider_id(), f"Waybill at {domain}", "waybill", [domain])


def find(viewer: User, ids: Collection[str] = (), domains: Collection[str] = ()) -> list[IdentityProvider]:
    """Find providers by ids and by domains. Without both: this service, and the configured ones."""
    found = {one.id: one for one in (own(), *_configured())}
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
        yield IdentityProvider(identities.id_of_provider(server.id), server.label, server.name, domains)


def _of_user(viewer: User, ids: Collection[str]) -> Iterator[IdentityProvider]:
    for one in identities.of(viewer):
        if one.provider_id in ids:
            yield IdentityProvider(one.provider_id, one.provider_name, "", [one.username.rpartition("@")[2].lower()])


def _institutions_with_ids(ids: Collection[str]) -> Iterator[IdentityProvider]:
    """A federation has some thousands: their entity ids are compared, and the rows of the right ones are read."""
    entities = Institution.objects.values_list("entity_id", flat=True).iterator()
    right = [entity for entity in entities if identities.id_of_provider(f"saml:{entity}") in ids]
    yield from map(_institution, Institution.objects.filter(entity_id__in=right).order_by("name")[:MOST])


def _institutions_of(domains: Collection[str]) -> Iterator[IdentityProvider]:
    wanted = Q()
    for domain in domains:
        wanted |= Q(scopes__contains=[domain])
    yield from map(_institution, Institution.objects.filter(wanted).order_by("name")[:MOST])


def _institution(row: Institution) -> IdentityProvider:
    domains = [scope for scope in row.scopes if isinstance(scope, str)]
    return IdentityProvider(identities.id_of_provider(f"saml:{row.entity_id}"), row.name, "", domains)
