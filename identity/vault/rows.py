"""Sealing of the vault's rows (`Credential`, `PendingSecret`), and the per-user lock for writers."""

from __future__ import annotations

import json
import uuid

from identity.hidden import Hidden
from identity.models import Credential, PendingSecret, User

from . import sealing
from .errors import UserGoneError


def associated(row: Credential | PendingSecret) -> bytes:
    """The associated data of a row's envelope: it cannot be decrypted in another row or for another user."""
    facts: list[str]
    if isinstance(row, Credential):
        facts = ["credential", str(row.pk), str(row.user_id), row.bound_to, row.kind]
    else:
        token = "" if row.token_digest is None else bytes(row.token_digest).hex()
        facts = ["pending", str(row.pk), str(row.user_id), row.bound_to, row.purpose, token]
    return json.dumps(facts).encode()


def seal(row: Credential | PendingSecret, secret: Hidden) -> None:
    """Raises VaultKeyNotConfiguredError."""
    row.sealed = sealing.seal(secret, associated(row))
    row.key_id = sealing.key_id(row.sealed)


def unseal(row: Credential | PendingSecret) -> bytes:
    """Raises VaultKeyMissingError, VaultSealBrokenError, VaultKeyNotConfiguredError."""
    return sealing.unseal(bytes(row.sealed), associated(row))


def lock_user(user_id: uuid.UUID) -> None:
    """Lock the user against other writers of the vault until the transaction ends. Raises UserGoneError."""
    if not User.objects.select_for_update(no_key=True).filter(pk=user_id).values_list("pk").first():
        raise UserGoneError
