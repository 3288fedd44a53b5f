"""A user's passkeys: add, list, name, remove; and the proof of one at sign-in.

A question is begun with `begin_new` or `begin_proof`, which put a challenge into the session of the browser; the answer
comes to `add`, `user_of_proof` or `check_second_factor`. Errors: `identity.passkeys.errors`.
"""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime
from typing import Any

from django.db import models, transaction
from django.db.models.functions import Now

from identity.conflicts import unless_taken
from identity.database_rows import row_by_id, single_row
from identity.linked import ways_in
from identity.models import OneTimeCodeSecret, Passkey, User
from identity.signals import account_changed

from . import ceremony, challenges
from .ceremony import PasskeyCredential
from .challenges import Session
from .errors import (
    LastPasskeyError,
    LastSecondFactorError,
    NoPasskeyError,
    PasskeyCopiedError,
    PasskeyExistsError,
    PasskeyLabelError,
    PasskeyNotFoundError,
    PasskeyUnknownError,
    TooManyPasskeysError,
)

#: Passkeys of one user.
MOST = 20
MAX_LABEL = 128
#: The purposes of challenges.
_NEW, _SIGN_IN, _SECOND = "new", "sign-in", "second-factor"
log = logging.getLogger(__name__)
# At INFO the library writes a line for each ceremony.
logging.getLogger("fido2").setLevel(logging.WARNING)


def of(user: User) -> list[Passkey]:
    """All passkeys of this user, the oldest first."""
    return list(Passkey.objects.filter(user=user).order_by("created_at", "pk"))


def begin_new(user: User, session: Session) -> dict[str, Any]:
    """The options for a new passkey. Raises TooManyPasskeysError, PasskeysUnavailableError."""
    known = of(user)
    if len(known) >= MOST:
        raise TooManyPasskeysError(MOST)
    ceremony.site()
    challenge = challenges.new(session, f"{_NEW} {user.pk}")
    return ceremony.ask_for_new(challenge, user.pk.bytes, user.username, [_key(row) for row in known])


def add(user: User, session: Session, answer: str, label: str) -> Passkey:
    """Add the passkey in the answer of the browser. The caller has made sure that the user signed in just now.

    Raises PasskeyLabelError, ChallengeLapsedError, PasskeyRefusedError, PasskeyExistsError, TooManyPasskeysError.
    """
    label = _label(label)
    key = ceremony.check_new(challenges.take(session, f"{_NEW} {user.pk}"), answer)
    with unless_taken("passkey_once", PasskeyExistsError()):
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if Passkey.objects.filter(user=user).count() >= MOST:
            raise TooManyPasskeysError(MOST)
        row = Passkey(user=user, label=label, credential_id=key.credential_id, public_key=key.public_key)
        row.sign_count, row.transports = key.count, list(key.transports)
        row.save(force_insert=True)
    account_changed.send(Passkey, user=user, what="passkey_added", name=label)
    return row


def rename(user: User, ref: uuid.UUID | str, label: str) -> None:
    """Raises PasskeyLabelError, PasskeyNotFoundError."""
    row = _mine(user, ref)
    row.label = _label(label)
    row.save(update_fields=["label"])


def remove(user: User, ref: uuid.UUID | str) -> None:
    """Remove a passkey: it signs in no more. Raises PasskeyNotFoundError, LastSecondFactorError, LastPasskeyError."""
    with transaction.atomic():
        user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        row = _mine(user, ref)
        if user.passkey_after_password and not _has_another_factor(user, row):
            raise LastSecondFactorError
        if row.copied_at is None and not ways_in.has_another(user, row):
            raise LastPasskeyError
        row.delete()
    account_changed.send(Passkey, user=user, what="passkey_removed", name=row.label)


def remove_all(user: User, actor: User | None = None) -> int:
    """Remove all passkeys, as staff and the operator do after the loss of a device; returns their number."""
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        deleted, _ = Passkey.objects.filter(user=user).delete()
        User.objects.filter(pk=user.pk).update(passkey_after_password=False)
        if deleted:
            account_changed.send(Passkey, user=user, what="passkeys_removed", name="", actor=actor)
    return deleted


# ---- the second factor


def asked_after_password(user: User) -> bool:
    """Whether sign-in by password asks this user for a passkey (or a one-time code, where the user has codes)."""
    # Also where the only one was copied: who has the copy must not get rid of the question.
    return user.passkey_after_password and Passkey.objects.filter(user=user).exists()


def ask_after_password(user: User, *, wanted: bool) -> None:
    """Choose whether sign-in by password asks for a passkey too. Raises NoPasskeyError."""
    with transaction.atomic():
        row = User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if wanted and not usable(user):
            raise NoPasskeyError
        row.passkey_after_password = wanted
        row.save(update_fields=["passkey_after_password"])
    account_changed.send(Passkey, user=user, what="second_factor_on" if wanted else "second_factor_off", name="")


def usable(user: User) -> bool:
    """Whether the user has a passkey that can answer."""
    return Passkey.objects.filter(user=user, copied_at=None).exists()


def _has_another_factor(user: User, row: Passkey) -> bool:
    others = Passkey.objects.filter(user=user, copied_at=None).exclude(pk=row.pk)
    return others.exists() or OneTimeCodeSecret.objects.filter(user=user, confirmed_at__isnull=False).exists()


# ---- sign-in


def begin_proof(session: Session) -> dict[str, Any]:
    """The options for somebody who has given no name. Raises PasskeysUnavailableError."""
    ceremony.site()
    return ceremony.ask_for_proof(challenges.new(session, _SIGN_IN))


def user_of_proof(session: Session, answer: str) -> User:
    """The user whose passkey has signed the answer.

    Raises ChallengeLapsedError, PasskeyUnknownError, PasskeyRefusedError, PasskeyCopiedError.
    """
    challenge = challenges.take(session, _SIGN_IN)
    credential_id, handle = ceremony.credential_of(answer)
    row = _with_id(credential_id)
    # A discoverable credential names its user (WebAuthn level 2, 7.2, step 6).
    if row is None or handle != row.user.pk.bytes or not row.user.is_active:
        raise PasskeyUnknownError
    _check(row, challenge, answer)
    return row.user


def begin_second_factor(user: User, session: Session) -> dict[str, Any]:
    """The options for a user whose password was right. Raises PasskeyUnknownError, PasskeysUnavailableError."""
    ceremony.site()
    known = [_key(row) for row in of(user) if row.copied_at is None]
    if not known:
        raise PasskeyUnknownError
    return ceremony.ask_for_proof(challenges.new(session, f"{_SECOND} {user.pk}"), known)


def check_second_factor(user: User, session: Session, answer: str) -> None:
    """Accept the answer of a passkey of this user.

    Raises ChallengeLapsedError, PasskeyUnknownError, PasskeyRefusedError, PasskeyCopiedError.
    """
    challenge = challenges.take(session, f"{_SECOND} {user.pk}")
    row = _with_id(ceremony.credential_of(answer)[0])
    if row is None or row.user_id != user.pk:
        raise PasskeyUnknownError
    _check(row, challenge, answer)


def _check(row: Passkey, challenge: bytes, answer: str) -> None:
    """Check the answer of this passkey, and that its counter has grown (WebAuthn level 2, 7.2, step 21)."""
    count = ceremony.check_proof(challenge, answer, _key(row))
    if row.copied_at is not None:
        raise PasskeyCopiedError
    grown = models.Q(sign_count__lt=count) | (models.Q(sign_count=0) if count == 0 else models.Q(pk__in=[]))
    # One statement compares and writes: of two concurrent answers with one count, the second changes no row.
    known = Passkey.objects.filter(grown, pk=row.pk, copied_at=None)
    if not known.update(sign_count=count, last_used_at=Now()):
        Passkey.objects.filter(pk=row.pk).update(copied_at=datetime.now(UTC))
        log.warning("a passkey of %s was refused: its counter went back", row.user_id)
        account_changed.send(Passkey, user=row.user, what="passkey_copied", name=row.label)
        raise PasskeyCopiedError


def _with_id(credential_id: bytes) -> Passkey | None:
    return single_row(Passkey.objects.select_related("user").filter(credential_id=credential_id))


def _mine(user: User, ref: uuid.UUID | str) -> Passkey:
    """Raises PasskeyNotFoundError."""
    return row_by_id(Passkey.objects.filter(user=user), ref, PasskeyNotFoundError(ref))


def _key(row: Passkey) -> PasskeyCredential:
    return PasskeyCredential(bytes(row.credential_id), bytes(row.public_key), row.sign_count, tuple(row.transports))


def _label(text: str) -> str:
    """Raises PasskeyLabelError."""
    text = text.strip()
    if not 0 < len(text) <= MAX_LABEL or not text.isprintable():
        raise PasskeyLabelError
    return text
