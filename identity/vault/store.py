"""The vault: encrypted credentials of users, each bound to an endpoint or to the server that issued it (truth 8).

The public facts about a credential (`CredentialInfo`) are read without decryption; only `reveal` returns the secret.
Bindings and the rotation are part of its interface. Errors: see `identity.vault.errors`. This module
logs nothing; local variables hold secrets as `Hidden`.

A pending secret waits some minutes for a second step: the private key of a certificate request, an OAuth code verifier.
It is taken once. The public data beside it (`more`) is encrypted with it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import models, transaction
from django.db.models.functions import Now

from identity.clock import moment
from identity.database_rows import enum_value
from identity.hidden import Hidden, digest_of
from identity.models import Activation, Credential, PendingSecret, User
from identity.signals import credential_stored

from .bindings import checked
from .bindings import endpoint_binding as endpoint_binding
from .bindings import myproxy_binding as myproxy_binding
from .bindings import oauth_binding as oauth_binding
from .errors import CREDENTIAL_GONE, SECRET_TOO_LARGE, SECRETS_TOO_LARGE, TOO_MANY_CREDENTIALS, VaultError
from .rotation import rotate as rotate
from .rotation import status as status
from .sealing import CREDENTIALS, PENDING, lock_user

MAX_PENDING_OCTETS = 64 * 1024
#: Per user: a new pending secret deletes the oldest above this number.
MAX_PENDING = 100
_LENGTH_OCTETS = 4


@dataclass(frozen=True, slots=True)
class Pending:
    """A pending secret that was found or taken. `more` is the data that was stored beside the secret."""

    expires_at: datetime
    secret: bytes = field(repr=False)
    more: Mapping[str, Any] = field(repr=False)


def keep_pending(
    user: User | uuid.UUID,
    purpose: str,
    bound_to: str,
    secret: bytes,
    *,
    lifetime: timedelta,
    token: str | None = None,
    more: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> None:
    """Keep a secret for `lifetime`. Without a token it replaces the one for the same purpose and binding; with a token
    there may be several, and only the caller who presents the token gets it.

    `more` must be JSON values. Raises SECRET_TOO_LARGE, BAD_BINDING, USER_GONE, VaultKeyNotConfiguredError.
    """
    hidden, digest = Hidden(bytes(secret)), None if token is None else digest_of(token)
    del secret, token
    content = _packed(hidden, more or {})
    user_id = user if isinstance(user, uuid.UUID) else user.pk
    with transaction.atomic():
        lock_user(user_id)
        time = moment(now)
        _make_room(user_id, _which(user_id, purpose, checked(bound_to), digest))
        row = PendingSecret(user_id=user_id, purpose=purpose, bound_to=bound_to, token_digest=digest)
        row.made_at, row.expires_at = time, time + lifetime
        PENDING.seal(row, content)
        row.save(force_insert=True)


def find_pending(
    user: User | uuid.UUID, purpose: str, bound_to: str, *, token: str | None = None, now: datetime | None = None
) -> Pending | None:
    """Find a secret as `take_pending` does, and keep it."""
    row = _pending_alive(user, purpose, bound_to, token, now).first()
    return None if row is None else _unpacked(row)


def take_pending(
    user: User | uuid.UUID, purpose: str, bound_to: str = "", *, token: str | None = None, now: datetime | None = None
) -> Pending | None:
    """Return the secret and delete it: only the first caller before it expires gets it, every other one gets None.

    It is found by its token if one is given (then `bound_to` may be empty), else by its binding. One that cannot be
    decrypted stays. Raises VaultKeyMissingError, VAULT_SEAL_BROKEN, VaultKeyNotConfiguredError.
    """
    with transaction.atomic():
        row = _pending_alive(user, purpose, bound_to, token, now).select_for_update().first()
        if row is None:
            return None
        taken = _unpacked(row)
        row.delete()
    return taken


def _pending_alive(
    user: User | uuid.UUID, purpose: str, bound_to: str, token: str | None, now: datetime | None
) -> models.QuerySet[PendingSecret]:
    user_id = user if isinstance(user, uuid.UUID) else user.pk
    digest = None if token is None else digest_of(token)
    found = _which(user_id, purpose, bound_to, digest).filter(expires_at__gt=moment(now))
    return found.filter(bound_to=bound_to) if bound_to else found


def _which(user_id: uuid.UUID, purpose: str, bound_to: str, digest: bytes | None) -> models.QuerySet[PendingSecret]:
    mine = PendingSecret.objects.filter(user_id=user_id, purpose=purpose)
    if digest is not None:
        return mine.filter(token_digest=digest)
    return mine.filter(token_digest__isnull=True, bound_to=bound_to)


def _make_room(user_id: uuid.UUID, replaced: models.QuerySet[PendingSecret]) -> None:
    replaced.delete()
    newest_first = (
        PendingSecret.objects.filter(user_id=user_id).order_by("-made_at", "-pk").values_list("pk", flat=True)
    )
    if too_old := list(newest_first[MAX_PENDING - 1 :]):
        PendingSecret.objects.filter(pk__in=too_old).delete()


def _packed(secret: Hidden, more: Mapping[str, Any]) -> Hidden:
    encoded = json.dumps(dict(more)).encode()
    content = Hidden(len(encoded).to_bytes(_LENGTH_OCTETS, "big") + encoded + secret.value)
    if len(content) > MAX_PENDING_OCTETS:
        raise VaultError(SECRET_TOO_LARGE, kib=MAX_PENDING_OCTETS // 1024)
    return content


def _unpacked(row: PendingSecret) -> Pending:
    content = PENDING.unseal(row)
    end = _LENGTH_OCTETS + int.from_bytes(content.value[:_LENGTH_OCTETS], "big")
    more = json.loads(content.value[_LENGTH_OCTETS:end])
    return Pending(row.expires_at, content.value[end:], more)


MAX_SECRET_OCTETS = 256 * 1024
MAX_CREDENTIALS = 1000
#: Octets of all credentials of one user: 1,000 of the usual 10 KB fit, 1,000 of the largest do not.
MAX_USER_OCTETS = 32 << 20
MAX_SUBJECT_CHARACTERS = 1024
#: Rows of each table that one call of `expire` deletes; the periodic sweep calls it again.
EXPIRE_ROWS = 1000
_TICK = timedelta(microseconds=1)


class CredentialKind(StrEnum):
    """The format of the secret."""

    #: PEM: certificate, private key, chain.
    X509 = "x509"
    #: PEM: a private key for ssh.
    SSH = "ssh"
    #: A name and a password, for FTP servers that have no better.
    PASSWORD = "password"  # noqa: S105
    #: An access key of an object store: its id, its secret, and the token of temporary ones.
    ACCESS_KEY = "s3"


@dataclass(frozen=True, slots=True)
class CredentialInfo:
    """The public facts about a credential. expires_at: None if it does not expire."""

    id: uuid.UUID
    user_id: uuid.UUID
    bound_to: str
    kind: CredentialKind
    subject: str
    expires_at: datetime | None
    stored_at: datetime


def store(
    user: User | uuid.UUID,
    bound_to: str,
    kind: CredentialKind,
    secret: bytes,
    *,
    subject: str,
    expires_at: datetime | None,
    now: datetime | None = None,
) -> CredentialInfo:
    """Store a credential; it replaces the one that this user has for this binding, if any.

    `stored_at` is always later than that of the credential before, even if the clock went back. `credential_stored` is
    sent after the commit. Raises SECRET_TOO_LARGE, TOO_MANY_CREDENTIALS, BAD_BINDING, USER_GONE,
    VaultKeyNotConfiguredError.
    """
    hidden = Hidden(bytes(secret))
    del secret
    if len(hidden) > MAX_SECRET_OCTETS:
        raise VaultError(SECRET_TOO_LARGE, kib=MAX_SECRET_OCTETS // 1024)
    checked(bound_to)
    user_id = user if isinstance(user, uuid.UUID) else user.pk
    with transaction.atomic():
        lock_user(user_id)
        row = _row(user_id, bound_to, len(hidden))
        row.kind, row.subject, row.expires_at = CredentialKind(kind).value, _printable(subject), expires_at
        CREDENTIALS.seal(row, hidden)
        # This is as late as possible: a reader that found nothing before this time must not miss the new credential.
        row.stored_at = moment(now) if row._state.adding else max(moment(now), row.stored_at + _TICK)
        row.save()
        transaction.on_commit(lambda: _send_stored(user_id, bound_to), robust=True)
    return _info(row)


def find(user_id: uuid.UUID, bound_to: Sequence[str], now: datetime | None = None) -> CredentialInfo | None:
    """The user's credential for any of these bindings that expires last; None when none is valid now."""
    row = _alive([user_id], bound_to, now).first()
    return None if row is None else _info(row)


def find_all(user_id: uuid.UUID, bound_to: Sequence[str], now: datetime | None = None) -> list[CredentialInfo]:
    """All valid credentials of the user for these bindings, those that expire last first; one query."""
    return [_info(row) for row in _alive([user_id], bound_to, now)]


def of_user(user_id: uuid.UUID) -> list[CredentialInfo]:
    """All credentials of the user, also expired ones; those that expire first come first."""
    rows = Credential.objects.defer("sealed").filter(user_id=user_id)
    return [_info(row) for row in rows.order_by(models.F("expires_at").asc(nulls_last=True), "bound_to")]


def remove(user: User, credential_id: uuid.UUID) -> None:
    """Delete one credential of the user, as `forget` does. Raises CREDENTIAL_GONE."""
    row = Credential.objects.filter(user=user, pk=credential_id).values_list("bound_to", flat=True).first()
    if row is None or not forget(user, row):
        raise VaultError(CREDENTIAL_GONE)


def find_for_users(
    user_ids: Sequence[uuid.UUID], bound_to: Sequence[str], now: datetime | None = None
) -> list[CredentialInfo]:
    """Find credentials as `find_all` does, of several users."""
    return [_info(row) for row in _alive(user_ids, bound_to, now)]


def reveal(credential: CredentialInfo) -> bytes:
    """Decrypt the secret. If the credential was replaced since it was found, this is the new secret.

    Raises CREDENTIAL_GONE, VaultKeyMissingError, VAULT_SEAL_BROKEN, VaultKeyNotConfiguredError.
    """
    row = Credential.objects.filter(
        pk=credential.id, user_id=credential.user_id, bound_to=credential.bound_to, kind=credential.kind
    ).first()
    if row is None:
        raise VaultError(CREDENTIAL_GONE)
    return CREDENTIALS.unseal(row).value


def record_activation(credential: CredentialInfo, place: str) -> bool:
    """Record that the user activated an endpoint (its binding) with this credential; False if that is known already."""
    mine = Activation.objects.filter(user_id=credential.user_id, place=place)
    if mine.filter(credential_id=credential.id).exists():
        return False
    mine.update_or_create(user_id=credential.user_id, place=place, defaults={"credential_id": credential.id})
    return True


def activated_places(user_id: uuid.UUID) -> set[str]:
    """The bindings of the endpoints that the user has activated, also where the credential has expired since."""
    return set(Activation.objects.filter(user_id=user_id).values_list("place", flat=True))


def forget_activation(user_id: uuid.UUID, place: str) -> None:
    """Forget that the user has activated an endpoint (its binding)."""
    Activation.objects.filter(user_id=user_id, place=place).delete()


def forget(user: User | uuid.UUID, bound_to: str) -> bool:
    """Delete a user's credential and pending secrets for this binding; returns whether there was a credential."""
    user_id = user if isinstance(user, uuid.UUID) else user.pk
    PendingSecret.objects.filter(user_id=user_id, bound_to=bound_to).delete()
    deleted, _ = Credential.objects.filter(user_id=user_id, bound_to=bound_to).delete()
    return deleted > 0


def forget_user(user: User) -> int:
    """Delete all credentials of this user, and what was activated with them; returns the number of credentials."""
    Activation.objects.filter(user=user).delete()
    deleted, _ = Credential.objects.filter(user=user).delete()
    return deleted


def forget_all(bound_to: str, but: uuid.UUID | None = None) -> int:
    """Delete the credentials of all users for this binding, as when its endpoint is deleted; returns their number.

    but: the user whose credential is kept.
    """
    others = models.Q() if but is None else ~models.Q(user_id=but)
    Activation.objects.filter(others, place=bound_to).delete()
    theirs = models.Q(bound_to=bound_to) & others
    PendingSecret.objects.filter(theirs).delete()
    deleted, _ = Credential.objects.filter(theirs).delete()
    return deleted


def expire(now: datetime | None = None) -> int:
    """Delete at most EXPIRE_ROWS expired credentials and as many expired pending secrets; returns the number deleted.

    Rows that another transaction has locked are left for the next call.
    """
    time = moment(now)
    return _delete_expired(Credential.objects.all(), time) + _delete_expired(PendingSecret.objects.all(), time)


def _alive(user_ids: Sequence[uuid.UUID], bound_to: Sequence[str], now: datetime | None) -> models.QuerySet[Credential]:
    # Not `moment(now)`: PostgreSQL compares with its own clock in the same query.
    time = Now() if now is None else now
    alive = models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=time)
    longest = (models.F("expires_at").desc(nulls_first=True), "-stored_at")
    rows = Credential.objects.defer("sealed").filter(alive, user_id__in=list(user_ids), bound_to__in=list(bound_to))
    return rows.order_by(*longest)


#: PostgreSQL computes the length without sending the octets.
_LENGTH = models.Func(models.F("sealed"), function="octet_length", output_field=models.BigIntegerField())


def _row(user_id: uuid.UUID, bound_to: str, octets: int) -> Credential:
    """The locked row of this binding, or a new unsaved row. Raises TOO_MANY_CREDENTIALS, SECRETS_TOO_LARGE."""
    mine = Credential.objects.filter(user_id=user_id)
    row = mine.select_for_update().filter(bound_to=bound_to).first()
    if row is None and mine.count() >= MAX_CREDENTIALS:
        raise VaultError(TOO_MANY_CREDENTIALS, limit=MAX_CREDENTIALS)
    others = mine.exclude(bound_to=bound_to).aggregate(octets=models.Sum(_LENGTH))["octets"] or 0
    if others + octets > MAX_USER_OCTETS:
        raise VaultError(SECRETS_TOO_LARGE, kib=MAX_USER_OCTETS // 1024)
    return row or Credential(id=uuid.uuid4(), user_id=user_id, bound_to=bound_to)


def _delete_expired(rows: models.QuerySet[Credential] | models.QuerySet[PendingSecret], now: datetime) -> int:
    with transaction.atomic():
        locked = rows.select_for_update(skip_locked=True).filter(expires_at__lte=now).order_by("expires_at")
        ids = list(locked.values_list("pk", flat=True)[:EXPIRE_ROWS])
        deleted, _ = rows.filter(pk__in=ids).delete()
    return deleted


def _send_stored(user_id: uuid.UUID, bound_to: str) -> None:
    credential_stored.send_robust(sender=Credential, user_id=user_id, bound_to=bound_to)


def _printable(subject: str) -> str:
    """The subject for storage and display: control characters escaped, length limited."""
    spelled = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in subject[:MAX_SUBJECT_CHARACTERS]
    )
    return spelled[:MAX_SUBJECT_CHARACTERS]


def _info(row: Credential) -> CredentialInfo:
    return CredentialInfo(
        row.pk,
        row.user_id,
        row.bound_to,
        enum_value(CredentialKind, row.kind),
        row.subject,
        row.expires_at,
        row.stored_at,
    )
