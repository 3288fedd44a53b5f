"""The commands of `waybill` about users: accounts, passwords, tokens, certificates, applications and ssh keys."""

from __future__ import annotations

import argparse
import getpass
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deploy.stack.errors import StackError
from transferapi.config import Config

from . import administration
from .base import Commands, open_database, say, user_of, utc_time


def declare(commands: Commands) -> None:
    """Add the commands of this module to the parser, and all others below `waybill user`."""
    _declare_users(commands)
    password = commands.add("password", run_password, "give a user a password for the pages")
    password.add_argument("name")
    password.add_argument(
        "--generate", action="store_true", help="generate and print a password instead of asking for one"
    )
    certificate = commands.add("certificate", run_certificate, "let a certificate subject sign in as a user")
    certificate.add_argument("name")
    certificate.add_argument("subject", help="such as /O=Grid/OU=Site/CN=Name")
    token = commands.add("token", run_token, "make an API token and print it; its user gets a mail")
    token.add_argument("name")
    token.add_argument("--label", default="waybill token", metavar="TEXT", help="what the user sees it is for")
    token.add_argument("--days", type=int, metavar="N", help="lifetime in days (default 90); 0: until it is revoked")
    _declare_keys(commands)


def _declare_users(commands: Commands) -> None:
    users = commands.group("user", "users")
    for name, run, meaning in (
        ("add", run_user_add, "make a user"),
        ("set", run_user_set, "change the details of a user; an empty text removes one"),
    ):
        said = users.add(name, run, meaning)
        said.add_argument("name")
        said.add_argument("--email", metavar="ADDRESS", help="the address for mails about the user's tasks")
        said.add_argument("--full-name", metavar="TEXT", help="the full name that others see")
        said.add_argument("--active", choices=("yes", "no"), help="no: the user cannot sign in by any way")
        said.add_argument("--staff", choices=("yes", "no"), help="yes: the user manages users in the console")
    administration.declare_users(users)
    codes = users.add("no-codes", run_no_codes, "sign a user in without one-time codes, as after a lost phone")
    codes.add_argument("name")
    passkeys = users.add("no-passkeys", run_no_passkeys, "remove a user's passkeys, as after a lost device")
    passkeys.add_argument("name")


def _declare_keys(commands: Commands) -> None:
    keys = commands.group("key", "ssh keys of users")
    add = keys.add("add", run_key_add, "let a user sign in to the ssh shell by a public key")
    add.add_argument("name", metavar="USER")
    add.add_argument("file", metavar="FILE", help="such as ~/.ssh/id_ed25519.pub; - for the standard input")
    add.add_argument("--label", default="", metavar="TEXT", help="name of the key; default: its comment")
    add.add_argument("--expires", metavar="TIME", help="a number of days (30d), or a date (2027-01-31)")
    add.add_argument("--commands", metavar="NAME,...", help="the only commands of the shell that it may run")
    add.add_argument("--endpoints", metavar="ENDPOINT,...", help="the only endpoints that it reaches")
    keys.add("list", run_key_list, "show the ssh keys of a user").add_argument("name", metavar="USER")
    remove = keys.add("remove", run_key_remove, "remove this ssh key of a user")
    remove.add_argument("name", metavar="USER")
    remove.add_argument("fingerprint", metavar="FINGERPRINT", help="as `waybill key list` shows it: SHA256:...")


def run_user_add(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from identity import deactivation, users

    try:
        user = users.add(arguments.name, _said(arguments))
        if arguments.active == "no":
            deactivation.deactivate(None, user)
    except users.UserExistsError as error:
        raise StackError(f"{error}: `waybill user set {arguments.name}` changes what is known of it") from None
    say(f"The user {user.username} is there; `waybill token {user.username}` makes a token.")


def run_user_set(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import deactivation, users

    said = _said(arguments)
    if said == users.UserDetails() and arguments.active is None:
        raise StackError("nothing was said: give --email, --full-name, --active or --staff")
    if said != users.UserDetails():
        users.change(user, said)
    if arguments.active is not None:
        user = (deactivation.activate if arguments.active == "yes" else deactivation.deactivate)(None, user)
    known = (user.email or "no mail address", user.get_full_name(), "" if user.is_active else "not let in")
    say(f"{user.username}: {', '.join(filter(None, known))}")


def _said(arguments: argparse.Namespace) -> Any:
    from identity import users

    staff = None if arguments.staff is None else arguments.staff == "yes"
    return users.UserDetails(arguments.email, arguments.full_name, staff)


def run_token(config: Config, arguments: argparse.Namespace) -> None:
    """The standard output has the token alone."""
    user = user_of(arguments.name)
    from identity import tokens

    if not user.is_active:
        raise StackError(f"{user.username} is deactivated: `waybill user activate {user.username}` first")
    row, token = tokens.make(user, arguments.label, _lifetime(arguments.days))
    end = f"until {row.expires_at:%Y-%m-%d %H:%MZ}" if row.expires_at else "until it is revoked"
    sys.stderr.write(f"The token acts as {user.username} {end}. This is the only time that it is shown.\n")
    say(token.value)


def _lifetime(days: int | None) -> timedelta | None:
    """Raises StackError for a number that no timedelta can be; `tokens.make` refuses the rest."""
    from identity import tokens

    if days == 0:
        return None
    try:
        return tokens.USUAL_LIFETIME if days is None else timedelta(days=days)
    except OverflowError:
        raise StackError(f"--days: at most {tokens.MAX_LIFETIME.days}") from None


def run_password(config: Config, arguments: argparse.Namespace) -> None:
    """Set a password; other sessions of the user end."""
    user = user_of(arguments.name)
    from identity import password_sign_in
    from identity.hidden import Secret

    new = password_sign_in.random_password() if arguments.generate else Secret(_asked_for_password())
    try:
        password_sign_in.set_password(user, new)
    except password_sign_in.PasswordRefusedError as error:
        raise StackError(error.message) from None
    say(new.value if arguments.generate else f"{user.username} has a new password.")


def _asked_for_password() -> str:
    """The password: asked twice on a terminal, else a line of the standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    new = getpass.getpass("New password: ")
    if getpass.getpass("The same again: ") != new:
        raise StackError("the two were not the same")
    return new


def run_certificate(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import certificate_subjects
    from identity.gsi.name_parsing import BadNameError, normalized_slash_name

    try:
        subject = normalized_slash_name(arguments.subject)
        certificate_subjects.add(user, subject, "by the operator", proven=[subject])
    except (BadNameError, certificate_subjects.SubjectInvalidError) as error:
        raise StackError(error.reason) from None
    except certificate_subjects.SubjectTakenError:
        raise StackError(f"{subject} is registered already") from None
    except certificate_subjects.TooManySubjectsError as error:
        raise StackError(f"a user has at most {error.limit} subjects") from None
    say(f"{subject} signs in as {user.username}.")


def run_no_codes(config: Config, arguments: argparse.Namespace) -> None:
    """The user signs in by password alone, and may enrol again."""
    user = user_of(arguments.name)
    from identity import user_account

    were_on = user_account.turn_codes_off(None, user)
    say(f"{user.username} signs in without one-time codes{'.' if were_on else ', as before.'}")


def run_no_passkeys(config: Config, arguments: argparse.Namespace) -> None:
    """The user signs in by password, and by one-time codes where they are on."""
    user = user_of(arguments.name)
    from identity import user_account

    say(f"{user.username} has no passkeys now; {user_account.remove_passkeys(None, user)} removed.")


def run_key_add(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import ssh_keys
    from identity.ssh_public_keys import KeyInvalidError, checked

    text = _key_text(arguments.file)
    try:
        restrictions = checked(_listed(arguments.commands), _endpoints(user, arguments.endpoints))
        key = ssh_keys.add(user, text, arguments.label, restrictions, _expiry(arguments.expires))
    except KeyInvalidError as error:
        raise StackError(f"{arguments.file}: {error.reason}") from None
    say(f"{key.fingerprint} signs in as {user.username}.")


def run_key_list(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import ssh_keys

    for key in ssh_keys.list_of(user):
        limits = key.restrictions
        facts = [
            *([f"expires {key.expires_at:%Y-%m-%d %H:%M:%SZ}"] if key.expires_at else []),
            *([f"commands {','.join(sorted(limits.commands))}"] if limits.commands is not None else []),
            *([f"endpoints {','.join(sorted(map(str, limits.endpoints)))}"] if limits.endpoints is not None else []),
        ]
        used = f"{key.last_used_at:%Y-%m-%d %H:%M:%SZ}" if key.last_used_at else "never"
        say("  ".join([key.fingerprint, key.algorithm, f"used {used}", *facts, key.label]).rstrip())


def run_key_remove(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import ssh_keys
    from identity.ssh_public_keys import KeyNotFoundError

    try:
        key = ssh_keys.remove(user, arguments.fingerprint)
    except KeyNotFoundError:
        raise StackError(f"{user.username} has no key {arguments.fingerprint!r}: see `waybill key list`") from None
    say(f"{key.fingerprint} signs in as {user.username} no more.")


def _key_text(name: str) -> str:
    """The text of a file, or of the standard input for "-". A larger one is cut, and refused as too large."""
    from identity.ssh_public_keys import MAX_OCTETS

    if name == "-":
        return sys.stdin.read(MAX_OCTETS + 1)
    with Path(name).open("rb") as file:
        return file.read(MAX_OCTETS + 1).decode("utf-8", "replace")


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part for part in text.replace(",", " ").split() if part]


def _endpoints(user: Any, text: str | None) -> list[str] | None:
    """The UUIDs of the endpoints, which may be given by name too. Raises EndpointNotFoundError, NotPermittedError."""
    from endpoints import registry
    from endpoints.permissions import Permission

    given = _listed(text)
    return None if given is None else [str(registry.resolve(user, ref, Permission.VIEW).pk) for ref in given]


def _expiry(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        if text.endswith("d"):
            return datetime.now(UTC) + timedelta(days=int(text[:-1]))
        return utc_time(text)
    except (ValueError, OverflowError):
        raise StackError("--expires: give a number of days such as 30d, or a date such as 2027-01-31") from None
