"""The documents of shared endpoints, access rules and roles, and of symbolic links."""

from __future__ import annotations

from endpoints.permissions import RoleName

from .schema import (
    MAYBE_TEXT,
    MAYBE_TIME,
    MAYBE_UUID,
    NUMBER,
    PATH,
    TEXT,
    UUID,
    Schema,
    about,
    asked,
    each,
    fields,
    list_of,
    one_of,
    page,
    told,
)

_DONE = each("code message request_id resource", TEXT)
_PRINCIPALS = one_of("identity", "group", "all_authenticated_users", "anonymous")
_PERMISSIONS = about("read, or read and write", one_of("r", "rw"))
_FOLDER = about("from the root of the shared endpoint; comes back with a slash at its end", TEXT)
_ROLE = one_of(*RoleName)
_ROLE_PRINCIPAL = {"principal_type": one_of("identity", "group"), "principal": UUID}

#: Of a request, beside the fields of every endpoint.
SHARED = {
    "host_endpoint": about("the endpoint that the folder lies on: id, owner#name, or a name of your own", MAYBE_TEXT),
    "host_endpoint_id": about("the same", MAYBE_TEXT),
    "host_path": about("of the folder on that endpoint; absolute, or from your home there as /~/...", TEXT),
}

ANSWERS_SHARING: dict[str, Schema] = {
    "shared_endpoint_list": told(
        "shared_endpoint_list",
        {
            "shared_endpoints": list_of(
                {"type": "object", "properties": {"id": UUID}, "required": ["id"], "additionalProperties": False}
            ),
            "next_token": about("null: nothing comes after it", MAYBE_TEXT),
        },
    ),
    "access": told(
        "access",
        {
            "id": about("null: somebody's by his role, without a rule", MAYBE_UUID),
            "principal_type": _PRINCIPALS,
            "principal": about("the id of a user or of a group; empty for everybody", TEXT),
            "path": _FOLDER,
            "permissions": _PERMISSIONS,
            "create_time": MAYBE_TIME,
            "expiration_date": about("null: until it is taken back", MAYBE_TIME),
            **each("notify_email notify_message", MAYBE_TEXT),
            "role_id": MAYBE_UUID,
            "role_type": {**one_of(RoleName.ADMINISTRATOR, RoleName.ACCESS_MANAGER), "nullable": True},
        },
    ),
    "access_list": page("access_list", "access", length=NUMBER, endpoint=UUID),
    "access_create_result": told("access_create_result", {**_DONE, "access_id": UUID}),
    "role": told("role", {"id": UUID, **_ROLE_PRINCIPAL, "role": _ROLE}),
    "role_list": page("role_list", "role", length=NUMBER),
    "symlink_result": told("symlink_result", {**_DONE, "path": PATH}),
}
_CHANGES = {
    "permissions": {**_PERMISSIONS, "nullable": True},
    "expiration_date": about("a time to come, ISO 8601; null: until it is taken back", MAYBE_TEXT),
}
REQUESTS_SHARING: dict[str, Schema] = {
    "access": asked(
        "access",
        "principal_type path permissions",
        {
            "principal_type": _PRINCIPALS,
            "principal": about("the id of a user or of a group; nothing for everybody", MAYBE_TEXT),
            "path": _FOLDER,
            **_CHANGES,
            "notify_email": about("gets a mail if it is of somebody whom the rule is for; not told which", MAYBE_TEXT),
            "notify_message": about("what the mail says besides", MAYBE_TEXT),
        },
    ),
    "access_change": asked("access", "", _CHANGES),
    "role": asked("role", "principal_type principal role", {**_ROLE_PRINCIPAL, "role": _ROLE}),
    "symlink": asked("symlink", "symlink_target path", fields(symlink_target=PATH, path=PATH)),
}
