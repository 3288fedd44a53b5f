"""`waybill check PROGRAM`: whether a program of this machine works, for health checks of containers and units.

It runs every few seconds for each program. So it reads only the variables that it needs, and loads neither Django nor
the configuration, except on a machine where `make up` has chosen the ports.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deploy.doctor.programs import PROGRAMS, Here, ListeningAddresses
from deploy.stack.errors import StackError
from endpoints.connect.relay_address import parse as parse_relay_address
from identity.hidden import Secret
from transferapi.config import urls, values
from transferapi.config.secret_files import secret_text, variable_of

if TYPE_CHECKING:
    from transferapi.config import Config

    from .base import Commands

_MEANING = "check that a program of this machine works; status 1: it does not"


def declare(commands: Commands) -> None:
    """Add the command to the parser."""
    _declare_words(commands.add("check", run_check, _MEANING))


def _declare_words(said: argparse.ArgumentParser) -> None:
    said.add_argument("program", choices=tuple(PROGRAMS))
    said.add_argument(
        "--exclude", action="append", default=[], metavar="NAME", help="a check of /readyz that does not count (web)"
    )


def main(words: list[str]) -> int:
    """`waybill check` in a process of its own; returns its exit status, as `deploy.cli.main` does."""
    parser = argparse.ArgumentParser(prog="waybill check", description=_MEANING)
    _declare_words(parser)
    arguments = parser.parse_args(words)
    try:
        return _run(places(os.environ), arguments)
    except StackError as error:
        sys.stderr.write(f"waybill: {error}\n")
    return 1


def run_check(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1, with the reasons as lines of the error, where it does not work."""
    return _run(running_here(config), arguments)


def _run(here: Here, arguments: argparse.Namespace) -> int:
    PROGRAMS[arguments.program].ask(here, arguments.exclude)
    sys.stdout.write(f"{arguments.program}: works\n")
    return 0


def is_of_make_up(environ: Mapping[str, str]) -> bool:
    """Whether `make up` has chosen the ports and sockets: it runs in this home."""
    home = environ.get("WAYBILL_HOME") or values.default_home()
    return (values.absolute_path(home) / "connection.json").exists()


def places(environ: Mapping[str, str]) -> ListeningAddresses:
    """The settings of this check, where `make up` does not run. Raises StackError."""

    def read(name: str, parse: Callable[[str], Any], default: str) -> Any:
        try:
            return parse(environ.get(name) or default)
        except ValueError as error:
            raise StackError(f"{name}: {error}") from None

    return ListeningAddresses(
        web_host=read("WAYBILL_WEB_HOST", values.address, "127.0.0.1"),
        port=read("WAYBILL_PORT", values.port, "8000"),
        events_port=read("WAYBILL_EVENTS_PORT", values.port, "8004"),
        tls_certificate=read("WAYBILL_TLS_CERTIFICATE", values.file_or_none, ""),
        ssh_host=read("WAYBILL_SSH_HOST", values.address, "127.0.0.1"),
        ssh_port=read("WAYBILL_SSH_PORT", values.port, "2222"),
        relay=read("WAYBILL_RELAY", parse_relay_address, "127.0.0.1:8003"),
        database_url=_database(environ),
    )


def _database(environ: Mapping[str, str]) -> Secret | None:
    name = "DATABASE_URL"
    try:
        if not (url := secret_text(environ, name)):
            return None
        name = "WAYBILL_DATABASE_PASSWORD"
        password = secret_text(environ, name)
        return Secret(urls.with_password(url, password) if password else url)
    except ValueError as error:
        raise StackError(f"{variable_of(environ, name)}: {error}") from None


def running_here(config: Config) -> Config:
    """The configuration of what `make up` runs in this home, where it does; else the given one."""
    from deploy.stack.embedded import use_embedded_stack
    from deploy.stack.home import Home
    from transferapi.config import load_or_exit

    home = Home(config.home)
    connection: Any = home.read_json(home.connection)
    if not connection:
        return config
    os.environ.setdefault("WAYBILL_SSH_PORT", str(connection["ssh"]["port"]))
    use_embedded_stack()
    return load_or_exit()
