"""Who comes into a group, who goes, and what he is there: the actions of the Groups API, many in one request.

One request is one transaction that holds the group: its actions see each other's results, and nobody else's. An
action that makes no sense for its identity is refused by itself; a right that the caller has not refuses the request.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from django.db import transaction

from . import groups
from .group_errors import GroupForbiddenError, GroupInvalidError
from .groups import LIVING, MAX_MEMBERS, Role, Standing, Status
from .models import GroupPreference, Membership, User

#: Actions of one request.
MAX_ACTIONS = 1000


class Verb(StrEnum):
    """By their names on the wire."""

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


#: What one does for oneself; the rest is done to others.
OWN = frozenset({Verb.ACCEPT, Verb.DECLINE, Verb.JOIN, Verb.LEAVE, Verb.REQUEST_JOIN})


@dataclass(frozen=True, slots=True)
class Action:
    verb: Verb
    identity_id: uuid.UUID
    #: Of add, invite and change_role.
    role: Role = Role.MEMBER
    #: What he tells of himself: of accept, join and request_join.
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one action was not done. code: for programs; reason: a sentence."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    action: Action
    result: Membership | Refusal


def act(user: User, group_id: uuid.UUID, actions: Sequence[Action]) -> list[Outcome]:
    """Do these, in their order.

    -> GroupNotFoundError, GroupForbiddenError (then nothing is done), GroupInvalidError: too many, or one twice
    """
    if not actions or len(actions) > MAX_ACTIONS:
        raise GroupInvalidError("the document", f"A request has 1 to {MAX_ACTIONS} actions.")
    if len({action.identity_id for action in actions}) < len(actions):
        raise GroupInvalidError("identity_id", "An identity is named once in a request.")
    with transaction.atomic():
        standing = groups.get(user, group_id, lock=True)
        _check_rights(standing, {action.verb for action in actions})
        desk = _Desk(user, standing, [action.identity_id for action in actions])
        return [Outcome(action, desk.do(action)) for action in actions]


def allowed(user: User, standing: Standing) -> set[Verb]:
    """What this user may try here, as things are."""
    found: set[Verb] = set()
    if standing.manages:
        found |= {Verb.ADD, Verb.APPROVE, Verb.INVITE, Verb.REJECT, Verb.REMOVE}
    if standing.administers:
        found.add(Verb.CHANGE_ROLE)
    status = standing.membership.status if standing.membership else None
    if status == Status.INVITED:
        found |= {Verb.ACCEPT, Verb.DECLINE, Verb.JOIN}
    elif status == Status.ACTIVE:
        found.add(Verb.LEAVE)
    elif status != Status.PENDING and standing.group.join_requests:
        found.add(Verb.REQUEST_JOIN)
    return found


def _check_rights(standing: Standing, verbs: Collection[Verb]) -> None:
    if Verb.CHANGE_ROLE in verbs and not standing.administers:
        raise GroupForbiddenError("Only an admin of the group changes roles.")
    if set(verbs) - OWN and not standing.manages:
        raise GroupForbiddenError("Only a manager or an admin of the group may do this to others.")


class _RefusedError(Exception):
    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code)
        self.refusal = Refusal(code, reason)


class _Desk:
    """Does one action after the other on a group that is held."""

    def __init__(self, user: User, standing: Standing, identity_ids: Sequence[uuid.UUID]) -> None:
        self._user = user
        self._standing = standing
        self._group = standing.group
        self._people = User.objects.filter(is_active=True).in_bulk(identity_ids)
        rows = Membership.objects.select_related("user").filter(group=self._group)
        self._rows = {row.user_id: row for row in rows.filter(user_id__in=identity_ids)}
        self._unwilling = set(
            GroupPreference.objects.filter(user_id__in=identity_ids, allow_add=False).values_list("user_id", flat=True)
        )
        self._living = rows.filter(status__in=LIVING).count()
        self._admins = rows.filter(status=Status.ACTIVE, role=Role.ADMIN).count()
        self._handlers = {
            Verb.ACCEPT: self._accept, Verb.ADD: self._add, Verb.APPROVE: self._approve, Verb.DECLINE: self._decline,
            Verb.CHANGE_ROLE: self._change_role, Verb.INVITE: self._invite, Verb.JOIN: self._join,
            Verb.LEAVE: self._leave, Verb.REJECT: self._reject, Verb.REMOVE: self._remove,
            Verb.REQUEST_JOIN: self._request_join,
        }  # fmt: skip

    def do(self, action: Action) -> Membership | Refusal:
        try:
            if action.verb in OWN and action.identity_id != self._user.pk:
                raise _RefusedError("FORBIDDEN", "This identity is not yours.")
            if action.identity_id not in self._people:
                raise _RefusedError("IDENTITY_NOT_FOUND", "There is no such identity.")
            return self._handlers[action.verb](action)
        except _RefusedError as error:
            return error.refusal

    # ---- done to others

    def _add(self, action: Action) -> Membership:
        row = self._rows.get(action.identity_id)
        self._check_role(action.role, row)
        if row and row.status == Status.ACTIVE:
            raise _RefusedError("MEMBERSHIP_EXISTS", "This identity is in the group already.")
        if row and row.status == Status.LEFT:
            raise _RefusedError("HAS_LEFT", "This identity has left the group: invite it.")
        if action.identity_id in self._unwilling:
            raise _RefusedError("ADD_NOT_ALLOWED", "This identity is not to be added without being asked: invite it.")
        return self._put(action.identity_id, Status.ACTIVE, action.role)

    def _invite(self, action: Action) -> Membership:
        row = self._rows.get(action.identity_id)
        self._check_role(action.role, row)
        if row and row.status == Status.ACTIVE:
            raise _RefusedError("MEMBERSHIP_EXISTS", "This identity is in the group already.")
        if row and row.status == Status.PENDING:
            raise _RefusedError("WRONG_STATUS", "This identity has asked to join: approve it.")
        return self._put(action.identity_id, Status.INVITED, action.role)

    def _approve(self, action: Action) -> Membership:
        row = self._row(action, Status.PENDING)
        return self._put(row.user_id, Status.ACTIVE, Role.MEMBER)

    def _reject(self, action: Action) -> Membership:
        row = self._row(action, Status.PENDING)
        return self._put(row.user_id, Status.REJECTED, Role.MEMBER)

    def _remove(self, action: Action) -> Membership:
        """Nobody removes himself, so that an admin is left."""
        if action.identity_id == self._user.pk:
            raise _RefusedError("FORBIDDEN", "Nobody removes himself: leave the group.")
        row = self._row(action, Status.ACTIVE, Status.INVITED)
        if row.role == Role.ADMIN and not self._standing.administers:
            raise _RefusedError("FORBIDDEN", "Only an admin removes an admin.")
        return self._put(row.user_id, Status.REMOVED, Role.MEMBER)

    def _change_role(self, action: Action) -> Membership:
        row = self._row(action, Status.ACTIVE)
        if action.role != Role.ADMIN:
            self._check_not_last(row, "be less than that")
        return self._put(row.user_id, Status.ACTIVE, action.role)

    # ---- done for oneself

    def _accept(self, action: Action) -> Membership:
        row = self._row(action, Status.INVITED)
        return self._put(row.user_id, Status.ACTIVE, Role(row.role), self._fields(action, row))

    def _join(self, action: Action) -> Membership:
        row = self._rows.get(action.identity_id)
        if row and row.status == Status.INVITED:
            return self._accept(action)
        how = "ask to join it (request_join)" if self._group.join_requests else "wait for an invitation"
        raise _RefusedError("FORBIDDEN", f"Nobody joins this group without its managers: {how}.")

    def _decline(self, action: Action) -> Membership:
        row = self._row(action, Status.INVITED)
        return self._put(row.user_id, Status.DECLINED, Role.MEMBER)

    def _leave(self, action: Action) -> Membership:
        row = self._row(action, Status.ACTIVE)
        self._check_not_last(row, "leave")
        return self._put(row.user_id, Status.LEFT, Role.MEMBER)

    def _request_join(self, action: Action) -> Membership:
        if not self._group.join_requests:
            raise _RefusedError("FORBIDDEN", "This group takes no requests to join.")
        row = self._rows.get(action.identity_id)
        if row and row.status in LIVING:
            raise _RefusedError("MEMBERSHIP_EXISTS", f"This identity is {row.status} already.")
        return self._put(action.identity_id, Status.PENDING, Role.MEMBER, self._fields(action, row))

    # ---- what they share

    def _row(self, action: Action, *statuses: Status) -> Membership:
        row = self._rows.get(action.identity_id)
        if row is None or row.status not in statuses:
            wanted = " or ".join(statuses)
            raise _RefusedError("WRONG_STATUS", f"This identity is not {wanted} here.")
        return row

    def _check_role(self, role: Role, row: Membership | None) -> None:
        """row: an invitation by an admin is not to be made less by another one over it."""
        offered = row is not None and row.status == Status.INVITED and row.role != Role.MEMBER
        if (role != Role.MEMBER or offered) and not self._standing.administers:
            raise _RefusedError("FORBIDDEN", "Only an admin makes managers and admins.")

    def _check_not_last(self, row: Membership, what: str) -> None:
        if row.role == Role.ADMIN and self._admins <= 1:
            raise _RefusedError("LAST_ADMIN", f"The last admin of a group cannot {what}.")

    def _fields(self, action: Action, row: Membership | None) -> dict[str, str]:
        """All that the group wants to know, told now or before."""
        try:
            told = {**(row.fields if row else {}), **groups.checked_fields(action.fields)}
        except GroupInvalidError as error:
            raise _RefusedError("FIELDS_INVALID", f"{error.field}: {error.reason}") from None
        if missing := [name for name in self._group.signup_fields if not told.get(name)]:
            raise _RefusedError("FIELDS_MISSING", f"The group wants to know: {', '.join(missing)}.")
        return told

    def _put(
        self, identity_id: uuid.UUID, status: Status, role: Role, fields: dict[str, str] | None = None
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
    return status == Status.ACTIVE and role == Role.ADMIN
