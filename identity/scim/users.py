"""The users that a directory manages: those that it made, and those that it took over by their user names.

A directory sees and changes no other user, and never staff: a managed user who becomes staff is out of its reach. Each
change locks the user first, then checks.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from identity import audit, deactivation, user_names, users
from identity.audit import What
from identity.database_rows import unless_taken
from identity.error_categories import InvalidFieldError, NotFoundError, RefusedError
from identity.models import Membership, ScimClient, ScimUser, User
from identity.sign_up import RESERVED
from identity.users import DELETED, UserDetails

from .errors import SCIM_NOT_ACTIVATED, SCIM_TAKEN, TOO_MANY_SCIM_USERS, TOO_MANY_SCIM_USERS_EVER, ScimImmutableError

#: Users that a directory may have added in all, with those that it has deleted, for each that it may have at a time:
#: the rows of deleted users stay.
EVER = 10
#: Characters of an externalId.
MAX_EXTERNAL_ID = 255
#: Conditions of a list, by the attribute of RFC 7643 in small letters, as a look-up of `ScimUser`.
_LOOKUPS = {
    "id": "user_id",
    "username": "user__username__iexact",
    "externalid": "external_id",
    "emails": "user__email__iexact",
    "emails.value": "user__email__iexact",
    "displayname": "user__first_name__iexact",
    "active": "user__is_active",
}


@dataclass(slots=True)
class UserChange:
    """None: leave as it is; of a new user: empty."""

    user_name: str | None = None
    full_name: str | None = None
    email: str | None = None
    external_id: str | None = None
    active: bool | None = None


def managed(client: ScimClient) -> QuerySet[ScimUser]:
    """The rows that this directory sees."""
    rows = ScimUser.objects.filter(client=client, deleted_at__isnull=True)
    return rows.filter(user__is_staff=False, user__is_superuser=False).select_related("user")


def listed(
    client: ScimClient, conditions: Iterable[tuple[str, str | bool]], offset: int, limit: int
) -> tuple[list[ScimUser], int]:
    """A page, and the number of all that match. Raises InvalidFieldError for an attribute that has no filter."""
    found = managed(client)
    for attribute, value in conditions:
        found = found.filter(_condition(attribute, value))
    return list(found.order_by("user__username")[offset : offset + limit]), found.count()


def get(client: ScimClient, ref: str, *, lock: bool = False) -> ScimUser:
    """lock: the user, until the transaction ends. Raises NotFoundError."""
    found = managed(client)
    if lock:
        found = found.select_for_update(no_key=True)
    row = found.filter(pk=parsed_id(ref)).first()
    if row is None:
        raise NotFoundError(ref[:64], "user")
    return row


@transaction.atomic
def create(client: ScimClient, change: UserChange) -> ScimUser:
    """A new user; one that this directory had deleted; or, where it may, one that it takes over.

    Raises the refusals of `errors`, UserExistsError, USER_INVALID.
    """
    client = ScimClient.objects.select_for_update(no_key=True).get(pk=client.pk)
    if ScimUser.objects.filter(client=client, deleted_at__isnull=True).count() >= client.max_users:
        raise RefusedError(TOO_MANY_SCIM_USERS, limit=client.max_users)
    row = _row_for(client, change)
    _apply(row, change)
    return row


@transaction.atomic
def update(client: ScimClient, ref: str, change: UserChange) -> ScimUser:
    """Raises the refusals of `errors`, UserExistsError, USER_INVALID."""
    row = get(client, ref, lock=True)
    given = change.user_name
    if given is not None and user_names.local(given).lower() != row.user.username.lower():
        raise ScimImmutableError("userName", "The name of a user does not change: endpoints are named by it.")
    _apply(row, change)
    return row


@transaction.atomic
def delete(client: ScimClient, ref: str) -> None:
    """Deactivate the user, and manage the user no more (docs/decisions/accounts-and-providers.md).

    Raises NotFoundError.
    """
    row = get(client, ref, lock=True)
    _set_active(row, active=False)
    Membership.objects.filter(user=row.user, group__scim_client=client).delete()
    row.deleted_at = datetime.now(UTC)
    row.save()


def _row_for(client: ScimClient, change: UserChange) -> ScimUser:
    """Raises the refusals of `errors`, UserExistsError, USER_INVALID."""
    name = user_names.local(change.user_name or "")
    if not name or "\0" in name:
        raise InvalidFieldError("userName", "Expected a name.")
    known = User.objects.select_for_update(no_key=True).filter(username__iexact=name).first()
    if known is None:
        return _added(client, name, change)
    row = ScimUser.objects.filter(user=known).first()
    if not _may_take_over(client, known, row):
        raise RefusedError(SCIM_TAKEN, reason="There is a user of this name already.")
    if row is None:
        audit.record(What.USER_TAKEN_OVER, known)
        return ScimUser(user=known, client=client)
    row.user, row.deleted_at = known, None
    if change.active is None:
        change.active = True
    return row


def _added(client: ScimClient, name: str, change: UserChange) -> ScimUser:
    """Raises the refusals of `errors`, UserExistsError, USER_INVALID."""
    if name.lower() in RESERVED or name.lower().startswith(DELETED):
        raise InvalidFieldError("userName", "This name is reserved.")
    if ScimUser.objects.filter(client=client).count() >= EVER * client.max_users:
        raise RefusedError(TOO_MANY_SCIM_USERS_EVER, limit=EVER * client.max_users)
    made = users.add(name, UserDetails(change.email or "", change.full_name or ""))
    return ScimUser(user=made, client=client)


def _may_take_over(client: ScimClient, known: User, row: ScimUser | None) -> bool:
    """Whether this directory may manage a user who exists. row: where a directory manages or managed the user."""
    if known.is_staff or known.is_superuser:
        return False
    if row is None:
        return client.takes_over
    return row.client_id == client.pk and row.deleted_at is not None


def _apply(row: ScimUser, change: UserChange) -> None:
    user = row.user
    email = change.email if change.email is not None and change.email != user.email else None
    full_name = change.full_name
    if full_name is not None and full_name == user.get_full_name():
        full_name = None
    if email is not None or full_name is not None:
        users.change(user, UserDetails(email, full_name))
    if change.external_id is not None:
        row.external_id = checked_external_id(change.external_id)
    if change.active is not None:
        _set_active(row, active=change.active)
    with unless_taken(
        "scim_user_external_id_once", RefusedError(SCIM_TAKEN, reason="Another user has this externalId.")
    ):
        row.save()


def _set_active(row: ScimUser, *, active: bool) -> None:
    """Raises SCIM_NOT_ACTIVATED."""
    if row.user.is_active == active:
        return
    if not active:
        row.user = deactivation.deactivate(None, row.user, "the directory deactivated the user")
        row.suspended = True
        return
    if not row.suspended:
        raise RefusedError(SCIM_NOT_ACTIVATED)
    row.user = deactivation.activate(None, row.user)
    row.suspended = False


def _condition(attribute: str, value: str | bool) -> Q:
    lookup = _LOOKUPS.get(attribute)
    if lookup is None:
        raise InvalidFieldError("filter", f"Users are not found by {attribute[:50]}.")
    if attribute == "active":
        return Q(user__is_active=value if isinstance(value, bool) else value.lower() == "true")
    if not isinstance(value, str):
        raise InvalidFieldError("filter", "Expected a string in quotes.")
    if attribute == "id":
        return Q(user_id=parsed_id(value))
    return Q(**{lookup: user_names.local(value) if attribute == "username" else value})


def checked_external_id(text: str) -> str:
    """Raises InvalidFieldError."""
    if len(text) > MAX_EXTERNAL_ID or "\0" in text:
        raise InvalidFieldError("externalId", f"At most {MAX_EXTERNAL_ID} characters.")
    return text


def parsed_id(text: str) -> uuid.UUID:
    """A malformed id is treated as an unknown one: the nil UUID is the id of nothing."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)
