"""The keys of the vault as text: create, parse and name. Standard library only: the configuration reads it at start.

A key is 32 random octets, written as `wbvk_` and 43 characters of base64url, or as 64 hexadecimal digits (the output
of `openssl rand -hex 32`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from dataclasses import dataclass

#: A prefix by which readers of logs and secret scanners recognise a leaked key.
PREFIX = "wbvk_"
KEY_OCTETS = 32
#: More keys than any rotation needs: a longer list is a mistake.
MAX_KEYS = 16
_HEX = re.compile(r"[0-9A-Fa-f]{64}")
_BASE64URL = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, repr=False)
class VaultKey:
    """A key of the vault. Its id reveals nothing about it, and is stored with every envelope that the key seals."""

    id: bytes
    octets: bytes

    @property
    def name(self) -> str:
        """The id in hexadecimal, as people see it."""
        return self.id.hex()

    def __repr__(self) -> str:
        return f"Key({self.name}, ***)"

    __str__ = __repr__


def new_key() -> str:
    """A new key, in the form that the configuration accepts."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(KEY_OCTETS)).decode().rstrip("=")


def parse_keys(text: str) -> tuple[VaultKey, ...]:
    """The keys in this text, the newest first, separated by commas or line ends; lines starting with # are comments.

    Raises ValueError; its text reveals nothing of the keys.
    """
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    words = [word for line in lines for word in re.split(r"[,\s]+", line) if word]
    keys = tuple(_key(number, word) for number, word in enumerate(words, 1))
    if not keys:
        raise ValueError("it holds no key: `waybill vault key` makes one")
    if len(keys) > MAX_KEYS:
        raise ValueError(f"it holds more than {MAX_KEYS} keys")
    if len({key.id for key in keys}) < len(keys):
        raise ValueError("it holds one key twice")
    return keys


def _key(number: int, word: str) -> VaultKey:
    octets = _octets(word)
    if octets is None:
        raise ValueError(f"its key number {number} is not one: `waybill vault key` prints {PREFIX} and 43 characters")
    if len(set(octets)) < 8:
        raise ValueError(f"its key number {number} is not random: `waybill vault key` makes one that is")
    # Half a SHA-256 over an input that no cipher sees: it distinguishes the keys, and does not help to find one.
    return VaultKey(hashlib.sha256(b"waybill vault key id\0" + octets).digest()[:8], octets)


def _octets(word: str) -> bytes | None:
    if _HEX.fullmatch(word):
        return bytes.fromhex(word)
    coded = word.removeprefix(PREFIX)
    if coded == word or not _BASE64URL.fullmatch(coded):
        return None
    try:
        octets = base64.urlsafe_b64decode(coded + "=")
    except binascii.Error:
        return None
    return octets if len(octets) == KEY_OCTETS else None
