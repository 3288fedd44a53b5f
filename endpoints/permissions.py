"""The one place that says who may do what to an endpoint. Where on a shared endpoint he may do it: see `access.py`."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from identity.models import Membership, User

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
    if endpoint.owner_id == user.pk or verb in _of_the_public(endpoint):
        return True
    return gives(roles(user, endpoint), verb)


def lets_share(endpoint: Endpoint, held: Iterable[RoleName]) -> bool:
    """Whether folders of this endpoint, which is no share, may be shared by who has these roles there."""
    return gives(held, Verb.SHARE) or Verb.SHARE in _of_the_public(endpoint)


def _of_the_public(endpoint: Endpoint) -> frozenset[Verb]:
    """What everybody may do who knows it. Who shares a folder of a public endpoint lends what he may do himself."""
    if not endpoint.public:
        return frozenset()
    return _PUBLIC | {Verb.SHARE} if endpoint.allow_guest_collections else _PUBLIC


def _may_share(user: User, verb: Verb, endpoint: Endpoint) -> bool:
    """A share lives as long as its owner may share from its host. Nobody activates it, or shares from it."""
    host = endpoint.host
    assert host is not None
    if verb in (Verb.ACTIVATE, Verb.SHARE):
        return False
    if not awake(endpoint):
        mine = endpoint.owner_id == user.pk or may(user, Verb.MANAGE, host)
        return mine and verb in (Verb.VIEW, Verb.MANAGE)
    held = roles(user, endpoint)
    if gives(held, verb) or (verb in _DATA and held & _UNRULED):
        return True
    if verb in _OF_HOSTS and may(user, verb, host) and not (verb is Verb.VIEW and not roles(user, host)):
        return True
    if verb is Verb.VIEW and endpoint.public:
        return True
    if verb is Verb.VIEW or verb in _DATA:
        rules = rules_for(user, endpoint)
        return any(verb is Verb.VIEW or verb in READING or rule.permissions == "rw" for rule in rules)
    return False


def awake(share: Endpoint) -> bool:
    """Whether its owner may still share from its host: else nobody gets at what is shared."""
    return share.host is not None and share.owner.is_active and may(share.owner, Verb.SHARE, share.host)


def roles(user: User, endpoint: Endpoint) -> frozenset[RoleName]:
    """What this user is for this endpoint; its owner is an administrator."""
    if endpoint.owner_id == user.pk:
        return frozenset({RoleName.ADMINISTRATOR})
    held = Role.objects.filter(_is_principal(user), endpoint=endpoint).values_list("role", flat=True)
    return frozenset(map(RoleName, held))


def roles_at(user: User, endpoints: Iterable[Endpoint]) -> dict[uuid.UUID, frozenset[RoleName]]:
    """The same for many endpoints, with one question to the database."""
    rows = list(endpoints)
    held: defaultdict[uuid.UUID, set[RoleName]] = defaultdict(set)
    if others := {row.pk for row in rows if row.owner_id != user.pk}:
        found = Role.objects.filter(_is_principal(user), endpoint__in=others)
        for pk, role in found.values_list("endpoint_id", "role"):
            held[pk].add(RoleName(role))
    owned = frozenset({RoleName.ADMINISTRATOR})
    return {row.pk: owned if row.owner_id == user.pk else frozenset(held[row.pk]) for row in rows}


def asleep_among(endpoints: Iterable[Endpoint]) -> set[uuid.UUID]:
    """The shares among these that are not `awake`."""
    shares = [row.pk for row in endpoints if row.host_id is not None]
    found = Endpoint.objects.filter(~awake_rows(), pk__in=shares) if shares else Endpoint.objects.none()
    return set(found.values_list("pk", flat=True))


def gives(held: Iterable[RoleName], verb: Verb) -> bool:
    """Whether one of these roles is enough for this."""
    return any(verb in _OF_ROLES[role] for role in held)


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


# ---- the same for the database: which rows there are for a user


def visible(user: User) -> Q:
    """The endpoints for which `may(user, VIEW, ...)` says yes, deleted ones aside."""
    if not user.is_active:
        return Q(pk__in=[])
    mine = Q(owner=user)
    plain = Q(host__isnull=True) & (Q(public=True) | _has_role(user, "pk"))
    run = Q(host__deleted_at__isnull=True) & (Q(host__owner=user) | _has_role(user, "host", RoleName.ADMINISTRATOR))
    overseen = Q(host__owner=user) | _has_role(user, "host")
    given = Q(public=True) | _has_role(user, "pk") | overseen | has_rule(user)
    return mine | plain | (Q(host__isnull=False) & (run | (awake_rows() & given)))


def administered(user: User) -> Q:
    """The endpoints that this user is an administrator of."""
    return Q(owner=user) | _has_role(user, "pk", RoleName.ADMINISTRATOR)


def shared_with(user: User) -> Q:
    """What others share with this user, or with a group of his; not what they share with everybody."""
    by_name = Q(principal_type__in=["identity", "group"])
    return Q(host__isnull=False) & ~Q(owner=user) & (has_rule(user, by_name) | _has_role(user, "pk"))


def running(user: User, verb: Verb) -> Q:
    """The living endpoints for which `may` says yes, of a verb that roles alone give (OVERSEE, CONTROL)."""
    if not user.is_active:
        return Q(pk__in=[])
    giving = [role for role, verbs in _OF_ROLES.items() if verb in verbs]
    own = Q(owner=user) | _has_role(user, "pk", *giving)
    of_host = Q(host__owner=user) | _has_role(user, "host", *giving)
    return Q(deleted_at__isnull=True) & ((Q(host__isnull=True) & own) | (awake_rows() & (own | of_host)))


def has_rule(user: User, more: Q | None = None) -> Q:
    """The shared endpoints with a rule that holds for this user."""
    rules = AccessRule.objects.filter(holding_rules(user) & (more or Q()), endpoint=OuterRef("pk"))
    return Q(Exists(rules))


def _has_role(user: User, endpoint: str, *names: RoleName) -> Q:
    """One of these roles, or any. endpoint: the field with the endpoint's id, of the rows that are asked about."""
    held = Role.objects.filter(_is_principal(user), endpoint=OuterRef(endpoint))
    return Q(Exists(held.filter(role__in=names) if names else held))


def awake_rows() -> Q:
    """The shares for which `awake` says yes."""
    groups_of_owner = Membership.objects.filter(user=OuterRef(OuterRef("owner")), status="active")
    letting = [role for role, verbs in _OF_ROLES.items() if Verb.SHARE in verbs]
    to_owner = Q(principal_type="identity", principal=OuterRef("owner")) | Q(
        principal_type="group", principal__in=groups_of_owner.values("group_id")
    )
    held = Role.objects.filter(to_owner, endpoint=OuterRef("host"), role__in=letting)
    lets = Q(host__owner=F("owner")) | Q(host__public=True, host__allow_guest_collections=True) | Q(Exists(held))
    return Q(host__deleted_at__isnull=True, owner__is_active=True) & lets


def _is_principal(user: User) -> Q:
    mine = Membership.objects.filter(user=user, status="active")
    return Q(principal_type="identity", principal=user.pk) | Q(
        principal_type="group", principal__in=mine.values("group_id")
    )
