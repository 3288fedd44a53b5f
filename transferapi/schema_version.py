"""Check that the database has the schema of this code. Each program checks it at its start, except the migrations.

New code on an old schema, or old code on a new one, would serve some requests and fail in the middle of others. The
check at the start gives a clear error instead.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection
from typing import NoReturn

from django.db import InterfaceError, OperationalError, connection
from django.db.migrations.loader import MigrationLoader

#: Seconds for which a starting program waits for the database, and seconds between two attempts.
PATIENCE, PAUSE = 30.0, 0.5
#: sysexits.h: the configuration is wrong; try again later.
EX_CONFIG, EX_TEMPFAIL = 78, 75

Migration = tuple[str, str]


class WrongSchemaError(Exception):
    """The schema is of another version; `str` is a sentence that names a migration and what to do."""


def check() -> None:
    """Compare the migrations of this code with those of the database. Raises WrongSchemaError, OperationalError."""
    loader = MigrationLoader(connection)
    # A squashed migration counts as applied where the replaced ones are; these may be missing in the code.
    replaced = {one for migration in loader.disk_migrations.values() for one in migration.replaces}
    squashed = {key for key, migration in loader.disk_migrations.items() if migration.replaces}
    known, applied = set(loader.disk_migrations), set(loader.applied_migrations)
    if missing := known - applied - squashed:
        reason = f"the database lacks {_named(missing)}, which this version needs"
        raise WrongSchemaError(f"{reason}: run `waybill run migrate` (or `make up`, which does so)")
    if unknown := applied - known - replaced:
        reason = f"the database has {_named(unknown)}, which this version does not know"
        raise WrongSchemaError(f"{reason}: a newer version has changed it; start that one, or restore a backup")


def check_or_exit() -> None:
    """Call `check`; a wrong schema ends the program with a sentence and status 78.

    It leaves no connection open, since the program may fork.
    """
    try:
        when_the_database_answers(check)
    except WrongSchemaError as error:
        _exit(str(error), EX_CONFIG)
    finally:
        connection.close()


def when_the_database_answers(act: Callable[[], None]) -> None:
    """Call `act`, again while the database does not answer; after `PATIENCE` the program ends with status 75."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            act()
            return
        except (OperationalError, InterfaceError):
            connection.close()
            if time.monotonic() > until:
                # The text of the error may hold the address of the database, with its password.
                _exit(f"the database did not answer for {PATIENCE:g} s", EX_TEMPFAIL)
            time.sleep(PAUSE)


def _exit(sentence: str, status: int) -> NoReturn:
    # Not sys.stderr: Celery turns that into log messages, which a log level may hide.
    print(f"waybill: {sentence}", file=sys.__stderr__, flush=True)
    raise SystemExit(status)


def _named(migrations: Collection[Migration]) -> str:
    app, name = min(migrations)
    more = f" and {len(migrations) - 1} more" if len(migrations) > 1 else ""
    return f"the migration {app}.{name}{more}"
