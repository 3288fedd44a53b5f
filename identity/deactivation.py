"""Deactivate, activate and delete users.

Deactivation is one transaction: the user is not let in by any way, and what acts for the user ends: sessions, API
tokens, tokens and codes of applications, ssh keys, credentials in the vault, links by mail. Receivers of
`user_deactivated` end tasks, timers and webhooks in it. Password, passkeys, one-time codes, certificate subjects and
linked identities stay: they sign the user in after an activation. Memberships, roles and access rules stay and have no
effect meanwhile.

Deletion keeps the row with its id, without anything that says who it was: history, events of tasks, rules that others
wrote and the audit log name the id. The audit log keeps the name until its own retention ends.
"""

from __future__ import annotations

import uuid

from django.db import transaction
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from . import audit, link_codes, sessions
from .audit import What
from .clock import moment
from .database_rows import row_by_id
from .error_categories import Category, NotFoundError, Refusal, RefusedError
from .models import (
    AddressChange,
    ApiToken,
    CertificateSubject,
    LinkedIdentity,
    Membership,
    OneTimeCodeSecret,
    Passkey,
    PendingSecret,
    RecoveryCode,
    ScimUser,
    SignIn,
    SshPublicKey,
    User,
)
from .signals import user_deactivated, user_deleted
from .users import DELETED, OWN_ACCOUNT, check_staff
from .vault import store as vault

STAFF_STAYS = Refusal(
    Category.CONFLICT, "Staff do not deactivate themselves: another one of the staff, or the operator, does it."
)
NOT_DEACTIVATED = Refusal(Category.CONFLICT, "Only a deactivated user can be deleted.")


def find(actor: User | None, user_id: uuid.UUID | str) -> User:
    """A user, for staff. actor: None for the operator. Raises NOT_STAFF, NotFoundError."""
    check_staff(actor)
    known = User.objects.exclude(username__startswith=DELETED)
    return row_by_id(known, user_id, NotFoundError(str(user_id)[:64], "user"))


def deactivate(actor: User | None, user: User, reason: str = "") -> User:
    """Deactivate a user for another one: staff, or None for the operator. Raises NOT_STAFF, OWN_ACCOUNT.

    A directory that had deactivated the user cannot activate the user any more.
    """
    check_staff(actor)
    if actor is not None and actor.pk == user.pk:
        raise RefusedError(OWN_ACCOUNT)
    return _deactivate(user, actor, reason)


def deactivate_own(user: User) -> User:
    """At the user's own request. The caller has just authenticated the user. Raises STAFF_STAYS."""
    if user.is_staff:
        raise RefusedError(STAFF_STAYS)
    return _deactivate(user, None, "own request")


def activate(actor: User | None, user: User) -> User:
    """Let a user in again. Tokens, keys and tasks do not come back. Raises NOT_STAFF."""
    check_staff(actor)
    with transaction.atomic():
        row = _locked(user)
        if not row.is_active:
            # A request that was under way at the deactivation may have made something since then.
            _end_access(row)
            row.is_active = True
            row.save(update_fields=["is_active"])
            # A later deactivation is not that of the directory, unless the directory does it.
            ScimUser.objects.filter(user=row).update(suspended=False)
            audit.record(What.USER_ACTIVATED, row, actor=actor)
    return row


def end_sessions(actor: User | None, user: User) -> int:
    """End all sessions of the pages of this user; returns their number. Raises NOT_STAFF."""
    check_staff(actor)
    with transaction.atomic():
        ended = sessions.end_all(user)
        audit.record(What.SESSION_ENDED, user, {"sessions": ended}, actor=actor)
    return ended


@transaction.atomic
def delete(actor: User | None, user: User) -> User:
    """Delete a deactivated user. Raises NOT_STAFF, NOT_DEACTIVATED, and what receivers raise who object."""
    check_staff(actor)
    row = _locked(user)
    if row.is_active:
        raise RefusedError(NOT_DEACTIVATED)
    audit.record(What.USER_DELETED, row, actor=actor)
    user_deleted.send(User, user=row)
    _end_access(row)
    for model in (
        AddressChange,
        CertificateSubject,
        LinkedIdentity,
        OneTimeCodeSecret,
        RecoveryCode,
        Passkey,
        Membership,
        ScimUser,
    ):
        model.objects.filter(user=row).delete()
    Application.objects.filter(user=row).delete()
    row.username = f"{DELETED}{row.pk.hex}"
    row.email = row.first_name = row.last_name = ""
    row.is_staff = row.is_superuser = row.passkey_after_password = False
    row.last_login = None
    row.set_unusable_password()
    row.save()
    return row


@transaction.atomic
def _deactivate(user: User, actor: User | None, reason: str) -> User:
    row = _locked(user)
    if not row.is_active:
        if ScimUser.objects.filter(user=row, suspended=True).update(suspended=False):
            audit.record(What.USER_DEACTIVATED, row, {"reason": reason}, actor=actor)
        return row
    row.is_active = False
    row.save(update_fields=["is_active"])
    _end_access(row)
    user_deactivated.send(User, user=row)
    audit.record(What.USER_DEACTIVATED, row, {"reason": reason}, actor=actor)
    return row


def _locked(user: User) -> User:
    return User.objects.select_for_update(no_key=True).get(pk=user.pk)


def _end_access(user: User) -> None:
    sessions.end_all(user)
    link_codes.end_all(user, moment())
    for model in (RefreshToken, AccessToken, Grant, SignIn, ApiToken, SshPublicKey, PendingSecret):
        model.objects.filter(user=user).delete()
    vault.forget_user(user)
