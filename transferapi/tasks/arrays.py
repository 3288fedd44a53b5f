"""Arrays for PostgreSQL's `unnest`, written by ourselves: five times as fast as the driver's, row by row."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime


def integers(values: Iterable[int]) -> str:
    """For `%s::bigint[]` and the like."""
    return f"{{{','.join(map(str, values))}}}"


def octets(values: Iterable[bytes | None]) -> str:
    """For `%s::bytea[]`."""
    return f"{{{','.join(['NULL' if value is None else _OCTETS % value.hex() for value in values])}}}"


def moments(values: Iterable[datetime | None]) -> str:
    """For `%s::timestamptz[]`."""
    return f"{{{','.join(['NULL' if value is None else value.isoformat() for value in values])}}}"


_OCTETS = r'"\\x%s"'
