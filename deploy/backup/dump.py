"""Write a backup while everything runs: one snapshot of the database, by `pg_dump`."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from deploy.stack.errors import StackError
from transferapi.config import KNOWN, SECRETS, Config
from transferapi.tasks.upkeep import last_backup
from transferapi.version import service_version

from . import archive, keys, programs

#: Seconds for a whole dump or restore.
MOST_SECONDS = 24 * 3600.0


def back_up(config: Config, file: Path, keys_file: Path | None) -> tuple[dict[str, Any], list[str]]:
    """Write the backup, and the keys apart; return the manifest and the names of the keys. Raises StackError, OSError.

    The file of keys is written last: without the other one it is of no use.
    """
    if keys_file is not None and (keys_file.exists() or keys_file.resolve() == file.resolve()):
        raise StackError(f"{keys_file} exists, or is the backup itself: the keys have a file of their own")
    settings = {name: text for name in sorted(set(KNOWN) - set(SECRETS)) if (text := os.environ.get(name))}
    with connection.cursor() as cursor:
        session = cursor.connection
        program = programs.find("pg_dump", int(session.server_version) // 10000, tls=bool(session.info.ssl_in_use))
    environ = programs.environment(connection.get_connection_params())
    # The migrations and the dump are of one snapshot.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SELECT pg_export_snapshot()")
        (snapshot,) = cursor.fetchone()
        cursor.execute("SELECT app, name FROM django_migrations ORDER BY app, name")
        facts: dict[str, object] = {
            "id": str(uuid.uuid4()),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": service_version(),
            "host": socket.gethostname(),
            "pg_dump": programs.major(program),
            "migrations": [list(row) for row in cursor.fetchall()],
        }
        command = [str(program), "--format=custom", "--no-owner", "--no-privileges", "--no-comments", "-B"]
        command += ["--lock-wait-timeout=30000", "--no-password", f"--snapshot={snapshot}"]

        def dump(take: Callable[[bytes], object]) -> None:
            with programs.running(command, environ, seconds=MOST_SECONDS) as running:
                assert running.process.stdout is not None
                while piece := running.process.stdout.read(archive.CHUNK):
                    take(piece)
                running.end()

        manifest = archive.write(file, facts, settings, dump)
    names = keys.write(keys_file, manifest) if keys_file else []
    last_backup.record()
    return manifest, names
