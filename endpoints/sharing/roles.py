"""Roles of users and groups on an endpoint. `permissions.py` defines what each role permits.

The owner is an administrator without a row; this role has an id nevertheless, for documents and clients.
"""

from __future__ import annotations

import uuid

from django.db import transaction

from endpoints import registry
from endpoints.errors import OWNER_STAYS, ROLE_EXISTS, TOO_MANY_ROLES, NotPermittedError
from endpoints.models import Endpoint, Role
from endpoints.permissions import Permission, RoleName, may
from identity.audit import What
from identity.database_rows import unless_taken
from identity.error_categories import InvalidFieldError, NotFoundError, RefusedError
from identity.models import User

from . import principals

MAX_ROLES = 1000


def of_owner(endpoint: Endpoint) -> Role:
    """The owner's role; it is never saved."""
    return Role(
        id=uuid.uuid5(endpoint.pk, f"owner:{endpoint.owner_id}"),
        endpoint=endpoint,
        principal_type=principals.IDENTITY,
        principal=endpoint.owner_id,
        role=RoleName.ADMINISTRATOR,
    )


def create(user: User, ref: str, principal_type: str, principal: str, role: str) -> Role:
    """Raises the errors of `registry.resolve`, InvalidFieldError, ROLE_EXISTS, TOO_MANY_ROLES."""
    endpoint = registry.resolve(user, ref, Permission.APPOINT)
    if principal_type not in (principals.IDENTITY, principals.GROUP):
        raise InvalidFieldError("principal_type", "Expected identity or group.")
    name = _name(role, endpoint)
    row = Role(
        endpoint=endpoint,
        principal_type=principal_type,
        principal=principals.known(principal_type, principal),
        role=name,
    )
    if row.principal == endpoint.owner_id and name is RoleName.ADMINISTRATOR:
        raise RefusedError(ROLE_EXISTS, role=name)
    with transaction.atomic():
        registry.lock_existing(user, endpoint, Permission.APPOINT)
        if Role.objects.filter(endpoint=endpoint).count() >= MAX_ROLES:
            raise RefusedError(TOO_MANY_ROLES, limit=MAX_ROLES)
        with unless_taken("role_once", RefusedError(ROLE_EXISTS, role=row.role)):
            row.save(force_insert=True)
        _record(What.ROLE_GIVEN, user, row)
    return row


def of_endpoint(user: User, ref: str) -> list[Role]:
    """All roles, the owner's first; users who may not give roles see only their own. Raises as `registry.resolve`."""
    endpoint = registry.resolve(user, ref, Permission.VIEW)
    found = Role.objects.filter(endpoint=endpoint).order_by("created_at", "id")
    if may(user, Permission.APPOINT, endpoint):
        return [of_owner(endpoint), *found]
    own = list(found.filter(principal_type=principals.IDENTITY, principal=user.pk))
    if not own:
        raise NotPermittedError(Permission.APPOINT, endpoint)
    return own


def get(user: User, ref: str, role_id: str) -> Role:
    """Raises the errors of `of_endpoint`, NotFoundError."""
    for row in of_endpoint(user, ref):
        if str(row.pk) == role_id.lower():
            return row
    raise NotFoundError(role_id, "role")


def delete(user: User, ref: str, role_id: str) -> None:
    """Remove a role, or give up one's own. Raises the errors of `get`, OWNER_STAYS."""
    row = get(user, ref, role_id)
    if row.pk == of_owner(row.endpoint).pk:
        raise RefusedError(OWNER_STAYS)
    with transaction.atomic():
        deleted, _ = Role.objects.filter(pk=row.pk).delete()
        if not deleted:
            raise NotFoundError(role_id, "role")
        _record(What.ROLE_TAKEN_BACK, user, row)


def _record(what: What, actor: User, row: Role) -> None:
    facts = {"endpoint": row.endpoint_id, "role": row.role}
    principals.record(what, actor, row.principal_type, row.principal, facts)


def managing_access(endpoint: Endpoint) -> list[Role]:
    """The roles that may read and write everywhere on a shared endpoint without a rule; the owner's first."""
    names = [RoleName.ADMINISTRATOR, RoleName.ACCESS_MANAGER]
    return [of_owner(endpoint), *Role.objects.filter(endpoint=endpoint, role__in=names).order_by("created_at", "id")]


def _name(text: str, endpoint: Endpoint) -> RoleName:
    try:
        name = RoleName(text)
    except ValueError:
        raise InvalidFieldError("role", f"Expected one of {', '.join(RoleName)}.") from None
    if name is RoleName.ACCESS_MANAGER and endpoint.host_id is None:
        raise InvalidFieldError("role", "There are access rules to manage on shared endpoints only.")
    return name
