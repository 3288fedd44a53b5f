"""The programs of PostgreSQL (`pg_dump`, `pg_restore`, `psql`): which one, and how it reaches the database.

They get the address and the password of the database by the environment, never by a command line, which every account
of the machine can read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from deploy.stack.errors import StackError
from deploy.stack.postgres import Postgres

#: Octets of what a program says of an error that are shown.
MOST_SAID = 2000
#: No time limit for a statement: an index of millions of rows takes its time. A lock is waited for 30 s.
_SESSION = "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c lock_timeout=30000"
#: libpq's variables by the names of its parameters (PostgreSQL, Environment Variables).
_VARIABLES = {
    "dbname": "PGDATABASE", "user": "PGUSER", "password": "PGPASSWORD", "host": "PGHOST", "port": "PGPORT",
    "passfile": "PGPASSFILE", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY", "sslcrl": "PGSSLCRL", "gssencmode": "PGGSSENCMODE", "channel_binding": "PGCHANNELBINDING",
    "target_session_attrs": "PGTARGETSESSIONATTRS", "connect_timeout": "PGCONNECT_TIMEOUT",
    "krbsrvname": "PGKRBSRVNAME", "application_name": "PGAPPNAME", "requirepeer": "PGREQUIREPEER",
}  # fmt: skip
#: Parameters of our own sessions that the programs do not need.
_OURS = frozenset(
    {
        *("options", "client_encoding", "cursor_factory", "context", "prepare_threshold"),
        # libpq has no variables for these.
        *("tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    }
)


def environment(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The environment for a program, by the parameters of Django's connection. Raises StackError."""
    if unknown := sorted(set(parameters) - set(_VARIABLES) - _OURS):
        raise StackError(f"DATABASE_URL: the programs of PostgreSQL cannot be given {unknown[0]} by the environment")
    found = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "WAYBILL_", "DATABASE"))}
    given = {_VARIABLES[name]: str(value) for name, value in parameters.items() if name in _VARIABLES and value != ""}
    return {**found, **given, "PGOPTIONS": _SESSION, "PGCLIENTENCODING": "UTF8"}


def find(name: str, server: int, *, tls: bool = False) -> Path:
    """A program that is not older than the server, of the embedded PostgreSQL or of PATH.

    server: the major version of the server. tls: our own session with it is encrypted, so that of the program must be;
    the embedded programs are built without TLS. Raises StackError that says what to install.
    """
    candidates = []
    if not tls:
        with suppress(StackError):
            candidates.append(Postgres(Path("/")).program(name))
    if there := shutil.which(name):
        candidates.append(Path(there))
    for candidate in candidates:
        if candidate.exists() and major(candidate) >= server:
            return candidate
    kind = f"{name} of PostgreSQL {server} or later{' with TLS' if tls else ''}"
    raise StackError(f"there is no {kind}: install postgresql-client-{server}")


def major(program: Path) -> int:
    """The major version of a program of PostgreSQL; 0: it cannot be run."""
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r"\(PostgreSQL\) (\d+)", said)
    return int(found[1]) if found else 0


class PipedProgram:
    """A program with pipes; what it says of errors goes to a file without a name."""

    def __init__(self, command: list[str], environ: Mapping[str, str], said: IO[bytes], *, reads: bool) -> None:
        self.name = Path(command[0]).name
        self._said = said
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=dict(environ),
        )

    def end(self) -> None:
        """Wait for its end. Raises StackError where it failed."""
        if self.process.wait():
            raise StackError(self.failure())

    def failure(self) -> str:
        self._said.seek(0)
        text = self._said.read(MOST_SAID).decode("utf-8", "replace").strip()
        return f"{self.name} failed ({self.process.returncode}): {text or 'it said nothing'}"


@contextmanager
def running(
    command: list[str], environ: Mapping[str, str], *, seconds: float, reads: bool = False
) -> Iterator[PipedProgram]:
    """A program that is killed at the end of the block, and after so many seconds."""
    with tempfile.TemporaryFile() as said:
        program = PipedProgram(command, environ, said, reads=reads)
        limit = threading.Timer(seconds, program.process.kill)
        limit.daemon = True
        limit.start()
        try:
            yield program
        finally:
            limit.cancel()
            program.process.kill()
            program.process.wait()
            for pipe in (program.process.stdin, program.process.stdout):
                if pipe:
                    with suppress(OSError):
                        pipe.close()
