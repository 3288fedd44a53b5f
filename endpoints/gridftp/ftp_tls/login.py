"""Logins to FTP servers that protect themselves by TLS (RFC 4217).

AUTH TLS is sent before anything else, and nothing of the user's before the certificate is judged: a server, or somebody
on the way, that refuses TLS gets no name and no password. PROT P must be accepted, too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm

from endpoints.gridftp.connection import CONNECT_TIMEOUT, ControlConnection, within
from endpoints.gridftp.faults import FaultError, Kind, classify, is_full, make_fault
from endpoints.gridftp.login import NameAndPassword
from endpoints.gridftp.streams.tls_streams import TlsClient
from identity.gsi.printable import error_text

from . import certificate

#: Called in a thread with the key that a server has shown in place of the registered one.
NoteKey = Callable[[str], None]


class ServerKeyError(FaultError):
    """The server shows another key than the registered one."""

    def __init__(self, registered: str, shown: str) -> None:
        advice = (
            f"The server is not the one that was registered, or its certificate has a new key: it shows {shown} "
            f"and not {registered}. Only if that is meant to be so, its endpoint's owner accepts the new key."
        )
        super().__init__(replace(make_fault(Kind.HOST_KEY_CHANGED, f"the server's key is {shown}"), advice=advice))


@dataclass(frozen=True)
class FtpTlsLogin(NameAndPassword):
    """A name and a password, or an anonymous user, over TLS.

    host_name: the registered name, for which the certificate must be; or pin: the fingerprint of its key. authorities:
    a folder of certificate authorities beside those of the system.
    """

    host_name: str
    pin: str = ""
    username: str = "anonymous"
    secret: bytes = field(default=b"waybill@", repr=False)
    authorities: Path | None = None
    note_key: NoteKey | None = field(default=None, repr=False, compare=False)

    protected = True

    @property
    def key(self) -> str:
        return f"ftpes:{self.username}:{self.host_name}:{self.pin}"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """Connect, protect the control channel, and demand protected data connections. Raises FaultError."""
        until = asyncio.get_running_loop().time() + timeout
        connection = await ControlConnection.open(host, port, timeout=timeout)
        async with within(connection, until, f"no TLS within {timeout:g} s"):
            tls = await asyncio.to_thread(certificate.context, self.authorities, pinned=bool(self.pin))
            shown = await protect_control(connection, tls, self.host_name)
            if self.pin:
                await self._compare(shown)
            await _demand(connection, "PBSZ", b"0")
            await _demand(connection, "PROT", b"P")
        connection.data_tls = lambda: TlsClient(tls, self.host_name, connection.tls_session, shown)
        return connection

    async def _compare(self, shown: bytes) -> None:
        found = key_of(shown)
        if found != self.pin:
            if self.note_key:
                await asyncio.to_thread(self.note_key, found)
            raise ServerKeyError(self.pin, found)


async def protect_control(connection: ControlConnection, tls: ssl.SSLContext, host_name: str) -> bytes:
    """AUTH TLS. Returns the server's certificate in DER. Raises FaultError."""
    await _demand(connection, "AUTH", b"TLS")
    try:
        await connection.start_tls(tls, host_name)
    except ssl.SSLCertVerificationError as error:
        named = error.verify_code in certificate.NAME_MISMATCHES
        kind = Kind.GSI_DN_MISMATCH if named else Kind.INVALID_SERVICE_CREDENTIAL
        raise FaultError(make_fault(kind, error.verify_message)) from None
    except (OSError, TimeoutError) as error:  # ssl.SSLError too
        raise FaultError(make_fault(Kind.INSECURE_SERVER, f"TLS: {error_text(error)}")) from None
    return connection.tls_certificate


async def shown_key(host: str, port: int, host_name: str, authorities: Path, *, timeout: float) -> str:
    """The subject of a new server: "" where its certificate is trusted and for its name, else its key's fingerprint.

    Nobody logs in. Raises FaultError.
    """
    for pinned in (False, True):
        until = asyncio.get_running_loop().time() + timeout
        connection = await ControlConnection.open(host, port, timeout=timeout)
        try:
            async with within(connection, until, f"no TLS within {timeout:g} s"):
                tls = await asyncio.to_thread(certificate.context, authorities, pinned=pinned)
                shown = await protect_control(connection, tls, host_name)
                return key_of(shown) if pinned else ""
        except FaultError as error:
            if pinned or error.fault.kind not in (Kind.GSI_DN_MISMATCH, Kind.INVALID_SERVICE_CREDENTIAL):
                raise
        finally:
            connection.abort()
    raise AssertionError


def key_of(shown: bytes) -> str:
    """The fingerprint of the key of a certificate in DER. Raises FaultError."""
    try:
        return certificate.fingerprint(shown)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FaultError(make_fault(Kind.INVALID_SERVICE_CREDENTIAL, f"its certificate: {error_text(error)}")) from None


async def _demand(connection: ControlConnection, verb: str, argument: bytes) -> None:
    """A server that refuses gets nothing in clear. Raises FaultError."""
    reply = await connection.request(verb, argument)
    if is_full(reply):
        raise FaultError(classify(reply))
    if reply.is_error:
        raise FaultError(make_fault(Kind.INSECURE_SERVER, f"{verb} {argument.decode()}: {reply}"))
