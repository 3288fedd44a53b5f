"""Documents out: groups and memberships on the wire (Groups API v2). They have no DATA_TYPE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from identity import memberships
from identity.groups import Standing
from identity.memberships import Outcome, Refusal, Verb
from identity.models import Group, Membership, User

from .documents import time

#: Seconds after which a group of high assurance would want a new sign-in; ours never does.
_SESSION_LIMIT = 28800


def group(standing: Standing) -> dict[str, Any]:
    row, own = standing.group, standing.membership
    return {
        "id": str(row.pk),
        "name": row.name,
        "description": row.description,
        "terms_and_conditions": row.terms_and_conditions,
        "parent_id": None,
        "group_type": "regular",
        "enforce_session": False,
        "session_limit": _SESSION_LIMIT,
        "session_timeouts": {},
        "my_memberships": [] if own is None else [membership(own)],
        "policies": policies(row),
        "subscription_id": None,
        "subscription_info": None,
        "subscription_admin_verified_id": None,
    }


def policies(row: Group) -> dict[str, Any]:
    return {
        "is_high_assurance": False,
        "authentication_assurance_timeout": None,
        "group_visibility": row.group_visibility,
        "group_members_visibility": row.group_members_visibility,
        "join_requests": row.join_requests,
        "signup_fields": row.signup_fields,
    }


def membership(row: Membership) -> dict[str, Any]:
    return {
        "group_id": str(row.group_id),
        "identity_id": str(row.user_id),
        "username": row.user.username,
        "role": row.role,
        "status": row.status,
        "status_reason": None,
        "invite_email_address": None,
        "updated": time(row.updated_at),
        "membership_fields": row.fields,
    }


def membership_fields(standing: Standing) -> dict[str, Any]:
    own = standing.membership
    return {} if own is None else {str(own.user_id): own.fields}


def allowed_actions(user: User, standing: Standing) -> dict[str, list[str]]:
    """By verb: which of the caller's identities may try it. He has one."""
    found = memberships.allowed(user, standing)
    return {str(verb): [str(user.pk)] if verb in found else [] for verb in Verb}


def outcomes(found: Sequence[Outcome]) -> dict[str, Any]:
    """By verb what was done, and under `errors` what was refused."""
    done: dict[str, Any] = {}
    errors: dict[str, list[dict[str, str]]] = {}
    for one in found:
        verb = str(one.action.verb)
        if isinstance(one.result, Refusal):
            told = {"code": one.result.code, "detail": one.result.reason}
            errors.setdefault(verb, []).append({"identity_id": str(one.action.identity_id), **told})
        else:
            done.setdefault(verb, []).append(membership(one.result))
    return done | ({"errors": errors} if errors else {})
