"""Permissions on endpoints, the only place that decides them; paths on a shared endpoint: `sharing/access.py`.

A session may be restricted to some endpoints (`restricted_to`): for its calls, the other endpoints do not exist.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum

from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Now

from identity.database_rows import enum_value
from identity.models import LinkedIdentity, Membership, User

from .models import AccessRule, Endpoint, Role


class Permission(StrEnum):
    VIEW = "view"  # know that it exists, read its document
    ACTIVATE = "activate"  # give and remove one's own credential for it
    BROWSE = "browse"  # ls, stat
    WRITE = "write"  # mkdir, rename, delete tasks
    TRANSFER_FROM = "transfer_from"
    TRANSFER_TO = "transfer_to"
    SHARE = "share"  # share folders of it
    GRANT = "grant"  # change the access rules of a shared endpoint
    OVERSEE = "oversee"  # see the tasks of all users on it
    CONTROL = "control"  # pause and end them
    APPOINT = "appoint"  # give and remove roles
    MANAGE = "manage"  # change the document and the servers, delete it


class RoleName(StrEnum):
    """Roles of users and groups; the owner is an administrator."""

    ADMINISTRATOR = "administrator"
    ACCESS_MANAGER = "access_manager"
    ACTIVITY_MANAGER = "activity_manager"
    ACTIVITY_MONITOR = "activity_monitor"


#: Permissions for data: the others change no data and read none.
DATA = frozenset({Permission.BROWSE, Permission.WRITE, Permission.TRANSFER_FROM, Permission.TRANSFER_TO})
READING = frozenset({Permission.BROWSE, Permission.TRANSFER_FROM})
#: A public endpoint is visible to all users, and all may use it within the limits of its server.
_PUBLIC = DATA | {Permission.VIEW, Permission.ACTIVATE}
_OF_ROLES: dict[RoleName, frozenset[Permission]] = {
    RoleName.ADMINISTRATOR: frozenset(Permission),
    RoleName.ACCESS_MANAGER: frozenset({Permission.VIEW, Permission.GRANT}),
    RoleName.ACTIVITY_MANAGER: frozenset({Permission.VIEW, Permission.OVERSEE, Permission.CONTROL}),
    RoleName.ACTIVITY_MONITOR: frozenset({Permission.VIEW, Permission.OVERSEE}),
}
#: Roles that may read and write everywhere on a shared endpoint, without a rule.
_FULL_ACCESS = frozenset({RoleName.ADMINISTRATOR, RoleName.ACCESS_MANAGER})
#: Permissions of the host's managers on shares of others: they may not read with another user's credential.
_OF_HOSTS = frozenset({Permission.VIEW, Permission.OVERSEE, Permission.CONTROL, Permission.MANAGE})


#: The endpoints of the session that makes the present call; None: all.
_RESTRICTION: ContextVar[frozenset[uuid.UUID] | None] = ContextVar("restriction", default=None)


@contextmanager
def restricted_to(endpoints: Collection[uuid.UUID] | None) -> Iterator[None]:
    """Within this block, no other endpoint exists for `may`, for the filters below, and for the lists of tasks.

    A shared endpoint and its host are two endpoints: each is reachable only if it is named. The restriction holds for
    the calls of this thread (and of coroutines that it runs); a block within a block only narrows it. None: no change.
    """
    present = _RESTRICTION.get()
    wanted = present if endpoints is None else frozenset(endpoints)
    token = _RESTRICTION.set(wanted if present is None or wanted is None else wanted & present)
    try:
        yield
    finally:
        _RESTRICTION.reset(token)


def is_restricted() -> bool:
    """Whether this session is restricted to some endpoints."""
    return _RESTRICTION.get() is not None


def in_reach(*endpoints: uuid.UUID | None) -> bool:
    """Whether all these endpoints exist for this session. None stands for no endpoint, as a deletion has it."""
    known = _RESTRICTION.get()
    return known is None or all(one is None or one in known for one in endpoints)


def reachable(field: str = "pk") -> Q:
    """The same as a filter. field: the column with the endpoint's id; where it is null, the row is selected."""
    known = _RESTRICTION.get()
    return Q() if known is None else Q(**{f"{field}__in": list(known)}) | Q(**{f"{field}__isnull": True})


def may(user: User, verb: Permission, endpoint: Endpoint) -> bool:
    """Whether this user may do this to this endpoint. On a deleted endpoint nothing is permitted.

    For a shared endpoint, a data verb means that some path is permitted; `access.of` gives the paths.
    """
    return in_reach(endpoint.pk) and _holds(user, verb, endpoint)


def _holds(user: User, verb: Permission, endpoint: Endpoint) -> bool:
    """As `may`, without the restriction of the session: also for other users, and for the host of a share."""
    if endpoint.deleted_at is not None or not user.is_active:
        return False
    if endpoint.host_id is not None:
        return _may_share(user, verb, endpoint)
    if endpoint.owner_id == user.pk or verb in _of_the_public(endpoint):
        return True
    return role_permits(roles(user, endpoint), verb)


def permits_sharing(endpoint: Endpoint, held: Iterable[RoleName]) -> bool:
    """Whether a user with these roles may share folders of this endpoint, which is not a share itself."""
    return role_permits(held, Permission.SHARE) or Permission.SHARE in _of_the_public(endpoint)


def _of_the_public(endpoint: Endpoint) -> frozenset[Permission]:
    """Permissions of every user. A user who shares a folder of a public endpoint shares their own access rights.

    Behind an agent there is one account for all, that of its owner: others get shared folders of it.
    """
    if not endpoint.public:
        return frozenset()
    if endpoint.personal:
        return frozenset({Permission.VIEW})
    return _PUBLIC | {Permission.SHARE} if endpoint.allow_guest_collections else _PUBLIC


def _may_share(user: User, verb: Permission, endpoint: Endpoint) -> bool:
    """A share works as long as its owner may share from its host. Shares are not activated, and not shared again."""
    host = endpoint.host
    assert host is not None
    if verb in (Permission.ACTIVATE, Permission.SHARE):
        return False
    if not is_functional(endpoint):
        mine = endpoint.owner_id == user.pk or _holds(user, Permission.MANAGE, host)
        return mine and verb in (Permission.VIEW, Permission.MANAGE)
    return _by_role(user, verb, endpoint) or _by_role_on_host(user, verb, host) or _by_rule(user, verb, endpoint)


def _by_role(user: User, verb: Permission, share: Endpoint) -> bool:
    held = roles(user, share)
    return role_permits(held, verb) or (verb in DATA and bool(held & _FULL_ACCESS))


def _by_role_on_host(user: User, verb: Permission, host: Endpoint) -> bool:
    """A public host is visible to all users; only a role on it makes the shares on it visible."""
    if verb not in _OF_HOSTS or not _holds(user, verb, host):
        return False
    return verb is not Permission.VIEW or bool(roles(user, host))


def _by_rule(user: User, verb: Permission, share: Endpoint) -> bool:
    if verb is Permission.VIEW:
        return share.public or bool(active_rules(user, share))
    if verb not in DATA:
        return False
    return any(verb in READING or rule.permissions == "rw" for rule in active_rules(user, share))


def is_functional(share: Endpoint) -> bool:
    """Whether its owner may still share from its host; otherwise the shared data is not accessible."""
    return share.host is not None and share.owner.is_active and _holds(share.owner, Permission.SHARE, share.host)


def roles(user: User, endpoint: Endpoint) -> frozenset[RoleName]:
    """The roles of this user on this endpoint; its owner is an administrator."""
    return roles_at(user, [endpoint])[endpoint.pk]


def roles_at(user: User, endpoints: Iterable[Endpoint]) -> dict[uuid.UUID, frozenset[RoleName]]:
    """The same for many endpoints, in one query."""
    rows = list(endpoints)
    held: defaultdict[uuid.UUID, set[RoleName]] = defaultdict(set)
    if others := {row.pk for row in rows if row.owner_id != user.pk}:
        found = Role.objects.filter(_is_principal(user), endpoint__in=others)
        for pk, role in found.values_list("endpoint_id", "role"):
            held[pk].add(enum_value(RoleName, role))
    owned = frozenset({RoleName.ADMINISTRATOR})
    return {row.pk: owned if row.owner_id == user.pk else frozenset(held[row.pk]) for row in rows}


def non_functional_among(endpoints: Iterable[Endpoint]) -> set[uuid.UUID]:
    """The shares among these that are not `is_functional`."""
    shares = [row.pk for row in endpoints if row.host_id is not None]
    found = Endpoint.objects.filter(~functional_shares(), pk__in=shares) if shares else Endpoint.objects.none()
    return set(found.values_list("pk", flat=True))


def role_permits(held: Iterable[RoleName], verb: Permission) -> bool:
    """Whether one of these roles gives this permission."""
    return any(verb in _OF_ROLES.get(role, ()) for role in held)


def has_full_access(user: User, endpoint: Endpoint) -> bool:
    """Whether this user has access to the whole shared endpoint without a rule."""
    return bool(roles(user, endpoint) & _FULL_ACCESS)


def active_rules(user: User, endpoint: Endpoint, now: datetime | None = None) -> list[AccessRule]:
    """The rules of a shared endpoint that apply to this user and have not expired."""
    return list(AccessRule.objects.filter(rules_of_user(user, now), endpoint=endpoint))


def rules_of_user(user: User, now: datetime | None = None) -> Q:
    """A filter: the AccessRule rows that apply to this user."""
    everybody = Q(principal_type__in=["all_authenticated_users", "anonymous"])
    # Without `now`, PostgreSQL compares with its own clock: a worker whose clock is ahead must not end tasks.
    alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now or Now())
    return alive & (everybody | _is_principal(user))


# ---- the same decisions as database filters


def visible(user: User) -> Q:
    """The endpoints on which `may(user, VIEW, ...)` is true, except deleted ones."""
    if not user.is_active:
        return Q(pk__in=[])
    mine = Q(owner=user)
    plain = Q(host__isnull=True) & (Q(public=True) | _has_role(user, "pk"))
    run = Q(host__deleted_at__isnull=True) & (Q(host__owner=user) | _has_role(user, "host", RoleName.ADMINISTRATOR))
    overseen = Q(host__owner=user) | _has_role(user, "host")
    given = Q(public=True) | _has_role(user, "pk") | overseen | has_rule(user)
    return reachable() & (mine | plain | (Q(host__isnull=False) & (run | (functional_shares() & given))))


def administered(user: User) -> Q:
    """The endpoints on which this user is an administrator."""
    return reachable() & (Q(owner=user) | _has_role(user, "pk", RoleName.ADMINISTRATOR))


def shared_with(user: User) -> Q:
    """Endpoints that others share with this user or with one of the user's groups; not those shared with everybody."""
    by_name = Q(principal_type__in=["identity", "group"])
    return reachable() & Q(host__isnull=False) & ~Q(owner=user) & (has_rule(user, by_name) | _has_role(user, "pk"))


def endpoints_by_role(user: User, verb: Permission) -> Q:
    """Existing endpoints on which `may` is true, for the verbs that only roles give (OVERSEE, CONTROL)."""
    if not user.is_active:
        return Q(pk__in=[])
    giving = [role for role, verbs in _OF_ROLES.items() if verb in verbs]
    own = Q(owner=user) | _has_role(user, "pk", *giving)
    of_host = Q(host__owner=user) | _has_role(user, "host", *giving)
    existing = Q(deleted_at__isnull=True) & reachable()
    return existing & ((Q(host__isnull=True) & own) | (functional_shares() & (own | of_host)))


def has_rule(user: User, more: Q | None = None) -> Q:
    """The shared endpoints with a rule that applies to this user."""
    rules = AccessRule.objects.filter(rules_of_user(user) & (more or Q()), endpoint=OuterRef("pk"))
    return Q(Exists(rules))


def _has_role(user: User, endpoint: str, *names: RoleName) -> Q:
    """Endpoints on which the user has one of these roles, or any role. endpoint: the field with the endpoint's id."""
    held = Role.objects.filter(_is_principal(user), endpoint=OuterRef(endpoint))
    return Q(Exists(held.filter(role__in=names) if names else held))


def functional_shares() -> Q:
    """The shares for which `is_functional` is true."""
    letting = [role for role, verbs in _OF_ROLES.items() if Permission.SHARE in verbs]
    to_owner = _names(OuterRef("owner"), OuterRef(OuterRef("owner")))
    held = Role.objects.filter(to_owner, endpoint=OuterRef("host"), role__in=letting)
    open_to_all = Q(host__public=True, host__personal=False, host__allow_guest_collections=True)
    lets = Q(host__owner=F("owner")) | open_to_all | Q(Exists(held))
    return Q(host__deleted_at__isnull=True, owner__is_active=True) & lets


def _is_principal(user: User) -> Q:
    """The rows that name the user: the id of the user, of a linked identity, or of a group."""
    return _names(user.pk, user.pk)


def _names(user: uuid.UUID | OuterRef, user_within: uuid.UUID | OuterRef) -> Q:
    """As `_is_principal`. user_within: the user as a subquery of that query names it."""
    groups = Membership.objects.filter(user=user_within, status="active")
    linked = LinkedIdentity.objects.filter(user=user_within)
    return (
        Q(principal_type="identity", principal=user)
        | Q(principal_type="identity", principal__in=linked.values("id"))
        | Q(principal_type="group", principal__in=groups.values("group_id"))
    )
