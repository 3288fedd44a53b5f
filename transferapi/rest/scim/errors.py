"""Errors in the form of RFC 7644, section 3.12.

Status and message are those of `transferapi.rest.http.errors`, except where a directory acts on the status.
"""

from __future__ import annotations

from typing import Any

from identity.error_categories import CategorizedError, Category
from identity.scim.errors import ScimImmutableError
from transferapi.rest.http import errors

SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"
MEDIA_TYPE = "application/scim+json"


class ScimRequestError(errors.BadRequest):
    """`scim_type`: of RFC 7644, table 9."""

    def __init__(self, scim_type: str, message: str) -> None:
        super().__init__(message)
        self.scim_type = scim_type


def document(error: Exception, request_name: str) -> tuple[int, dict[str, Any]]:
    """Status and document. request_name: by it an operator finds the request in the logs."""
    status, _, message = errors.meaning(error, request_name)
    category = error.category if isinstance(error, CategorizedError) else None
    if category is Category.LIMIT_EXCEEDED:
        # Directories take each 409 for a resource that exists already.
        status = 403
    found: dict[str, Any] = {"schemas": [SCHEMA], "status": str(status), "detail": message}
    if scim_type := _scim_type(error, category):
        found["scimType"] = scim_type
    return status, found


def _scim_type(error: Exception, category: Category | None) -> str:
    if isinstance(error, ScimRequestError):
        return error.scim_type
    if isinstance(error, ScimImmutableError):
        return "mutability"
    if category is Category.EXISTS:
        return "uniqueness"
    if category is Category.INVALID:
        return "invalidFilter" if getattr(error, "field", "") == "filter" else "invalidValue"
    return "invalidSyntax" if errors.meaning(error, "")[0] == 400 else ""
