"""The account of one user, as staff and the operator see it, and what they do to its ways to sign in and its programs.

    overview(actor, user).identities
    unlink(actor, user, identity_id)

actor: staff; None: the operator, on the machine of the service. Staff do none of this to their own account: the account
page asks them for the password and the second factor, which a stolen session does not have. Each act is in the audit
log with its actor, and the user gets a mail. The page that calls this asks for a recent sign-in.

Raises NOT_STAFF, OWN_WAYS, and the errors of the services that it calls.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db import transaction

from . import audit, certificate_subjects, one_time_codes, passkeys, password_recovery, ssh_keys, tokens
from . import linked_identities as linked
from . import sessions as open_sessions
from .audit import What
from .error_categories import Category, NotFoundError, Refusal, RefusedError
from .models import ApiToken, CertificateSubject, LinkedIdentity, Passkey, ScimUser, SignIn, User
from .provider import clients, consents
from .ssh_keys import SshKey
from .users import check_staff

OWN_WAYS = Refusal(Category.CONFLICT, "Change how you sign in yourself on your account page.")
NO_MAIL = Refusal(
    Category.CONFLICT, "No mail can be sent: the user has no mail address, or the service has no mail server."
)
USER_INACTIVE = Refusal(Category.CONFLICT, "The user is deactivated: reactivate the user first.")
MAIL_WAITS = Refusal(Category.CONFLICT, "A mail with a link was sent in the last half hour: its link still serves.")


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that signs a user in or acts for the user. No secret is in it.

    directory_may_activate: a directory (SCIM) has deactivated the user, and nobody else.
    """

    user: User
    has_password: bool
    identities: list[LinkedIdentity]
    passkeys: list[Passkey]
    codes_on: bool
    recovery_codes_left: int
    subjects: list[CertificateSubject]
    ssh_keys: list[SshKey]
    tokens: list[ApiToken]
    consents: list[SignIn]
    sessions: int
    directory_may_activate: bool


def overview(actor: User | None, user: User) -> Overview:
    check_staff(actor)
    return Overview(
        user=user,
        has_password=user.has_usable_password(),
        identities=linked.of(user),
        passkeys=passkeys.of(user),
        codes_on=one_time_codes.enabled(user),
        recovery_codes_left=one_time_codes.recovery_codes_left(user),
        subjects=certificate_subjects.of(user),
        ssh_keys=ssh_keys.list_of(user),
        tokens=tokens.of(user),
        consents=consents.of_user(user),
        sessions=len(open_sessions.open_sessions(user)),
        directory_may_activate=ScimUser.objects.filter(user=user, suspended=True).exists(),
    )


def unlink(actor: User | None, user: User, identity: uuid.UUID | str) -> None:
    """Unlink an identity, also the last way to sign in: it may be in the wrong hands. All sessions of the user end."""
    _check(actor, user)
    linked.unlink(user, identity, actor=actor, may_be_last=True)


def remove_passkeys(actor: User | None, user: User) -> int:
    """Remove all passkeys, as after the loss of a device; returns their number."""
    _check(actor, user)
    return passkeys.remove_all(user, actor)


def turn_codes_off(actor: User | None, user: User) -> bool:
    """Turn one-time codes off, as after the loss of a phone; returns whether they were on."""
    _check(actor, user)
    return one_time_codes.turn_off(user, actor)


def revoke_token(actor: User | None, user: User, token: uuid.UUID | str) -> None:
    _check(actor, user)
    tokens.revoke_own(user, token, actor)


def withdraw(actor: User | None, user: User, client_id: str) -> None:
    """Take back what the user has allowed to an application. Raises NotFoundError."""
    _check(actor, user)
    application = clients.find(client_id)
    if application is None or not consents.of_user(user, client_id):
        raise NotFoundError(client_id[:64], "application of this user")
    consents.withdraw(user, application, actor)


def send_recovery(actor: User | None, user: User) -> None:
    """Send the mail with a link that sets a password, also where the user has none yet.

    Raises USER_INACTIVE, NO_MAIL, MAIL_WAITS.
    """
    _check(actor, user)
    if not user.is_active:
        raise RefusedError(USER_INACTIVE)
    if not user.email or not password_recovery.is_offered():
        raise RefusedError(NO_MAIL)
    with transaction.atomic():
        if not password_recovery.begin(user):
            raise RefusedError(MAIL_WAITS)
        audit.record(What.RECOVERY_SENT, user, actor=actor)


def _check(actor: User | None, user: User) -> None:
    """Raises NOT_STAFF, OWN_WAYS."""
    check_staff(actor)
    if actor is not None and actor.pk == user.pk:
        raise RefusedError(OWN_WAYS)
