"""Users and groups as SCIM documents (RFC 7643, section 4), in and out.

Of a user the name, the display name, one mail address, externalId and `active` are kept. The other attributes of the
schema are accepted and not kept, as the standard allows: directories send them all.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings

from identity.groups import MAX_MEMBERS
from identity.models import Group, Membership, ScimUser
from identity.scim.groups import GroupChange
from identity.scim.users import UserChange
from transferapi.rest.openapi.types import wire_time

from .errors import ScimRequestError

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
ROOT = "/scim/v2"
#: Mail addresses of one user in a request.
MAX_EMAILS = 50
#: Attributes of users (RFC 7643, section 4.1) that are not kept, in small letters.
NOT_KEPT = frozenset(
    [
        "name",
        "nickname",
        "profileurl",
        "title",
        "usertype",
        "preferredlanguage",
        "locale",
        "timezone",
        "password",
        "phonenumbers",
        "ims",
        "photos",
        "addresses",
        "groups",
        "entitlements",
        "roles",
        "x509certificates",
    ]
)

Id = uuid.UUID


def location(kind: str, ref: object) -> str:
    return f"{settings.PUBLIC_URL}{ROOT}/{kind}/{ref}"


def user(row: ScimUser) -> dict[str, Any]:
    found = row.user
    shown: dict[str, Any] = {"schemas": [USER], "id": str(found.pk), "userName": found.username}
    if row.external_id:
        shown["externalId"] = row.external_id
    if found.get_full_name():
        shown["displayName"] = found.get_full_name()
    if found.email:
        shown["emails"] = [{"value": found.email, "type": "work", "primary": True}]
    shown["active"] = found.is_active
    return {**shown, "meta": _meta("User", found.pk, row.created_at, row.updated_at)}


def group(row: Group, members: Iterable[Membership] | None) -> dict[str, Any]:
    """members: None leaves them out."""
    shown: dict[str, Any] = {"schemas": [GROUP], "id": str(row.pk), "displayName": row.name}
    if row.scim_external_id:
        shown["externalId"] = row.scim_external_id
    if members is not None:
        shown["members"] = [_member(one) for one in members]
    return {**shown, "meta": _meta("Group", row.pk, row.created_at, None)}


def page(resources: Sequence[dict[str, Any]], total: int, start: int) -> dict[str, Any]:
    """start: the place of the first one, from 1."""
    return {
        "schemas": [LIST],
        "totalResults": total,
        "startIndex": start,
        "itemsPerPage": len(resources),
        "Resources": list(resources),
    }


def selected(document: dict[str, Any], wanted: frozenset[str], unwanted: frozenset[str]) -> dict[str, Any]:
    """The attributes asked for by `attributes`, or without those of `excludedAttributes`; in small letters."""
    always = ("schemas", "id")
    return {
        name: value
        for name, value in document.items()
        if name in always or (name.lower() in wanted if wanted else name.lower() not in unwanted)
    }


# ---- in


def read_user(document: object) -> UserChange:
    """A whole user: an attribute that is absent becomes empty; `active` stays. Raises ScimRequestError."""
    given = lowered(document)
    active = given.get("active")
    return UserChange(
        user_name=text(given.get("username"), "userName"),
        full_name=full_name(given),
        email=email(listed(given.get("emails"), "emails")),
        external_id=text(given.get("externalid"), "externalId"),
        active=None if active is None else flag(active, "active"),
    )


def read_group(document: object) -> GroupChange:
    """A whole group: without members it has none. Raises ScimRequestError."""
    given = lowered(document)
    steps = [("replace", members(given.get("members") or []))]
    return GroupChange(
        text(given.get("displayname"), "displayName"), text(given.get("externalid"), "externalId"), steps
    )


def lowered(document: object) -> dict[str, object]:
    """An object; names of attributes do not depend on the case of their letters (RFC 7643, section 2.1)."""
    if not isinstance(document, Mapping):
        raise ScimRequestError("invalidSyntax", "Expected an object of JSON")
    return {str(name).lower(): value for name, value in document.items()}


def listed(value: object, name: str) -> list[object]:
    """None: an empty list."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ScimRequestError("invalidValue", f"{name}: expected a list")
    return value


def text(value: object, name: str) -> str:
    """None: an empty text. Raises ScimRequestError for text that PostgreSQL cannot store, too."""
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ScimRequestError("invalidValue", f"{name}: expected a string")
    return value


def flag(value: object, name: str) -> bool:
    """Entra ID sends booleans as "True" and "False"."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ScimRequestError("invalidValue", f"{name}: expected true or false")
    return value


def full_name(given: Mapping[str, object]) -> str:
    """displayName, or else what `name` has."""
    if given.get("displayname"):
        return text(given["displayname"], "displayName")
    if not given.get("name"):
        return ""
    name = lowered(given["name"])
    parts = [text(name.get(part), f"name.{part}") for part in ("givenname", "familyname")]
    return text(name.get("formatted"), "name.formatted") or " ".join(filter(None, parts))


def email(values: Sequence[object]) -> str:
    """The primary address, or that for work, or the first one; "" for none."""
    if len(values) > MAX_EMAILS:
        raise ScimRequestError("invalidValue", f"emails: at most {MAX_EMAILS}")
    rows = [lowered({"value": one} if isinstance(one, str) else one) for one in values]
    best = sorted(rows, key=lambda row: (row.get("primary") is not True, row.get("type") != "work"))
    return text(best[0].get("value"), "emails.value") if best else ""


def members(values: object) -> frozenset[Id]:
    """The ids of members. Raises ScimRequestError."""
    rows = values if isinstance(values, list) else [values]
    if len(rows) > MAX_MEMBERS:
        raise ScimRequestError("invalidValue", f"members: at most {MAX_MEMBERS} in one operation")
    try:
        return frozenset(uuid.UUID(text(lowered(row).get("value"), "members.value")) for row in rows)
    except ValueError:
        raise ScimRequestError("invalidValue", "members.value: expected the id of a user") from None


def _member(row: Membership) -> dict[str, str]:
    ref = location("Users", row.user_id)
    return {"value": str(row.user_id), "type": "User", "$ref": ref}


def _meta(kind: str, ref: object, created: datetime, modified: datetime | None) -> dict[str, str]:
    found = {"resourceType": kind, "created": str(wire_time(created)), "location": location(f"{kind}s", ref)}
    return found | ({"lastModified": str(wire_time(modified))} if modified else {})
