"""The one row that there is, or none."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db.models import QuerySet

T = TypeVar("T")


def one(found: QuerySet[Any, T]) -> T | None:
    """Of rows of which there is one at most. Django's `first()` orders them, which costs as much as half the query."""
    return next(iter(found.order_by()[:1]), None)
