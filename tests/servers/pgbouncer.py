"""PgBouncer before a PostgreSQL: `tests/install-pgbouncer.sh .pgbouncer` unpacks it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg2
import pytest

from deploy.stack.account import own_account
from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.places import drop_to
from deploy.stack.postgres import ROLE, Postgres
from tests.waiting import eventually
from transferapi.config import CHECKOUT

_UNPACKED = Path(os.environ.get("PGBOUNCER", CHECKOUT / ".pgbouncer")) / "usr" / "sbin" / "pgbouncer"
PROGRAM = str(_UNPACKED) if _UNPACKED.exists() else shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
NEEDS_PGBOUNCER = pytest.mark.skipif(
    PROGRAM is None and os.environ.get("CI") != "true",
    reason="PgBouncer is missing: tests/install-pgbouncer.sh .pgbouncer",
)


@contextmanager
def pgbouncer(server: Postgres, folder: Path, mode: str, *, ignore: str = "options") -> Iterator[str]:
    """The DATABASE_URL by a pooler in this mode. ignore: the startup parameters that it takes and does not pass on."""
    assert PROGRAM is not None
    port, log = free_port(), folder / "pgbouncer.log"
    address = parse_qs(urlsplit(server.url()).query)
    host, at = address["host"][0], address.get("port", ["5432"])[0]
    (folder / "users.txt").write_text(f'"{ROLE}" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={host} port={at} user={ROLE}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\nauth_file = {folder}/users.txt\n"
        f"pool_mode = {mode}\nignore_startup_parameters = extra_float_digits{',' if ignore else ''}{ignore}\n"
    )
    words = [PROGRAM, str(folder / "pgbouncer.ini")]
    if os.geteuid() == 0:
        # It refuses to run as root; PostgreSQL knows this account.
        words = [*drop_to(own_account(), folder / "pgbouncer.ini", Path(PROGRAM)), *words]
    process = spawn(words, log=log, env=dict(os.environ), cwd=Path("/"))
    url = f"postgresql://{ROLE}@127.0.0.1:{port}/waybill"
    try:
        eventually(lambda: _answers(url) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        stop(process)


def _answers(url: str) -> bool:
    try:
        psycopg2.connect(url, connect_timeout=5).close()
    except psycopg2.OperationalError:
        return False
    return True
