"""Mails about a user's account: a way to sign in has changed, or a link for a new password was asked for.

They are sent whatever the user chose about mails of tasks: the owner of an account shall hear what others do with it.
The mail with a link is a row without the link: `body_of` makes it when the mail is sent, so that no table has it.
"""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.conf import settings

from identity.clock import moment
from identity.models import User
from identity.passwords import recovery
from transferapi.tasks.models import Mail

from .mails import printable, subject_line

#: Mails a day to one user about changes; more changes cause none.
MOST_A_DAY = 30
ACCOUNT, RECOVER = "/account", "/recover/link?code="
_RECOVERY = "recovery:"
#: The subjects, by the kind of the change.
_SUBJECTS = {
    "passkey_added": "a passkey was added to your account",
    "passkey_removed": "a passkey of your account was removed",
    "passkey_copied": "a passkey of yours seems to have been copied",
    "second_factor_on": "sign-in asks for a passkey after your password",
    "second_factor_off": "sign-in no longer asks for a passkey after your password",
    "codes_on": "one-time codes were turned on",
    "codes_off": "one-time codes were turned off",
    "recovery_codes_new": "you have new recovery codes",
    "ssh_key_added": "an ssh key was added to your account",
    "ssh_key_removed": "an ssh key of your account was removed",
    "token_made": "an API token was made",
    "token_revoked": "an API token was revoked",
    "subject_added": "a certificate subject signs in to your account",
    "subject_removed": "a certificate subject no longer signs in to your account",
    "identity_linked": "an identity of another provider signs in to your account",
    "identity_unlinked": "an identity of another provider no longer signs in to your account",
    "password_changed": "your password was changed",
}
_MORE = {
    "passkey_copied": "Its counter went back, as that of a copy does. It signs in no more; remove it.",
    "password_changed": "All other sessions of your account have ended. API tokens and applications keep their access.",
}


def changed(user: User, what: str, name: str, **_: object) -> None:
    """Write the mail about a change (`identity.signals.account_changed`)."""
    now, prefix = moment(None), f"account:{user.pk}:"
    if Mail.objects.filter(key__startswith=prefix, created_at__gt=now - timedelta(days=1)).count() >= MOST_A_DAY:
        return
    subject = _SUBJECTS[what]
    lines = [f"{subject[0].upper()}{subject[1:]}{f': {name}' if name else ''}.", ""]
    lines += [_MORE[what], ""] if what in _MORE else []
    lines += [f"The account: {user.username}", f"The time: {now:%Y-%m-%d %H:%M:%S} UTC", ""]
    lines += [
        "If it was not you, set a new password, and look through your account:",
        f"{settings.PUBLIC_URL}{ACCOUNT}",
    ]
    _put(user, f"{prefix}{uuid.uuid4()}", subject, lines)


def recovery_wanted(user: User, link_id: uuid.UUID, **_: object) -> None:
    """Write the mail that will have a link for a new password (`identity.signals.recovery_wanted`)."""
    minutes = int(recovery.LIFETIME.total_seconds() // 60)
    lines = [f"Somebody, probably you, asked for a new password for the account {user.username}.", ""]
    lines += [f"This link sets one. It serves once, for {minutes} minutes:", "", "{link}", ""]
    lines += ["All sessions of the account end then. Sign-in asks for your second factor as before.", ""]
    lines += ["If you did not ask for it, you need not do anything: your password stays as it is."]
    _put(user, f"{_RECOVERY}{link_id}", "a new password for your account", lines)


def body_of(mail: Mail) -> str | None:
    """The text of any mail as it is sent; None: there is nothing to send any more."""
    if not mail.key.startswith(_RECOVERY):
        return mail.body
    code = recovery.new_code(uuid.UUID(mail.key.removeprefix(_RECOVERY)))
    return None if code is None else mail.body.replace("{link}", f"{settings.PUBLIC_URL}{RECOVER}{code.value}")


def _put(user: User, key: str, subject: str, lines: list[str]) -> None:
    if not user.email:
        return
    now = moment(None)
    body = "\n".join(map(printable, lines)) + "\n"
    Mail.objects.create(user=user, key=key, subject=subject_line(subject), body=body, created_at=now, next_try_at=now)
