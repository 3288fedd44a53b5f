"""Throw-away keys for the data channels of two servers: the argument of DCSC P, which GFD.47 lacks and the toolkit's
server knows. Each is valid for nothing but the data connections of these two servers with each other.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from base64 import b64decode, b64encode
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from identity.gsi.proxies import new_key

#: Seconds after which two servers get a new key.
KEY_SECONDS = 3600.0
#: Validity of a key's certificate, before and after now. The clock of an agent may be wrong by less than two days
#: (`CLOCK_SLACK` of agent/tunnel/service.py), a key is used again for an hour, and a lane may last long.
_LIFE = timedelta(days=3)
#: Keys made in advance; and pairs of logins whose key is kept.
STOCK = 2
MAX_PAIRS = 512
#: A text with this number of successive characters of a key quotes the key.
PIECE = 12
WITHHELD = "(what the server said quotes the key of the data channels, and is not shown)"
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")


class DcscKey(NamedTuple):
    """A key for one pair of logins: the argument of DCSC P, and the time of its making (monotonic seconds)."""

    name: str
    argument: bytes
    made_at: float

    def __repr__(self) -> str:
        return f"ThrowAway({self.name!r})"

    def scrub(self, text: str) -> str:
        """The text of a server, replaced if it quotes a piece of the key, in base64 or PEM, wrapped or not."""
        secret, words = _pieces(self.argument), _squeezed(text)
        if any(words[at : at + PIECE] in secret for at in range(len(words) - PIECE + 1)):
            return f"{text[:3] if text[:3].isdigit() else ''} {WITHHELD}".strip()
        return text


def _pieces(argument: bytes) -> frozenset[str]:
    """All pieces of `PIECE` successive characters of the argument, in base64 and decoded."""
    pem = b64decode(argument.partition(b" ")[2]).decode()
    bodies = _squeezed("".join(line for line in pem.splitlines() if not line.startswith("-")))
    whole = (_squeezed(argument.partition(b" ")[2].decode()), bodies)
    return frozenset(text[at : at + PIECE] for text in whole for at in range(len(text) - PIECE + 1))


def _squeezed(text: str) -> str:
    """Only the characters of base64, in one case: line ends, reply codes and quotes may separate them."""
    return _NOT_BASE64.sub("", text).casefold()


def make_throw_away(key: RSAPrivateKey, *, name: str, now: datetime, made_at: float) -> DcscKey:
    """A self-signed certificate without BasicConstraints, repeated as its own authority: servers accept this form."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LIFE)
        .not_valid_after(now + _LIFE)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return DcscKey(name, b"P " + b64encode(certificate + secret + certificate), made_at)


class DcscKeys:
    """Throw-away keys, one for each pair of logins: a server cannot use it to act as a server of another pair.

    They are made in advance, in a thread: one takes up to 0.1 s of processor time.
    clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ready: deque[RSAPrivateKey] = deque()
        self._pairs: OrderedDict[tuple[str, str], DcscKey] = OrderedDict()
        self._filling: asyncio.Task[None] | None = None

    async def take(self, pair: tuple[str, str]) -> DcscKey:
        """The key of this pair; a new one after an hour."""
        while not self._held(pair) and not self._ready:
            self._ready.append(await asyncio.to_thread(new_key))
        # Another lane of this pair may have stored a key meanwhile.
        return self._held(pair) or self._make(pair)

    def _held(self, pair: tuple[str, str]) -> DcscKey | None:
        held = self._pairs.get(pair)
        if held is None or self._clock() - held.made_at >= KEY_SECONDS:
            return None
        self._pairs.move_to_end(pair)
        return held

    def _make(self, pair: tuple[str, str]) -> DcscKey:
        key = self._ready.popleft()
        self.prepare()
        name = f"Waybill data channel {secrets.token_hex(8)}"
        made = make_throw_away(key, name=name, now=datetime.now(UTC), made_at=self._clock())
        self._pairs[pair] = made
        self._pairs.move_to_end(pair)
        if len(self._pairs) > MAX_PAIRS:
            self._pairs.popitem(last=False)
        return made

    def prepare(self) -> None:
        """Fill the stock of keys in the background; returns at once."""
        if len(self._ready) < STOCK and (self._filling is None or self._filling.done()):
            self._filling = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        while len(self._ready) < STOCK:
            self._ready.append(await asyncio.to_thread(new_key))


STOCK_OF_KEYS = DcscKeys()
