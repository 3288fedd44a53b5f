"""How the data channels between two servers are protected (RFC 2228 section 3; GFD.20 section 3, GFD.47 for DCAU).

What a GSI server does by itself is DCAU A: it shows the user's delegated proxy on each data connection. We delegate
nothing to servers that the operator has not named, so both ends get the same throw-away key instead (DCSC P), which is
good for nothing but their data connections with each other. Where neither can be had, DCAU N is said on both sides.

A server that refuses what it names in FEAT is one that does not know it. A session remembers what it was told, and what
it has refused: whoever comes after the first pays nothing.
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import replace
from typing import NamedTuple

from .client import GridFTPSession
from .data_commands import RefusedError, Told, tell
from .faults import Fault, FaultError, Kind, Scope, Side, make_fault, remedy
from .login import GsiLogin
from .throw_away import STOCK_OF_KEYS

_IN_CLEAR = "is reached in clear text, without a credential"
_NO_KEY = "takes no key for its data connections (DCSC), and is given no proxy"
_REFUSES = "refuses to authenticate its data connections ({})"
_NO_ENCRYPTION = "refuses to encrypt its data connections (PROT P)"


class DataSecurity(enum.StrEnum):
    """What holds on the data channels of a lane. CLEAR: neither end knows of anything else."""

    CLEAR = enum.auto()
    UNAUTHENTICATED = enum.auto()  # DCAU N
    AUTHENTICATED = enum.auto()  # DCAU A or S, and the data in clear
    PRIVATE = enum.auto()  # the same, and PROT P


class Obstacle(NamedTuple):
    """Why data channels are not better protected: at which side, in words, and what that side's server said."""

    side: Side
    why: str
    refusal: Fault | None = None

    @property
    def text(self) -> str:
        """A sentence, with what can be done about it."""
        one = "one" if self.side is Side.UNKNOWN else self.side
        return f"The {one} server {self.why}.{' ' if self.remedy else ''}{self.remedy}"

    @property
    def remedy(self) -> str:
        """What the user or an administrator can do about it, where that is known."""
        return remedy(self.refusal) if self.refusal else ""

    @property
    def words(self) -> str:
        """The server's own."""
        return self.refusal.raw if self.refusal else ""


def agree(source: GridFTPSession, destination: GridFTPSession, *, encrypt: bool) -> DataSecurity:
    """The best that both can do. Raises FaultError (UNSUPPORTED) when encryption is wanted and cannot be had."""
    found = obstacle(source, destination, encrypt=encrypt)
    if found is None:
        return DataSecurity.PRIVATE if encrypt else DataSecurity.AUTHENTICATED
    if encrypt:
        raise FaultError(_not_private(found))
    protected = source.login.protected or destination.login.protected
    return DataSecurity.UNAUTHENTICATED if protected else DataSecurity.CLEAR


async def secure(source: GridFTPSession, destination: GridFTPSession, security: DataSecurity) -> DataSecurity:
    """Tell both sessions, as far as they do not know it already; what then holds. Raises FaultError.

    That is less than `security` only where a server refused what it says it does, and none was encrypted. Each refusal
    leaves one way less, so that this ends.
    """
    encrypt = security is DataSecurity.PRIVATE
    while security is not DataSecurity.CLEAR:
        try:
            await _tell_both(source, destination, security)
        except RefusedError:
            security = agree(source, destination, encrypt=encrypt)
        else:
            break
    return security


def obstacle(source: GridFTPSession, destination: GridFTPSession, *, encrypt: bool) -> Obstacle | None:
    """What is in the way of data channels that are authenticated, or encrypted: of the first side that is."""
    ends = ((source, Side.SOURCE), (destination, Side.DESTINATION))
    for session, side in ends:
        if found := _in_the_way(session, side, encrypt=encrypt):
            return found
    if _by_key(source, destination) or all(map(_has_proxy, (source, destination))):
        return None
    return Obstacle(Side.UNKNOWN, "protects data connections in another way than the other one")


def network_stack(driver: str, security: DataSecurity) -> bytes:
    """The argument of SITE for another transport ("udt"). Without "gsi" the toolkit's server drops what DCAU and PROT
    have set, says 250, and sends in clear."""
    secured = security in (DataSecurity.AUTHENTICATED, DataSecurity.PRIVATE)
    return f"SETNETSTACK {driver}{',gsi' if secured else ''}".encode()


def _in_the_way(session: GridFTPSession, side: Side, *, encrypt: bool) -> Obstacle | None:
    refused = session.refused
    if not session.login.protected:
        return Obstacle(side, _IN_CLEAR)
    if encrypt and "PROT P" in refused:
        return Obstacle(side, _NO_ENCRYPTION, refused["PROT P"])
    if _takes_key(session) or _has_proxy(session):
        return None
    for word in ("DCAU A", "DCAU S"):
        if word in refused:
            return Obstacle(side, _REFUSES.format(word), refused[word])
    return Obstacle(side, _NO_KEY, refused.get("DCSC P"))


def _by_key(source: GridFTPSession, destination: GridFTPSession) -> bool:
    return _takes_key(source) and _takes_key(destination)


def _takes_key(session: GridFTPSession) -> bool:
    """It would travel in clear on a channel that is not protected."""
    named = session.login.protected and "DCSC" in session.features
    return named and not session.refused.keys() & {"DCSC P", "DCAU A"}


def _has_proxy(session: GridFTPSession) -> bool:
    """And shows it: not a throw-away key that it does not let go of (DCSC D)."""
    given = isinstance(session.login, GsiLogin) and session.login.delegates
    return given and not session.refused.keys() & {"DCSC D", "DCAU A", "DCAU S"}


def _not_private(found: Obstacle) -> Fault:
    """Nobody is asked again, unless the server has said that it may be different another time."""
    retryable = found.refusal is not None and found.refusal.retryable
    fault = make_fault(Kind.UNSUPPORTED, found.words, side=found.side, retryable=retryable)
    advice = f"The data cannot be encrypted: {found.text[0].lower()}{found.text[1:]}"
    return replace(fault, scope=Scope.ENDPOINT, advice=advice)


async def _tell_both(source: GridFTPSession, destination: GridFTPSession, security: DataSecurity) -> None:
    """The error that leaves no other way goes before those that do."""
    key, told = None, [_bare(source), _bare(destination)]
    prot = b"P" if security is DataSecurity.PRIVATE else b"C"
    if security is not DataSecurity.UNAUTHENTICATED and _by_key(source, destination):
        key = await STOCK_OF_KEYS.take((source.login.key, destination.login.key))
        told = [Told(key.name, b"A", prot)] * 2
    elif security is not DataSecurity.UNAUTHENTICATED:
        told = [Told("", _dcau(source, destination), prot), Told("", _dcau(destination, source), prot)]
    telling = (tell(source, told[0], key, Side.SOURCE), tell(destination, told[1], key, Side.DESTINATION))
    errors = [one for one in await asyncio.gather(*telling, return_exceptions=True) if one]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, RefusedError))


def _bare(session: GridFTPSession) -> Told:
    """DCAU N; which key the server has does not matter then."""
    held = session.data_security
    return Told(held.dcsc if held else "?", b"N", b"C")


def _dcau(session: GridFTPSession, other: GridFTPSession) -> bytes:
    """With proxies of one user on both sides DCAU A; else each is told whose proxy it will see."""
    mine, theirs = (
        one.login.credential.identity if isinstance(one.login, GsiLogin) else "" for one in (session, other)
    )
    return b"A" if mine == theirs else b"S " + theirs.encode()
