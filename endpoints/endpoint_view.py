"""A user's view of endpoints, beside their rows: activation status, roles, and what the user may do there.

A list of any length takes a constant number of queries.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import prefetch_related_objects

from identity.models import User
from identity.vault import store as vault

from . import permissions, registry
from .activation import status as activation
from .activation.status import ActivationStatus
from .connect.presence import Presence, presence_of
from .models import Endpoint
from .permissions import Permission, RoleName
from .protocols import USUAL


@dataclass(frozen=True, slots=True)
class EndpointView:
    """One endpoint, as one user sees it."""

    #: For a shared endpoint: the activation status of its owner at the host, which serves all its users.
    activation_status: ActivationStatus
    roles: frozenset[RoleName]
    #: The user may share folders of it; the user may change its access rules.
    shareable: bool = False
    editable: bool = False
    #: The user may see which folder of which endpoint is shared here.
    knows_host: bool = False
    #: The shared data is not accessible: the host no longer lets the share's owner share from it.
    non_functional: bool = False
    #: Of the agent of a personal endpoint; None: no agent serves it.
    presence: Presence | None = None


def views_for(user: User, endpoints: Iterable[Endpoint], now: datetime | None = None) -> dict[uuid.UUID, EndpointView]:
    """Views of endpoints that this user may view, as `registry.resolve` and `registry.search` return them."""
    rows = list(endpoints)
    prefetch_related_objects(rows, *registry.SERVERS)
    activation_statuses = activation.activation_statuses_seen(user.pk, rows, now)
    held = permissions.roles_at(user, [*rows, *(row.host for row in rows if row.host is not None)])
    non_functional = permissions.non_functional_among(rows)
    personal = [row.pk for row in rows if row.personal]
    present = presence_of(personal) if personal else {}
    views = {row.pk: _endpoint_view(row, activation_statuses[row.pk], held, row.pk in non_functional) for row in rows}
    return {pk: replace(view, presence=present.get(pk)) for pk, view in views.items()}


def _endpoint_view(
    row: Endpoint, activation_status: ActivationStatus, held: dict[uuid.UUID, frozenset[RoleName]], non_functional: bool
) -> EndpointView:
    here = held[row.pk]
    if row.host_id is None:
        return EndpointView(activation_status, here, shareable=permissions.permits_sharing(row, here))
    editable = permissions.role_permits(here, Permission.GRANT) and not non_functional
    return EndpointView(
        activation_status,
        here,
        editable=editable,
        knows_host=bool(here or held[row.host_id]),
        non_functional=non_functional,
    )


def in_words(user: User, ref: str) -> tuple[str, str]:
    """The endpoint's name with its id, and its servers, for messages. Raises the errors of `registry.resolve`.

    The servers of a shared endpoint's host are not named: not all users of the share may know them.
    """
    endpoint = registry.resolve(user, ref, Permission.VIEW)
    servers = ", ".join(f"{one.hostname}:{one.port}" for one in registry.servers(endpoint))
    name = f"{endpoint.display_name or registry.canonical_name(endpoint)} ({endpoint.pk})"
    return name, servers or ("none" if endpoint.host_id is None else "of its host")


def named_like(user: User, pattern: str, *, limit: int) -> list[str]:
    """The names of at most `limit` endpoints that this user may see: those that fit `owner#name*`, or `name*` for the
    user's own. `*` stands for any text.
    """
    owner, separator, name = pattern.rpartition("#")
    found = registry.existing().filter(permissions.visible(user))
    if not separator:
        found = found.filter(owner=user)
    for column, text in (("owner__username", owner), ("name", name)):
        if text:
            found = found.filter(**{f"{column}__regex": f"^{'.*'.join(map(re.escape, text.split('*')))}$"})
    return [registry.canonical_name(row) for row in found.order_by("owner__username", "name")[:limit]]


def usual_scheme(endpoint: Endpoint) -> str:
    """The scheme of a new server whose user names none: that of the other servers."""
    beside = registry.servers(endpoint)
    return beside[0].scheme if beside else USUAL


def activated_by(user: User) -> set[uuid.UUID]:
    """The endpoints that this user has activated, also where the credential has expired since."""
    return {uuid.UUID(place.partition(":")[2]) for place in vault.activated_places(user.pk)}


def public_names(user: User, *, limit: int, offset: int = 0) -> list[tuple[str, str]]:
    """Owner and name of each public endpoint that is visible to this user, in their order."""
    found = registry.existing().filter(permissions.visible(user), public=True).order_by("owner__username", "name")
    return list(found.values_list("owner__username", "name")[offset : offset + limit])
