"""The base of the commands of `waybill`: their declaration, their output, and the database that they use."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from deploy.stack.embedded import use_embedded_stack
from deploy.stack.errors import StackError
from identity.gsi.printable import inert
from transferapi.config import Config

#: Does a command, and returns its exit status; None: 0.
Run = Callable[[Config, argparse.Namespace], int | None]


class Commands:
    """The commands of a parser: those of `waybill`, or those of a group such as `waybill user`."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(self, name: str, run: Run, meaning: str) -> argparse.ArgumentParser:
        """Add a command, and return its parser, which takes its options."""
        made = self._parsers.add_parser(name, help=meaning, description=meaning)
        made.set_defaults(run=run)
        return made

    def group(self, name: str, meaning: str) -> Commands:
        return Commands(self._parsers.add_parser(name, help=meaning))


def say(text: str) -> None:
    """Write to the terminal, if it is still there. Names of users and of endpoints may be in the text."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(inert(text, keep="\n\t") + "\n")
        sys.stdout.flush()


def say_facts(facts: Mapping[str, object]) -> None:
    """A line for each fact that is there."""
    for name, value in facts.items():
        if value not in (None, ""):
            say(f"{name:12} {value}")


def utc_time(text: str) -> datetime:
    """A time of ISO 8601; one without a zone is in UTC. Raises ValueError."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def set_up_django() -> None:
    """Without a look at the database."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    import django

    django.setup()


def open_database() -> None:
    """Django, with a database that answers and has the schema of this version. Raises StackError."""
    use_embedded_stack()
    set_up_django()
    from django.db import DatabaseError, connection

    from transferapi import schema_version

    try:
        connection.ensure_connection()
        schema_version.check()
    except DatabaseError as error:
        raise away(error, "the database does not answer: is Waybill running? (`make up`)") from None
    except schema_version.WrongSchemaError as error:
        raise StackError(str(error)) from None


def away(error: Exception, otherwise: str) -> StackError:
    """The error of a command that cannot use the database. otherwise: its text where no connection was refused."""
    from transferapi.outages.connection_limits import is_full
    from transferapi.outages.database import reason_of

    return StackError(reason_of(error) if is_full(error) else otherwise)


def user_of(name: str) -> Any:
    """Raises StackError when there is none."""
    open_database()
    from identity import users

    user = users.named(name)
    if user is None:
        raise StackError(f"there is no user {name!r}: `waybill user add {name}` makes one")
    return user
