"""What a user sees of endpoints beside their rows: how he stands there, what he is there, what he may do there.

For lists: however many endpoints, the database is asked a handful of questions.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import prefetch_related_objects

from identity.models import User

from . import activation, permissions
from .activation import Standing
from .models import Endpoint
from .permissions import RoleName, Verb
from .registry import SERVERS


@dataclass(frozen=True, slots=True)
class Outlook:
    """One endpoint, as one user sees it."""

    #: Of a shared endpoint: its owner's at the host, which serves all its users.
    standing: Standing
    roles: frozenset[RoleName]
    #: He may share folders of it; he may change its access rules.
    shareable: bool = False
    editable: bool = False
    #: He may know which folder of which endpoint is shared here.
    knows_host: bool = False
    #: Nobody gets at what is shared: the host does not let its owner in.
    asleep: bool = False


def of(user: User, endpoint: Endpoint) -> Outlook:
    """-> as `of_all`"""
    return of_all(user, [endpoint])[endpoint.pk]


def of_all(user: User, endpoints: Iterable[Endpoint], now: datetime | None = None) -> dict[uuid.UUID, Outlook]:
    """Of endpoints that this user may view, as `registry.resolve` and `registry.search` give them."""
    rows = list(endpoints)
    prefetch_related_objects(rows, *SERVERS)
    standings = activation.standings_seen(user.pk, rows, now)
    held = permissions.roles_at(user, [*rows, *(row.host for row in rows if row.host is not None)])
    asleep = permissions.asleep_among(rows)
    return {row.pk: _outlook(row, standings[row.pk], held, row.pk in asleep) for row in rows}


def _outlook(row: Endpoint, standing: Standing, held: dict[uuid.UUID, frozenset[RoleName]], asleep: bool) -> Outlook:
    here = held[row.pk]
    if row.host_id is None:
        return Outlook(standing, here, shareable=permissions.lets_share(row, here))
    editable = permissions.gives(here, Verb.GRANT) and not asleep
    return Outlook(standing, here, editable=editable, knows_host=bool(here or held[row.host_id]), asleep=asleep)
