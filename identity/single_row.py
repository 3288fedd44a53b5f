"""Queries for at most one row, and rows of queries in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import connection
from django.db.models import QuerySet

T = TypeVar("T")


def single_row(found: QuerySet[Any, T]) -> T | None:
    """The only row of a queryset, or None. Django's `first()` also sorts, which costs half as much as the query."""
    return next(iter(found.order_by()[:1]), None)


def query_rows(query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a query in SQL."""
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())
