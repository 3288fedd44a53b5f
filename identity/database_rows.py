"""Rows of the database: queries for at most one row, bounded deletions, statements in SQL, and values of enums.

A violated constraint of PostgreSQL that is expected becomes the given error; any other stays an IntegrityError.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, TypeVar

from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
Parameters = Mapping[str, Any] | Sequence[Any] | None


def single_row(found: QuerySet[Any, T]) -> T | None:
    """The only row of a queryset, or None. Django's `first()` also sorts, which costs half as much as the query."""
    return next(iter(found.order_by()[:1]), None)


def row_by_id(found: QuerySet[Any, T], ref: object, missing: Exception) -> T:
    """The row with this id. Raises `missing` where there is none, also where the text is no UUID."""
    try:
        row = single_row(found.filter(pk=uuid.UUID(str(ref))))
    except ValueError:
        row = None
    if row is None:
        raise missing
    return row


def delete_first(found: QuerySet[Any, Any], most: int) -> int:
    """Delete the first of these rows, at most so many; returns the number of rows deleted, with those that depend."""
    keys = list(found.values_list("pk", flat=True)[:most])
    return int(found.model._default_manager.filter(pk__in=keys).delete()[0]) if keys else 0


def query_rows(query: str, parameters: Parameters = None) -> list[tuple[Any, ...]]:
    """All rows of a query in SQL."""
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def execute(statement: str, parameters: Parameters = None) -> int:
    """Execute a statement in SQL; return the number of rows that it has found or changed."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)


def enum_value(kind: type[E], value: str) -> E:
    """The member of this value; for one that only a newer version knows, a member with that name that is in no list."""
    try:
        return kind(value)
    except ValueError:
        unknown = str.__new__(kind, value)
        unknown._name_ = unknown._value_ = value
        return unknown


@contextmanager
def unless_taken(constraint: str, taken: Exception) -> Iterator[None]:
    """A transaction, or a savepoint inside one. Raises `taken` when this constraint refuses a row written in it.

    Any other IntegrityError is raised unchanged: it is a defect, not a name that is taken.
    """
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        if constraint_of(error) != constraint:
            raise
        raise taken from error


def constraint_of(error: IntegrityError) -> str:
    """The name of the violated constraint or unique index; "" when unknown."""
    return getattr(getattr(error.__cause__, "diag", None), "constraint_name", None) or ""
