"""The backend that Django loads: its connections are watched, and none is opened while PostgreSQL is away."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db.backends.postgresql import base

from transferapi.outages import database


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> database.Connection:
        """Raises psycopg2.OperationalError."""
        classes = {"connection_factory": database.Connection, "cursor_factory": database.Cursor}
        opening = partial(super().get_new_connection, {**conn_params, **classes})
        return database.connect(opening, {name: conn_params[name] for name in conn_params if name not in classes})
