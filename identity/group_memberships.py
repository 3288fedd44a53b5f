"""Actions on the memberships of a group (Groups API v2), many in one request.

One request is one transaction that locks the group: each action sees the results of the actions before it, and no
concurrent change. An action that is not possible for its identity is refused alone; a missing right of the caller
refuses the whole request. A member is a person: an action on a linked identity is one on its user, who stays a member
when the identity is unlinked.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from django.db import transaction

from . import groups
from . import linked_identities as linked
from .database_rows import enum_value
from .groups import (
    LIVING,
    MAX_MEMBERS,
    GroupForbiddenError,
    GroupInvalidError,
    GroupRole,
    MembershipContext,
    MembershipStatus,
)
from .models import GroupPreference, Membership, User

#: Actions of one request.
MAX_ACTIONS = 1000


class MembershipVerb(StrEnum):
    """The verbs, by their names on the wire."""

    ACCEPT = "accept"
    ADD = "add"
    APPROVE = "approve"
    CHANGE_ROLE = "change_role"
    DECLINE = "decline"
    INVITE = "invite"
    JOIN = "join"
    LEAVE = "leave"
    REJECT = "reject"
    REMOVE = "remove"
    REQUEST_JOIN = "request_join"


#: Verbs that users apply to themselves; managers apply the others to other users.
OWN = frozenset(
    {
        MembershipVerb.ACCEPT,
        MembershipVerb.DECLINE,
        MembershipVerb.JOIN,
        MembershipVerb.LEAVE,
        MembershipVerb.REQUEST_JOIN,
    }
)


@dataclass(frozen=True, slots=True)
class MembershipAction:
    verb: MembershipVerb
    #: Of a user, or of a linked identity of the user.
    identity_id: uuid.UUID
    #: Used by add, invite and change_role.
    role: GroupRole = GroupRole.MEMBER
    #: Signup fields of the user: used by accept, join and request_join.
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActionRefusal:
    """Why an action was not done. code: for programs; reason: a sentence."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class ActionResult:
    action: MembershipAction
    result: Membership | ActionRefusal


def act(user: User, group_id: uuid.UUID, actions: Sequence[MembershipAction]) -> list[ActionResult]:
    """Do the actions in their order. Returns one result for each action.

    Raises GroupNotFoundError, GroupForbiddenError (nothing is done then), and GroupInvalidError for too many actions,
    or for two actions on one person.
    """
    if not actions or len(actions) > MAX_ACTIONS:
        raise GroupInvalidError("the document", f"A request has 1 to {MAX_ACTIONS} actions.")
    with transaction.atomic():
        people = _people([action.identity_id for action in actions])
        context = groups.get(user, group_id, lock=True)
        groups.check_by_hand(context.group)
        _check_rights(context, {action.verb for action in actions})
        runner = _ActionRunner(user, context, people)
        return [ActionResult(action, runner.do(action)) for action in actions]


def _people(ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, User]:
    """The users whom these ids name. Raises GroupInvalidError when two of the ids name one person."""
    people = linked.people(ids)
    if len({people[one].pk if one in people else one for one in ids}) < len(ids):
        raise GroupInvalidError("identity_id", "A person is named once in a request.")
    return people


def allowed(user: User, context: MembershipContext) -> set[MembershipVerb]:
    """The verbs that this user may try now."""
    found: set[MembershipVerb] = set()
    if context.group.scim_client_id is not None:
        return found
    if context.manages:
        found |= {
            MembershipVerb.ADD,
            MembershipVerb.APPROVE,
            MembershipVerb.INVITE,
            MembershipVerb.REJECT,
            MembershipVerb.REMOVE,
        }
    if context.administers:
        found.add(MembershipVerb.CHANGE_ROLE)
    status = context.membership.status if context.membership else None
    if status == MembershipStatus.INVITED:
        found |= {MembershipVerb.ACCEPT, MembershipVerb.DECLINE, MembershipVerb.JOIN}
    elif status == MembershipStatus.ACTIVE:
        found.add(MembershipVerb.LEAVE)
    elif status != MembershipStatus.PENDING and context.group.join_requests:
        found.add(MembershipVerb.REQUEST_JOIN)
    return found


def _check_rights(context: MembershipContext, verbs: Collection[MembershipVerb]) -> None:
    if MembershipVerb.CHANGE_ROLE in verbs and not context.administers:
        raise GroupForbiddenError("Only an admin of the group changes roles.")
    if set(verbs) - OWN and not context.manages:
        raise GroupForbiddenError("Only a manager or an admin of the group may do this to others.")


class _RefusedError(Exception):
    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code)
        self.refusal = ActionRefusal(code, reason)


class _ActionRunner:
    """Applies actions, one after the other, to a group that the transaction has locked."""

    def __init__(self, user: User, context: MembershipContext, people: Mapping[uuid.UUID, User]) -> None:
        """people: the users by the ids that the actions name (`linked.people`)."""
        self._user = user
        self._context = context
        self._group = context.group
        self._named = people
        self._people = {person.pk: person for person in people.values() if person.is_active}
        identity_ids = list(self._people)
        rows = Membership.objects.select_related("user").filter(group=self._group)
        self._rows = {row.user_id: row for row in rows.filter(user_id__in=identity_ids)}
        self._unwilling = set(
            GroupPreference.objects.filter(user_id__in=identity_ids, allow_add=False).values_list("user_id", flat=True)
        )
        self._living = rows.filter(status__in=LIVING).count()
        self._admins = rows.filter(status=MembershipStatus.ACTIVE, role=GroupRole.ADMIN).count()
        self._handlers = {
            MembershipVerb.ACCEPT: self._accept,
            MembershipVerb.ADD: self._add,
            MembershipVerb.APPROVE: self._approve,
            MembershipVerb.DECLINE: self._decline,
            MembershipVerb.CHANGE_ROLE: self._change_role,
            MembershipVerb.INVITE: self._invite,
            MembershipVerb.JOIN: self._join,
            MembershipVerb.LEAVE: self._leave,
            MembershipVerb.REJECT: self._reject,
            MembershipVerb.REMOVE: self._remove,
            MembershipVerb.REQUEST_JOIN: self._request_join,
        }

    def do(self, action: MembershipAction) -> Membership | ActionRefusal:
        try:
            person = self._named.get(action.identity_id)
            if action.verb in OWN and person != self._user:
                raise _RefusedError("FORBIDDEN", "This identity is not yours.")
            if person is None or not person.is_active:
                raise _RefusedError("IDENTITY_NOT_FOUND", "There is no such identity.")
            return self._handlers[action.verb](replace(action, identity_id=person.pk))
        except _RefusedError as error:
            return error.refusal

    # ---- done to others

    def _add(self, action: MembershipAction) -> Membership:
        row = self._rows.get(action.identity_id)
        self._check_role(action.role, row)
        if row and row.status == MembershipStatus.ACTIVE:
            raise _RefusedError("MEMBERSHIP_EXISTS", "This identity is in the group already.")
        if row and row.status == MembershipStatus.LEFT:
            raise _RefusedError("HAS_LEFT", "This identity has left the group: invite it.")
        if action.identity_id in self._unwilling:
            raise _RefusedError("ADD_NOT_ALLOWED", "This identity does not allow others to add it: invite it.")
        return self._put(action.identity_id, MembershipStatus.ACTIVE, action.role)

    def _invite(self, action: MembershipAction) -> Membership:
        row = self._rows.get(action.identity_id)
        self._check_role(action.role, row)
        if row and row.status == MembershipStatus.ACTIVE:
            raise _RefusedError("MEMBERSHIP_EXISTS", "This identity is in the group already.")
        if row and row.status == MembershipStatus.PENDING:
            raise _RefusedError("WRONG_STATUS", "This identity has asked to join: approve it.")
        return self._put(action.identity_id, MembershipStatus.INVITED, action.role)

    def _approve(self, action: MembershipAction) -> Membership:
        row = self._row(action, MembershipStatus.PENDING)
        return self._put(row.user_id, MembershipStatus.ACTIVE, GroupRole.MEMBER)

    def _reject(self, action: MembershipAction) -> Membership:
        row = self._row(action, MembershipStatus.PENDING)
        return self._put(row.user_id, MembershipStatus.REJECTED, GroupRole.MEMBER)

    def _remove(self, action: MembershipAction) -> Membership:
        """Users cannot remove themselves, so that an admin remains."""
        if action.identity_id == self._user.pk:
            raise _RefusedError("FORBIDDEN", "You cannot remove yourself: leave the group instead.")
        row = self._row(action, MembershipStatus.ACTIVE, MembershipStatus.INVITED)
        if row.role == GroupRole.ADMIN and not self._context.administers:
            raise _RefusedError("FORBIDDEN", "Only an admin removes an admin.")
        return self._put(row.user_id, MembershipStatus.REMOVED, GroupRole.MEMBER)

    def _change_role(self, action: MembershipAction) -> Membership:
        row = self._row(action, MembershipStatus.ACTIVE)
        if action.role != GroupRole.ADMIN:
            self._check_not_last(row, "be demoted")
        return self._put(row.user_id, MembershipStatus.ACTIVE, action.role)

    # ---- done for oneself

    def _accept(self, action: MembershipAction) -> Membership:
        row = self._row(action, MembershipStatus.INVITED)
        return self._put(
            row.user_id, MembershipStatus.ACTIVE, enum_value(GroupRole, row.role), self._fields(action, row)
        )

    def _join(self, action: MembershipAction) -> Membership:
        row = self._rows.get(action.identity_id)
        if row and row.status == MembershipStatus.INVITED:
            return self._accept(action)
        how = "ask to join it (request_join)" if self._group.join_requests else "wait for an invitation"
        raise _RefusedError("FORBIDDEN", f"Only a manager can admit members: {how}.")

    def _decline(self, action: MembershipAction) -> Membership:
        row = self._row(action, MembershipStatus.INVITED)
        return self._put(row.user_id, MembershipStatus.DECLINED, GroupRole.MEMBER)

    def _leave(self, action: MembershipAction) -> Membership:
        row = self._row(action, MembershipStatus.ACTIVE)
        self._check_not_last(row, "leave")
        return self._put(row.user_id, MembershipStatus.LEFT, GroupRole.MEMBER)

    def _request_join(self, action: MembershipAction) -> Membership:
        if not self._group.join_requests:
            raise _RefusedError("FORBIDDEN", "This group takes no requests to join.")
        row = self._rows.get(action.identity_id)
        if row and row.status in LIVING:
            raise _RefusedError("MEMBERSHIP_EXISTS", f"This identity is {row.status} already.")
        return self._put(action.identity_id, MembershipStatus.PENDING, GroupRole.MEMBER, self._fields(action, row))

    # ---- shared helpers

    def _row(self, action: MembershipAction, *statuses: MembershipStatus) -> Membership:
        row = self._rows.get(action.identity_id)
        if row is None or row.status not in statuses:
            wanted = " or ".join(statuses)
            raise _RefusedError("WRONG_STATUS", f"This identity is not {wanted} here.")
        return row

    def _check_role(self, role: GroupRole, row: Membership | None) -> None:
        """row: a plain manager must not replace an admin's invitation by one with a lower role."""
        offered = row is not None and row.status == MembershipStatus.INVITED and row.role != GroupRole.MEMBER
        if (role != GroupRole.MEMBER or offered) and not self._context.administers:
            raise _RefusedError("FORBIDDEN", "Only an admin makes managers and admins.")

    def _check_not_last(self, row: Membership, what: str) -> None:
        if row.role == GroupRole.ADMIN and self._admins <= 1:
            raise _RefusedError("LAST_ADMIN", f"The last admin of a group cannot {what}.")

    def _fields(self, action: MembershipAction, row: Membership | None) -> dict[str, str]:
        """All signup fields that the group requires, given now or earlier."""
        try:
            values = {**(row.fields if row else {}), **groups.checked_fields(action.fields)}
        except GroupInvalidError as error:
            raise _RefusedError("FIELDS_INVALID", f"{error.field}: {error.reason}") from None
        if missing := [name for name in self._group.signup_fields if not values.get(name)]:
            raise _RefusedError("FIELDS_MISSING", f"The group requires these fields: {', '.join(missing)}.")
        return values

    def _put(
        self, identity_id: uuid.UUID, status: MembershipStatus, role: GroupRole, fields: dict[str, str] | None = None
    ) -> Membership:
        row = self._rows.get(identity_id)
        if row is None:
            row = Membership(group=self._group, user=self._people[identity_id])
        living, was_living = status in LIVING, row.status in LIVING
        if living and not was_living and self._living >= MAX_MEMBERS:
            raise _RefusedError("LIMIT_EXCEEDED", f"A group has at most {MAX_MEMBERS} members.")
        self._living += living - was_living
        self._admins += _is_admin(status, role) - _is_admin(row.status, row.role)
        row.status, row.role, row.updated_by = status, role, self._user
        row.fields = row.fields if fields is None else fields
        row.save()
        self._rows[identity_id] = row
        return row


def _is_admin(status: str, role: str) -> bool:
    return status == MembershipStatus.ACTIVE and role == GroupRole.ADMIN
