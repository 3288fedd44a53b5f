"""Secrets that wait some minutes for a second step: the private key of a certificate request, an OAuth code verifier.

Each is taken once. The public data beside the secret (`more`) is encrypted with it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import models, transaction

from identity.clock import moment
from identity.hidden import Hidden, digest_of
from identity.models import PendingSecret, User

from .bindings import checked
from .errors import SecretTooLargeError
from .rows import PENDING, lock_user

MAX_OCTETS = 64 * 1024
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

    `more` must be JSON values. Raises SecretTooLargeError, BadBindingError, UserGoneError, VaultKeyNotConfiguredError.
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
    row = _alive(user, purpose, bound_to, token, now).first()
    return None if row is None else _unpacked(row)


def take_pending(
    user: User | uuid.UUID, purpose: str, bound_to: str = "", *, token: str | None = None, now: datetime | None = None
) -> Pending | None:
    """Return the secret and delete it: only the first caller before it expires gets it, every other one gets None.

    It is found by its token if one is given (then `bound_to` may be empty), else by its binding. One that cannot be
    decrypted stays. Raises VaultKeyMissingError, VaultSealBrokenError, VaultKeyNotConfiguredError.
    """
    with transaction.atomic():
        row = _alive(user, purpose, bound_to, token, now).select_for_update().first()
        if row is None:
            return None
        taken = _unpacked(row)
        row.delete()
    return taken


def _alive(
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
    if len(content) > MAX_OCTETS:
        raise SecretTooLargeError(MAX_OCTETS)
    return content


def _unpacked(row: PendingSecret) -> Pending:
    content = PENDING.unseal(row)
    end = _LENGTH_OCTETS + int.from_bytes(content.value[:_LENGTH_OCTETS], "big")
    more = json.loads(content.value[_LENGTH_OCTETS:end])
    return Pending(row.expires_at, content.value[end:], more)
