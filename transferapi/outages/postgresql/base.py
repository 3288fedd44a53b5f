"""The backend that Django loads: its connections are watched, and none is opened while PostgreSQL is away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.backends.postgresql import base

from transferapi.outages import database


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> database.WatchedConnection:
        """Raises psycopg2.OperationalError."""
        classes = {"connection_factory": database.WatchedConnection, "cursor_factory": database.WatchedCursor}
        opening = super().get_new_connection

        def open_by(given: Mapping[str, Any]) -> database.WatchedConnection:
            made: database.WatchedConnection = opening({**given, **classes})
            return made

        return database.connect(open_by, {name: conn_params[name] for name in conn_params if name not in classes})
