"""Encryption of the vault: AES-256-GCM with the configured keys (docs/decisions/credentials.md).

An envelope is  version (1 octet, 0x01) | id of the key (8) | nonce (12) | ciphertext and tag (16 more than the text).
Version and id are authenticated together with the caller's associated data, so that an envelope opens only where it
was sealed. Nonces are random: one key may seal 2^32 envelopes (NIST SP 800-38D, 8.3), far more than ever needed.

`SealedTable` is a table with an encrypted column, such as the two of the vault; `lock_user` is the per-user lock for
its writers.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.db import models

from identity.hidden import Hidden
from identity.models import Credential, PendingSecret, User

from .errors import USER_GONE, VAULT_SEAL_BROKEN, VaultError, VaultKeyMissingError, VaultKeyNotConfiguredError
from .keys import VaultKey, parse_keys
from .watched_file import WatchedFile

VERSION = b"\x01"
ID_OCTETS = 8
NONCE_OCTETS = 12
HEAD_OCTETS = len(VERSION) + ID_OCTETS + NONCE_OCTETS
#: The difference in length between an envelope and its plaintext.
OVERHEAD_OCTETS = HEAD_OCTETS + 16

_file = WatchedFile("vault keys", parse_keys)


def configured() -> tuple[VaultKey, ...]:
    """All configured keys, the newest first; empty when none is configured."""
    at_start: tuple[VaultKey, ...] = tuple(settings.VAULT_KEYS)
    path: Path | None = settings.VAULT_KEY_FILE
    return at_start if path is None else _file.read(path, at_start)


def newest() -> VaultKey:
    """The key for new envelopes. Raises VaultKeyNotConfiguredError."""
    if not (found := configured()):
        raise VaultKeyNotConfiguredError
    return found[0]


def key_id(envelope: bytes) -> str:
    """The name of the key that sealed this envelope. Raises VAULT_SEAL_BROKEN when it is not an envelope."""
    if len(envelope) < OVERHEAD_OCTETS or envelope[:1] != VERSION:
        raise VaultError(VAULT_SEAL_BROKEN)
    return envelope[1 : 1 + ID_OCTETS].hex()


def seal(plaintext: bytes | Hidden, associated: bytes, key: VaultKey | None = None) -> bytes:
    """Encrypt; only the same `associated` decrypts it. Raises VaultKeyNotConfiguredError."""
    text = plaintext if isinstance(plaintext, Hidden) else Hidden(plaintext)
    del plaintext
    key = key or newest()
    nonce = os.urandom(NONCE_OCTETS)
    head = VERSION + key.id
    return head + nonce + AESGCM(key.octets).encrypt(nonce, text.value, head + associated)


def unseal(envelope: bytes, associated: bytes) -> bytes:
    """The plaintext of an envelope. Raises VaultKeyMissingError, VAULT_SEAL_BROKEN, VaultKeyNotConfiguredError."""
    name = key_id(envelope)
    key = _named(name, configured())
    head, nonce = envelope[: 1 + ID_OCTETS], envelope[1 + ID_OCTETS : HEAD_OCTETS]
    try:
        return AESGCM(key.octets).decrypt(nonce, envelope[HEAD_OCTETS:], head + associated)
    except InvalidTag:
        raise VaultError(VAULT_SEAL_BROKEN) from None


def _named(name: str, keys: Sequence[VaultKey]) -> VaultKey:
    if not keys:
        raise VaultKeyNotConfiguredError
    for key in keys:
        if key.name == name:
            return key
    raise VaultKeyMissingError(name)


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
        return Hidden(unseal(bytes(getattr(row, self.column)), self.associated(row)))

    def seal(self, row: Any, secret: Hidden) -> None:
        setattr(row, self.column, seal(secret, self.associated(row)))
        row.key_id = key_id(getattr(row, self.column))


def _of_credential(row: Credential) -> bytes:
    return json.dumps(["credential", str(row.pk), str(row.user_id), row.bound_to, row.kind]).encode()


def _of_pending(row: PendingSecret) -> bytes:
    token = "" if row.token_digest is None else bytes(row.token_digest).hex()
    return json.dumps(["pending", str(row.pk), str(row.user_id), row.bound_to, row.purpose, token]).encode()


CREDENTIALS = SealedTable(Credential, "sealed", _of_credential)
PENDING = SealedTable(PendingSecret, "sealed", _of_pending)


def lock_user(user_id: uuid.UUID) -> None:
    """Lock the user against other writers of the vault until the transaction ends. Raises USER_GONE."""
    if not User.objects.select_for_update(no_key=True).filter(pk=user_id).values_list("pk").first():
        raise VaultError(USER_GONE)
