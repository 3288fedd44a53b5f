"""Restore a backup: verify, replace the database in one transaction that also holds every task, migrate, report.

The transaction (docs/decisions/upgrade-and-backup.md) is a session of `psql`, which is given the output of `pg_restore`
between our own statements, and COMMIT only after all of the dump was read again with the digest of the manifest. The
end of this process at any moment ends the session without COMMIT: the database is then as it was.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader

from deploy.stack.errors import StackError
from identity import audit
from identity.models import Credential
from identity.vault import store as vault
from transferapi.tasks.managers import holds, pauses
from transferapi.tasks.models import Task
from transferapi.tasks.states import Phase
from transferapi.tasks.worker import leases
from transferapi.timers import holds as timer_holds

from . import archive, programs
from .archive import Backup
from .dump import MOST_SECONDS

#: A lock on the restore itself; what else holds a lock on a table ends it after the time that `programs` sets.
BEGIN = "BEGIN;\nSELECT pg_catalog.pg_advisory_xact_lock(6401);\n"
COMMIT = "\nCOMMIT;\n"

#: Removes all tables, views, sequences and functions of the schema `public`, except those of extensions. The schema
#: itself often belongs to somebody else.
EMPTY = """
DO $empty$ DECLARE one text; BEGIN
    FOR one IN
        SELECT format('DROP %s IF EXISTS %I.%I CASCADE',
            CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE'
                ELSE 'TABLE' END, n.nspname, c.relname)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
        ORDER BY c.relkind = 'S'
    LOOP EXECUTE one; END LOOP;
    FOR one IN
        SELECT format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::regprocedure) FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace
            AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
    LOOP EXECUTE one; END LOOP;
END $empty$;
"""

#: Ended at each restore: sessions of the pages; links and codes that are used once; secrets that wait for a step.
ENDED = (
    "django_session", "identity_usersession", "identity_recoverylink", "identity_recoveryrequest",
    "identity_signuprequest", "identity_invitation", "identity_pendingsecret", "oauth2_provider_grant",
    "oauth2_provider_devicegrant",
)  # fmt: skip
#: Ended where the operator wants it, in this order (they name each other).
TOKENS = (
    "identity_signintoken", "oauth2_provider_refreshtoken", "oauth2_provider_accesstoken", "oauth2_provider_idtoken",
    "identity_apitoken", "identity_scimtoken",
)  # fmt: skip

_DELETE = """
DO $end$ DECLARE one text; BEGIN
    FOREACH one IN ARRAY ARRAY[{tables}] LOOP
        IF to_regclass('public.' || one) IS NOT NULL THEN EXECUTE format('DELETE FROM public.%I', one); END IF;
    END LOOP;
END $end$;
"""


def afterwards(reason: str, *, end_tokens: bool) -> str:
    """Hold every task and timer, and end sessions. reason: of the hold, for the owners of the tasks."""
    tables = ", ".join(f"'{name}'" for name in (*ENDED, *(TOKENS if end_tokens else ())))
    literal = "'" + reason.replace("'", "''") + "'"
    held = holds.HOLD_ALL.format(reason=literal) + timer_holds.HOLD_ALL
    # `pg_restore` leaves the session without a search path.
    return "\nSET LOCAL search_path = public, pg_catalog;\n" + held + _DELETE.format(tables=tables)


#: Seconds for which sessions that end just now are waited for.
TIMEOUT = 3.0
#: Credentials that are named, of those that no key opens.
MOST_NAMED = 100
#: A setting that an older server does not know, as `pg_restore` 17 and later write it at the begin of their output.
_NEW_SETTING = b"SET transaction_timeout = 0;\n"


@dataclass(slots=True)
class Report:
    """The result of a restore. unopened: "user: binding" of credentials that no key opens; others: other secrets."""

    tasks: int
    timers: int
    unopened: list[str] = field(default_factory=list)
    others: int = 0


def check_schema(backup: Backup) -> bool:
    """Whether the backup lacks migrations of this version. Raises StackError where it has ones that are not known."""
    loader = MigrationLoader(None)
    known = set(loader.disk_migrations) | {one for row in loader.disk_migrations.values() for one in row.replaces}
    applied = {(str(app), str(name)) for app, name in backup.manifest["migrations"]}
    if unknown := sorted(applied - known):
        raise StackError(
            f"the backup is of a newer version ({backup.manifest['version']}): this one does not know the migration "
            f"{'.'.join(unknown[0])}. Install that version first"
        )
    replaced = {key for key, row in loader.disk_migrations.items() if row.replaces}
    return bool(set(loader.disk_migrations) - applied - replaced)


def check_database(*, replace: bool) -> int:
    """The major version of the server. Raises StackError where others use the database, or where it is not empty."""
    until = time.monotonic() + TIMEOUT
    with connection.cursor() as cursor:
        while others := _number(cursor, _OTHERS):
            if time.monotonic() > until:
                raise StackError(
                    f"{others} other sessions use the database: stop the web servers, workers, shells and relays first"
                )
            time.sleep(0.2)
        if not replace and (tables := _number(cursor, _TABLES)):
            raise StackError(f"the database has {tables} tables: with --replace they are removed, with all they hold")
        return int(cursor.connection.server_version) // 10000


_OTHERS = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
_TABLES = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"


def _number(cursor: Any, statement: str) -> int:
    cursor.execute(statement)
    return int(cursor.fetchone()[0])


def replace_database(backup: Backup, server: int, *, replace: bool, end_tokens: bool = False) -> None:
    """Load the backup with every task and timer held, or change nothing. Raises StackError.

    server: its major version. replace: remove what the database holds; else the load fails where it holds anything.
    """
    environ = programs.environment(connection.get_connection_params())
    connection.ensure_connection()
    tls = bool(connection.connection.info.ssl_in_use)
    connection.close()
    made_by = max(server, int(backup.manifest["pg_dump"]))
    psql = [str(programs.find("psql", made_by, tls=tls)), "--no-psqlrc", "--quiet", "--no-password"]
    psql += ["--set=ON_ERROR_STOP=1", "--output=/dev/null", "--file=-"]
    command = [str(programs.find("pg_restore", made_by)), "--no-owner", "--no-privileges", "--no-comments", "--file=-"]
    reason = f"It is as it was in the backup of {backup.manifest['time']}; the operator looks at it before it goes on."
    with (
        programs.running(psql, environ, seconds=MOST_SECONDS, reads=True) as session,
        programs.running(command, environ, seconds=MOST_SECONDS, reads=True) as reader,
    ):
        assert session.process.stdin is not None
        say = session.process.stdin.write
        try:
            say((BEGIN + (EMPTY if replace else "")).encode())
            digest = _copy(backup, reader, say, old_server=server < 17)
            if digest != backup.digest:
                raise StackError("the file was changed while it was read: nothing was restored")
            say((afterwards(reason, end_tokens=end_tokens) + COMMIT).encode())
            session.process.stdin.close()
        except BrokenPipeError:
            session.process.wait()
            raise StackError(f"nothing was restored: {session.failure()}") from None
        session.end()


def _copy(backup: Backup, reader: programs.PipedProgram, say: Callable[[bytes], object], *, old_server: bool) -> str:
    """Give the dump to `pg_restore`, and its statements to `say`; return the digest of what was given."""
    source, drain = reader.process.stdin, reader.process.stdout
    assert source is not None
    assert drain is not None
    digest = hashlib.sha256()
    flaws: list[Exception] = []
    feeder = threading.Thread(target=_feed, args=(backup, source, digest.update, flaws), daemon=True)
    feeder.start()
    first = True
    while piece := drain.read(archive.CHUNK):
        # Only at the begin: later, it could be the text of a row.
        say(piece.replace(_NEW_SETTING, b"", 1) if first and old_server else piece)
        first = False
    reader.end()
    feeder.join()
    if flaws:
        raise StackError(f"nothing was restored: {flaws[0]}")
    return digest.hexdigest()


def _feed(backup: Backup, source: IO[bytes], count: Callable[[bytes], object], flaws: list[Exception]) -> None:
    try:
        for piece in backup.pieces():
            count(piece)
            source.write(piece)
        source.close()
    except (OSError, StackError, ValueError) as error:
        flaws.append(error)


def finish(backup: Backup, migrate: Callable[[], None] | None) -> Report:
    """Migrate, move held tasks to their phase, and look which secrets no key opens.

    migrate: runs the expansions, so that the version of the backup can still run, until somebody runs
    `waybill upgrade --contract`; it raises StackError. None if there is nothing to run.

    None of it is needed to keep the tasks from running, and `waybill up` or the sweep does it where this was ended.
    Raises StackError where a migration failed.
    """
    if migrate is not None:
        try:
            migrate()
        except StackError as error:
            raise StackError(f"the database is restored and all is held, but {error}") from None
        except DatabaseError:
            raise StackError(
                "the database is restored and all is held, but a migration failed: `waybill run migrate` says why"
            ) from None
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0; ANALYZE")
    holds.settle()
    rows = Task.objects.exclude(phase=Phase.DONE).filter(admin_pauses__has_key=pauses.OPERATOR)
    for task_id in list(rows.filter(phase=Phase.RUNNING).values_list("pk", flat=True)):
        # Its worker is gone; the hold is found before anything else is done.
        leases.acquire(task_id, "restore")
    report = Report(rows.count(), sum(1 for _ in timer_holds.held()))
    facts = {"backup": backup.manifest["id"], "time": backup.manifest["time"], "host": backup.manifest["host"]}
    audit.record(audit.What.RESTORED, details={**facts, "tasks": report.tasks, "timers": report.timers})
    found = vault.status()
    names = Credential.objects.exclude(key_id__in=found.keys).select_related("user").order_by("user__username")
    report.unopened = [f"{row.user.username}: {row.bound_to}" for row in names[:MOST_NAMED]]
    report.others = found.missing + found.broken - len(report.unopened)
    return report
