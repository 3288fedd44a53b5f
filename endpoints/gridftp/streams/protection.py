"""The protection of a data connection between this service and a server (RFC 2228 section 3; GFD.47 for DCAU).

On a protected control connection the server gets a throw-away key (DCSC P), which this service uses too: both ends are
then authenticated, and the data is encrypted (PROT P). A server that takes no key gets DCAU N, unless its endpoint
demands encryption. On a clear-text control connection nothing can be protected.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from base64 import b64decode
from datetime import UTC, datetime

from endpoints.gridftp.client import GridFTPSession
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind
from endpoints.gridftp.server.security.contexts import as_file
from endpoints.gridftp.session_settings import SessionSettings, SettingRefusedError, apply
from endpoints.gridftp.third_party.dcsc_keys import KEY_SECONDS, DcscKey, make_throw_away
from identity.gsi.proxies import new_key

NOT_ENCRYPTED = "This endpoint demands encrypted data connections, and its server does not encrypt them for one file."
_KEY = b"-----BEGIN RSA"
_newest: DcscKey | None = None


async def protect(session: GridFTPSession, *, encrypt: bool) -> ssl.SSLContext | None:
    """Agree on the protection with the server. Returns the context for TLS, or None for a data connection in clear.

    Raises FaultError (UNSUPPORTED) where `encrypt` is not possible. Data through ssh, or through the tunnel of an
    agent, are encrypted already. FTP over TLS has its own protection (`ControlConnection.data_tls`), always in force.
    """
    if session.connection.data_tls is not None:
        return None
    if session.connection.forward_data is not None or session.connection.relayed_data is not None:
        if "DCAU" in session.features:
            await apply(session, session.data_security.bare())
        return None
    if session.login.protected and "DCSC" in session.features:
        key = await asyncio.to_thread(_key)
        try:
            await apply(session, SessionSettings(key.name, b"A", b"P"), key)
            return context_of(key)
        except SettingRefusedError:
            pass
    if encrypt:
        raise FaultError(Fault(Kind.UNSUPPORTED, retryable=False, scope=FaultScope.ENDPOINT, advice=NOT_ENCRYPTED))
    if session.login.protected and "DCAU" in session.features:
        await apply(session, session.data_security.bare())
    return None


def _key() -> DcscKey:
    """The key of this process; a new one after an hour. To make one takes up to 0.1 s of processor time."""
    global _newest
    if _newest is None or time.monotonic() - _newest.made_at >= KEY_SECONDS:
        name = f"Waybill data channel {secrets.token_hex(8)}"
        _newest = make_throw_away(new_key(), name=name, now=datetime.now(UTC), made_at=time.monotonic())
    return _newest


def context_of(key: DcscKey) -> ssl.SSLContext:
    """TLS as the end that connects, with this key. The other end must have the same certificate."""
    pem = b64decode(key.argument.partition(b" ")[2])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=pem[: pem.index(_KEY)].decode("ascii"))
    with as_file(pem) as path:
        context.load_cert_chain(path)
    return context
