"""PATCH (RFC 7644, section 3.5.2), as Entra ID and Okta send it, too: `Replace` for `replace`, values without a path,
the members to remove in `value`.

The operations become one change, which the service applies as a whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from identity.scim.groups import GroupChange
from identity.scim.users import UserChange

from . import documents, filters
from .errors import ScimRequestError

SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
#: Operations of one request, and characters of a path.
MAX_OPERATIONS, MAX_PATH = 1000, 1000
_VERBS = ("add", "replace", "remove")
_PATH = re.compile(r"([A-Za-z][A-Za-z0-9_.:$-]*?)(?:\[(.*)\])?(?:\.([A-Za-z$]+))?\Z", re.DOTALL)
_EXTENSION = re.compile(r"urn:(?!ietf:params:scim:schemas:core:2\.0:)", re.IGNORECASE)

C = TypeVar("C", UserChange, GroupChange)


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """attribute: in small letters, with its part ("emails.value"). chosen: which of several values, from the path."""

    verb: str
    attribute: str
    chosen: dict[str, str | bool]
    value: object


def user_change(document: object) -> UserChange:
    """Raises ScimRequestError."""
    return _changed(document, UserChange(), _to_user)


def group_change(document: object) -> GroupChange:
    """Raises ScimRequestError."""
    return _changed(document, GroupChange(), _to_group)


def _changed(document: object, change: C, apply: Callable[[C, PatchOperation], None]) -> C:
    given = documents.lowered(document)
    if SCHEMA.lower() not in [str(name).lower() for name in documents.listed(given.get("schemas"), "schemas")]:
        raise ScimRequestError("invalidSyntax", f"schemas: expected {SCHEMA}")
    operations = documents.listed(given.get("operations"), "Operations")
    if not 1 <= len(operations) <= MAX_OPERATIONS:
        raise ScimRequestError("invalidSyntax", f"Operations: expected 1 to {MAX_OPERATIONS} operations")
    for operation in operations:
        for one in _operations(documents.lowered(operation)):
            apply(change, one)
    return change


def _operations(given: dict[str, object]) -> list[PatchOperation]:
    """One operation; without a path one for each attribute in the value."""
    verb, path, value = given.get("op"), given.get("path"), given.get("value")
    if not isinstance(verb, str) or verb.lower() not in _VERBS:
        raise ScimRequestError("invalidSyntax", f"op: expected one of {', '.join(_VERBS)}")
    verb = verb.lower()
    if path is not None and path != "":
        found = _at(verb, path, value)
        return [found] if found else []
    if verb == "remove":
        raise ScimRequestError("noTarget", "path: a removal needs one")
    if not isinstance(value, dict):
        raise ScimRequestError("invalidValue", "value: expected an object, as there is no path")
    return [found for name, part in value.items() if (found := _at(verb, name, part))]


def _at(verb: str, path: object, value: object) -> PatchOperation | None:
    """None: of an extension, which is not kept here."""
    if not isinstance(path, str) or len(path) > MAX_PATH:
        raise ScimRequestError("invalidPath", f"path: at most {MAX_PATH} characters")
    if _EXTENSION.match(path):
        return None
    found = _PATH.match(filters.attribute_of(path.partition("[")[0]) + "".join(path.partition("[")[1:]))
    if found is None:
        raise ScimRequestError("invalidPath", f"path: not understood: {path[:100]}")
    name, which, part = found.groups()
    chosen = dict(filters.parse(which)) if which is not None else {}
    return PatchOperation(verb, name if part is None else f"{name}.{part.lower()}", chosen, value)


# ---- users


def _to_user(change: UserChange, one: PatchOperation) -> None:
    name, removed = one.attribute, one.verb == "remove"
    value = None if removed else one.value
    if name in ("id", "schemas", "meta"):
        return
    if name == "username":
        change.user_name = documents.text(value, "userName")
    elif name == "active":
        if removed:
            raise ScimRequestError("mutability", "active: is never absent")
        change.active = documents.flag(value, "active")
    elif name == "externalid":
        change.external_id = documents.text(value, "externalId")
    elif name in ("displayname", "name.formatted"):
        change.full_name = documents.text(value, "displayName")
    elif name == "name":
        change.full_name = documents.full_name({"name": value}) or change.full_name
    elif name.partition(".")[0] == "emails":
        _to_email(change, one)
    elif name.partition(".")[0] not in documents.NOT_KEPT:
        raise ScimRequestError("invalidPath", f"path: there is no attribute {name[:100]}")


def _to_email(change: UserChange, one: PatchOperation) -> None:
    """Only the address for work is kept."""
    if one.chosen.get("type", "work") != "work":
        return
    if one.verb == "remove":
        change.email = ""
    elif one.attribute == "emails.value":
        change.email = documents.text(one.value, "emails")
    elif one.attribute == "emails":
        values = one.value if isinstance(one.value, list) else [one.value]
        change.email = documents.email(values)


# ---- groups


def _to_group(change: GroupChange, one: PatchOperation) -> None:
    name, removed = one.attribute, one.verb == "remove"
    if name in ("id", "schemas", "meta"):
        return
    if name == "displayname":
        if removed:
            raise ScimRequestError("mutability", "displayName: is never absent")
        change.name = documents.text(one.value, "displayName")
    elif name == "externalid":
        change.external_id = "" if removed else documents.text(one.value, "externalId")
    elif name == "members":
        change.steps.append(_members(one))
    else:
        raise ScimRequestError("invalidPath", f"path: there is no attribute {name[:100]}")


def _members(one: PatchOperation) -> tuple[str, frozenset[documents.Id]]:
    if one.chosen:
        if set(one.chosen) != {"value"} or one.verb != "remove":
            raise ScimRequestError("invalidPath", 'path: members are removed by members[value eq "ID"]')
        return "remove", documents.members([{"value": one.chosen["value"]}])
    if one.verb == "remove" and one.value is None:
        return "replace", frozenset()
    return one.verb, documents.members(one.value)
