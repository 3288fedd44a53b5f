"""A copy of the migrated schema: migrations take 9 s of processor, which each process of each test run would spend.

The first process migrates a database and writes a dump. The others wait and load it, and so do later runs. The name of
the dump has a digest of all migrations and models, so that a changed one makes a new dump. Beside it is the data folder
of a PostgreSQL with the schema, which each instance of a test gets a copy of.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django
import psycopg2
from django.apps import apps
from django.core.management import call_command
from django.db import connections

from deploy.stack.home import Home
from deploy.stack.postgres import Postgres

#: The database that test databases are copied from.
TEMPLATE = "migrated"
_LOCK, _KEPT = "lock", 3


class SchemaCopy:
    def __init__(self, folder: Path, postgres: Postgres) -> None:
        self._folder, self._postgres = folder, postgres
        self._dump = folder / f"{_digest()}.sql"
        self._data = self._dump.with_suffix(".data")

    def make_template(self) -> None:
        """Create the database TEMPLATE with the schema, by the dump where there is one."""
        connection = psycopg2.connect(self._postgres.url("postgres"))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {TEMPLATE}")
        connection.close()
        with self._alone():
            if self._dump.exists():
                self._load(self._postgres.url(TEMPLATE))
            else:
                _migrate()
                self._save()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time, so that the others find the dump of the first."""
        with (self._folder / _LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def give_to(self, home: Path) -> None:
        """Let a new home of an instance have a database with the schema, as an earlier start would have left it.

        The instance then applies those migrations that are missing, which are none. Its database does not wait for the
        disk: what is written is lost with the machine only.
        """
        Home(home).make()
        with self._alone():
            if not self._data.exists():
                self._make_data()
        _copy(self._data, Postgres(home).data)

    def _make_data(self) -> None:
        """A cluster with the schema. It is made in a folder that the account of the server can pass through."""
        with tempfile.TemporaryDirectory(prefix="waybill-schema-") as folder:
            Path(folder).chmod(0o711)
            Home(home := Path(folder) / "home").make()
            server = Postgres(home, durable=False)
            server.start()
            try:
                self._load(server.url())
            finally:
                server.stop()
            with (server.data / "postgresql.conf").open("a") as file:
                file.write("fsync = off\nfull_page_writes = off\n")
            fresh = self._data.with_suffix(f".{os.getpid()}")
            _copy(server.data, fresh)
        fresh.rename(self._data)
        for old in self._folder.glob("*.data"):
            if old != self._data:
                shutil.rmtree(old)

    def _load(self, url: str) -> None:
        words = ("--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--output=/dev/null", f"--file={self._dump}")
        self._run("psql", *words, url=url)

    def _save(self) -> None:
        fresh = self._dump.with_suffix(f".{os.getpid()}")
        self._run("pg_dump", "--no-owner", f"--file={fresh}", url=self._postgres.url(TEMPLATE))
        fresh.replace(self._dump)
        for old in sorted(self._folder.glob("*.sql"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink()

    def _run(self, program: str, *words: str, url: str) -> None:
        command = [str(self._postgres.program(program)), *words, f"--dbname={url}"]
        subprocess.run(command, check=True, timeout=120)


def _copy(source: Path, target: Path) -> None:
    """A folder with the owners of its files."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True, timeout=120)


def _migrate() -> None:
    settings = connections["default"].settings_dict
    before, settings["NAME"] = settings["NAME"], TEMPLATE
    try:
        call_command("migrate", verbosity=0, interactive=False)
    finally:
        connections["default"].close()
        settings["NAME"] = before


def _digest() -> str:
    """Of all that makes the schema, and the rows that a new database has."""
    found = hashlib.sha256(f"{django.VERSION}".encode())
    for app in sorted(apps.get_app_configs(), key=lambda one: one.label):
        folder = Path(app.path)
        names = [*folder.glob("migrations/*.py"), *folder.glob("models.py"), *folder.glob("models/*.py")]
        for path in [*sorted(names), Path(inspect.getfile(type(app)))]:
            found.update(f"{app.label} {path.name}".encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
