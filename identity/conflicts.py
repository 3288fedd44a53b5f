"""Violated constraints of PostgreSQL: an expected one becomes the given error, any other stays an IntegrityError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, transaction


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
