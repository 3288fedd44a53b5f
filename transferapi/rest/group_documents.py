"""The documents of groups and memberships (Groups API v2). They have no DATA_TYPE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from identity import group_memberships
from identity import shown_names as shown_identity
from identity.group_memberships import MAX_ACTIONS, ActionRefusal, ActionResult, MembershipVerb
from identity.groups import SIGNUP_FIELDS, GroupRole, MembershipContext, MembershipStatus
from identity.models import Group, Membership, User

from .openapi import types as t
from .openapi.document_types import (
    Always,
    Field,
    OtherRequest,
    OtherResponse,
    RequestDocument,
    ResponseDocument,
    as_given,
    each,
    optional,
)

_GROUP_ID, _ALICE = "9d1f0c3a-2b7e-4a56-8c1d-3f0e5a7b9c21", "5276fa05-eedf-46c5-919f-ad2d0160d1a9"
_BOB, _CHARLIE = "70c1f1b2-5d0e-4b54-8d3c-6a2a4f1f7e30", "8f1c7d1e-4b0a-4c55-9a41-6f4d5f0f6a01"
#: Seconds after which a group of high assurance would want a new sign-in; ours never does.
_SESSION_LIMIT = 28800
_SIGNUP = " ".join(SIGNUP_FIELDS)
_SHOWN_FIELDS = t.object_of(t.properties(_SIGNUP, t.TEXT), sometimes=_SIGNUP)
_GIVEN_FIELDS = t.object_with("", t.properties(_SIGNUP, t.MAYBE_TEXT))
_FIELDS_EXAMPLE = {"institution": "Example University"}

# ---- policies

_VISIBILITY = Field[Group](
    "group_visibility",
    t.about("authenticated: everybody who is signed in sees that it exists", t.one_of("authenticated", "private")),
    example="private",
)
_MEMBERS_VISIBILITY = Field[Group](
    "group_members_visibility", t.about("who can list the members", t.one_of("members", "managers")), example="managers"
)
_JOIN_REQUESTS = Field[Group]("join_requests", t.about("whether users may ask to join", t.FLAG))
_SIGNUP_FIELDS = Field[Group](
    "signup_fields",
    t.about("fields that a new member must fill in", t.list_of(t.one_of(*SIGNUP_FIELDS))),
    example=["institution"],
)
_OWN_POLICIES = (_VISIBILITY, _MEMBERS_VISIBILITY, _JOIN_REQUESTS, _SIGNUP_FIELDS)
POLICIES = ResponseDocument[Group](
    "group_policies",
    Field("is_high_assurance", t.FLAG, Always(False)),
    Field("authentication_assurance_timeout", t.MAYBE_NUMBER, Always(None)),
    *_OWN_POLICIES,
    data_type=None,
)
POLICIES_REQUEST = RequestDocument(
    "group_policies",
    "",
    Field("is_high_assurance", t.about("not supported: true is refused", t.MAYBE_FLAG)),
    Field("authentication_assurance_timeout", t.about("accepted and ignored", t.MAYBE_NUMBER), read=as_given),
    *optional(*_OWN_POLICIES),
    data_type=None,
    example={
        "is_high_assurance": False,
        "group_visibility": "authenticated",
        "group_members_visibility": "members",
        "join_requests": True,
        "signup_fields": ["institution"],
    },
)

# ---- memberships

MEMBERSHIP = ResponseDocument[Membership](
    "group_membership",
    Field("group_id", t.UUID, example=_GROUP_ID),
    Field("identity_id", t.UUID, "user_id", _ALICE),
    Field("username", t.TEXT, lambda row: shown_identity.name_of(row.user), "alice@example.org"),
    Field("role", t.one_of(*GroupRole), example="admin"),
    Field("status", t.one_of(*MembershipStatus), example="active"),
    *each("status_reason invite_email_address", t.MAYBE_TEXT, Always(None)),
    Field("updated", t.MAYBE_TIME, "updated_at"),
    Field("membership_fields", _SHOWN_FIELDS, "fields", _FIELDS_EXAMPLE),
    data_type=None,
)
_FIELDS_BY_ID = {_ALICE: _FIELDS_EXAMPLE}
MEMBERSHIP_FIELDS = OtherResponse("membership_fields", t.by_id("your identity", _SHOWN_FIELDS), _FIELDS_BY_ID)
MEMBERSHIP_FIELDS_REQUEST = OtherRequest("membership_fields", t.by_id("your identity", _GIVEN_FIELDS), _FIELDS_BY_ID)
PREFERENCES = OtherResponse(
    "group_preferences", t.by_id("your identity", t.object_of({"allow_add": t.FLAG})), {_ALICE: {"allow_add": True}}
)
PREFERENCES_REQUEST = OtherRequest(
    "group_preferences",
    t.by_id("your identity", t.object_with("", {"allow_add": t.MAYBE_FLAG})),
    {_ALICE: {"allow_add": False}},
)


def membership_fields(context: MembershipContext) -> dict[str, Any]:
    own = context.membership
    return {} if own is None else {str(own.user_id): own.fields}


# ---- actions

_VERBS = " ".join(MembershipVerb)
_ALLOWED = ["add", "approve", "change_role", "invite", "leave", "remove"]
ALLOWED_ACTIONS = ResponseDocument[None](
    "group_allowed_actions",
    *each(_VERBS, t.list_of(t.UUID)),
    data_type=None,
    example={verb: [_ALICE] for verb in _ALLOWED},
)
ACTION_ERROR = ResponseDocument[ActionResult](
    "group_action_error",
    Field("identity_id", t.UUID, "action.identity_id", _BOB),
    Field("code", t.TEXT, "result.code", "MEMBERSHIP_EXISTS"),
    Field("detail", t.TEXT, "result.reason", "This identity is in the group already."),
    data_type=None,
)
ACTION_ERRORS = ResponseDocument[None](
    "group_action_errors",
    *(Field[None](verb, t.list_of(ACTION_ERROR.ref), sometimes=True) for verb in MembershipVerb),
    data_type=None,
    example={"add": [ACTION_ERROR.example]},
)
ACTIONS_RESULT = ResponseDocument[None](
    "group_actions_result",
    *(Field[None](verb, t.list_of(MEMBERSHIP.ref), sometimes=True) for verb in MembershipVerb),
    Field("errors", ACTION_ERRORS.ref, sometimes=True),
    data_type=None,
    example={"invite": [MEMBERSHIP.example], "errors": ACTION_ERRORS.example},
)
_IDENTITY = t.object_with("identity_id", {"identity_id": t.UUID, "membership_fields": t.maybe(_GIVEN_FIELDS)})
_WITH_ROLE = t.object_with("identity_id", {"identity_id": t.UUID, "role": t.maybe(t.one_of(*GroupRole))})
_ROLES = (MembershipVerb.ADD, MembershipVerb.INVITE, MembershipVerb.CHANGE_ROLE)
ACTIONS = RequestDocument(
    "group_actions",
    "",
    *(
        Field[Any](verb, t.list_of(_WITH_ROLE if verb in _ROLES else _IDENTITY, maxItems=MAX_ACTIONS, nullable=True))
        for verb in MembershipVerb
    ),
    data_type=None,
    example={
        "add": [{"identity_id": _BOB, "role": "member"}],
        "invite": [{"identity_id": _CHARLIE, "role": "manager"}],
    },
)


def allowed_actions(user: User, context: MembershipContext) -> dict[str, list[str]]:
    """For each verb the identities with which the user may try it. A user has one identity."""
    found = group_memberships.allowed(user, context)
    return {str(verb): [str(user.pk)] if verb in found else [] for verb in MembershipVerb}


def outcomes(found: Sequence[ActionResult]) -> dict[str, Any]:
    """The changed memberships by verb, and under `errors` the refused actions by verb."""
    done: dict[str, Any] = {}
    errors: dict[str, list[dict[str, str]]] = {}
    shown_identity.load(one.result.user for one in found if not isinstance(one.result, ActionRefusal))
    for one in found:
        verb = str(one.action.verb)
        if isinstance(one.result, ActionRefusal):
            errors.setdefault(verb, []).append(ACTION_ERROR.document(one))
        else:
            done.setdefault(verb, []).append(MEMBERSHIP.document(one.result))
    return done | ({"errors": errors} if errors else {})


# ---- groups

_NAME = Field[MembershipContext]("name", t.TEXT, "group.name", "Beamline 7")
_WORDS = (
    Field[MembershipContext]("description", t.TEXT, "group.description", "All who measure there"),
    Field[MembershipContext]("terms_and_conditions", t.TEXT, "group.terms_and_conditions", ""),
)
GROUP = ResponseDocument[MembershipContext](
    "group",
    Field("id", t.UUID, "group.pk", _GROUP_ID),
    _NAME,
    *_WORDS,
    Field("parent_id", t.MAYBE_TEXT, Always(None)),
    Field("group_type", t.one_of("regular"), Always("regular")),
    Field("enforce_session", t.FLAG, Always(False)),
    Field("session_limit", t.NUMBER, Always(_SESSION_LIMIT), _SESSION_LIMIT),
    Field("session_timeouts", {"type": "object"}, lambda _: {}, {}),
    Field(
        "my_memberships",
        t.list_of(MEMBERSHIP.ref),
        lambda context: [] if context.membership is None else [MEMBERSHIP.document(context.membership)],
        [MEMBERSHIP.example],
    ),
    Field("policies", POLICIES.ref, lambda context: POLICIES.document(context.group), POLICIES.example),
    Field("subscription_id", t.MAYBE_TEXT, Always(None)),
    Field(
        "subscription_info",
        {"type": "object", "nullable": True, "description": "there are no subscriptions"},
        Always(None),
    ),
    Field("subscription_admin_verified_id", t.MAYBE_TEXT, Always(None)),
    Field(
        "memberships",
        t.about("present if `include` names it", t.list_of(MEMBERSHIP.ref)),
        example=[MEMBERSHIP.example],
        sometimes=True,
    ),
    Field(
        "allowed_actions",
        t.about(
            "present if `include` names it: for each action, those of your identities that may do it",
            ALLOWED_ACTIONS.ref,
        ),
        example=ALLOWED_ACTIONS.example,
        sometimes=True,
    ),
    Field(
        "child_ids",
        t.about("present if `include` names it; always empty", t.list_of(t.UUID)),
        example=[],
        sometimes=True,
    ),
    data_type=None,
)
STATUSES = OtherResponse(
    "group_statuses",
    t.by_id("the group", t.object_of(t.properties(" ".join(MembershipStatus), t.NUMBER))),
    {_GROUP_ID: {**dict.fromkeys(MembershipStatus, 0), "active": 12, "invited": 2, "pending": 1, "left": 3}},
)
CHILDREN = ResponseDocument[None]("group_children", Field("children", t.list_of(GROUP.ref)), data_type=None)
GROUP_REQUEST = RequestDocument(
    "group",
    "name",
    _NAME,
    *optional(*_WORDS),
    Field("parent_id", t.about("not supported: a group has no parent", t.MAYBE_TEXT), read=as_given),
    Field("policies", t.maybe(POLICIES_REQUEST.schema)),
    data_type=None,
    example={"description": "All who measure there", "policies": {"join_requests": True}},
)
GROUP_CHANGE = RequestDocument(
    "group_change",
    "",
    *optional(_NAME, *_WORDS),
    data_type=None,
    example={"name": "Beamline 7a", "description": "All who measure there", "terms_and_conditions": ""},
)
