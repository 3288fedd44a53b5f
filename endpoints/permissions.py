"""The one place that says who may do what to an endpoint. Where on a shared endpoint he may do it: see `access.py`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from django.db.models import Q
from django.utils import timezone

from identity import groups
from identity.models import User

from .models import AccessRule, Endpoint, Role


class Verb(StrEnum):
    VIEW = "view"  # know that it exists, read its document
    ACTIVATE = "activate"  # give a credential of one's own for it, take it back
    BROWSE = "browse"  # ls, stat
    WRITE = "write"  # mkdir, rename, delete tasks
    TRANSFER_FROM = "transfer_from"
    TRANSFER_TO = "transfer_to"
    SHARE = "share"  # share folders of it
    GRANT = "grant"  # change the access rules of a shared endpoint
    OVERSEE = "oversee"  # see the tasks of all users on it
    CONTROL = "control"  # pause and end them
    APPOINT = "appoint"  # give roles, take them back
    MANAGE = "manage"  # change the document and the servers, delete it


class RoleName(StrEnum):
    """Besides the owner, who is an administrator."""

    ADMINISTRATOR = "administrator"
    ACCESS_MANAGER = "access_manager"
    ACTIVITY_MANAGER = "activity_manager"
    ACTIVITY_MONITOR = "activity_monitor"


_DATA = frozenset({Verb.BROWSE, Verb.WRITE, Verb.TRANSFER_FROM, Verb.TRANSFER_TO})
READING = frozenset({Verb.BROWSE, Verb.TRANSFER_FROM})
#: A public endpoint is visible to all and usable by all, as far as the server behind it lets them.
_PUBLIC = _DATA | {Verb.VIEW, Verb.ACTIVATE}
_OF_ROLES: dict[RoleName, frozenset[Verb]] = {
    RoleName.ADMINISTRATOR: frozenset(Verb),
    RoleName.ACCESS_MANAGER: frozenset({Verb.VIEW, Verb.GRANT}),
    RoleName.ACTIVITY_MANAGER: frozenset({Verb.VIEW, Verb.OVERSEE, Verb.CONTROL}),
    RoleName.ACTIVITY_MONITOR: frozenset({Verb.VIEW, Verb.OVERSEE}),
}
#: Who may read and write everywhere on a shared endpoint, without a rule.
_UNRULED = frozenset({RoleName.ADMINISTRATOR, RoleName.ACCESS_MANAGER})
#: What those who run the host may do to what others share of it: not read it with another one's credential.
_OF_HOSTS = frozenset({Verb.VIEW, Verb.OVERSEE, Verb.CONTROL, Verb.MANAGE})


def may(user: User, verb: Verb, endpoint: Endpoint) -> bool:
    """Whether this user may do this to this endpoint. A deleted endpoint is nobody's.

    Of a shared one, the data verbs say that there is something for him there; `access.of` says where.
    """
    if endpoint.deleted_at is not None or not user.is_active:
        return False
    if endpoint.host_id is not None:
        return _may_share(user, verb, endpoint)
    if endpoint.owner_id == user.pk or (endpoint.public and verb in _PUBLIC):
        return True
    return any(verb in _OF_ROLES[role] for role in roles(user, endpoint))


def _may_share(user: User, verb: Verb, endpoint: Endpoint) -> bool:
    """A share lives as long as its host does and lets its owner in. Nobody activates it, or shares from it."""
    host = endpoint.host
    assert host is not None
    if verb in (Verb.ACTIVATE, Verb.SHARE) or not (endpoint.owner.is_active and may(endpoint.owner, Verb.BROWSE, host)):
        return verb in (Verb.VIEW, Verb.MANAGE) and endpoint.owner_id == user.pk
    held = roles(user, endpoint)
    if any(verb in _OF_ROLES[role] for role in held) or (verb in _DATA and held & _UNRULED):
        return True
    if verb in _OF_HOSTS and may(user, verb, host) and not (verb is Verb.VIEW and not roles(user, host)):
        return True
    if verb is Verb.VIEW and endpoint.public:
        return True
    if verb is Verb.VIEW or verb in _DATA:
        rules = rules_for(user, endpoint)
        return any(verb is Verb.VIEW or verb in READING or rule.permissions == "rw" for rule in rules)
    return False


def roles(user: User, endpoint: Endpoint) -> frozenset[RoleName]:
    """What this user is for this endpoint; its owner is an administrator."""
    if endpoint.owner_id == user.pk:
        return frozenset({RoleName.ADMINISTRATOR})
    held = Role.objects.filter(_is_principal(user), endpoint=endpoint).values_list("role", flat=True)
    return frozenset(map(RoleName, held))


def unruled(user: User, endpoint: Endpoint) -> bool:
    """Whether no rule of this shared endpoint binds this user."""
    return bool(roles(user, endpoint) & _UNRULED)


def rules_for(user: User, endpoint: Endpoint, now: datetime | None = None) -> list[AccessRule]:
    """The rules of a shared endpoint that give this user something, today."""
    return list(AccessRule.objects.filter(holding_rules(user, now), endpoint=endpoint))


def holding_rules(user: User, now: datetime | None = None) -> Q:
    """Which AccessRule rows hold for this user: for the database."""
    everybody = Q(principal_type__in=["all_authenticated_users", "anonymous"])
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now or timezone.now())
    return alive & (everybody | _is_principal(user))


def holding_roles(user: User) -> Q:
    """Which Role rows are this user's: for the database."""
    return _is_principal(user)


def _is_principal(user: User) -> Q:
    mine: Iterable[uuid.UUID] = groups.of(user)
    return Q(principal_type="identity", principal=user.pk) | Q(principal_type="group", principal__in=list(mine))
