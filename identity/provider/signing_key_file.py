"""The file of the signing keys: private keys in PEM, each with the time from which it signs. Pure.

    Signs-From: 2026-11-23T05:00:00+00:00
    -----BEGIN PRIVATE KEY-----
    ...

Text before a PEM block is explanatory (RFC 7468 section 5.2), so that a plain PEM file is a file of one key. All
processes that read the file change to a new key at the same moment. A key is published from the moment it is in the
file until the last identity token that it has signed is over; then `rotated` leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MAX_KEYS = 8
MIN_BITS = 2048
#: Octets of the file.
MAX_OCTETS = 256 * 1024
_BLOCK = re.compile(r"-----BEGIN ([A-Z ]{1,40})-----.{1,20000}?-----END \1-----", re.DOTALL)
_SIGNS_FROM = re.compile(r"^Signs-From:[ \t]*(\S{1,40})[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    pem: str
    #: None: from ever.
    signs_from: datetime | None = None

    @property
    def begin(self) -> datetime:
        return self.signs_from or datetime.min.replace(tzinfo=UTC)


def parse(text: str) -> tuple[SigningKey, ...]:
    """The keys of a file, in the order in which they sign. Raises ValueError, whose text holds no part of a key."""
    if len(text) > MAX_OCTETS:
        raise ValueError("it is too long")
    found, end = [], 0
    for match in _BLOCK.finditer(text):
        _check(match[0])
        found.append(SigningKey(match[0], _time(text[end : match.start()])))
        end = match.end()
    if not found:
        raise ValueError("it is not a private key in PEM without a passphrase")
    if len(found) > MAX_KEYS:
        raise ValueError(f"it holds more than {MAX_KEYS} keys")
    return tuple(sorted(found, key=lambda key: key.begin))


def _time(head: str) -> datetime | None:
    match = _SIGNS_FROM.search(head)
    if match is None:
        return None
    try:
        found = datetime.fromisoformat(match[1])
    except ValueError:
        raise ValueError("Signs-From: it is not a time such as 2026-11-23T05:00:00+00:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _check(pem: str) -> None:
    # Imported only where a key is given.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The text of the error could hold a part of the key.
        raise ValueError("it is not a private key in PEM without a passphrase") from None
    if not isinstance(key, RSAPrivateKey) or key.key_size < MIN_BITS:
        raise ValueError(f"it is not an RSA key of at least {MIN_BITS} bits")


def text_of(keys: Sequence[SigningKey]) -> str:
    """The content of the file."""
    lines = []
    for key in keys:
        if key.signs_from is not None:
            lines.append(f"Signs-From: {key.signs_from.isoformat(timespec='seconds')}")
        lines.append(key.pem)
    return "\n".join(lines) + "\n"


def signer(keys: Sequence[SigningKey], now: datetime) -> SigningKey:
    """The key that signs now: the last one that has begun, else the first."""
    return next((key for key in reversed(keys) if key.begin <= now), keys[0])


def withdrawn_at(keys: Sequence[SigningKey], key: SigningKey, lifetime: timedelta) -> datetime | None:
    """When the last token of a key is over; None: no other key follows. lifetime: of an identity token."""
    after = keys[keys.index(key) + 1 :]
    return after[0].begin + lifetime if after else None


def published(keys: Sequence[SigningKey], now: datetime, lifetime: timedelta) -> list[SigningKey]:
    """The keys that clients may meet: the one that signs first, because some clients look only at the first."""
    first = signer(keys, now)
    others = [key for key in keys if key is not first]
    return [first, *(key for key in others if (end := withdrawn_at(keys, key, lifetime)) is None or now < end)]


def rotated(
    keys: Sequence[SigningKey], new_pem: str, now: datetime, delay: timedelta, lifetime: timedelta
) -> tuple[SigningKey, ...]:
    """The keys with a new one, which signs after `delay`, and without those that are withdrawn.

    Raises ValueError where another new key waits already, or the file is full.
    """
    if keys[-1].begin > now:
        raise ValueError(f"a new key waits already: it signs from {keys[-1].begin.isoformat(timespec='seconds')}")
    kept = [key for key in keys if key in published(keys, now, lifetime)]
    if len(kept) >= MAX_KEYS:
        raise ValueError(f"{MAX_KEYS} keys are published already: wait until the oldest is withdrawn")
    return (*kept, SigningKey(new_pem, (now + delay).replace(microsecond=0)))
