"""The commands of `waybill` that administer people: the end of accounts, sessions, invitations and the audit log."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime

from deploy.stack.errors import StackError
from transferapi.config import Config

from .base import Commands, open_database, say, user_of, utc_time


def declare_users(users: Commands) -> None:
    """Add the commands below `waybill user`."""
    listing = users.add("list", run_user_list, "show users, by name")
    listing.add_argument("--text", default="", metavar="TEXT", help="a part of the name, the full name or the address")
    off = users.add(
        "deactivate", run_user_deactivate, "deactivate a user: no sign-in; tasks, tokens, keys and sessions end"
    )
    off.add_argument("name")
    off.add_argument("--reason", default="", metavar="TEXT", help="for the audit log")
    users.add("activate", run_user_activate, "activate a deactivated user again").add_argument("name")
    users.add("delete", run_user_delete, "delete a deactivated user; the audit log stays").add_argument("name")
    users.add("show", run_user_show, "show how a user signs in, and what acts for the user").add_argument("name")
    unlink = users.add("unlink", run_user_unlink, "take a linked identity off a user; it signs in no more")
    unlink.add_argument("name")
    unlink.add_argument("id", metavar="ID", help="of the identity, as `waybill user show` has it")
    users.add("recover", run_user_recover, "send a user a link that sets a new password").add_argument("name")
    sessions = users.add("sessions", run_user_sessions, "show the open sessions of a user, or end them")
    sessions.add_argument("name")
    sessions.add_argument("--end", action="store_true", help="end all of them")


def declare(commands: Commands) -> None:
    """Add the other commands of this module."""
    invite = commands.add("invite", run_invite, "make an invitation, and print its link, which is shown once")
    invite.add_argument("--email", default="", metavar="ADDRESS", help="the only address that may use it")
    invite.add_argument("--days", type=int, default=7, metavar="N", help="lifetime in days (default 7)")
    invite.add_argument("--list", action="store_true", help="show the open invitations instead")
    invite.add_argument("--take-back", metavar="ID", help="revoke an invitation instead")
    audit = commands.group("audit", "the audit log")
    export = audit.add("export", run_audit_export, "write the audit log to the standard output")
    export.add_argument("--since", metavar="TIME", help="such as 2027-01-31, or 2027-01-31T12:00:00Z")
    export.add_argument("--until", metavar="TIME", help="rows before this time")
    export.add_argument("--user", metavar="NAME", help="rows about this user, or by this user")
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="(default jsonl)")


def run_user_list(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from identity import users

    offset, total = 0, 1
    while offset < total:
        rows, total = users.listed(None, arguments.text, offset=offset, limit=500)
        for row in rows:
            words = ["" if row.is_active else "deactivated", "staff" if row.is_staff else "", row.email]
            say("  ".join([row.username, str(row.pk), *filter(None, words)]))
        offset += 500


def run_user_deactivate(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import deactivation

    deactivation.deactivate(None, user, arguments.reason)
    say(f"{user.username} is not let in any more; tasks are canceled, tokens, keys and sessions have ended.")


def run_user_activate(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import deactivation

    deactivation.activate(None, user)
    say(f"{user.username} may sign in again.")


def run_user_delete(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import deactivation
    from identity.error_categories import CategorizedError

    try:
        gone = deactivation.delete(None, user)
    except CategorizedError as error:
        raise StackError(f"{error.message} See `waybill user deactivate`.") from None
    say(f"{user.username} is deleted. The history has the id {gone.pk}; the audit log keeps the name.")


def run_user_show(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import user_account

    seen = user_account.overview(None, user)
    words = ["active" if user.is_active else "deactivated", "staff" if user.is_staff else "", user.email]
    say("  ".join([user.username, str(user.pk), *filter(None, words)]))
    say(f"password  {'yes' if seen.has_password else 'no'}")
    say(f"one-time codes  {f'on, {seen.recovery_codes_left} recovery codes left' if seen.codes_on else 'off'}")
    say(f"open sessions  {seen.sessions}")
    for one in seen.identities:
        say(_line("identity", one.pk, one.username, one.provider, _used(one.last_used_at)))
    for passkey in seen.passkeys:
        copied = "seems to be copied" if passkey.copied_at else ""
        say(_line("passkey", passkey.label, _used(passkey.last_used_at), copied))
    for subject in seen.subjects:
        say(_line("certificate", subject.subject, subject.label))
    for key in seen.ssh_keys:
        say(_line("ssh key", key.fingerprint, key.label, _used(key.last_used_at)))
    for token in seen.tokens:
        say(_line("token", token.pk, token.label, _used(token.last_used_at)))
    for consent in seen.consents:
        name, client = consent.application.name, consent.application.client_id
        say(_line("application", client, name, f"since {consent.created_at:%Y-%m-%d}", consent.scope))


def _line(*words: object) -> str:
    """The words that are not empty. Names from providers may hold anything: control characters are left out."""
    text = "  ".join(str(word) for word in words if word)
    return "".join(letter for letter in text if letter.isprintable())


def _used(time: datetime | None) -> str:
    return f"used {time:%Y-%m-%d %H:%M:%SZ}" if time else "never used"


def run_user_unlink(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import user_account
    from identity.proven_identities import IdentityNotFoundError

    try:
        user_account.unlink(None, user, arguments.id)
    except IdentityNotFoundError:
        raise StackError(f"{user.username} has no identity {arguments.id!r}: see `waybill user show`") from None
    say(f"The identity is not linked any more; all sessions of {user.username} have ended.")


def run_user_recover(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import user_account

    user_account.send_recovery(None, user)
    say(f"A mail to {user.email} is on its way; its link sets a new password, once.")


def run_user_sessions(config: Config, arguments: argparse.Namespace) -> None:
    user = user_of(arguments.name)
    from identity import deactivation
    from identity import sessions as open_sessions

    if arguments.end:
        say(f"{deactivation.end_sessions(None, user)} sessions of {user.username} have ended.")
        return
    for one in open_sessions.open_sessions(user):
        begun = f"{one.begun_at:%Y-%m-%d %H:%M:%SZ}" if one.begun_at else "?"
        say("  ".join([one.id, f"since {begun}", one.way or "?", one.address or "?", one.browser]).rstrip())


def run_invite(config: Config, arguments: argparse.Namespace) -> None:
    open_database()
    from identity import sign_up
    from identity.error_categories import CategorizedError

    try:
        if arguments.list:
            for row in sign_up.list_invitations(None):
                by = row.made_by.username if row.made_by else "operator"
                say(f"{row.pk}  until {row.expires_at:%Y-%m-%d %H:%MZ}  by {by}  {row.email}".rstrip())
        elif arguments.take_back:
            sign_up.take_back_invitation(None, arguments.take_back)
            say("The invitation has ended.")
        else:
            say(sign_up.invite(None, arguments.email, arguments.days)[1].value)
    except CategorizedError as error:
        raise StackError(f"{error.message} (WAYBILL_SIGN_UP says who may make an account)") from None


def run_audit_export(config: Config, arguments: argparse.Namespace) -> int:
    user = user_of(arguments.user) if arguments.user else None
    open_database()
    from identity import audit_export

    wanted = audit_export.Selection(
        _time("--since", arguments.since), _time("--until", arguments.until), user and user.pk
    )
    try:
        for part in audit_export.export(None, wanted, arguments.format):
            sys.stdout.write(part)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has enough, such as `head`.
        sys.stderr.close()
        return 1
    return 0


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return utc_time(text)
    except ValueError:
        raise StackError(f"{option}: give a time such as 2027-01-31T12:00:00Z") from None
