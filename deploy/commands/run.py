"""`waybill run ROLE`: how each role of the service is started, for compose files, units, `make up` and people.

gunicorn and Celery take over the process of the command. The ssh shell, the relay and the migrations run in it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from deploy.stack.errors import PassingError
from deploy.stack.roles import EVENTS, MIGRATING, WEB, worker_words
from transferapi.config import CHECKOUT, Config
from transferapi.config.values import host_and_port

from .base import Commands, set_up_django
from .upgrade import expand

#: sysexits.h: the configuration is wrong; try again later.
EX_CONFIG, EX_TEMPFAIL = 78, 75
#: The seconds for which hosts wait for the one that migrates, and those between two attempts.
WAIT_SECONDS, PAUSE = 600.0, 1.0
#: Seconds of `--wait` at most.
MOST_WAIT = 86400.0


def declare(commands: Commands) -> None:
    """Add the command to the parser."""
    said = commands.add("run", run_role, "run one role of the service; status 78: the settings are wrong")
    said.add_argument("role", choices=tuple(ROLES))
    said.add_argument(
        "--wait",
        type=_seconds,
        metavar="SECONDS",
        help="of migrate: how long it tries again while the database is away, a table is in use or others migrate",
    )


def _seconds(text: str) -> float:
    """Parse `--wait`. Raises ArgumentTypeError."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= MOST_WAIT:
        raise argparse.ArgumentTypeError(f"0 to {MOST_WAIT:.0f} seconds")
    return seconds


def run_role(config: Config, arguments: argparse.Namespace) -> int:
    """Check the settings, then become the role. Returns the exit status."""
    if missing := _missing(config):
        sys.stderr.write(f"waybill: {', '.join(missing)} must be set for `waybill run {arguments.role}`\n")
        return EX_CONFIG
    if arguments.role == "migrate":
        return _migrate(config, arguments.wait)
    if arguments.wait is not None:
        sys.stderr.write(f"waybill: --wait is for `waybill run migrate`, not for {arguments.role}\n")
        return EX_CONFIG
    return ROLES[arguments.role](config)


def _missing(config: Config) -> list[str]:
    """`make up` has servers and keys of its own; a role that is started alone must be given them."""
    needed = {
        "DATABASE_URL": config.database_url,
        "REDIS_URL": config.redis_url,
        "WAYBILL_SECRET_KEY": config.secret_key,
    }
    return [name for name, value in needed.items() if value is None]


def _web(config: Config) -> int:
    from deploy.web.early_socket import gunicorn_words

    _become([*WEB, *gunicorn_words(config)])


def _events(config: Config) -> int:
    _become([*EVENTS, "--bind", host_and_port(config.web_host, config.events_port)])


def _worker(config: Config) -> int:
    _become(worker_words(config.worker_threads))


def _become(words: tuple[str, ...] | list[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    # In the checkout its modules are found by the folder; elsewhere no file of the folder counts as a module.
    safe = [] if Path.cwd() == CHECKOUT else ["-P"]
    os.execv(sys.executable, [sys.executable, *safe, "-m", *words])  # noqa: S606


def _shell(config: Config) -> int:
    _set_up_with_schema()
    from transferapi.shell.server.main import serve

    return serve(config)


def _relay(config: Config) -> int:
    _set_up_with_schema()
    from transferapi.relay.main import serve

    return serve(config)


def _set_up_with_schema() -> None:
    set_up_django()
    from transferapi.schema_version import check_or_exit

    check_or_exit()


def _migrate(config: Config, wait: float | None = None) -> int:
    """Bring the schema to this version, as `waybill upgrade` does. Hosts do so one after the other.

    wait: the seconds for which it tries again after failures that pass. systemd needs this: it gives up the units that
    require the migrations when these fail once, also where it starts them again.
    """
    set_up_django()
    from django.db import InterfaceError, OperationalError, connection

    from transferapi import schema_version

    until = time.monotonic() + (wait or 0.0)
    told = ""
    while True:
        timeout = max(schema_version.TIMEOUT, until - time.monotonic())
        schema_version.when_the_database_answers(connection.ensure_connection, timeout)
        try:
            return _migrate_now(until)
        except (PassingError, OperationalError, InterfaceError) as error:
            if time.monotonic() > until:
                raise
            # The text of other errors may hold the address of the database, with its password.
            reason = str(error) if isinstance(error, PassingError) else "the connection to the database was lost"
        if reason != told:
            sys.stderr.write(f"waybill: {reason}; trying again\n")
            told = reason
        connection.close()
        time.sleep(PAUSE)


def _migrate_now(until: float) -> int:
    """until: how long it waits for another host at least. Raises StackError, OperationalError, InterfaceError."""
    from transferapi import schema_version

    begun = time.monotonic()
    if not _take_lock(max(begun + WAIT_SECONDS, until)):
        waited = time.monotonic() - begun
        sys.stderr.write(f"waybill: another host has been migrating the database for {waited:.0f} s\n")
        return EX_TEMPFAIL
    # The end of the session releases the lock.
    expand()
    schema_version.check_or_exit()
    return 0


def _take_lock(until: float) -> bool:
    """Wait until no other session migrates; False if that took too long."""
    from django.db import connection

    while True:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [MIGRATING])
            (taken,) = cursor.fetchone()
        if taken or time.monotonic() > until:
            return bool(taken)
        time.sleep(PAUSE)


ROLES: Mapping[str, Callable[[Config], int]] = MappingProxyType(
    {"web": _web, "worker": _worker, "shell": _shell, "relay": _relay, "events": _events, "migrate": _migrate}
)
