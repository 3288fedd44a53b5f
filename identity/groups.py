"""Groups of people (Groups API v2): make, find, change, delete. Who comes and goes: see `memberships.py`.

A group is seen by its members and by those who are on the way in; one whose policy says so, by everybody who is
signed in. What it is called and who may join, its admins say. Without an active membership nobody is given anything.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from django.db import transaction
from django.db.models import Q

from .group_errors import GroupForbiddenError, GroupInvalidError, GroupNotFoundError, TooManyGroupsError
from .models import Group, GroupPreference, Membership, User

#: Who is an active member of more makes no other (Groups API).
MAX_GROUPS = 1000
#: Active members, invited ones and those who have asked, of one group.
MAX_MEMBERS = 10_000
MAX_NAME, MAX_TEXT, MAX_FIELD = 256, 4096, 256
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


class Role(StrEnum):
    MEMBER = "member"
    MANAGER = "manager"
    ADMIN = "admin"


class Status(StrEnum):
    ACTIVE = "active"
    INVITED = "invited"
    PENDING = "pending"
    REJECTED = "rejected"
    REMOVED = "removed"
    LEFT = "left"
    DECLINED = "declined"


#: In, or on the way in.
LIVING = (Status.ACTIVE, Status.INVITED, Status.PENDING)
#: What a group may want to know of its members.
SIGNUP_FIELDS = (
    "institution", "current_project_name", "address", "city", "state", "country", "address1", "address2", "zip",
    "phone", "department", "field_of_science",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policies:
    """None: as it is. Checked when they are set."""

    group_visibility: str | None = None
    group_members_visibility: str | None = None
    join_requests: bool | None = None
    signup_fields: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A group as one user sees it. membership: his own, of the past too."""

    group: Group
    membership: Membership | None

    @property
    def active(self) -> bool:
        return self.membership is not None and self.membership.status == Status.ACTIVE

    @property
    def manages(self) -> bool:
        """Lets people in, sends them away."""
        return self.membership is not None and self.active and self.membership.role != Role.MEMBER

    @property
    def administers(self) -> bool:
        return self.membership is not None and self.active and self.membership.role == Role.ADMIN

    @property
    def sees_it(self) -> bool:
        living = self.membership is not None and self.membership.status in LIVING
        return living or self.group.group_visibility == "authenticated"

    @property
    def sees_members(self) -> bool:
        return self.manages or (self.active and self.group.group_members_visibility == "members")


def of(user: User) -> list[uuid.UUID]:
    """The ids of the groups that this user is an active member of."""
    return list(Membership.objects.filter(user=user, status=Status.ACTIVE).values_list("group_id", flat=True))


def create(
    user: User, *, name: str, description: str = "", terms: str = "", policies: Policies | None = None
) -> Standing:
    """A group whose admin this user is. -> GroupInvalidError, TooManyGroupsError"""
    group = Group(name=_name(name), description=_text("description", description))
    group.terms_and_conditions = _text("terms_and_conditions", terms)
    _apply(group, policies or Policies())
    with transaction.atomic():
        list(User.objects.select_for_update(no_key=True).filter(pk=user.pk).values_list("pk"))
        if len(of(user)) >= MAX_GROUPS:
            raise TooManyGroupsError(MAX_GROUPS)
        group.save(force_insert=True)
        mine = Membership.objects.create(group=group, user=user, role=Role.ADMIN, status=Status.ACTIVE, updated_by=user)
    return Standing(group, mine)


def get(user: User, group_id: uuid.UUID, *, lock: bool = False) -> Standing:
    """lock: nobody comes, goes or changes it until the end of this transaction. -> GroupNotFoundError"""
    found = Group.objects.select_for_update(no_key=True) if lock else Group.objects.all()
    group = found.filter(pk=group_id).first()
    mine = Membership.objects.select_related("user").filter(group_id=group_id, user=user).first()
    if group is None or not Standing(group, mine).sees_it:
        raise GroupNotFoundError(str(group_id))
    return Standing(group, mine)


def mine(user: User, statuses: Collection[str] = (Status.ACTIVE,)) -> list[Standing]:
    """The groups that he stands so to, by name. Those of the past only where he may still see them."""
    rows = Membership.objects.select_related("group", "user").filter(user=user, status__in=statuses)
    rows = rows.filter(Q(status__in=LIVING) | Q(group__group_visibility="authenticated"))
    return [Standing(row.group, row) for row in rows.order_by("group__name", "group_id")]


def update(
    user: User,
    group_id: uuid.UUID,
    *,
    name: str | None = None,
    description: str | None = None,
    terms: str | None = None,
) -> Standing:
    """Change what is not None. -> GroupNotFoundError, GroupForbiddenError, GroupInvalidError"""
    with transaction.atomic():
        standing = _administered(user, group_id)
        group = standing.group
        if name is not None:
            group.name = _name(name)
        if description is not None:
            group.description = _text("description", description)
        if terms is not None:
            group.terms_and_conditions = _text("terms_and_conditions", terms)
        group.save()
    return standing


def set_policies(user: User, group_id: uuid.UUID, policies: Policies) -> Standing:
    """-> as `update`"""
    with transaction.atomic():
        standing = _administered(user, group_id)
        _apply(standing.group, policies)
        standing.group.save()
    return standing


def delete(user: User, group_id: uuid.UUID) -> Standing:
    """With all memberships; what was given to the group is nobody's then. -> GroupNotFoundError, GroupForbiddenError"""
    with transaction.atomic():
        standing = _administered(user, group_id)
        Group.objects.filter(pk=group_id).delete()
    return standing


def members(standing: Standing) -> list[Membership]:
    """All who are or were in it, for its managers; for others the active ones, where the policy lets them see.

    -> GroupForbiddenError
    """
    if not standing.sees_members:
        raise GroupForbiddenError("You may not see who is in this group.")
    rows = Membership.objects.select_related("user").filter(group=standing.group)
    if not standing.manages:
        rows = rows.filter(status=Status.ACTIVE)
    living = list(rows.filter(status__in=LIVING).order_by("user__username")[:MAX_MEMBERS])
    past = rows.exclude(status__in=LIVING).order_by("-updated_at")[:MAX_MEMBERS]
    return living + list(past)


def counts(user: User) -> dict[uuid.UUID, dict[str, int]]:
    """How many stand how to each group that this user manages."""
    managed = Membership.objects.filter(user=user, status=Status.ACTIVE).exclude(role=Role.MEMBER)
    found = {group_id: dict.fromkeys(map(str, Status), 0) for group_id in managed.values_list("group_id", flat=True)}
    rows = Membership.objects.filter(group_id__in=list(found)).values_list("group_id", "status")
    for group_id, status in rows.iterator():
        found[group_id][status] += 1
    return found


def allows_adding(user: User) -> bool:
    """Whether managers of groups may add this user without asking."""
    return not GroupPreference.objects.filter(user=user, allow_add=False).exists()


def set_allows_adding(user: User, allow: bool) -> None:
    GroupPreference.objects.update_or_create(user=user, defaults={"allow_add": allow})


def set_fields(user: User, group_id: uuid.UUID, given: Mapping[str, object]) -> Standing:
    """What this member tells of himself. -> GroupNotFoundError, GroupForbiddenError, GroupInvalidError"""
    values = checked_fields(given)
    with transaction.atomic():
        standing = get(user, group_id, lock=True)
        if standing.membership is None or standing.membership.status not in LIVING:
            raise GroupForbiddenError("You are not in this group, and nobody has invited you.")
        standing.membership.fields = values
        standing.membership.save(update_fields=["fields"])
    return standing


def checked_fields(given: Mapping[str, object]) -> dict[str, str]:
    """-> GroupInvalidError. Fields that no group wants are passed over, and empty ones."""
    values: dict[str, str] = {}
    for name in SIGNUP_FIELDS:
        value = given.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, str) or len(value) > MAX_FIELD or _CONTROL.search(value):
            raise GroupInvalidError(name, f"A line of at most {MAX_FIELD} characters is wanted here.")
        values[name] = value
    return values


def _administered(user: User, group_id: uuid.UUID) -> Standing:
    standing = get(user, group_id, lock=True)
    if not standing.administers:
        raise GroupForbiddenError("Only an admin of the group may do this.")
    return standing


def _apply(group: Group, policies: Policies) -> None:
    words = {"group_visibility": ("authenticated", "private"), "group_members_visibility": ("members", "managers")}
    for policy in fields(policies):
        value = getattr(policies, policy.name)
        if value is None:
            continue
        if policy.name in words and value not in words[policy.name]:
            raise GroupInvalidError(policy.name, f"One of {', '.join(words[policy.name])} is wanted here.")
        if policy.name == "signup_fields":
            value = _signup_fields(value)
        setattr(group, policy.name, value)


def _signup_fields(names: Sequence[str]) -> list[str]:
    if unknown := [name for name in names if name not in SIGNUP_FIELDS]:
        raise GroupInvalidError("signup_fields", f"There is no field '{unknown[0][:100]}'.")
    return [name for name in SIGNUP_FIELDS if name in names]


def _name(text: str) -> str:
    if not text.strip() or len(text) > MAX_NAME or _CONTROL.search(text):
        raise GroupInvalidError("name", f"A line of at most {MAX_NAME} characters is wanted here.")
    return text


def _text(field: str, text: str) -> str:
    if len(text) > MAX_TEXT or _CONTROL_BUT_LINES.search(text):
        raise GroupInvalidError(field, f"At most {MAX_TEXT} characters, and no control ones.")
    return text
