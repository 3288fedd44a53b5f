"""The protection of the data channels between two servers (RFC 2228 section 3; GFD.20 section 3, GFD.47 for DCAU).

The default of a GSI server is DCAU A: it shows the user's delegated proxy on each data connection. We delegate nothing
to servers that the operator has not named, so both ends get the same throw-away key instead (DCSC P), which is valid
for nothing but their data connections with each other. Where neither is possible, both get DCAU N.

A server may refuse a command that it names in FEAT: it then counts as a server that does not know it. A session
remembers its settings and the refusals: only the first transfer pays for them.
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import replace
from typing import NamedTuple

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault, remedy
from endpoints.gridftp.login import GsiLogin
from endpoints.gridftp.session_settings import SessionSettings, SettingRefusedError, apply
from identity.gsi.sentences import Sentence

from .dcsc_keys import STOCK_OF_KEYS

_IN_CLEAR = Sentence("is reached in clear text, without a credential")
_NO_KEY = Sentence("takes no key for its data connections (DCSC), and is given no proxy")
_NO_ENCRYPTION = Sentence("refuses to encrypt its data connections (PROT P)")


class DataSecurity(enum.StrEnum):
    """The protection of a lane's data channels. CLEAR: neither end knows any."""

    CLEAR = enum.auto()
    UNAUTHENTICATED = enum.auto()  # DCAU N
    AUTHENTICATED = enum.auto()  # DCAU A or S, and the data in clear
    PRIVATE = enum.auto()  # the same, and PROT P


class Obstacle(NamedTuple):
    """Why data channels are not better protected: the side, the reason in words, and the server's refusal."""

    side: Side
    why: str
    refusal: Fault | None = None

    @property
    def text(self) -> str:
        """A sentence, and the remedy."""
        one = "one" if self.side is Side.UNKNOWN else self.side
        return f"The {one} server {self.why}.{' ' if self.remedy else ''}{self.remedy}"

    @property
    def remedy(self) -> str:
        """Advice for the user or an administrator; "" where none is known."""
        return remedy(self.refusal) if self.refusal else ""

    @property
    def words(self) -> str:
        """The server's own text."""
        return self.refusal.raw if self.refusal else ""


def agree(source: GridFTPSession, destination: GridFTPSession, *, encrypt: bool) -> DataSecurity:
    """The best protection that both can do. Raises FaultError (UNSUPPORTED) when `encrypt` is not possible."""
    found = obstacle(source, destination, encrypt=encrypt)
    if found is None:
        return DataSecurity.PRIVATE if encrypt else DataSecurity.AUTHENTICATED
    if encrypt:
        raise FaultError(_not_private(found))
    protected = source.login.protected or destination.login.protected
    return DataSecurity.UNAUTHENTICATED if protected else DataSecurity.CLEAR


async def secure(source: GridFTPSession, destination: GridFTPSession, security: DataSecurity) -> DataSecurity:
    """Apply the protection to both sessions, as far as it is not in force; return the one in force. Raises FaultError.

    That is less than `security` only where a server refused a command that it names in FEAT and `security` was not
    PRIVATE. Each refusal leaves one possibility less, so that this ends.
    """
    encrypt = security is DataSecurity.PRIVATE
    while security is not DataSecurity.CLEAR:
        try:
            await _apply_to_both(source, destination, security)
        except SettingRefusedError:
            security = agree(source, destination, encrypt=encrypt)
        else:
            break
    return security


def obstacle(source: GridFTPSession, destination: GridFTPSession, *, encrypt: bool) -> Obstacle | None:
    """The reason against authenticated (`encrypt`: encrypted) data channels; of the source, if both have one."""
    ends = ((source, Side.SOURCE), (destination, Side.DESTINATION))
    for session, side in ends:
        if found := _in_the_way(session, side, encrypt=encrypt):
            return found
    if _by_key(source, destination) or all(map(_has_proxy, (source, destination))):
        return None
    return Obstacle(Side.UNKNOWN, Sentence("protects data connections in another way than the other one"))


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
            return Obstacle(
                side,
                Sentence("refuses to authenticate its data connections (%(command)s)", command=word),
                refused[word],
            )
    return Obstacle(side, _NO_KEY, refused.get("DCSC P"))


def _by_key(source: GridFTPSession, destination: GridFTPSession) -> bool:
    return _takes_key(source) and _takes_key(destination)


def _takes_key(session: GridFTPSession) -> bool:
    """Whether DCSC P may be sent: on an unprotected control channel the key would travel in clear."""
    named = session.login.protected and "DCSC" in session.features
    return named and not session.refused.keys() & {"DCSC P", "DCAU A"}


def _has_proxy(session: GridFTPSession) -> bool:
    """Whether it has the user's proxy, and will show it: not a throw-away key that it refuses to drop (DCSC D)."""
    given = isinstance(session.login, GsiLogin) and session.login.delegates
    return given and not session.refused.keys() & {"DCSC D", "DCAU A", "DCAU S"}


def _not_private(found: Obstacle) -> Fault:
    """The fault for data that cannot be encrypted, retried only if the server's refusal may be over at another time."""
    retryable = found.refusal is not None and found.refusal.retryable
    fault = make_fault(Kind.UNSUPPORTED, found.words, side=found.side, retryable=retryable)
    advice = f"The data cannot be encrypted: {found.text[0].lower()}{found.text[1:]}"
    return replace(fault, scope=FaultScope.ENDPOINT, advice=advice)


async def _apply_to_both(source: GridFTPSession, destination: GridFTPSession, security: DataSecurity) -> None:
    """Apply the protection to both sessions.

    If both fail, the final error is raised rather than the SettingRefusedError.
    """
    key, wanted = None, [source.data_security.bare(), destination.data_security.bare()]
    prot = b"P" if security is DataSecurity.PRIVATE else b"C"
    if security is not DataSecurity.UNAUTHENTICATED and _by_key(source, destination):
        key = await STOCK_OF_KEYS.take((source.login.key, destination.login.key))
        wanted = [SessionSettings(key.name, b"A", prot)] * 2
    elif security is not DataSecurity.UNAUTHENTICATED:
        wanted = [
            SessionSettings("", _dcau(source, destination), prot),
            SessionSettings("", _dcau(destination, source), prot),
        ]
    both = (apply(source, wanted[0], key, Side.SOURCE), apply(destination, wanted[1], key, Side.DESTINATION))
    errors = [error for error in await asyncio.gather(*both, return_exceptions=True) if error]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, SettingRefusedError))


def _dcau(session: GridFTPSession, other: GridFTPSession) -> bytes:
    """With proxies of one user on both sides DCAU A; else DCAU S with the subject of the other side's proxy."""
    mine, theirs = (
        one.login.credential.identity if isinstance(one.login, GsiLogin) else "" for one in (session, other)
    )
    return b"A" if mine == theirs else b"S " + theirs.encode()
