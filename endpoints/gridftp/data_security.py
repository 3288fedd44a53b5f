"""How the data channels between two servers are protected (RFC 2228 section 3; GFD.20 section 3, GFD.47 for DCAU).

What a GSI server does by itself is DCAU A: it shows the user's delegated proxy on each data connection. We delegate
nothing to servers that the operator has not named, so both ends get the same throw-away key instead (DCSC P), which is
good for nothing but their data connections with each other. Where neither can be had, DCAU N is said on both sides.

A session remembers what it was told: whoever comes after the first pays nothing.
"""

from __future__ import annotations

import asyncio
import enum
import re
import secrets
import time
from base64 import b64encode
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from .client import BUFFER, GridFTPSession, Told
from .faults import Fault, FaultError, Kind, Scope, Side, classify, make_fault
from .login import GsiLogin
from .proxies import new_key

#: Seconds after which two servers get a new key.
KEY_SECONDS = 3600.0
#: A key's certificate holds from so long ago to so long from now: servers' clocks are not ours, and a lane lives on.
_LIFE = timedelta(days=1)
#: Keys made ahead. Pairs of logins whose key is kept.
STOCK = 2
MAX_PAIRS = 512
#: Base64 of a key or a token, should a server quote it in its refusal.
_QUOTED = re.compile(r"[A-Za-z0-9+/=]{40,}")


class DataSecurity(enum.StrEnum):
    """What holds on the data channels of a lane. CLEAR: neither end knows of anything else."""

    CLEAR = enum.auto()
    UNAUTHENTICATED = enum.auto()  # DCAU N
    AUTHENTICATED = enum.auto()  # DCAU A or S, and the data in clear
    PRIVATE = enum.auto()  # the same, and PROT P


class ThrowAway(NamedTuple):
    """A key for one pair of logins: the argument of DCSC P, and when it was made (monotonic seconds)."""

    name: str
    argument: bytes
    made_at: float

    def __repr__(self) -> str:
        return f"ThrowAway({self.name!r})"


def agree(source: GridFTPSession, destination: GridFTPSession, *, encrypt: bool) -> DataSecurity:
    """The best that both can do. Raises FaultError (UNSUPPORTED) when encryption is wanted and cannot be had."""
    both = (source, destination)
    if all(map(_takes_key, both)) or all(map(_has_proxy, both)):
        return DataSecurity.PRIVATE if encrypt else DataSecurity.AUTHENTICATED
    if encrypt:
        raise FaultError(_not_private(source, destination))
    return DataSecurity.UNAUTHENTICATED if any(session.login.protected for session in both) else DataSecurity.CLEAR


async def secure(source: GridFTPSession, destination: GridFTPSession, security: DataSecurity) -> DataSecurity:
    """Tell both sessions, as far as they do not know it already; what then holds. Raises FaultError.

    That is less than `security` only where a server refused the key that it says it takes, and none was encrypted.
    """
    if security is DataSecurity.CLEAR:
        return security
    both = (source, destination)
    if security is DataSecurity.UNAUTHENTICATED:
        await _tell_both(both, [Told(dcau=b"N")] * 2)
    elif all(map(_takes_key, both)):
        key = await STOCK_OF_KEYS.take((source.login.key, destination.login.key))
        try:
            await _tell_both(both, [Told(key.name, b"A", _prot(security))] * 2, key)
        except _KeyRefusedError as error:
            error.session.features -= {"DCSC"}
            return await secure(
                source, destination, agree(source, destination, encrypt=security is DataSecurity.PRIVATE)
            )
    else:
        await _tell_both(both, [Told("", _dcau(session, other), _prot(security)) for session, other in _facing(both)])
    return security


def network_stack(driver: str, security: DataSecurity) -> bytes:
    """The argument of SITE for another transport ("udt"). Without "gsi" the toolkit's server drops what DCAU and PROT
    have set, says 250, and sends in clear."""
    secured = security in (DataSecurity.AUTHENTICATED, DataSecurity.PRIVATE)
    return f"SETNETSTACK {driver}{',gsi' if secured else ''}".encode()


def make_throw_away(key: RSAPrivateKey, *, name: str, now: datetime, made_at: float) -> ThrowAway:
    """A self-signed certificate without BasicConstraints, given again as its own authority: so servers take it."""
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
    return ThrowAway(name, b"P " + b64encode(certificate + secret + certificate), made_at)


class Keys:
    """Throw-away keys, one for each pair of logins: a server that has it can be no other pair's server.

    They are made ahead, in a thread: one takes up to a tenth of a second of a processor.
    clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ready: deque[RSAPrivateKey] = deque()
        self._pairs: OrderedDict[tuple[str, str], ThrowAway] = OrderedDict()
        self._filling: asyncio.Task[None] | None = None

    async def take(self, pair: tuple[str, str]) -> ThrowAway:
        """The key of this pair; a new one after an hour."""
        while not self._held(pair) and not self._ready:
            self._ready.append(await asyncio.to_thread(new_key))
        # Another lane of this pair may have come first.
        return self._held(pair) or self._make(pair)

    def _held(self, pair: tuple[str, str]) -> ThrowAway | None:
        held = self._pairs.get(pair)
        if held is None or self._clock() - held.made_at >= KEY_SECONDS:
            return None
        self._pairs.move_to_end(pair)
        return held

    def _make(self, pair: tuple[str, str]) -> ThrowAway:
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
        """Make keys until there is a stock; returns at once."""
        if len(self._ready) < STOCK and (self._filling is None or self._filling.done()):
            self._filling = asyncio.get_running_loop().create_task(self._fill())

    async def _fill(self) -> None:
        while len(self._ready) < STOCK:
            self._ready.append(await asyncio.to_thread(new_key))


STOCK_OF_KEYS = Keys()


class _KeyRefusedError(Exception):
    """This session's server does not take the key."""

    def __init__(self, session: GridFTPSession, fault: Fault) -> None:
        super().__init__(fault)
        self.session = session
        self.fault = fault


def _takes_key(session: GridFTPSession) -> bool:
    """It would travel in clear on a channel that is not protected."""
    return session.login.protected and "DCSC" in session.features


def _has_proxy(session: GridFTPSession) -> bool:
    return isinstance(session.login, GsiLogin) and session.login.delegates


def _not_private(source: GridFTPSession, destination: GridFTPSession) -> Fault:
    """Of the first side that is in the way."""
    side, why = Side.UNKNOWN, "protects data connections in another way than the other one"
    for session, where in ((source, Side.SOURCE), (destination, Side.DESTINATION)):
        if not session.login.protected:
            side, why = where, "is reached in clear text, without a credential"
            break
        if not (_takes_key(session) or _has_proxy(session)):
            side, why = where, "takes no key for its data connections (DCSC), and is given no proxy"
            break
    name = "one" if side is Side.UNKNOWN else side
    fault = make_fault(Kind.UNSUPPORTED, side=side, retryable=False)
    return replace(fault, scope=Scope.ENDPOINT, advice=f"The data cannot be encrypted: the {name} server {why}.")


def _dcau(session: GridFTPSession, other: GridFTPSession) -> bytes:
    """With proxies of one user on both sides DCAU A; else each is told whose proxy it will see."""
    mine, theirs = (
        one.login.credential.identity if isinstance(one.login, GsiLogin) else "" for one in (session, other)
    )
    return b"A" if mine == theirs else b"S " + theirs.encode()


def _prot(security: DataSecurity) -> bytes:
    return b"P" if security is DataSecurity.PRIVATE else b"C"


def _facing(both: tuple[GridFTPSession, GridFTPSession]) -> tuple[tuple[GridFTPSession, GridFTPSession], ...]:
    return both, (both[1], both[0])


async def _tell_both(
    both: tuple[GridFTPSession, GridFTPSession], told: list[Told], key: ThrowAway | None = None
) -> None:
    outcomes = await asyncio.gather(
        *(
            _tell(session, wanted, key, side)
            for session, wanted, side in zip(both, told, (Side.SOURCE, Side.DESTINATION), strict=True)
        ),
        return_exceptions=True,
    )
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def _tell(session: GridFTPSession, wanted: Told, key: ThrowAway | None, side: Side) -> None:
    """All that is new to it, in one go."""
    told = session.data_security
    if not session.login.protected or told == wanted:
        return
    # Half of it may be heard: what then holds nobody knows.
    session.data_security = None
    commands = list(_commands(session, told, wanted, key))
    replies = await asyncio.gather(*(session.connection.request(*command) for command in commands))
    for (verb, _), reply in zip(commands, replies, strict=True):
        if not reply.is_error or (verb == "DCAU" and wanted.dcau == b"N" and "DCAU" not in session.features):
            continue
        fault = classify(reply, side)
        fault = replace(fault, scope=Scope.SESSION, raw=_QUOTED.sub("...", f"{verb}: {fault.raw}"))
        if verb == "DCSC" and key:
            raise _KeyRefusedError(session, fault)
        raise FaultError(fault)
    session.data_security = wanted


def _commands(
    session: GridFTPSession, told: Told | None, wanted: Told, key: ThrowAway | None
) -> Iterator[tuple[str, bytes]]:
    """What leads from the one to the other; from an unknown state all of it."""
    if key and (told is None or told.dcsc != wanted.dcsc):
        yield "DCSC", key.argument
    elif not key and (told is None or told.dcsc) and "DCSC" in session.features:
        yield "DCSC", b"D"
    if told is None or told.dcau != wanted.dcau:
        yield "DCAU", wanted.dcau
    if told is None or told.prot != wanted.prot:
        yield "PBSZ", BUFFER
        yield "PROT", wanted.prot
