"""Check at the start of each program, except the migrations, that its code can run on the schema of the database.

A migration has an attribute `effect` (docs/decisions/upgrade-and-backup.md):

    EXPAND      the code of the previous release can run on it: it adds a table, or a column that may be left out
    CONTRACT    it removes what only the previous release uses; the code of its own release runs before and after it
    no effect   every process stops for it, as for all migrations before 0.1.0 and those of libraries

So the code runs on its own schema, on one that lacks contractions, and on one whose later migrations are all
expansions. It reads the effects of migrations that it does not have from the table `tasks_schemachange`, into which the
version that has them wrote them. On any other schema it would serve some requests and fail in the middle of others; the
check at the start gives a clear error instead.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import NamedTuple, NoReturn

from django.db import InterfaceError, OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.migration import Migration
from django.db.migrations.recorder import MigrationRecorder

from transferapi.outages import pooler
from transferapi.outages.connection_limits import is_full
from transferapi.outages.database import reason_of
from transferapi.outages.pooler import PoolerError

log = logging.getLogger(__name__)

#: Seconds for which a starting program waits for the database, and seconds between two attempts.
TIMEOUT, PAUSE = 30.0, 0.5
#: sysexits.h: the configuration is wrong; try again later.
EX_CONFIG, EX_TEMPFAIL = 78, 75
#: The values of `Migration.effect`.
EXPAND, CONTRACT = "expand", "contract"
TABLE = "tasks_schemachange"

#: App and name of a migration.
Key = tuple[str, str]


class WrongSchemaError(Exception):
    """The schema is of another version; `str` is a sentence that names a migration and what to do."""


class Difference(NamedTuple):
    """The difference between code and schema where both fit. newer: expansions of a later version.

    awaited: contractions that are to be run.
    """

    newer: tuple[Key, ...] = ()
    awaited: tuple[Key, ...] = ()


def effect_of(migration: Migration) -> str | None:
    """EXPAND, CONTRACT or None."""
    return getattr(migration, "effect", None)


@cache
def migrations_of_code() -> Mapping[Key, Migration]:
    """Those of this code, read once: they are a hundred modules."""
    found: dict[Key, Migration] = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    return found


def check() -> Difference:
    """Compare the migrations of this code with those of the database. Raises WrongSchemaError, OperationalError."""
    of_code = migrations_of_code()
    # A squashed migration counts as applied where the replaced ones are; these may be missing in the code.
    replaced = {one for migration in of_code.values() for one in migration.replaces}
    squashed = {key for key, migration in of_code.items() if migration.replaces}
    known, applied = set(of_code), set(MigrationRecorder(connection).applied_migrations())
    missing = known - applied - squashed
    if needed := {key for key in missing if effect_of(of_code[key]) != CONTRACT}:
        reason = f"the database lacks {named(needed)}, which this version needs"
        raise WrongSchemaError(f"{reason}: run `waybill run migrate` (or `make up`, which does so)")
    if unknown := applied - known - replaced:
        effects = recorded_effects()
        if broken := {key for key in unknown if effects.get(key) != EXPAND}:
            reason = f"the database has {named(broken)}, which this version does not know"
            raise WrongSchemaError(f"{reason}: a newer version has changed it; start that one, or restore a backup")
    return Difference(tuple(sorted(unknown)), tuple(sorted(missing)))


def recorded_effects() -> Mapping[Key, str]:
    """The effects of migrations that are in the database; none where its schema is older than they are."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [TABLE])
        if not cursor.fetchone()[0]:
            return {}
        cursor.execute(f"SELECT app, name, effect FROM {TABLE}")  # noqa: S608 - a constant
        return {(app, name): effect for app, name, effect in cursor.fetchall()}


def record_effects(migrations: Mapping[Key, Migration]) -> None:
    """Write the effects of these migrations for older versions, which do not have them."""
    rows = [(*key, effect) for key, migration in sorted(migrations.items()) if (effect := effect_of(migration))]
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [TABLE])
        if cursor.fetchone()[0] and rows:
            cursor.executemany(
                f"INSERT INTO {TABLE} (app, name, effect) VALUES (%s, %s, %s)"  # noqa: S608 - a constant
                " ON CONFLICT (app, name) DO UPDATE SET effect = excluded.effect"
                f" WHERE {TABLE}.effect <> excluded.effect",
                rows,
            )


def check_or_exit() -> None:
    """Call `check`; a wrong schema ends the program with a sentence and status 78.

    It leaves no connection open, since the program may fork.
    """
    try:
        when_the_database_answers(_check_all)
    except (WrongSchemaError, PoolerError) as error:
        _exit(str(error), EX_CONFIG)
    finally:
        connection.close()


def _check_all() -> None:
    """Check the schema, and that no pooler is in between. Raises PoolerError, WrongSchemaError, OperationalError."""
    with connection.wrap_database_errors:
        pooler.check(lambda: connection.get_new_connection(connection.get_connection_params()))
    _tell(check())


def when_the_database_answers(act: Callable[[], None], timeout: float | None = None) -> None:
    """Call `act`, again while the database does not answer; then the program ends with status 75.

    timeout: seconds; TIMEOUT where it is not given.
    """
    seconds = TIMEOUT if timeout is None else timeout
    until = time.monotonic() + seconds
    while True:
        try:
            act()
            return
        except (OperationalError, InterfaceError) as error:
            connection.close()
            if refusal := pooler.refusal_of(error):
                _exit(refusal, EX_CONFIG)
            if time.monotonic() > until:
                # The text of the error may hold the address of the database, with its password.
                why = f": {reason_of(error)}" if is_full(error) else ""
                _exit(f"the database did not answer for {seconds:.0f} s{why}", EX_TEMPFAIL)
            time.sleep(PAUSE)


def _tell(found: Difference) -> None:
    if found.newer:
        log.warning("the database has %s of a newer version, an expansion: this version runs on it", named(found.newer))
    if found.awaited:
        log.warning(
            "the database lacks %s, a contraction: `waybill upgrade --contract` runs it when no older process is left",
            named(found.awaited),
        )


def _exit(sentence: str, status: int) -> NoReturn:
    # Not sys.stderr: Celery turns that into log messages, which a log level may hide.
    print(f"waybill: {sentence}", file=sys.__stderr__, flush=True)
    raise SystemExit(status)


def named(migrations: Collection[Key]) -> str:
    """The first of these migrations, and how many more there are."""
    app, name = min(migrations)
    more = f" and {len(migrations) - 1} more" if len(migrations) > 1 else ""
    return f"the migration {app}.{name}{more}"
