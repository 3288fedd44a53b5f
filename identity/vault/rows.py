"""Tables with an encrypted column, the two of the vault among them, and the per-user lock for its writers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import models

from identity.hidden import Hidden
from identity.models import Credential, PendingSecret, User

from . import sealing
from .errors import UserGoneError


@dataclass(frozen=True, slots=True)
class SealedTable:
    """A table with an encrypted column; the row's `key_id` names the key.

    associated: gives the associated data of a row (see `sealing.seal`), which names the row and its user: it cannot be
    decrypted elsewhere.
    """

    model: type[models.Model]
    column: str
    associated: Callable[[Any], bytes]

    @property
    def rows(self) -> models.QuerySet[Any]:
        return self.model._default_manager.all()

    def unseal(self, row: Any) -> Hidden:
        return Hidden(sealing.unseal(bytes(getattr(row, self.column)), self.associated(row)))

    def seal(self, row: Any, secret: Hidden) -> None:
        setattr(row, self.column, sealing.seal(secret, self.associated(row)))
        row.key_id = sealing.key_id(getattr(row, self.column))


def _of_credential(row: Credential) -> bytes:
    return json.dumps(["credential", str(row.pk), str(row.user_id), row.bound_to, row.kind]).encode()


def _of_pending(row: PendingSecret) -> bytes:
    token = "" if row.token_digest is None else bytes(row.token_digest).hex()
    return json.dumps(["pending", str(row.pk), str(row.user_id), row.bound_to, row.purpose, token]).encode()


CREDENTIALS = SealedTable(Credential, "sealed", _of_credential)
PENDING = SealedTable(PendingSecret, "sealed", _of_pending)


def lock_user(user_id: uuid.UUID) -> None:
    """Lock the user against other writers of the vault until the transaction ends. Raises UserGoneError."""
    if not User.objects.select_for_update(no_key=True).filter(pk=user_id).values_list("pk").first():
        raise UserGoneError
