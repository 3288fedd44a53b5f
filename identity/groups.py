"""Groups of people (Groups API v2): create, find, change, delete. `group_memberships.py` changes memberships.

Members see their group, and so do users who are invited or have asked to join. Every signed-in user sees a group whose
policy allows it. Admins of the group set its name and policies. Only an active membership grants anything.

Errors. A group that a user may not see does not exist for that user.

GroupError
|- GroupNotFoundError(ref)
|- GroupForbiddenError(reason)       the user may see the group, and may not do this
|- GroupInvalidError(field, reason)  the request makes no sense
|- TooManyGroupsError(limit)         the user is in too many groups to create another one
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from django.db import transaction
from django.db.models import Q

from . import shown_names
from .error_categories import (
    CategorizedError,
    Category,
    GivenReasonError,
    InvalidFieldError,
    LimitExceededError,
    NotFoundError,
)
from .gsi.printable import FORBIDDEN, FORBIDDEN_IN_LINES
from .models import Group, GroupPreference, Membership, User


class GroupError(CategorizedError):
    """The root of this tree."""


class GroupNotFoundError(GroupError, NotFoundError):
    kind = "group"


class GroupForbiddenError(GroupError, GivenReasonError):
    category = Category.PERMISSION_DENIED


class GroupInvalidError(GroupError, InvalidFieldError):
    pass


class TooManyGroupsError(GroupError, LimitExceededError):
    template = "You are in {self.limit} groups already"


#: A user with more active memberships cannot create another group (Groups API).
MAX_GROUPS = 1000
#: Members of one group: active, invited and pending.
MAX_MEMBERS = 10_000
MAX_NAME, MAX_TEXT, MAX_FIELD = 256, 4096, 256


class GroupRole(StrEnum):
    MEMBER = "member"
    MANAGER = "manager"
    ADMIN = "admin"


class MembershipStatus(StrEnum):
    ACTIVE = "active"
    INVITED = "invited"
    PENDING = "pending"
    REJECTED = "rejected"
    REMOVED = "removed"
    LEFT = "left"
    DECLINED = "declined"


#: Statuses of a current membership: active, or about to become active.
LIVING = (MembershipStatus.ACTIVE, MembershipStatus.INVITED, MembershipStatus.PENDING)
#: Fields that a group may require of its members.
SIGNUP_FIELDS = (
    "institution", "current_project_name", "address", "city", "state", "country", "address1", "address2", "zip",
    "phone", "department", "field_of_science",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policies:
    """Policies of a group. None: leave as it is. They are checked when they are set."""

    group_visibility: str | None = None
    group_members_visibility: str | None = None
    join_requests: bool | None = None
    signup_fields: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class MembershipContext:
    """A group as one user sees it. membership: that of the user, also an ended one; None if there never was one."""

    group: Group
    membership: Membership | None

    @property
    def active(self) -> bool:
        return self.membership is not None and self.membership.status == MembershipStatus.ACTIVE

    @property
    def manages(self) -> bool:
        """Whether the user may admit and remove members."""
        return self.membership is not None and self.active and self.membership.role != GroupRole.MEMBER

    @property
    def administers(self) -> bool:
        return self.membership is not None and self.active and self.membership.role == GroupRole.ADMIN

    @property
    def sees_it(self) -> bool:
        living = self.membership is not None and self.membership.status in LIVING
        return living or self.group.group_visibility == "authenticated"

    @property
    def sees_members(self) -> bool:
        return self.manages or (self.active and self.group.group_members_visibility == "members")


def of(user: User) -> list[uuid.UUID]:
    """The ids of the groups in which this user is an active member."""
    return list(Membership.objects.filter(user=user, status=MembershipStatus.ACTIVE).values_list("group_id", flat=True))


def create(
    user: User, *, name: str, description: str = "", terms: str = "", policies: Policies | None = None
) -> MembershipContext:
    """Create a group with this user as its admin. Raises GroupInvalidError, TooManyGroupsError."""
    group = Group(name=checked_name(name), description=_text("description", description))
    group.terms_and_conditions = _text("terms_and_conditions", terms)
    _apply(group, policies or Policies())
    with transaction.atomic():
        list(User.objects.select_for_update(no_key=True).filter(pk=user.pk).values_list("pk"))
        if len(of(user)) >= MAX_GROUPS:
            raise TooManyGroupsError(MAX_GROUPS)
        group.save(force_insert=True)
        mine = Membership.objects.create(
            group=group, user=user, role=GroupRole.ADMIN, status=MembershipStatus.ACTIVE, updated_by=user
        )
    return MembershipContext(group, mine)


def get(user: User, group_id: uuid.UUID, *, lock: bool = False) -> MembershipContext:
    """Find a group. lock: lock it against changes until the transaction ends. Raises GroupNotFoundError."""
    found = Group.objects.select_for_update(no_key=True) if lock else Group.objects.all()
    group = found.filter(pk=group_id).first()
    mine = Membership.objects.select_related("user").filter(group_id=group_id, user=user).first()
    if group is None or not MembershipContext(group, mine).sees_it:
        raise GroupNotFoundError(str(group_id))
    return MembershipContext(group, mine)


def mine(user: User, statuses: Collection[str] = (MembershipStatus.ACTIVE,)) -> list[MembershipContext]:
    """The groups in which the user has one of these statuses, by name; after an ended one only visible groups."""
    rows = Membership.objects.select_related("group", "user").filter(user=user, status__in=statuses)
    rows = rows.filter(Q(status__in=LIVING) | Q(group__group_visibility="authenticated"))
    found = list(rows.order_by("group__name", "group_id"))
    shown_names.load(row.user for row in found)
    return [MembershipContext(row.group, row) for row in found]


def update(
    user: User,
    group_id: uuid.UUID,
    *,
    name: str | None = None,
    description: str | None = None,
    terms: str | None = None,
) -> MembershipContext:
    """Change the fields that are not None. Raises GroupNotFoundError, GroupForbiddenError, GroupInvalidError."""
    with transaction.atomic():
        context = _administered(user, group_id)
        group = context.group
        if name is not None:
            group.name = checked_name(name)
        if description is not None:
            group.description = _text("description", description)
        if terms is not None:
            group.terms_and_conditions = _text("terms_and_conditions", terms)
        group.save()
    return context


def set_policies(user: User, group_id: uuid.UUID, policies: Policies) -> MembershipContext:
    """Raises GroupNotFoundError, GroupForbiddenError, GroupInvalidError."""
    with transaction.atomic():
        context = _administered(user, group_id)
        _apply(context.group, policies)
        context.group.save()
    return context


def delete(user: User, group_id: uuid.UUID) -> MembershipContext:
    """Delete a group with its memberships; access that was granted to it ends.

    Raises GroupNotFoundError, GroupForbiddenError.
    """
    with transaction.atomic():
        context = _administered(user, group_id)
        Group.objects.filter(pk=group_id).delete()
    return context


def members(context: MembershipContext) -> list[Membership]:
    """Managers get all current and former members; others get the active ones, if the policy allows.

    Raises GroupForbiddenError.
    """
    if not context.sees_members:
        raise GroupForbiddenError("You may not see who is in this group.")
    rows = Membership.objects.select_related("user").filter(group=context.group)
    if not context.manages:
        rows = rows.filter(status=MembershipStatus.ACTIVE)
    living = list(rows.filter(status__in=LIVING).order_by("user__username")[:MAX_MEMBERS])
    past = rows.exclude(status__in=LIVING).order_by("-updated_at")[:MAX_MEMBERS]
    found = living + list(past)
    shown_names.load(row.user for row in found)
    return found


def names(user: User, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """The names of those of these groups that the user sees."""
    own = Membership.objects.filter(user=user, status__in=LIVING).values("group_id")
    seen = Q(group_visibility="authenticated") | Q(pk__in=own)
    return dict(Group.objects.filter(seen, pk__in=ids).values_list("pk", "name"))


def counts(user: User) -> dict[uuid.UUID, dict[str, int]]:
    """The number of memberships in each status, for each group that this user manages."""
    managed = Membership.objects.filter(user=user, status=MembershipStatus.ACTIVE).exclude(role=GroupRole.MEMBER)
    found = {
        group_id: dict.fromkeys(map(str, MembershipStatus), 0)
        for group_id in managed.values_list("group_id", flat=True)
    }
    rows = Membership.objects.filter(group_id__in=list(found)).values_list("group_id", "status")
    for group_id, status in rows.iterator():
        found[group_id][status] += 1
    return found


def allows_adding(user: User) -> bool:
    """Whether managers of groups may add this user without asking."""
    return not GroupPreference.objects.filter(user=user, allow_add=False).exists()


def set_allows_adding(user: User, allow: bool) -> None:
    GroupPreference.objects.update_or_create(user=user, defaults={"allow_add": allow})


def set_fields(user: User, group_id: uuid.UUID, given: Mapping[str, object]) -> MembershipContext:
    """Set the user's own signup fields. Raises GroupNotFoundError, GroupForbiddenError, GroupInvalidError."""
    values = checked_fields(given)
    with transaction.atomic():
        context = get(user, group_id, lock=True)
        if context.membership is None or context.membership.status not in LIVING:
            raise GroupForbiddenError("You are not in this group, and nobody has invited you.")
        context.membership.fields = values
        context.membership.save(update_fields=["fields"])
    return context


def checked_fields(given: Mapping[str, object]) -> dict[str, str]:
    """Drop empty and unknown fields. Raises GroupInvalidError."""
    values: dict[str, str] = {}
    for name in SIGNUP_FIELDS:
        value = given.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, str) or len(value) > MAX_FIELD or FORBIDDEN.search(value):
            raise GroupInvalidError(name, f"Expected a line of at most {MAX_FIELD} characters.")
        values[name] = value
    return values


def check_by_hand(group: Group) -> None:
    """Whether people change this group. Raises GroupForbiddenError."""
    if group.scim_client_id is not None:
        raise GroupForbiddenError("A directory manages this group: ask those who run the directory.")


def _administered(user: User, group_id: uuid.UUID) -> MembershipContext:
    context = get(user, group_id, lock=True)
    check_by_hand(context.group)
    if not context.administers:
        raise GroupForbiddenError("Only an admin of the group may do this.")
    return context


def _apply(group: Group, policies: Policies) -> None:
    words = {"group_visibility": ("authenticated", "private"), "group_members_visibility": ("members", "managers")}
    for policy in fields(policies):
        value = getattr(policies, policy.name)
        if value is None:
            continue
        if policy.name in words and value not in words[policy.name]:
            raise GroupInvalidError(policy.name, f"Expected one of {', '.join(words[policy.name])}.")
        if policy.name == "signup_fields":
            value = _signup_fields(value)
        setattr(group, policy.name, value)


def _signup_fields(names: Sequence[str]) -> list[str]:
    if unknown := [name for name in names if name not in SIGNUP_FIELDS]:
        raise GroupInvalidError("signup_fields", f"There is no field '{unknown[0][:100]}'.")
    return [name for name in SIGNUP_FIELDS if name in names]


def checked_name(text: str) -> str:
    """Raises GroupInvalidError."""
    if not text.strip() or len(text) > MAX_NAME or FORBIDDEN.search(text):
        raise GroupInvalidError("name", f"Expected a line of at most {MAX_NAME} characters.")
    return text


def _text(field: str, text: str) -> str:
    if len(text) > MAX_TEXT or FORBIDDEN_IN_LINES.search(text):
        raise GroupInvalidError(field, f"At most {MAX_TEXT} characters, and no control ones.")
    return text
