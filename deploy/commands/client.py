"""The commands `waybill client`: applications of users, and programs that have an id of their own compiled in."""

from __future__ import annotations

import argparse

from deploy.stack.errors import StackError
from transferapi.config import Config

from .base import Commands, open_database, say, user_of


def declare(commands: Commands) -> None:
    """Add the command of this module to the parser."""
    client = commands.add("client", run_client, "make an application of a user, or admit a program by its own id")
    client.usage = (
        "waybill client USER [--label TEXT]\n"
        "       waybill client add --id ID [--label TEXT] [--redirect-uri URI] [--no-globus-page]\n"
        "       waybill client remove --id ID"
    )
    client.add_argument("what", metavar="USER|add|remove", help="the user that the application acts as; or add, remove")
    client.add_argument("--label", default="waybill client", metavar="TEXT", help="what it is called")
    client.add_argument("--id", metavar="ID", help="the client id that the program has compiled in, a UUID")
    client.add_argument(
        "--redirect-uri", action="append", default=[], metavar="URI", help="where its users come back, once or more"
    )
    client.add_argument(
        "--no-globus-page",
        action="store_true",
        help="refuse https://auth.globus.org/v2/web/auth-code, the page of Globus that shows a code, as a way back",
    )


def run_client(config: Config, arguments: argparse.Namespace) -> int:
    if arguments.id is None:
        return _make(arguments)
    if arguments.what not in ("add", "remove"):
        raise StackError("--id belongs to `waybill client add` and `waybill client remove`")
    open_database()
    from identity.provider import applications

    if arguments.what == "remove":
        applications.remove(arguments.id)
        say(f"The program {arguments.id} signs in no more, and its tokens are gone.")
        return 0
    uris, page = arguments.redirect_uri, not arguments.no_globus_page
    made = applications.admit(arguments.id, arguments.label, uris, globus_page=page)
    say(f"Programs with the id {made.client_id} may ask users to sign in; they have no secret, and use PKCE.")
    return 0


def _make(arguments: argparse.Namespace) -> int:
    """The two variables that the `globus` command reads from its environment."""
    user = user_of(arguments.what)
    from identity.provider import applications

    application, secret = applications.make(user, applications.ApplicationSpec(arguments.label))
    assert secret is not None
    say(f"GLOBUS_CLI_CLIENT_ID={application.client_id}\nGLOBUS_CLI_CLIENT_SECRET={secret.value}")
    return 0
