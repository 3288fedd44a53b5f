"""What PostgreSQL refuses by a constraint: one that is meant becomes an error for the user, any other is ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, transaction


@contextmanager
def unless_taken(constraint: str, taken: Exception) -> Iterator[None]:
    """A transaction, or a savepoint of one. Raises `taken` where this constraint refuses what is written in it.

    Every other IntegrityError passes: a column that this version does not know is no name that somebody has already.
    """
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        if constraint_of(error) != constraint:
            raise
        raise taken from error


def constraint_of(error: IntegrityError) -> str:
    """The name of the constraint, or of the unique index; "" where there is none."""
    return getattr(getattr(error.__cause__, "diag", None), "constraint_name", None) or ""
