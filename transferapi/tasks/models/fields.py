"""Columns of types that Django does not have: paths, and transaction ids of PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    _OctetsField = models.BinaryField[Any, Any]
    _NumberField = models.Field[int, int]
else:
    _OctetsField = models.BinaryField
    _NumberField = models.Field


class PathField(_OctetsField):
    """A path as the bytes the server knows it by; `str` with surrogateescape in Python (like `os.fsdecode`)."""

    def from_db_value(self, value: Any, expression: object, connection: object) -> str | None:
        return None if value is None else bytes(value).decode("utf-8", "surrogateescape")

    def get_prep_value(self, value: Any) -> Any:
        return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value

    def to_python(self, value: Any) -> Any:
        return value


class TransactionIdField(_NumberField):
    """The id of the transaction that wrote the row (`xid8`); the database fills it in."""

    def db_type(self, connection: object) -> str:
        return "xid8"

    def from_db_value(self, value: Any, expression: object, connection: object) -> int:
        return int(value)
