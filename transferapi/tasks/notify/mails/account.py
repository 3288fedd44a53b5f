"""Mails about a user's account: a way to sign in has changed, or a link for a new password was asked for.

They are sent whatever the user chose about mails of tasks: the owner of an account shall hear what others do with it.
The mail with a link is a row without the link: `letter_of` makes it when the mail is sent, so that no table has it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings
from django.utils.translation import gettext

from identity import call_origin, mail_addresses, password_recovery
from identity.clock import moment
from identity.gsi.printable import translatable as _
from identity.languages import speaking_to
from identity.models import AddressChange, User
from transferapi.tasks.models import Mail

from .task import body_of, subject_line

#: Mails a day to one user about changes; more changes cause none.
MOST_A_DAY = 30
ACCOUNT, RECOVER, CONFIRM = "/account", "/recover/link?code=", "/account/address/link?code="
#: Kinds of keys of mails that do not go to the user's present address as they are. The rest of a key is an id.
_RECOVERY, _ADDRESS, _FORMER = "recovery", "address", "former-address"
#: The subjects, by the kind of the change.
_SUBJECTS = {
    "passkey_added": _("a passkey was added to your account"),
    "passkey_removed": _("a passkey of your account was removed"),
    "passkeys_removed": _("all passkeys of your account were removed"),
    "passkey_copied": _("a passkey of yours seems to have been copied"),
    "second_factor_on": _("sign-in asks for a passkey after your password"),
    "second_factor_off": _("sign-in no longer asks for a passkey after your password"),
    "codes_on": _("one-time codes were turned on"),
    "codes_off": _("one-time codes were turned off"),
    "recovery_codes_new": _("you have new recovery codes"),
    "ssh_key_added": _("an ssh key was added to your account"),
    "ssh_key_removed": _("an ssh key of your account was removed"),
    "token_made": _("an API token was made"),
    "token_revoked": _("an API token was revoked"),
    "application_made": _("an application of yours was made"),
    "application_changed": _("an application of yours was changed"),
    "application_removed": _("an application of yours was deleted"),
    "secret_added": _("an application of yours has a new secret"),
    "secret_removed": _("a secret of an application of yours was deleted"),
    "subject_added": _("a certificate subject signs in to your account"),
    "subject_removed": _("a certificate subject no longer signs in to your account"),
    "identity_linked": _("an identity of another provider signs in to your account"),
    "identity_unlinked": _("an identity of another provider no longer signs in to your account"),
    "password_changed": _("your password was changed"),
    "address_changed": _("your mail address was changed"),
}
_MORE = {
    "application_made": _("Whoever has its secret may do what you may do."),
    "secret_added": _("Whoever has this secret may do what you may do."),
    "passkey_copied": _("Its counter went back, as that of a copy does. It signs in no more; remove it."),
    "password_changed": _(
        "All other sessions of your account have ended. API tokens and applications keep their access."
    ),
}


def changed(user: User, what: str, name: str, actor: User | None = None, **_: object) -> None:
    """Write the mail about a change (`identity.signals.account_changed`). actor: staff who made it."""
    now, prefix = moment(None), f"account:{user.pk}:"
    if Mail.objects.filter(key__startswith=prefix, created_at__gt=now - timedelta(days=1)).count() >= MOST_A_DAY:
        return
    with speaking_to(user):
        subject = gettext(_SUBJECTS[what])
        lines = [f"{subject[0].upper()}{subject[1:]}{f': {name}' if name else ''}.", ""]
        lines += [gettext(_MORE[what]), ""] if what in _MORE else []
        if actor is not None or call_origin.present().actor == call_origin.OPERATOR:
            lines += [gettext("Those who run this service have done it."), ""]
        lines.append(gettext("The account: %(user)s") % {"user": user.username})
        lines += [gettext("The time: %(time)s") % {"time": f"{now:%Y-%m-%d %H:%M:%S} UTC"}, ""]
        lines.append(gettext("If it was not you, set a new password, and look through your account:"))
        _put(user, f"{prefix}{uuid.uuid4()}", subject, [*lines, f"{settings.PUBLIC_URL}{ACCOUNT}"])


def recovery_wanted(user: User, link_id: uuid.UUID, **_: object) -> None:
    """Write the mail that will have a link for a new password (`identity.signals.recovery_wanted`)."""
    minutes = int(password_recovery.LIFETIME.total_seconds() // 60)
    with speaking_to(user):
        who = {"user": user.username, "minutes": minutes}
        lines = [gettext("Somebody, probably you, asked for a new password for the account %(user)s.") % who, ""]
        lines += [gettext("This link sets one. It serves once, for %(minutes)d minutes:") % who, "", "{link}", ""]
        lines += [gettext("All sessions of the account end then. Sign-in asks for your second factor as before."), ""]
        lines.append(gettext("If you did not ask for it, you need not do anything: your password stays as it is."))
        _put(user, f"{_RECOVERY}:{link_id}", gettext("a new password for your account"), lines)


def address_wanted(user: User, change_id: uuid.UUID, **_: object) -> None:
    """Write the mail that will have a link to a new address (`identity.signals.address_wanted`)."""
    hours = int(mail_addresses.LIFETIME.total_seconds() // 3600)
    with speaking_to(user):
        who = {"user": user.username, "hours": hours}
        lines = [gettext("The user %(user)s wants to get mails at this address.") % who, ""]
        lines += [gettext("If this is you, open this link where you are signed in, within %(hours)d hours:") % who, ""]
        lines += ["{link}", "", gettext("If it was not you, you need not do anything: nothing changes.")]
        _write(user, f"{_ADDRESS}:{change_id}", gettext("your mail address"), lines)


def address_changed(user: User, change_id: uuid.UUID, **_: object) -> None:
    """Write the notice to the address that the user has left (`identity.signals.address_changed`)."""
    with speaking_to(user):
        lines = [gettext("Mails to the user %(user)s go to another address from now on.") % {"user": user.username}, ""]
        lines.append(gettext("If it was not you, ask those who run this service at once:"))
        lines.append(settings.PUBLIC_URL)
        _write(user, f"{_FORMER}:{change_id}", gettext("your mail address was changed"), lines)


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail as it is sent now."""

    address: str
    body: str = field(repr=False)


def letter_of(mail: Mail) -> Letter | None:
    """Any mail as it is sent; None if there is nothing to send any more, or no address to which it could go."""
    kind, _colon, ref = mail.key.partition(":")
    if kind in _LETTERS:
        return _LETTERS[kind](mail, uuid.UUID(ref))
    return Letter(mail.user.email, mail.body) if mail.user.email else None


def _recovery_letter(mail: Mail, link_id: uuid.UUID) -> Letter | None:
    code = password_recovery.new_code(link_id) if mail.user.email else None
    return None if code is None else Letter(mail.user.email, _with_link(mail, f"{RECOVER}{code.value}"))


def _address_letter(mail: Mail, change_id: uuid.UUID) -> Letter | None:
    change = mail_addresses.wanted(change_id)
    if change is None:
        return None
    if (holder := mail_addresses.taken_by(change)) is not None:
        return Letter(change.email, _hint(change, holder))
    code = mail_addresses.new_code(change_id)
    return None if code is None else Letter(change.email, _with_link(mail, f"{CONFIRM}{code.value}"))


def _former_letter(mail: Mail, change_id: uuid.UUID) -> Letter | None:
    address = mail_addresses.left(change_id)
    return Letter(address, mail.body) if address else None


_LETTERS: dict[str, Callable[[Mail, uuid.UUID], Letter | None]] = {
    _RECOVERY: _recovery_letter,
    _ADDRESS: _address_letter,
    _FORMER: _former_letter,
}


def _hint(change: AddressChange, holder: User) -> str:
    """To an address that another account has: nothing changes."""
    with speaking_to(holder):
        who = {"user": change.user.username, "holder": holder.username}
        lines = [gettext("The user %(user)s wants to get mails at this address.") % who, ""]
        lines += [gettext("Your account %(holder)s has it already, and one address serves one account.") % who, ""]
        lines.append(gettext("If it was not you, you need not do anything: nothing changes."))
    return body_of(lines)


def _with_link(mail: Mail, path: str) -> str:
    return mail.body.replace("{link}", f"{settings.PUBLIC_URL}{path}")


def _put(user: User, key: str, subject: str, lines: list[str]) -> None:
    if user.email:
        _write(user, key, subject, lines)


def _write(user: User, key: str, subject: str, lines: list[str]) -> None:
    now = moment(None)
    title, body = subject_line(subject), body_of(lines)
    Mail.objects.create(user=user, key=key, subject=title, body=body, created_at=now, next_try_at=now)
