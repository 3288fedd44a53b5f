"""`waybill backup` and `waybill restore` (docs/operate/backup.md)."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from deploy.stack.embedded import use_embedded_stack
from deploy.stack.errors import StackError
from deploy.stack.home import Home
from deploy.stack.postgres import Postgres
from transferapi.config import Config

from .base import Commands, away, open_database, say, set_up_django
from .upgrade import expand


def declare(commands: Commands) -> None:
    """Add the commands to the parser."""
    backup = commands.add("backup", run_backup, "write the database to a file, while everything runs")
    backup.add_argument("file", type=Path, metavar="FILE", help="a new file; it holds no key")
    backup.add_argument("--keys", type=Path, metavar="FILE", help="another new file, for the keys and other secrets")
    restore = commands.add("restore", run_restore, "replace the database by a backup; all tasks are held then")
    restore.add_argument("file", type=Path, metavar="FILE")
    restore.add_argument("--keys", type=Path, metavar="FILE", help="the file of keys that belongs to it")
    restore.add_argument("--replace", action="store_true", help="remove what the database holds")
    restore.add_argument("--end-tokens", action="store_true", help="end all tokens, too: some were revoked since")
    restore.add_argument("--verify", action="store_true", help="only verify the file")
    restore.add_argument(
        "--write-keys",
        type=Path,
        metavar="FOLDER",
        help="only write each key of --keys to a file of its own, for a host",
    )


def run_backup(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from deploy.backup import dump

    manifest, names = dump.back_up(config, arguments.file, arguments.keys)
    octets = manifest["parts"]["database.dump"]["size"]
    say(f"{arguments.file}: {octets} octets of the database, as of {manifest['time']}")
    if arguments.keys:
        say(f"{arguments.keys}: {', '.join(names) or 'no keys'}; keep it at another place")
    else:
        say("The keys are not in it: without the key of the vault its credentials cannot be opened (--keys).")


def run_restore(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1 where all was restored, and some credentials cannot be opened."""
    from deploy.backup import archive

    with archive.read(arguments.file) as backup:
        if arguments.verify:
            say(f"{arguments.file}: complete, of {backup.manifest['host']}, as of {backup.manifest['time']}")
            return 0
        from deploy.backup import keys

        given = keys.read(arguments.keys, backup.manifest) if arguments.keys else {}
        if arguments.write_keys:
            return _write_keys(arguments, given)
        with _own_database(config):
            return _restore(config, arguments, backup, given)


def _write_keys(arguments: argparse.Namespace, given: dict[str, str]) -> int:
    from deploy.backup import keys

    if not given:
        raise StackError("--write-keys needs the file of keys that belongs to the backup (--keys)")
    for name, file in keys.write_files(given, arguments.write_keys, replace=arguments.replace).items():
        say(f"{name}_FILE={file}")
    return 0


def _restore(config: Config, arguments: argparse.Namespace, backup: Any, given: dict[str, str]) -> int:
    from deploy.backup import keys

    use_embedded_stack()
    # Without a look at the schema: the database may be empty.
    set_up_django()
    from django.db import OperationalError

    from deploy.backup import restore

    migrate = restore.check_schema(backup)
    try:
        server = restore.check_database(replace=arguments.replace)
    except OperationalError as error:
        raise away(error, "the database does not answer") from None
    home = Home(config.home)
    keys.before_the_database(config, given)
    # The next `waybill up` makes its sample user and token anew, where they are not in the backup.
    for file in (home.prepared, home.sign_in_link):
        file.unlink(missing_ok=True)
    restore.replace_database(backup, server, replace=arguments.replace, end_tokens=arguments.end_tokens)
    to_set = keys.after_the_database(config, given)
    return _tell(restore.finish(backup, partial(expand, alone=True) if migrate else None), to_set)


def _tell(report: Any, to_set: list[str]) -> int:
    say(
        f"Restored. {report.tasks} tasks and {report.timers} timers are held: `waybill task list --held`, then release."
    )
    say("Sessions, links and codes of one use have ended.")
    if to_set:
        say(f"Set these as in the file of keys: {', '.join(to_set)}")
    for line in report.unopened:
        say(f"cannot be opened: the credential of {line}")
    if report.others:
        say(f"cannot be opened: {report.others} other secrets (`waybill vault status`)")
    return 1 if report.unopened or report.others else 0


@contextmanager
def _own_database(config: Config) -> Iterator[None]:
    """The embedded PostgreSQL runs during the block, and nothing else of the home, where it is the one to use."""
    if os.environ.get("DATABASE_URL") or os.environ.get("DATABASE_URL_FILE"):
        yield
        return
    home = Home(config.home)
    home.make()
    if home.supervisor() is not None:
        raise StackError(f"Waybill is running in {config.home}: stop it first (`waybill down`)")
    lock = home.acquire()
    server = Postgres(config.home)
    try:
        wait_until_stopped(server)
        server.start()
        yield
    finally:
        from django.db import connections

        connections.close_all()
        server.stop()
        os.close(lock)


def wait_until_stopped(server: Postgres) -> None:
    """Wait for the end of a server whose supervisor was killed: it stops by itself. Raises StackError after 30 s."""
    until = time.monotonic() + 30
    lock = server.data / "postmaster.pid"
    while lock.exists() and Path(f"/proc/{lock.read_text().partition(chr(10))[0]}").exists():
        if time.monotonic() > until:
            raise StackError(f"a PostgreSQL still runs in {server.data}")
        time.sleep(0.1)
