"""Whether the database has the schema of this code: every program asks when it starts, but for what brings it about.

New code on an old schema, and old code on a new one, would answer some requests and fail in others, in the middle of
what they do. Seen once at the start, it is a sentence.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from typing import NoReturn

from django.db import InterfaceError, OperationalError, connection
from django.db.migrations.loader import MigrationLoader

#: Seconds for which a program that starts waits for the database, and how often it asks.
PATIENCE, PAUSE = 30.0, 0.5
#: sysexits.h: the configuration is wrong; try again later.
EX_CONFIG, EX_TEMPFAIL = 78, 75

Migration = tuple[str, str]


class WrongSchemaError(Exception):
    """The schema is of another version; `str` is a sentence that names a migration and what to do."""


def check() -> None:
    """Compare the migrations of this code with those of the database. Raises WrongSchemaError, OperationalError."""
    loader = MigrationLoader(connection)
    # A migration that replaces others is there when they are, and they may be there without being in the code.
    replaced = {one for migration in loader.disk_migrations.values() for one in migration.replaces}
    squashed = {key for key, migration in loader.disk_migrations.items() if migration.replaces}
    known, applied = set(loader.disk_migrations), set(loader.applied_migrations)
    if missing := known - applied - squashed:
        reason = f"the database lacks {_named(missing)}, which this version needs"
        raise WrongSchemaError(f"{reason}: run `python manage.py migrate` (or `make up`, which does so)")
    if unknown := applied - known - replaced:
        reason = f"the database has {_named(unknown)}, which this version does not know"
        raise WrongSchemaError(f"{reason}: a newer version has changed it; start that one, or restore a backup")


def check_or_exit() -> None:
    """`check` at the start of a program, which a wrong schema ends with status 78 and a sentence.

    It leaves no connection open, since the program may fork.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            check()
            return
        except WrongSchemaError as error:
            _exit(str(error), EX_CONFIG)
        except (OperationalError, InterfaceError):
            if time.monotonic() > until:
                # Its text may hold the address of the database, and so its password.
                _exit(f"the database did not answer for {PATIENCE:g} s", EX_TEMPFAIL)
            time.sleep(PAUSE)
        finally:
            connection.close()


def _exit(sentence: str, status: int) -> NoReturn:
    # Not sys.stderr: Celery makes log messages of that, which a log level may hide.
    print(f"waybill: {sentence}", file=sys.__stderr__, flush=True)
    raise SystemExit(status)


def _named(migrations: Collection[Migration]) -> str:
    app, name = min(migrations)
    more = f" and {len(migrations) - 1} more" if len(migrations) > 1 else ""
    return f"the migration {app}.{name}{more}"
