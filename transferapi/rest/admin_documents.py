"""The documents of users as staff see them, of invitations and of the audit log: extensions of ours."""

from __future__ import annotations

from typing import Any

from identity.models import AuditEvent, Invitation, User

from .openapi import types as t
from .openapi.common import LENGTH, ActionDocument
from .openapi.document_types import AsJson, Field, ListDocument, RequestDocument, ResponseDocument, each, optional

_EMAIL = Field[Any]("email", t.about("e-mail address; empty: none", t.TEXT), example="alice@example.org")
_FULL_NAME = Field[User]("full_name", t.TEXT, AsJson(lambda user: user.get_full_name()), example="Alice Doe")
_STAFF = Field[User]("is_staff", t.about("whether the user administers users", t.FLAG), example=False)
_DETAILS = optional(_EMAIL, _FULL_NAME, _STAFF)

USER = ResponseDocument[User](
    "user",
    Field("id", t.UUID, "pk"),
    Field("username", t.TEXT, example="alice"),
    _EMAIL,
    _FULL_NAME,
    Field("is_active", t.FLAG, example=True),
    _STAFF,
    Field("joined_time", t.TIME, "date_joined"),
    Field("last_sign_in_time", t.MAYBE_TIME, "last_login"),
)
USER_LIST = ListDocument("user_list", USER, LENGTH, Field("total", t.NUMBER, example=1))
USER_REQUEST = RequestDocument(
    "user",
    "username",
    Field("username", t.TEXT, example="alice"),
    *_DETAILS,
    example={"username": "alice", "email": "alice@example.org"},
)
USER_CHANGE = RequestDocument("user_change", "", *_DETAILS, example={"email": "alice@example.org"})
INVITATION = ResponseDocument[Invitation](
    "invitation",
    Field("id", t.UUID, "pk"),
    Field("email", t.about("the only e-mail address that may use it; empty: any", t.TEXT), example="carol@example.org"),
    Field("made_time", t.TIME, "made_at"),
    Field("expire_time", t.TIME, "expires_at"),
)
INVITATION_LIST = ListDocument("invitation_list", INVITATION, LENGTH)
INVITATION_REQUEST = RequestDocument(
    "invitation",
    "",
    *optional(_EMAIL),
    Field("days", t.about("lifetime in days, 1 to 90; absent: 7", t.MAYBE_NUMBER)),
    example={"email": "carol@example.org", "days": 7},
)
INVITATION_CREATED = ActionDocument(
    "invitation_create_result",
    Field("id", t.UUID),
    Field("link", t.about("shown this once", t.TEXT), example="https://waybill.example.org/signup/invitation?code=..."),
    Field("expire_time", t.TIME),
    message="The invitation is made; this is the only time its link is shown",
    resource="/v2/api/invitations",
)


AUDIT_EVENT = ResponseDocument[AuditEvent](
    "audit_event",
    Field("id", t.NUMBER, "pk", example=17),
    Field("time", t.TIME, "at"),
    Field("what", t.TEXT, example="signed_in"),
    Field("user_id", t.MAYBE_UUID),
    *each("username actor", t.TEXT, example=""),
    Field("actor_id", t.MAYBE_UUID),
    Field("way", t.TEXT, example="password"),
    Field("address", t.TEXT, example="192.0.2.7"),
    Field("details", {"type": "object", "additionalProperties": t.TEXT}, example={}),
)
AUDIT_EVENT_LIST = ListDocument(
    "audit_event_list", AUDIT_EVENT, LENGTH, Field("next_marker", t.MAYBE_NUMBER, example=None)
)
