"""Consents of a user: list, also as trees of scopes with their dependencies, and withdraw."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from identity import audit
from identity.models import SignIn, User
from identity.signals import identity_removed, identity_renamed

from . import clients, issue, scopes

#: Consents in one answer; each of the user's sign-ins adds few.
MOST = 5000


@dataclass(slots=True)
class Consent:
    """A scope that a user has granted, or a dependency of one. Sign-ins of one client with the same scope are one."""

    #: Its place in the list, from 1.
    number: int
    #: The application; of a dependency, the id of the service above it.
    client: str
    scope: str
    user_id: uuid.UUID
    #: The numbers on the way from the root to this one, which is the last.
    way: list[int]
    optional: bool
    created: datetime
    updated: datetime


def of_user(user: User, client_id: str | None = None) -> list[SignIn]:
    """The user's consents that still hold a token, the latest first; client_id: those to this application."""
    found = SignIn.objects.select_related("application").filter(user=user)
    if client_id is not None:
        found = found.filter(application__client_id=client_id)
    return list(found.order_by("-created_at", "pk")[:1000])


def forest(sign_ins: Iterable[SignIn]) -> list[Consent]:
    """The scopes of these sign-ins and what depends on them, each after its parent."""
    found: dict[tuple[str, ...], Consent] = {}
    for sign_in in sign_ins:
        client = str(sign_in.application.client_id)
        for path, optional in _paths(sign_in):
            key = (client, *path)
            if known := found.get(key):
                known.created = min(known.created, sign_in.created_at)
                known.updated = max(known.updated, sign_in.created_at)
            elif len(found) < MOST and (len(path) == 1 or key[:-1] in found):
                above = found[key[:-1]].way if len(path) > 1 else []
                number, by = len(found) + 1, _service_id(path[-2]) if above else client
                times = (sign_in.created_at, sign_in.created_at)
                found[key] = Consent(number, by, path[-1], sign_in.user_id, [*above, number], optional, *times)
    return list(found.values())


def _paths(sign_in: SignIn) -> list[tuple[tuple[str, ...], bool]]:
    """Only of what was granted: what was requested is the text of the application."""
    granted = sign_in.scope.split()
    if sign_in.requested is None:
        return [((name,), False) for name in granted]
    return [(path, optional) for path, optional in scopes.paths(sign_in.requested) if path[0] in granted]


def _service_id(scope: str) -> str:
    """Clients expect a UUID: that of Globus where the scope has one, else one made from the name of the service."""
    server = scopes.resource_server(scope)
    try:
        return str(uuid.UUID(server))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, server))


def is_agreed(user: User, application: Application, names: Collection[str], *, offline: bool) -> bool:
    """Whether one valid consent of the user holds all of these scopes; offline: and allows access while away."""
    found = SignIn.objects.filter(user=user, application=application)
    if offline:
        renewals = RefreshToken.objects.filter(token_family=OuterRef("pk"), revoked__isnull=True)
        found = found.filter(Exists(renewals))
    latest = found.order_by("-created_at").values_list("scope", flat=True)[:50]
    return any(set(names) <= set(scope.split()) for scope in latest)


def listen() -> None:
    identity_removed.connect(_identity_removed, dispatch_uid="consents of a removed identity end")
    identity_renamed.connect(_identity_renamed, dispatch_uid="consents follow the name of their identity")


def _identity_removed(user: User, username: str, **_: object) -> None:
    """End the consents that were given in a sign-in with this identity, and all unused codes."""
    begun = list(SignIn.objects.select_related("application").filter(user=user, identity__iexact=username))
    for application in {sign_in.application for sign_in in begun}:
        audit.record(audit.What.CONSENT_WITHDRAWN, user, {**clients.facts(application), "identity": username})
    for sign_in in begun:
        issue.end(sign_in)
    # The text of a code names its identity, but cannot be searched; a program whose code is gone asks again.
    Grant.objects.filter(user=user).delete()


def _identity_renamed(user: User, username: str, before: str, **_: object) -> None:
    SignIn.objects.filter(user=user, identity__iexact=before).update(identity=username)


def withdraw(user: User, application: Application, actor: User | None = None) -> None:
    """Withdraw consent: revoke the application's tokens and unused codes for this user. actor: staff who do it."""
    audit.record(audit.What.CONSENT_WITHDRAWN, user, clients.facts(application), actor=actor)
    for sign_in in SignIn.objects.filter(user=user, application=application):
        issue.end(sign_in)
    Grant.objects.filter(user=user, application=application).delete()
    AccessToken.objects.filter(user=user, application=application).delete()
