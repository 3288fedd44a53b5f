"""Octets and text whose value never appears in a `repr`: not in logs, and not in the variables of a traceback.

And random text that this service makes for others to keep, with the digest that it keeps itself.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

#: Random octets of a token, a secret or a code: as many as a key has, so that a plain SHA-256 cannot be reversed.
RANDOM_OCTETS = 32


@dataclass(frozen=True, slots=True, repr=False)
class Hidden:
    """Octets; only `value` reveals them."""

    value: bytes

    def __repr__(self) -> str:
        return "Hidden(***)"

    __str__ = __repr__

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Text; only `value` reveals it."""

    value: str

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__


def new_text(prefix: str = "") -> str:
    """prefix: readers of logs and secret scanners recognise a leaked text by it."""
    return prefix + secrets.token_urlsafe(RANDOM_OCTETS)


def digest_of(text: str) -> bytes:
    """The SHA-256 that is stored of a text, and looked up for any text that somebody gives."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
