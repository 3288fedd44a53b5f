"""The documents of shared endpoints, access rules and roles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from endpoints.models import AccessRule, Endpoint, Role
from endpoints.permissions import RoleName
from endpoints.sharing import roles
from transferapi.rest.http.parsing import Document
from transferapi.rest.openapi import types as t
from transferapi.rest.openapi.common import LENGTH, ActionDocument
from transferapi.rest.openapi.document_types import (
    Always,
    Field,
    ListDocument,
    RequestDocument,
    ResponseDocument,
    optional,
)

from .endpoint_documents import WRITABLE

_BOB = "0b6d4f11-9d43-4d5b-8d5c-8a7a5c2f6e02"
_SHARE = "3c0de2ad-5a0f-4a7c-8a39-b1c3f4f5d201"

SHARED_ENDPOINT_LIST = ResponseDocument[None](
    "shared_endpoint_list",
    Field("shared_endpoints", t.list_of({**t.object_of({"id": t.UUID}), "required": ["id"]}), example=[{"id": _SHARE}]),
    Field("next_token", t.about("null: nothing comes after it", t.MAYBE_TEXT)),
)
SHARED_ENDPOINT = RequestDocument(
    "shared_endpoint",
    "host_path",
    Field(
        "host_endpoint",
        t.about("the endpoint that the folder lies on: id, owner#name, or a name of your own", t.MAYBE_TEXT),
    ),
    Field("host_endpoint_id", t.about("the same", t.MAYBE_TEXT)),
    Field(
        "host_path", t.about("path of the folder on the host endpoint: absolute, or from your home as /~/...", t.TEXT)
    ),
    *WRITABLE,
    example={"host_endpoint": "go#ep1", "host_path": "/share/godata/", "display_name": "The sample data"},
)

# ---- access rules

_PRINCIPAL_TYPE = Field[AccessRule](
    "principal_type", t.one_of("identity", "group", "all_authenticated_users", "anonymous")
)
_PATH = Field[AccessRule](
    "path",
    t.about("from the root of the shared endpoint; comes back with a slash at its end", t.TEXT),
    example="/results/",
)
_PERMISSIONS = Field[AccessRule]("permissions", t.about("read, or read and write", t.one_of("r", "rw")), example="rw")
_EXPIRATION = Field[Any](
    "expiration_date",
    t.about("a future time, ISO 8601; null: it does not expire", t.MAYBE_TEXT),
    read=Document.moment,
)
ACCESS = ResponseDocument[AccessRule](
    "access",
    Field("id", t.about("null: somebody has access by a role, without a rule", t.MAYBE_UUID), "pk"),
    _PRINCIPAL_TYPE,
    Field(
        "principal",
        t.about("the id of a user or of a group; empty for everybody", t.TEXT),
        lambda row: str(row.principal) if row.principal else "",
        _BOB,
    ),
    _PATH,
    _PERMISSIONS,
    Field("create_time", t.MAYBE_TIME, "created_at"),
    Field("expiration_date", t.about("null: it does not expire", t.MAYBE_TIME), "expires_at"),
    Field("notify_email", t.MAYBE_TEXT, lambda row: row.notify_email or None, "bob@example.org"),
    Field("notify_message", t.MAYBE_TEXT, lambda row: row.notify_message or None, "The results of the second run"),
    Field("role_id", t.MAYBE_UUID, Always(None)),
    Field("role_type", t.maybe(t.one_of(RoleName.ADMINISTRATOR, RoleName.ACCESS_MANAGER)), Always(None)),
)
ACCESS_LIST = ListDocument("access_list", ACCESS, LENGTH, Field("endpoint", t.UUID, example=_SHARE))
ACCESS_CREATED = ActionDocument(
    "access_create_result",
    Field("access_id", t.UUID),
    message="Access rule created successfully",
    resource=f"/endpoint/{_SHARE}/access",
)
ACCESS_REQUEST = RequestDocument(
    "access",
    "principal_type path permissions",
    _PRINCIPAL_TYPE,
    Field("principal", t.about("the id of a user or of a group; nothing for everybody", t.MAYBE_TEXT)),
    _PATH,
    _PERMISSIONS,
    _EXPIRATION,
    Field(
        "notify_email",
        t.about("gets a mail if it is of somebody whom the rule is for; which one is not shown", t.MAYBE_TEXT),
    ),
    Field("notify_message", t.about("text that is added to the mail", t.MAYBE_TEXT)),
    example={"principal": _BOB, "expiration_date": "2090-01-31T00:00:00+00:00"},
)
ACCESS_CHANGE = RequestDocument(
    "access_change", "", *optional(_PERMISSIONS), _EXPIRATION, data_type="access", example={"permissions": "r"}
)


def access_overseen(row: AccessRule) -> dict[str, Any]:
    """The document for managers of the endpoint, without the private mail between two users and its address."""
    return ACCESS.document(row) | {"notify_email": None, "notify_message": None}


def access_by_role(row: Role) -> dict[str, Any]:
    """A role that reads and writes everywhere is shown as a rule that nobody can change."""
    return {
        **dict.fromkeys(["DATA_TYPE", *(one.name for one in ACCESS.fields)]),
        "DATA_TYPE": "access",
        "principal_type": row.principal_type,
        "principal": str(row.principal),
        "path": "/",
        "permissions": "rw",
        "create_time": t.wire_time(row.created_at),
        "role_id": str(row.pk),
        "role_type": str(row.role),
    }


def access_list(share: Endpoint, rules: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The list of those who have access by a role, followed by these documents of rules."""
    by_role = map(access_by_role, roles.managing_access(share))
    return ACCESS_LIST.of_documents([*by_role, *rules], endpoint=str(share.pk))


# ---- roles

_ROLE = (
    Field[Role]("principal_type", t.one_of("identity", "group")),
    Field[Role]("principal", t.UUID, example=_BOB, read=Document.text),
    Field[Role]("role", t.one_of(*RoleName), lambda row: str(row.role), "access_manager"),
)
ROLE = ResponseDocument[Role]("role", Field("id", t.UUID, "pk"), *_ROLE)
ROLE_LIST = ListDocument("role_list", ROLE, LENGTH)
ROLE_REQUEST = RequestDocument("role", "principal_type principal role", *_ROLE)
