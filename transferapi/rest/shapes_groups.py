"""The documents of groups."""

from __future__ import annotations

from identity.groups import SIGNUP_FIELDS, Role, Status
from identity.memberships import MAX_ACTIONS, Verb

from .schema import (
    FLAG,
    MAYBE_FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_TIME,
    NUMBER,
    SOMETIMES,
    TEXT,
    UUID,
    Schema,
    about,
    each,
    list_of,
    one_of,
    ref,
    taken,
    told_plain,
)

_VISIBILITY, _MEMBERS_VISIBILITY = one_of("authenticated", "private"), one_of("members", "managers")
_SIGNUP = list_of(one_of(*SIGNUP_FIELDS))
_NOTHING: Schema = {"type": "object", "nullable": True, "description": "there are no subscriptions"}
_FIELDS: Schema = {"type": "object", "properties": each(" ".join(SIGNUP_FIELDS), TEXT), "additionalProperties": False}
_WRITTEN_FIELDS: Schema = {"type": "object", "properties": each(" ".join(SIGNUP_FIELDS), MAYBE_TEXT)}
_POLICIES: dict[str, Schema] = {
    "is_high_assurance": FLAG,
    "authentication_assurance_timeout": MAYBE_NUMBER,
    "group_visibility": about("authenticated: everybody who is signed in sees that it exists", _VISIBILITY),
    "group_members_visibility": about("who sees who is in it", _MEMBERS_VISIBILITY),
    "join_requests": about("people may ask to join", FLAG),
    "signup_fields": about("what who joins must tell of himself", _SIGNUP),
}
_PREFERENCES: Schema = {"type": "object", "properties": {"allow_add": FLAG}, "additionalProperties": False}
_COUNTS: Schema = {"type": "object", "properties": each(" ".join(Status), NUMBER), "additionalProperties": False}


def _by_id(what: str, schema: Schema) -> Schema:
    return {"type": "object", "properties": {}, "additionalProperties": schema, "description": f"by the id of {what}"}


ANSWERS_GROUPS: dict[str, Schema] = {
    "group_membership": told_plain(
        {
            **each("group_id identity_id", UUID),
            "username": TEXT,
            "role": one_of(*Role),
            "status": one_of(*Status),
            **each("status_reason invite_email_address", MAYBE_TEXT),
            "updated": MAYBE_TIME,
            "membership_fields": {**_FIELDS, SOMETIMES: list(SIGNUP_FIELDS)},
        }
    ),
    "group_policies": told_plain(_POLICIES),
    "group": told_plain(
        {
            "id": UUID,
            **each("name description terms_and_conditions", TEXT),
            "parent_id": MAYBE_TEXT,
            "group_type": one_of("regular"),
            "enforce_session": FLAG,
            "session_limit": NUMBER,
            "session_timeouts": {"type": "object"},
            "my_memberships": list_of(ref("group_membership")),
            "policies": ref("group_policies"),
            "subscription_id": MAYBE_TEXT,
            "subscription_info": _NOTHING,
            "subscription_admin_verified_id": MAYBE_TEXT,
            "memberships": about("only if `include` says so", list_of(ref("group_membership"))),
            "allowed_actions": about(
                "only if `include` says so: by verb, your identities", ref("group_allowed_actions")
            ),
            "child_ids": about("only if `include` says so; always empty", list_of(UUID)),
        },
        sometimes="memberships allowed_actions child_ids",
    ),
    "group_allowed_actions": told_plain(each(" ".join(Verb), list_of(UUID))),
    "group_statuses": _by_id("the group", _COUNTS),
    "group_children": told_plain({"children": list_of(ref("group"))}),
    "group_action_error": told_plain({"identity_id": UUID, **each("code detail", TEXT)}),
    "group_action_errors": told_plain(
        each(" ".join(Verb), list_of(ref("group_action_error"))), sometimes=" ".join(Verb)
    ),
    "group_actions_result": told_plain(
        {**each(" ".join(Verb), list_of(ref("group_membership"))), "errors": ref("group_action_errors")},
        sometimes=" ".join((*Verb, "errors")),
    ),
    "membership_fields": _by_id("your identity", {**_FIELDS, SOMETIMES: list(SIGNUP_FIELDS)}),
    "group_preferences": _by_id("your identity", _PREFERENCES),
}

_WRITTEN_POLICIES: dict[str, Schema] = {
    "is_high_assurance": about("true is refused", MAYBE_FLAG),
    "authentication_assurance_timeout": about("passed over", MAYBE_NUMBER),
    "group_visibility": {**_VISIBILITY, "nullable": True},
    "group_members_visibility": {**_MEMBERS_VISIBILITY, "nullable": True},
    "join_requests": MAYBE_FLAG,
    "signup_fields": {**_SIGNUP, "nullable": True},
}
_IDENTITY = taken("identity_id", {"identity_id": UUID, "membership_fields": {**_WRITTEN_FIELDS, "nullable": True}})
_WITH_ROLE = taken("identity_id", {"identity_id": UUID, "role": {**one_of(*Role), "nullable": True}})
_ROLES = (Verb.ADD, Verb.INVITE, Verb.CHANGE_ROLE)

REQUESTS_GROUPS: dict[str, Schema] = {
    "group": taken(
        "name",
        {
            "name": TEXT,
            **each("description terms_and_conditions", MAYBE_TEXT),
            "parent_id": about("refused: there are no groups in groups", MAYBE_TEXT),
            "policies": {**taken("", _WRITTEN_POLICIES), "nullable": True},
        },
    ),
    "group_change": taken("", each("name description terms_and_conditions", MAYBE_TEXT)),
    "group_policies": taken("", _WRITTEN_POLICIES),
    "group_actions": taken(
        "",
        {
            str(verb): list_of(_WITH_ROLE if verb in _ROLES else _IDENTITY, maxItems=MAX_ACTIONS, nullable=True)
            for verb in Verb
        },
    ),
    "membership_fields": _by_id("your identity", _WRITTEN_FIELDS),
    "group_preferences": _by_id("your identity", taken("", {"allow_add": MAYBE_FLAG})),
}
