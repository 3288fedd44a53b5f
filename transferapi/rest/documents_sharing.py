"""Documents out: endpoints as a user sees them, access rules, roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from endpoints import outlook
from endpoints.models import AccessRule, Endpoint, Role
from identity.models import User
from transferapi.tasks import queries

from . import documents, filters


def endpoints(user: User, rows: Sequence[Endpoint], fields: str | None = None) -> list[dict[str, Any]]:
    """The documents of endpoints that this user may view, with a handful of questions to the database in all."""
    seen = outlook.of_all(user, rows)
    used = queries.endpoints_of(user, unfinished=True) if rows else set()
    found = (documents.endpoint(row, seen[row.pk], in_use=row.pk in used) for row in rows)
    return [filters.pick(document, fields) for document in found]


def access(row: AccessRule) -> dict[str, Any]:
    return {
        "DATA_TYPE": "access",
        "id": str(row.pk),
        "principal_type": row.principal_type,
        "principal": str(row.principal) if row.principal else "",
        "path": row.path,
        "permissions": row.permissions,
        "create_time": documents.time(row.created_at),
        "expiration_date": documents.time(row.expires_at),
        "notify_email": row.notify_email or None,
        "notify_message": row.notify_message or None,
        "role_id": None,
        "role_type": None,
    }


def access_overseen(row: AccessRule) -> dict[str, Any]:
    """As those see it who oversee the endpoint: what one user has written to another, and where to, is theirs."""
    return {**access(row), "notify_email": None, "notify_message": None}


def access_by_role(row: Role) -> dict[str, Any]:
    """Who reads and writes everywhere without a rule is shown as if he had one, which nobody can change."""
    return {
        "DATA_TYPE": "access",
        "id": None,
        "principal_type": row.principal_type,
        "principal": str(row.principal),
        "path": "/",
        "permissions": "rw",
        "create_time": documents.time(row.created_at),
        "expiration_date": None,
        "notify_email": None,
        "notify_message": None,
        "role_id": str(row.pk),
        "role_type": str(row.role),
    }


def role(row: Role) -> dict[str, Any]:
    return {
        "DATA_TYPE": "role",
        "id": str(row.pk),
        "principal_type": row.principal_type,
        "principal": str(row.principal),
        "role": str(row.role),
    }
