"""A user's ssh public keys: add, list, remove, and find one at sign-in.

Nothing is cached: a key that was added signs in at once, and a removed one no longer does. Two users may have the same
key: the user name of the ssh client decides. Errors: `identity.ssh_public_keys`.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import models, transaction
from django.db.models.functions import Now

from . import ssh_public_keys, user_names
from .database_rows import single_row, unless_taken
from .error_categories import RefusedError
from .models import SshPublicKey, User
from .signals import account_changed
from .ssh_public_keys import (
    KEY_EXISTS,
    TOO_MANY_KEYS,
    UNRESTRICTED,
    KeyFieldInvalidError,
    KeyNotFoundError,
    KeyRestrictions,
    checked,
)

#: Keys of one user; expired ones count until they are removed.
MOST = 100
MAX_LABEL = 128
#: Octets of a blob that a client sends: more are looked up nowhere.
MAX_BLOB = ssh_public_keys.MAX_OCTETS
#: `last_used_at` is shown to people: it need not be written at every sign-in.
LAST_USED_PRECISION = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class SshKey:
    """A key by which `user` signs in. expires_at: None if it does not expire. last_used_at: to the minute."""

    id: uuid.UUID
    user: User
    label: str
    algorithm: str
    blob: bytes
    fingerprint: str
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    restrictions: KeyRestrictions

    @property
    def line(self) -> str:
        """The public key as OpenSSH writes it, without a comment."""
        return f"{self.algorithm} {base64.b64encode(self.blob).decode()}"


def add(
    user: User,
    text: str,
    label: str = "",
    restrictions: KeyRestrictions = UNRESTRICTED,
    expires_at: datetime | None = None,
) -> SshKey:
    """Add a key from the line of OpenSSH or the form of RFC 4716. Without a label it gets the comment of the key.

    Raises KeyInvalidError, KeyFieldInvalidError, KEY_EXISTS, TOO_MANY_KEYS.
    """
    key = ssh_public_keys.parse(text)
    label = _label(label or key.comment[:MAX_LABEL])
    restrictions = checked(restrictions.commands, restrictions.endpoints)
    if expires_at is not None and expires_at <= datetime.now(UTC):
        raise KeyFieldInvalidError("expires", "The key would have expired already.")
    with unless_taken("ssh_public_key_once", RefusedError(KEY_EXISTS, fingerprint=key.fingerprint)):
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if SshPublicKey.objects.filter(user=user).count() >= MOST:
            raise RefusedError(TOO_MANY_KEYS, limit=MOST)
        row = SshPublicKey(user=user, label=label, expires_at=expires_at)
        row.algorithm, row.blob, row.fingerprint = key.algorithm, key.blob, key.fingerprint
        _restrict(row, restrictions)
        row.save(force_insert=True)
    account_changed.send(SshPublicKey, user=user, what="ssh_key_added", name=f"{label} {key.fingerprint}".strip())
    return _key(row)


def list_of(user: User) -> list[SshKey]:
    """All keys of this user, the newest first; expired ones too."""
    return [_key(row) for row in SshPublicKey.objects.filter(user=user).order_by("-created_at", "pk")]


def remove(user: User, ref: uuid.UUID | str) -> SshKey:
    """Remove the key of this id or fingerprint: it signs in no more. Raises KeyNotFoundError."""
    with transaction.atomic():
        row = single_row(SshPublicKey.objects.select_for_update().filter(_named_by(ref), user=user))
        if row is None:
            raise KeyNotFoundError(ref)
        known = _key(row)
        row.delete()
    account_changed.send(SshPublicKey, user=user, what="ssh_key_removed", name=f"{row.label} {row.fingerprint}".strip())
    return known


#: Characters of a user name with a domain.
MAX_NAME = 150 + user_names.MAX_DOMAIN


def find(user_name: str, blob: bytes) -> SshKey | None:
    """The key by which this user signs in, for the octets that a client sent.

    None when the user has no such key, the key has expired, or the user is inactive. The caller verifies the signature
    of the client, and then calls `used`.
    """
    if len(blob) > MAX_BLOB or len(user_name) > MAX_NAME or "\0" in user_name:
        return None
    alive = models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=Now())
    found = SshPublicKey.objects.select_related("user").filter(
        alive, user__username=user_names.canonical(user_name), user__is_active=True
    )
    row = single_row(found.filter(fingerprint=ssh_public_keys.fingerprint(blob)))
    return _key(row) if row is not None and bytes(row.blob) == blob else None


def find_again(key: SshKey) -> SshKey | None:
    """The same key as it is now; None when it was removed or has expired, or its user is inactive.

    An open session asks this before each command.
    """
    return find(key.user.username, key.blob)


def used(key: SshKey) -> None:
    """Record that a user has signed in by this key."""
    now = datetime.now(UTC)
    if key.last_used_at is None or now - key.last_used_at >= LAST_USED_PRECISION:
        SshPublicKey.objects.filter(pk=key.id).update(last_used_at=now)


def _named_by(ref: uuid.UUID | str) -> models.Q:
    """The row of this id or fingerprint. Raises KeyNotFoundError for text that can be neither."""
    if isinstance(ref, uuid.UUID):
        return models.Q(pk=ref)
    if ref.startswith("SHA256:") and ref.isascii() and ref.isprintable() and len(ref) <= 64:
        return models.Q(fingerprint=ref.rstrip("="))
    try:
        return models.Q(pk=uuid.UUID(ref))
    except ValueError:
        raise KeyNotFoundError(ref[:64]) from None


def _label(text: str) -> str:
    if len(text) > MAX_LABEL or not text.isprintable():
        raise KeyFieldInvalidError("label", f"A label is one line of at most {MAX_LABEL} characters.")
    return text


def _restrict(row: SshPublicKey, restrictions: KeyRestrictions) -> None:
    row.commands = None if restrictions.commands is None else sorted(restrictions.commands)
    row.endpoints = None if restrictions.endpoints is None else sorted(map(str, restrictions.endpoints))


def _key(row: SshPublicKey) -> SshKey:
    commands = None if row.commands is None else frozenset(row.commands)
    endpoints = None if row.endpoints is None else frozenset(map(uuid.UUID, row.endpoints))
    return SshKey(
        row.pk,
        row.user,
        row.label,
        row.algorithm,
        bytes(row.blob),
        row.fingerprint,
        row.created_at,
        row.last_used_at,
        row.expires_at,
        KeyRestrictions(commands, endpoints),
    )
