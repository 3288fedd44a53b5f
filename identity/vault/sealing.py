"""Encryption of the vault: AES-256-GCM with the configured keys (decision 0018).

An envelope is  version (1 octet, 0x01) | id of the key (8) | nonce (12) | ciphertext and tag (16 more than the text).
Version and id are authenticated together with the caller's associated data, so that an envelope opens only where it
was sealed. Nonces are random: one key may seal 2^32 envelopes (NIST SP 800-38D, 8.3), far more than ever needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from identity.hidden import Hidden

from .errors import VaultKeyMissingError, VaultKeyNotConfiguredError, VaultSealBrokenError
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
    """The name of the key that sealed this envelope. Raises VaultSealBrokenError when it is not an envelope."""
    if len(envelope) < OVERHEAD_OCTETS or envelope[:1] != VERSION:
        raise VaultSealBrokenError
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
    """The plaintext of an envelope. Raises VaultKeyMissingError, VaultSealBrokenError, VaultKeyNotConfiguredError."""
    name = key_id(envelope)
    key = _named(name, configured())
    head, nonce = envelope[: 1 + ID_OCTETS], envelope[1 + ID_OCTETS : HEAD_OCTETS]
    try:
        return AESGCM(key.octets).decrypt(nonce, envelope[HEAD_OCTETS:], head + associated)
    except InvalidTag:
        raise VaultSealBrokenError from None


def _named(name: str, keys: Sequence[VaultKey]) -> VaultKey:
    if not keys:
        raise VaultKeyNotConfiguredError
    for key in keys:
        if key.name == name:
            return key
    raise VaultKeyMissingError(name)
