"""The vault: credentials of users, sealed, each bound to an endpoint or to the server that gave it (truth 8).

What is public about a credential (`Held`) can be looked at by many and costs no decryption; the secret comes out by
`reveal` alone. Errors: see `identity.errors`. Nothing here logs, and secrets pass through local variables as `Hidden`.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db import models, transaction
from django.db.models.functions import Now

from .bindings import checked, endpoint_binding, myproxy_binding, oauth_binding
from .clock import moment
from .errors import CredentialGoneError, SecretTooLargeError, TooManyCredentialsError, VaultError
from .hidden import Hidden
from .models import Activation, Credential, PendingSecret, User
from .pending import Pending, find_pending, keep_pending, take_pending
from .rotation import Rotation, Status, rotate, status
from .rows import lock_user, seal, unseal
from .signals import credential_stored

__all__ = [
    "Held",
    "Kind",
    "Pending",
    "Rotation",
    "Status",
    "VaultError",
    "activated",
    "endpoint_binding",
    "expire",
    "find",
    "find_all",
    "find_pending",
    "forget",
    "forget_all",
    "keep_pending",
    "myproxy_binding",
    "oauth_binding",
    "reveal",
    "rotate",
    "status",
    "store",
    "take_pending",
]

MAX_SECRET_OCTETS = 256 * 1024
MAX_CREDENTIALS = 1000
#: Octets of all credentials of one user: 1,000 of the usual 10 KB fit, and 1,000 of the largest do not.
MAX_USER_OCTETS = 32 << 20
MAX_SUBJECT_CHARACTERS = 1024
#: Rows that one call of `expire` deletes of each sort: the sweep calls again.
EXPIRE_ROWS = 1000
_TICK = timedelta(microseconds=1)


class Kind(StrEnum):
    """What sort of secret it is."""

    #: PEM: certificate, private key, chain.
    X509 = "x509"
    #: PEM: a private key for ssh.
    SSH = "ssh"


@dataclass(frozen=True, slots=True)
class Held:
    """What is public about a credential. expires_at None: it does not expire by itself."""

    id: uuid.UUID
    user_id: uuid.UUID
    bound_to: str
    kind: Kind
    subject: str
    expires_at: datetime | None
    stored_at: datetime


def store(
    user: User | uuid.UUID,
    bound_to: str,
    kind: Kind,
    secret: bytes,
    *,
    subject: str,
    expires_at: datetime | None,
    now: datetime | None = None,
) -> Held:
    """Keep a credential in place of the one that this user has for this binding, if any.

    `stored_at` is later than that of the one before, whatever the clock says. Once this is committed, listeners of
    `credential_stored` are told. Raises SecretTooLargeError, TooManyCredentialsError, BadBindingError, UserGoneError,
    VaultKeyNotConfiguredError.
    """
    hidden = Hidden(bytes(secret))
    del secret
    if len(hidden) > MAX_SECRET_OCTETS:
        raise SecretTooLargeError(MAX_SECRET_OCTETS)
    checked(bound_to)
    user_id = user if isinstance(user, uuid.UUID) else user.pk
    with transaction.atomic():
        lock_user(user_id)
        row = _row(user_id, bound_to, len(hidden))
        row.kind, row.subject, row.expires_at = Kind(kind).value, _shown(subject), expires_at
        seal(row, hidden)
        # As late as can be: who looked and found nothing before this moment must not miss what comes after it.
        row.stored_at = moment(now) if row._state.adding else max(moment(now), row.stored_at + _TICK)
        row.save()
        transaction.on_commit(lambda: _tell(user_id, bound_to), robust=True)
    return _held(row)


def find(user_id: uuid.UUID, bound_to: Sequence[str], now: datetime | None = None) -> Held | None:
    """Of the user's credentials for any of these bindings the one that lives longest; None when none is alive."""
    row = _alive([user_id], bound_to, now).first()
    return None if row is None else _held(row)


def find_all(user_id: uuid.UUID, bound_to: Sequence[str], now: datetime | None = None) -> list[Held]:
    """All of the user's credentials for these bindings that are alive, those that live longest first; one query."""
    return [_held(row) for row in _alive([user_id], bound_to, now)]


def find_theirs(user_ids: Sequence[uuid.UUID], bound_to: Sequence[str], now: datetime | None = None) -> list[Held]:
    """The same of several users."""
    return [_held(row) for row in _alive(user_ids, bound_to, now)]


def reveal(held: Held) -> bytes:
    """The secret; where the credential was replaced since it was found, the new one's.

    Raises CredentialGoneError, VaultKeyMissingError, VaultSealBrokenError, VaultKeyNotConfiguredError.
    """
    row = Credential.objects.filter(pk=held.id, user_id=held.user_id, bound_to=held.bound_to, kind=held.kind).first()
    if row is None:
        raise CredentialGoneError
    return unseal(row)


def activated(held: Held, place: str) -> bool:
    """Note that the user has activated an endpoint (its binding) with this credential; False: that was known."""
    mine = Activation.objects.filter(user_id=held.user_id, place=place)
    if mine.filter(credential_id=held.id).exists():
        return False
    mine.update_or_create(user_id=held.user_id, place=place, defaults={"credential_id": held.id})
    return True


def forget(user: User | uuid.UUID, bound_to: str) -> bool:
    """Delete a user's credential, and what is pending, for this binding, at once; whether there was a credential."""
    user_id = user if isinstance(user, uuid.UUID) else user.pk
    PendingSecret.objects.filter(user_id=user_id, bound_to=bound_to).delete()
    deleted, _ = Credential.objects.filter(user_id=user_id, bound_to=bound_to).delete()
    return deleted > 0


def forget_all(bound_to: str, but: uuid.UUID | None = None) -> int:
    """Delete everybody's credentials for this binding, as when its endpoint is deleted; how many there were.

    but: whose are left.
    """
    others = models.Q() if but is None else ~models.Q(user_id=but)
    Activation.objects.filter(others, place=bound_to).delete()
    theirs = models.Q(bound_to=bound_to) & others
    PendingSecret.objects.filter(theirs).delete()
    deleted, _ = Credential.objects.filter(theirs).delete()
    return deleted


def expire(now: datetime | None = None) -> int:
    """Delete what has expired, at most EXPIRE_ROWS credentials and as many pending secrets; how many were deleted.

    Rows that somebody is writing just now are left for the next time.
    """
    time = moment(now)
    return _delete_expired(Credential.objects.all(), time) + _delete_expired(PendingSecret.objects.all(), time)


def _alive(user_ids: Sequence[uuid.UUID], bound_to: Sequence[str], now: datetime | None) -> models.QuerySet[Credential]:
    # Not `moment(now)`: the database compares with its own clock, in the same query.
    time = Now() if now is None else now
    alive = models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=time)
    longest = (models.F("expires_at").desc(nulls_first=True), "-stored_at")
    rows = Credential.objects.defer("sealed").filter(alive, user_id__in=list(user_ids), bound_to__in=list(bound_to))
    return rows.order_by(*longest)


#: PostgreSQL reads it without the octets themselves.
_LENGTH = models.Func(models.F("sealed"), function="octet_length", output_field=models.BigIntegerField())


def _row(user_id: uuid.UUID, bound_to: str, octets: int) -> Credential:
    """The row of this binding, locked, or a new one. Raises TooManyCredentialsError, SecretTooLargeError."""
    mine = Credential.objects.filter(user_id=user_id)
    row = mine.select_for_update().filter(bound_to=bound_to).first()
    if row is None and mine.count() >= MAX_CREDENTIALS:
        raise TooManyCredentialsError(MAX_CREDENTIALS)
    others = mine.exclude(bound_to=bound_to).aggregate(octets=models.Sum(_LENGTH))["octets"] or 0
    if others + octets > MAX_USER_OCTETS:
        raise SecretTooLargeError(MAX_USER_OCTETS, of_all=True)
    return row or Credential(id=uuid.uuid4(), user_id=user_id, bound_to=bound_to)


def _delete_expired(rows: models.QuerySet[Credential] | models.QuerySet[PendingSecret], now: datetime) -> int:
    with transaction.atomic():
        locked = rows.select_for_update(skip_locked=True).filter(expires_at__lte=now).order_by("expires_at")
        ids = list(locked.values_list("pk", flat=True)[:EXPIRE_ROWS])
        deleted, _ = rows.filter(pk__in=ids).delete()
    return deleted


def _tell(user_id: uuid.UUID, bound_to: str) -> None:
    credential_stored.send_robust(sender=Credential, user_id=user_id, bound_to=bound_to)


def _shown(subject: str) -> str:
    """As it can be kept and shown: control characters spelled out, and not without end."""
    spelled = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in subject[:MAX_SUBJECT_CHARACTERS]
    )
    return spelled[:MAX_SUBJECT_CHARACTERS]


def _held(row: Credential) -> Held:
    return Held(row.pk, row.user_id, row.bound_to, Kind(row.kind), row.subject, row.expires_at, row.stored_at)
