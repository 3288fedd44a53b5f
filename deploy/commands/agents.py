"""`waybill agents`: the authority that signs the certificates of agents (docs/connect.md)."""

from __future__ import annotations

import argparse

from transferapi.config import Config

from .base import Commands, open_database, say


def declare(commands: Commands) -> None:
    """Add the commands to the parser."""
    agents = commands.group("agents", "the authority that signs the certificates of computers that are endpoints")
    agents.add("status", run_status, "show the authorities that are trusted, and which of them signs")
    rotate = agents.add("rotate", run_rotate, "make a new authority, which signs from now on; older ones stay trusted")
    rotate.add_argument(
        "--leaked",
        action="store_true",
        help="trust no older one any more: each computer then needs a new setup key from the owner of its endpoint",
    )


def run_status(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from endpoints.connect import authority

    found = authority.trusted()
    if not found:
        say("There is no authority yet: the first setup of an agent makes it.")
    for one in found:
        does = "signs" if one == found[0] else "is trusted"
        say(f"{authority.name_of(one)} {does}, valid until {one.not_valid_after_utc:%Y-%m-%d}")


def run_rotate(config: Config, arguments: argparse.Namespace) -> None:
    """Agents renew their certificates by themselves, in good time before the end of an older authority."""
    open_database()
    from django.db import transaction

    from endpoints.connect import authority

    with transaction.atomic():
        made = authority.rotate()
        retired = authority.retire(made.pk) if arguments.leaked else 0
    run_status(config, arguments)
    if retired:
        say(f"{retired} older ones are trusted no more: each computer needs a new setup key.")
