"""What the rows of the vault have in common: what a seal binds, and the lock of those who write for a user."""

from __future__ import annotations

import json
import uuid

from . import keyring
from .errors import UserGoneError
from .hidden import Hidden
from .models import Credential, PendingSecret, User


def associated(row: Credential | PendingSecret) -> bytes:
    """What this row's octets are sealed with: in any other row, or for anybody else, they do not open."""
    facts: list[str]
    if isinstance(row, Credential):
        facts = ["credential", str(row.pk), str(row.user_id), row.bound_to, row.kind]
    else:
        token = "" if row.token_digest is None else bytes(row.token_digest).hex()
        facts = ["pending", str(row.pk), str(row.user_id), row.bound_to, row.purpose, token]
    return json.dumps(facts).encode()


def seal(row: Credential | PendingSecret, secret: Hidden) -> None:
    """Raises VaultKeyNotConfiguredError."""
    row.sealed = keyring.seal(secret, associated(row))
    row.key_id = keyring.key_id(row.sealed)


def unseal(row: Credential | PendingSecret) -> bytes:
    """Raises VaultKeyMissingError, VaultSealBrokenError, VaultKeyNotConfiguredError."""
    return keyring.unseal(bytes(row.sealed), associated(row))


def lock_user(user_id: uuid.UUID) -> None:
    """Let nobody else store for this user until the transaction ends. Raises UserGoneError."""
    if not User.objects.select_for_update(no_key=True).filter(pk=user_id).values_list("pk").first():
        raise UserGoneError
