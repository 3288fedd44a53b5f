"""The documents by which clients learn what this service supports (RFC 7643, sections 5 to 7)."""

from __future__ import annotations

from typing import Any

from .documents import GROUP, ROOT, USER, location

_CONFIG = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
_TYPE = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
_SCHEMA = "urn:ietf:params:scim:schemas:core:2.0:Schema"
#: Resources of one page, and of a page without `count`.
MAX_COUNT, COUNT = 200, 100


def service_provider_config() -> dict[str, Any]:
    no = {"supported": False}
    bearer = {
        "type": "oauthbearertoken",
        "name": "Bearer token",
        "description": "A token that `waybill scim token` makes (RFC 6750)",
        "primary": True,
    }
    return {
        "schemas": [_CONFIG],
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MAX_COUNT},
        "changePassword": no,
        "sort": no,
        "etag": no,
        "authenticationSchemes": [bearer],
        "meta": {
            "resourceType": "ServiceProviderConfig",
            "location": location("ServiceProviderConfig", "").rstrip("/"),
        },
    }


def resource_types() -> list[dict[str, Any]]:
    return [_resource_type("User", USER), _resource_type("Group", GROUP)]


def schemas() -> list[dict[str, Any]]:
    email = [
        _attribute("value", "A mail address"),
        _attribute("type", "Always work", mutability="readOnly"),
        _attribute("primary", "Always true", type="boolean", mutability="readOnly"),
    ]
    member = [
        _attribute("value", "The id of a user", mutability="immutable"),
        _attribute("type", "Always User", mutability="immutable", canonicalValues=["User"]),
        _attribute(
            "$ref", "The address of the user", type="reference", mutability="immutable", referenceTypes=["User"]
        ),
    ]
    return [
        _schema(
            "User",
            USER,
            [
                _attribute("userName", "The name of the user here", True, uniqueness="server", mutability="immutable"),
                _attribute("displayName", "The full name"),
                _attribute("emails", "One address is kept", type="complex", multiValued=True, subAttributes=email),
                _attribute("active", "Whether the user is let in", type="boolean"),
            ],
        ),
        _schema(
            "Group",
            GROUP,
            [
                _attribute("displayName", "The name of the group", True),
                _attribute("members", "Users", type="complex", multiValued=True, subAttributes=member),
            ],
        ),
    ]


def _resource_type(name: str, schema: str) -> dict[str, Any]:
    return {
        "schemas": [_TYPE],
        "id": name,
        "name": name,
        "endpoint": f"/{name}s",
        "description": f"{name}s that the directory manages",
        "schema": schema,
        "meta": {"resourceType": "ResourceType", "location": location("ResourceTypes", name)},
    }


def _schema(name: str, urn: str, attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schemas": [_SCHEMA],
        "id": urn,
        "name": name,
        "description": f"{name}s as they are kept below {ROOT}",
        "attributes": attributes,
        "meta": {"resourceType": "Schema", "location": location("Schemas", urn)},
    }


def _attribute(name: str, description: str, required: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "string",
        "multiValued": False,
        "description": description,
        "required": required,
        "caseExact": False,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
        **more,
    }
