"""The command `waybill`."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import textwrap
from typing import Any

from transferapi.config import KNOWN, Config, load_or_exit

from .stack.account import closed_to, compile_for_all, go_on_as, own_account, owner_of, rights_over_files, take_over
from .stack.embedded import use_embedded_stack
from .stack.errors import StackError
from .stack.home import Home
from .up import logs, say, up


def main(argv: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 1 failed, 2 wrong usage, 3 not running (`status`), 78 wrong environment."""
    arguments = parser().parse_args(argv)
    try:
        # A key can be made before there is any configuration, for it belongs there.
        if arguments.run is run_vault_key:
            return int(arguments.run(arguments))
        config = load_or_exit()
        leave_root(config, arguments)
        return int(arguments.run(config, arguments))
    except StackError as error:
        sys.stderr.write(f"waybill: {error}\n")
    except OSError as error:
        sys.stderr.write(f"waybill: {error.strerror}: {error.filename}\n")
    except KeyboardInterrupt:
        return 130
    return 1


def leave_root(config: Config, arguments: argparse.Namespace) -> None:
    """Root's commands go on as the owner of the home, and `up` gives one of root's to an account first."""
    if os.geteuid() != 0:
        return
    home = Home(config.home)
    account = owner_of(home)
    if arguments.run is run_up:
        if account is None:
            account = own_account()
            take_over(home, account)
        compile_for_all()
        say(f"Waybill runs as the account {account.pw_name}, not as root.")
        if closed := closed_to(account, home):
            say(f"  It keeps the right to {rights_over_files()}, for {closed} is closed to it.")
    if account is not None:
        go_on_as(account, home, config.port)


def parser() -> argparse.ArgumentParser:
    main = argparse.ArgumentParser(
        prog="waybill",
        description="Run Waybill on this machine.",
        epilog=_variables(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = main.add_subparsers(required=True, metavar="COMMAND")

    def command(parent: Any, name: str, run: object, meaning: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = parent.add_parser(name, help=meaning, description=meaning)
        made.set_defaults(run=run)
        return made

    command(commands, "up", run_up, "start everything and keep it running until Ctrl-C")
    command(commands, "down", run_down, "stop what `up` started")
    command(commands, "status", run_status, "show what is running")
    command(commands, "logs", run_logs, "follow the logs")
    command(commands, "credentials", run_credentials, "show how the sample user of `up` signs in")
    users = commands.add_parser("user", help="users").add_subparsers(required=True, metavar="COMMAND")
    for name, run, meaning in (
        ("add", run_user_add, "make a user"),
        ("set", run_user_set, "change what is known of a user; an empty text takes it away"),
    ):
        said = command(users, name, run, meaning)
        said.add_argument("name")
        said.add_argument("--email", metavar="ADDRESS", help="where the user is told how tasks went")
        said.add_argument("--full-name", metavar="TEXT", help="what others see beside the name")
        said.add_argument("--active", choices=("yes", "no"), help="no: the user is not let in, by no way")
    vault = commands.add_parser("vault", help="the vault of credentials").add_subparsers(
        required=True, metavar="COMMAND"
    )
    command(vault, "key", run_vault_key, "print a new key for WAYBILL_VAULT_KEY")
    command(vault, "status", run_vault_status, "count what is kept, by key")
    command(vault, "rotate", run_vault_rotate, "seal all that is kept by the newest key, while everything runs")
    password = command(commands, "password", run_password, "give a user a password for the pages")
    password.add_argument("name")
    password.add_argument("--generate", action="store_true", help="make one and print it, instead of asking for it")
    certificate = command(commands, "certificate", run_certificate, "let a certificate subject sign in as a user")
    certificate.add_argument("name")
    certificate.add_argument("subject", help="such as /O=Grid/OU=Site/CN=Name")
    command(commands, "token", run_token, "make an API token and print it").add_argument("name")
    client = command(commands, "client", run_client, "make an application of a user and print its id and secret")
    client.add_argument("name", help="the user that it acts as")
    client.add_argument("--label", default="waybill client", metavar="TEXT", help="what it is called")
    return main


def _variables() -> str:
    """All that an operator can say, for the end of the help."""
    wrapped = (
        textwrap.fill(f"  {name}: {meaning}", 100, subsequent_indent="      ", break_on_hyphens=False)
        for name, meaning in KNOWN.items()
    )
    return "\n".join(("environment variables:", *wrapped))


def run_up(config: Config, arguments: argparse.Namespace) -> int:
    return up(config)


def run_down(config: Config, arguments: argparse.Namespace) -> int:
    say("Stopped." if Home(config.home).stop_supervisor() else f"Waybill is not running in {config.home}.")
    return 0


def run_status(config: Config, arguments: argparse.Namespace) -> int:
    home = Home(config.home)
    supervisor = home.supervisor()
    if supervisor is None:
        say(f"Waybill is not running in {config.home}.")
        return 3
    connection: Any = home.read_json(home.connection)
    if not connection:
        say(f"Waybill is starting in {config.home} (supervisor {supervisor}).")
        return 0
    say(f"Waybill is up at {connection['url']}, in {config.home}.")
    for name, pid in connection["pids"].items():
        say(f"  {name:12} {pid:>8}  {'running' if os.path.exists(f'/proc/{pid}') else 'gone'}")
    return 0


def run_credentials(config: Config, arguments: argparse.Namespace) -> int:
    """The one command that shows them: `up` names their files, for its output goes into logs."""
    home = Home(config.home)
    user = home.read_json(home.prepared).get("username")
    if user is None:
        raise StackError(f"there is no sample user in {config.home}: has it been started?")
    client = home.read_json(home.client)
    say(f"user          {user}\npassword      {home.read_password()}\ntoken         {home.read_token()}")
    say(f"client id     {client.get('id')}\nclient secret {client.get('secret')}")
    return 0


def run_logs(config: Config, arguments: argparse.Namespace) -> int:
    files = [str(path) for path in logs(config.home)]
    if not files:
        raise StackError(f"there are no logs in {config.home}: has it been started?")
    os.execvp("tail", ["tail", "-n", "20", "-F", *files])  # noqa: S606


def run_user_add(config: Config, arguments: argparse.Namespace) -> int:
    _user_model()
    from identity import people

    try:
        user = people.add(arguments.name, _said(arguments))
    except people.PersonExistsError as error:
        raise StackError(f"{error}: `waybill user set {arguments.name}` changes what is known of it") from None
    except people.PersonError as error:
        raise StackError(error.reason) from None
    say(f"The user {user.username} is there; `waybill token {user.username}` makes a token.")
    return 0


def run_user_set(config: Config, arguments: argparse.Namespace) -> int:
    user = _user(arguments.name)
    from identity import people

    said = _said(arguments)
    if said == people.Said():
        raise StackError("nothing was said: give --email, --full-name or --active")
    try:
        people.change(user, said)
    except people.PersonError as error:
        raise StackError(error.reason) from None
    known = (user.email or "no mail address", user.get_full_name(), "" if user.is_active else "not let in")
    say(f"{user.username}: {', '.join(filter(None, known))}")
    return 0


def _said(arguments: argparse.Namespace) -> Any:
    from identity import people

    active = None if arguments.active is None else arguments.active == "yes"
    return people.Said(arguments.email, arguments.full_name, active)


def run_token(config: Config, arguments: argparse.Namespace) -> int:
    user = _user(arguments.name)
    from identity import tokens

    say(tokens.issue(user, "waybill token"))
    return 0


def run_password(config: Config, arguments: argparse.Namespace) -> int:
    """Other sessions of the user end."""
    user = _user(arguments.name)
    from identity import signing_in
    from identity.hidden import Secret

    new = signing_in.generated() if arguments.generate else Secret(_asked_for_password())
    try:
        signing_in.set_password(user, new)
    except signing_in.PasswordRefusedError as error:
        raise StackError(error.reason) from None
    say(new.value if arguments.generate else f"{user.username} has a new password.")
    return 0


def _asked_for_password() -> str:
    """Twice on a terminal; a line of the standard input where that is none."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    new = getpass.getpass("New password: ")
    if getpass.getpass("The same again: ") != new:
        raise StackError("the two were not the same")
    return new


def run_certificate(config: Config, arguments: argparse.Namespace) -> int:
    user = _user(arguments.name)
    from endpoints.gridftp.written_names import BadNameError, one_form
    from identity import certificates

    try:
        subject = one_form(arguments.subject)
        certificates.add(user, subject, "by the operator", proven=[subject])
    except (BadNameError, certificates.SubjectInvalidError) as error:
        raise StackError(error.reason) from None
    except certificates.SubjectTakenError:
        raise StackError(f"{subject} is registered already") from None
    except certificates.TooManySubjectsError as error:
        raise StackError(f"a user has at most {error.limit} subjects") from None
    say(f"{subject} signs in as {user.username}.")
    return 0


def run_client(config: Config, arguments: argparse.Namespace) -> int:
    """The two lines are what the `globus` command reads from its environment."""
    user = _user(arguments.name)
    from identity.provider import applications
    from identity.provider.errors import ProviderError

    try:
        application, secret = applications.make(user, applications.Spec(arguments.label))
    except ProviderError as error:
        raise StackError(error.reason) from None
    assert secret is not None
    say(f"GLOBUS_CLI_CLIENT_ID={application.client_id}\nGLOBUS_CLI_CLIENT_SECRET={secret.value}")
    return 0


def run_vault_key(arguments: argparse.Namespace) -> int:
    from identity.vault_keys import new_key

    say(new_key())
    return 0


def run_vault_status(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1 when something is kept that cannot be opened."""
    _user_model()
    from identity import vault

    found = vault.status()
    for place, name in enumerate(found.keys):
        use = "seals" if place == 0 else "opens"
        say(f"  {name}  {use}  {found.rows[name]:>8} kept")
    for name in sorted(set(found.rows) - set(found.keys)):
        say(f"  {name}  not configured: {found.rows[name]} kept that no key opens")
    if not found.keys:
        say("The vault has no key: `waybill vault key` makes one, WAYBILL_VAULT_KEY takes it.")
    if found.broken:
        say(f"{found.broken} kept that were changed since they were sealed, and cannot be opened.")
    return 1 if found.missing or found.broken else 0


def run_vault_rotate(config: Config, arguments: argparse.Namespace) -> int:
    """Status 1 when something could not be opened, and stays as it is."""
    _user_model()
    from identity import vault

    try:
        done = vault.rotate()
    except vault.VaultError as error:
        raise StackError(error.reason) from None
    say(f"{done.resealed} sealed anew by the key {done.key_id}.")
    if done.unopened:
        say(f"{done.unopened} could not be opened, and stay as they are: see `waybill vault status`.")
        return 1
    say("The older keys may go.")
    return 0


def _user(name: str) -> Any:
    """Raises StackError when there is none."""
    user = _user_model().objects.filter(username=name).first()
    if user is None:
        raise StackError(f"there is no user {name!r}: `waybill user add {name}` makes one")
    return user


def _user_model() -> Any:
    """Django's user model, once the database answers. Raises StackError when it does not."""
    use_embedded_stack()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    import django
    from django.db import DatabaseError, connection

    django.setup()
    from transferapi import schema_version

    try:
        connection.ensure_connection()
        schema_version.check()
    except DatabaseError:
        raise StackError("the database does not answer: is Waybill running? (`make up`)") from None
    except schema_version.WrongSchemaError as error:
        raise StackError(str(error)) from None
    from identity.models import User

    return User


if __name__ == "__main__":
    raise SystemExit(main())
