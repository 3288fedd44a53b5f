"""Login to an object store by an access key, or as nobody; its certificate, or a pinned key, shows what it is."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from endpoints.gridftp.connection import CONNECT_TIMEOUT, ControlConnection
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.gridftp.ftp_tls.login import NoteKey, key_of

from .http import HttpConnection, StoreAddress
from .session import S3Session
from .signature import AccessKey
from .store import Store

#: Round trips of a connection: of TCP, and of TLS 1.3.
_ROUND_TRIPS = 2


@dataclass(frozen=True)
class S3Login:
    """A `Login` (see `gridftp.login`). access_key: None for anonymous requests. pin, authorities: `StoreAddress`."""

    access_key: AccessKey | None
    host_name: str
    pin: str = ""
    authorities: Path | None = None
    note_key: NoteKey | None = field(default=None, repr=False, compare=False)

    protected = True
    #: There is no login of FTP.
    user = password = b""

    @cached_property
    def key(self) -> str:
        """The same for the same credential; of the secret it has a hash, because a user may renew it."""
        packed = self.access_key.pack() if self.access_key else b""
        return f"s3:{hashlib.sha256(packed).hexdigest()}:{self.host_name}:{self.pin}"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """An object store has no control channel of FTP. Raises FaultError."""
        raise FaultError(make_fault(Kind.UNSUPPORTED, "an object store has no control channel"))

    async def open_session(
        self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT, facts: str = ""
    ) -> S3Session:
        """Connect. The store judges the key with the first request. host: has passed the gate. Raises FaultError."""
        address = StoreAddress(host, port, self.host_name, self.pin, self.authorities, self.note_key)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        connection = await HttpConnection.open(address, min(timeout, CONNECT_TIMEOUT))
        store = Store(address, self.access_key)
        store.add(connection)
        session = S3Session(store)
        session.round_trip = (loop.time() - begun) / _ROUND_TRIPS
        return session


async def shown_key(address: StoreAddress, *, timeout: float) -> str:
    """The subject of a new server: "" where its certificate is trusted and for its name, else its key's fingerprint.

    Nothing is sent. Raises FaultError.
    """
    try:
        (await HttpConnection.open(address, timeout)).abort()
        return ""
    except FaultError as error:
        if error.fault.kind not in (Kind.GSI_DN_MISMATCH, Kind.INVALID_SERVICE_CREDENTIAL):
            raise
    connection = await HttpConnection.open(replace(address, pin=None), timeout)
    try:
        return key_of(connection.certificate)
    finally:
        connection.abort()
