"""Run migrations without blocking the service: short waits for locks, tried again.

A statement that changes a table waits for the transactions that use it, and all later statements on that table wait
behind it. So it waits for LOCK_SECONDS at most; then the migration is rolled back, the service goes on for a pause, and
the migration is tried again.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from django.db import OperationalError
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.migration import Migration

from .schema_version import record_effects

log = logging.getLogger(__name__)

#: Seconds for which a statement waits for a lock, and with it the service.
LOCK_SECONDS = 2.0
#: Attempts, and seconds between two of them.
ATTEMPTS, PAUSE = 30, 3.0
#: Hours for one statement of a migration: those of the service have a minute (`config.values.TIME_LIMITS`).
STATEMENT_HOURS = 6
#: SQLSTATE lock_not_available, deadlock_detected.
_LOCKED = ("55P03", "40P01")


class LockedError(OperationalError):
    """A table was in use through all attempts; nothing of the migration was done. `str` is a sentence for operators."""


class BoundedExecutor(MigrationExecutor):
    """Django's executor with bounded waits; it records the effects of the migrations (`schema_version`)."""

    def migrate(self, *args: Any, **kwargs: Any) -> Any:
        """Raises LockedError, django.db.Error."""
        # Before: a process of an older version may start at any moment of what follows.
        record_effects(self.loader.disk_migrations)
        state = super().migrate(*args, **kwargs)
        record_effects(self.loader.disk_migrations)
        return state

    def apply_migration(self, state: Any, migration: Migration, *args: Any, **kwargs: Any) -> Any:
        """Raises LockedError after ATTEMPTS."""
        self._set_limits(bounded=migration.atomic)
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return super().apply_migration(state.clone(), migration, *args, **kwargs)
                except OperationalError as error:
                    if getattr(error.__cause__, "pgcode", "") not in _LOCKED or not migration.atomic:
                        raise
                    log.warning("migration %s: a table is in use (attempt %d of %d)", migration, attempt, ATTEMPTS)
                    if attempt < ATTEMPTS:
                        time.sleep(PAUSE)
        finally:
            self._reset_limits()
        raise LockedError(
            f"the migration {migration} found a table in use {ATTEMPTS} times: a long transaction has it. "
            "End that, and run this again; what was done stays done"
        )

    def _set_limits(self, *, bounded: bool) -> None:
        """bounded: False for a migration that is no transaction: it builds an index, and others do not wait for it."""
        seconds = LOCK_SECONDS if bounded else 0
        with self.connection.cursor() as cursor:
            cursor.execute(
                f"SET lock_timeout = '{int(seconds * 1000)}ms'; SET statement_timeout = '{STATEMENT_HOURS}h';"
                " SET idle_in_transaction_session_timeout = 0"
            )

    def _reset_limits(self) -> None:
        if self.connection.connection is not None and not self.connection.connection.closed:
            with self.connection.cursor() as cursor:
                cursor.execute("RESET lock_timeout; RESET statement_timeout; RESET idle_in_transaction_session_timeout")
