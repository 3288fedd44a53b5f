"""The backend that Django loads: connections are watched and shared, and none is opened while PostgreSQL is away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import IsolationLevel

from transferapi.outages import database


class DatabaseWrapper(base.DatabaseWrapper):
    #: Django sets it where it opens a connection, and not for one that another thread has opened.
    isolation_level = IsolationLevel.READ_COMMITTED

    def get_new_connection(self, conn_params: dict[str, Any]) -> database.WatchedConnection:
        """Raises psycopg2.OperationalError."""
        classes = {"connection_factory": database.WatchedConnection, "cursor_factory": database.WatchedCursor}
        opening = super().get_new_connection

        def open_by(given: Mapping[str, Any]) -> database.WatchedConnection:
            made: database.WatchedConnection = opening({**given, **classes})
            return made

        return database.connect(open_by, {name: conn_params[name] for name in conn_params if name not in classes})

    def create_cursor(self, name: str | None = None) -> Any:
        """A cursor; one with a name lasts until it is closed, in a transaction or not.

        psycopg2 has no other one with a name here: it does not know that a transaction has begun.
        """
        if name is None:
            return super().create_cursor()
        self.connection.begin()
        cursor = self.connection.cursor(name, scrollable=False, withhold=True)
        cursor.tzinfo_factory = self.tzinfo_factory if settings.USE_TZ else None
        return cursor

    def _close(self) -> None:
        """Django calls it where this thread has no work for its connection."""
        if self.connection is not None:
            with self.wrap_database_errors:
                database.release(self.connection)
