"""An endpoint in a box: GridFTP with GSI, MyProxy with an online authority, registered at a Waybill service.

  sudo deploy/endpoint/box setup --name dtn --host dtn.example.org --waybill https://waybill.example.org \\
       --token-file token --user alice
  sudo deploy/endpoint/box user add bob
  sudo deploy/endpoint/box status
  sudo deploy/endpoint/box renew
  sudo deploy/endpoint/box remove --token-file token
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from deploy.endpoint.authority import AuthorityError

from . import lifetime, settings
from .errors import BoxError
from .run import run
from .setup import setup

#: For example "box: error".
WRONG = 1
Command = Callable[[argparse.Namespace], Iterator[str]]


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="box", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = whole.add_subparsers(dest="command", required=True)
    _setup_options(_add(commands, "setup", "make it, or make it as it should be", setup))
    _add(commands, "status", "how it is", lifetime.status)
    users = _add(commands, "user", "who may use it", lifetime.user)
    users.add_argument("action", choices=["add", "remove", "list"])
    users.add_argument("names", nargs="*", metavar="NAME", help="accounts of this machine")
    renew = _add(
        commands, "renew", "new host certificates where they end soon, a fresh revocation list", lifetime.renew
    )
    renew.add_argument("--revoke", action="store_true", help="revoke the host certificates: their keys were stolen")
    remove = _add(commands, "remove", "take all away that setup made, and nothing else", lifetime.remove)
    remove.add_argument("--token-file", type=Path, metavar="FILE", help="a token of the endpoint's owner")
    remove.add_argument("--keep-registered", action="store_true", help="do not notify the service")
    _add(commands, "run", "run both servers in the foreground (where there is no systemd)", run)
    return whole


def _add(commands: argparse._SubParsersAction, name: str, text: str, do: Command) -> argparse.ArgumentParser:  # type: ignore[type-arg]
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    command.set_defaults(do=do)
    command.add_argument("--folder", type=_absolute, default=settings.FOLDER, help=f"(default: {settings.FOLDER})")
    return command


def _absolute(text: str) -> Path:
    path = Path(os.path.abspath(text))
    if any(letter.isspace() or letter in "\"'%$\\" or not letter.isprintable() for letter in str(path)):
        raise argparse.ArgumentTypeError("no spaces, quotes, '%', '$' or backslashes, please")
    return path


def _setup_options(command: argparse.ArgumentParser) -> None:
    before = settings.BoxSettings()
    add = command.add_argument
    add("--name", help="of the endpoint at the service")
    add("--host", help="name under which others reach this machine")
    add("--waybill", metavar="URL", help="address of the service")
    add("--token-file", type=Path, metavar="FILE", help="a token of the endpoint's owner (`waybill token NAME`)")
    add("--user", action="append", metavar="NAME", help="an account that may use it; may be said again")
    add("--public", action=argparse.BooleanOptionalAction, help="others see the endpoint (default: no)")
    add("--port", type=int, help=f"of GridFTP (default: {before.port})")
    add("--myproxy-port", type=int, help=f"of MyProxy (default: {before.myproxy_port})")
    add("--data-ports", metavar="A-B", help=f"for data channels (default: {before.data_ports})")
    add("--address", metavar="IP", help="listen there only (default: everywhere)")
    add("--hours", type=int, help=f"how long a user's certificate lives at most (default: {before.hours})")
    add(
        "--pam-service", metavar="NAME", help=f"whom MyProxy asks about passwords (default: {before.pam_service}, made)"
    )
    add("--no-install", action="store_true", help="install no packages")
    add("--no-systemd", dest="systemd", action="store_const", const=False, help="make no units: `box run` starts it")


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        for line in options.do(options):
            # A reader that has ended (`| head`) must not stop unfinished work.
            with contextlib.suppress(BrokenPipeError):
                print(line, flush=True)
    except (BoxError, AuthorityError) as error:
        sys.stderr.write(f"box: {error}\n")
        return WRONG
    except PermissionError as error:
        sys.stderr.write(f"box: {error.filename}: {error.strerror}; run this with sudo\n")
        return WRONG
    except KeyboardInterrupt:
        sys.stderr.write("box: interrupted; the same command goes on where it was\n")
        return 130
    return 0
