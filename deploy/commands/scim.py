"""The commands `waybill scim`: the tokens of directories that manage users and groups here."""

from __future__ import annotations

import argparse

from deploy.stack.errors import StackError
from transferapi.config import Config

from .base import Commands, open_database, say


def declare(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    scim = commands.group("scim", "directories that manage users by SCIM")
    token = scim.add("token", run_token, "make a token of a directory, and print it, which is shown once")
    token.add_argument("name", help="of the directory, such as entra; a new name makes a new directory")
    token.add_argument(
        "--take-over", choices=("yes", "no"), help="yes: it may manage users who are here, by name (default no)"
    )
    token.add_argument("--users", type=int, metavar="N", help="the most users that it manages (default 10000)")
    scim.add("list", run_list, "show the tokens of all directories")
    revoke = scim.add("revoke", run_revoke, "end the tokens of a directory; its users and groups stay")
    revoke.add_argument("name")
    revoke.add_argument("--token", metavar="ID", help="this one only")


def run_token(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from identity.scim import clients

    takes_over = None if arguments.take_over is None else arguments.take_over == "yes"
    say(clients.make_token(arguments.name, takes_over=takes_over, max_users=arguments.users).value)


def run_list(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from identity.scim import clients

    for row in clients.listed():
        used = f"{row.last_used_at:%Y-%m-%d %H:%MZ}" if row.last_used_at else "never"
        takes = "takes users over" if row.client.takes_over else ""
        words = [row.client.name, str(row.pk), f"made {row.created_at:%Y-%m-%d}", f"used {used}"]
        say("  ".join([*words, f"at most {row.client.max_users} users", takes]).rstrip())


def run_revoke(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from identity.scim import clients

    ended = clients.revoke(arguments.name, arguments.token)
    if not ended:
        raise StackError("there is no such token: `waybill scim list` shows them all")
    say(f"{ended} tokens of {arguments.name} have ended.")
