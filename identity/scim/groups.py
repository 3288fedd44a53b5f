"""The groups that a directory manages: groups of `identity.groups` in which nobody has a role but member.

`identity.group_memberships` lets nobody join or leave them by hand; without managers nobody changes them otherwise.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from identity import audit
from identity import groups as group_services
from identity.audit import What
from identity.database_rows import unless_taken
from identity.error_categories import InvalidFieldError, NotFoundError, RefusedError
from identity.groups import MAX_MEMBERS, GroupRole, MembershipStatus
from identity.models import Group, Membership, ScimClient

from . import users
from .errors import SCIM_TAKEN, TOO_MANY_SCIM_GROUPS, TOO_MANY_SCIM_MEMBERS

#: Groups of one directory, and members in one answer.
MAX_GROUPS, MAX_SHOWN = 5000, MAX_MEMBERS


@dataclass(slots=True)
class GroupChange:
    """None: leave as it is. steps: "add", "remove" or "replace" with ids of users, in their order."""

    name: str | None = None
    external_id: str | None = None
    steps: list[tuple[str, frozenset[uuid.UUID]]] = field(default_factory=list)


def listed(
    client: ScimClient, conditions: Iterable[tuple[str, str | bool]], offset: int, limit: int, *, members: bool
) -> tuple[list[Group], int]:
    """A page, and the number of all that match. members: the page ends before it has more than MAX_SHOWN members.

    Raises InvalidFieldError for an attribute that has no filter.
    """
    found = Group.objects.filter(scim_client=client)
    for attribute, value in conditions:
        found = found.filter(_condition(client, attribute, value))
    total = found.count()
    page = list(found.order_by("name", "pk")[offset : offset + limit])
    return (_fitting(client, page) if members else page), total


def get(client: ScimClient, ref: str, *, lock: bool = False) -> Group:
    """lock: the group, until the transaction ends. Raises NotFoundError."""
    found = Group.objects.filter(scim_client=client, pk=users.parsed_id(ref))
    row = (found.select_for_update(no_key=True) if lock else found).first()
    if row is None:
        raise NotFoundError(ref[:64], "group")
    return row


def members(client: ScimClient, groups: Sequence[Group]) -> Mapping[uuid.UUID, list[Membership]]:
    """The members of each group whom the directory sees."""
    found: dict[uuid.UUID, list[Membership]] = {group.pk: [] for group in groups}
    rows = _visible(client).filter(group_id__in=list(found))
    for row in rows.order_by("user__username"):
        found[row.group_id].append(row)
    return found


@transaction.atomic
def create(client: ScimClient, change: GroupChange) -> Group:
    """Raises the refusals of `errors`, GroupInvalidError."""
    client = ScimClient.objects.select_for_update(no_key=True).get(pk=client.pk)
    if Group.objects.filter(scim_client=client).count() >= MAX_GROUPS:
        raise RefusedError(TOO_MANY_SCIM_GROUPS, limit=MAX_GROUPS)
    group = Group(scim_client=client, group_members_visibility="members")
    _apply(client, group, change)
    audit.record(What.GROUP_ADDED, None, {"group": group.pk, "name": group.name})
    return group


@transaction.atomic
def update(client: ScimClient, ref: str, change: GroupChange) -> Group:
    """Raises the refusals of `errors`, GroupInvalidError."""
    group = get(client, ref, lock=True)
    _apply(client, group, change)
    return group


@transaction.atomic
def delete(client: ScimClient, ref: str) -> None:
    """Delete the group; access that was granted to it ends. Raises NotFoundError."""
    group = get(client, ref, lock=True)
    audit.record(What.GROUP_DELETED, None, {"group": group.pk, "name": group.name})
    group.delete()


def _apply(client: ScimClient, group: Group, change: GroupChange) -> None:
    if change.name is not None:
        group.name = group_services.checked_name(change.name)
    if change.external_id is not None:
        group.scim_external_id = users.checked_external_id(change.external_id)
    with unless_taken(
        "scim_group_external_id_once", RefusedError(SCIM_TAKEN, reason="Another group has this externalId.")
    ):
        group.save()
    if change.steps:
        _set_members(client, group, change.steps)


def _set_members(client: ScimClient, group: Group, steps: Iterable[tuple[str, frozenset[uuid.UUID]]]) -> None:
    before = set(_visible(client).filter(group=group).values_list("user_id", flat=True))
    after = set(before)
    for verb, ids in steps:
        after = set(ids) if verb == "replace" else after | ids if verb == "add" else after - ids
    added, gone = after - before, before - after
    if len(after) > MAX_MEMBERS:
        raise RefusedError(TOO_MANY_SCIM_MEMBERS, limit=MAX_MEMBERS)
    known = users.managed(client).filter(pk__in=added).values_list("pk", flat=True)
    if missing := added - set(known):
        raise InvalidFieldError("members", f"There is no user {min(missing)}.")
    Membership.objects.filter(group=group, user_id__in=gone).delete()
    Membership.objects.bulk_create(
        [
            Membership(group=group, user_id=one, role=GroupRole.MEMBER, status=MembershipStatus.ACTIVE)
            for one in sorted(added)
        ],
        batch_size=1000,
    )
    if added or gone:
        audit.record(What.MEMBERS_CHANGED, None, {"group": group.pk, "added": len(added), "removed": len(gone)})


def _visible(client: ScimClient) -> QuerySet[Membership]:
    """Memberships of users that the directory manages. Those of others in its groups are out of its reach."""
    seen = users.managed(client).values("pk")
    return Membership.objects.filter(group__scim_client=client, status=MembershipStatus.ACTIVE, user_id__in=seen)


def _fitting(client: ScimClient, page: list[Group]) -> list[Group]:
    rows = _visible(client).filter(group__in=page).values_list("group_id").annotate(Count("pk")).order_by()
    counts = dict(rows)
    totals = accumulate(counts.get(group.pk, 0) for group in page)
    return [group for group, total in zip(page, totals, strict=True) if total <= MAX_SHOWN] or page[:1]


def _condition(client: ScimClient, attribute: str, value: str | bool) -> Q:
    if not isinstance(value, str):
        raise InvalidFieldError("filter", "Expected a string in quotes.")
    if attribute == "displayname":
        return Q(name__iexact=value)
    if attribute == "externalid":
        return Q(scim_external_id=value)
    if attribute == "id":
        return Q(pk=users.parsed_id(value))
    if attribute in ("members", "members.value"):
        return Q(pk__in=_visible(client).filter(user_id=users.parsed_id(value)).values("group_id"))
    raise InvalidFieldError("filter", f"Groups are not found by {attribute[:50]}.")
