"""Login to an SFTP server by an ssh key. The host is identified by the pinned fingerprint of its key."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import cached_property

from endpoints.gridftp.connection import CONNECT_TIMEOUT, ControlConnection, LateLoginError
from endpoints.gridftp.faults import FaultError, Kind, make_fault
from endpoints.ssh.bounded_connection import BoundedConnection
from endpoints.ssh.connection import NoteHostKey, SshAccount, connect

from .session import SftpSession

#: Round trips until an SFTP session can be used: its channel, the subsystem, the version, the home folder.
_ROUND_TRIPS = 4


@dataclass(frozen=True)
class SftpLogin:
    """A `Login` (see `gridftp.login`) to an account that opens SFTP sessions."""

    account: SshAccount
    note_host_key: NoteHostKey | None = field(default=None, repr=False, compare=False)

    protected = True
    #: There is no login of FTP.
    user = password = b""

    @cached_property
    def key(self) -> str:
        return f"sftp:{self.account.key}"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """An SFTP server has no control channel of FTP. Raises FaultError."""
        raise FaultError(make_fault(Kind.UNSUPPORTED, "an SFTP server has no control channel"))

    async def open_session(
        self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT, facts: str = ""
    ) -> SftpSession:
        """Connect, log in, and begin an SFTP session. host: an address that has passed the gate. Raises FaultError."""
        connection = await connect(host, port, self.account, timeout=timeout, note_host_key=self.note_host_key)
        return await begin_session(connection, timeout)


async def begin_session(connection: BoundedConnection, timeout: float) -> SftpSession:
    """An SFTP session on a connection that is logged in; the connection is its own. Raises FaultError."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with asyncio.timeout(timeout):
            session = await SftpSession.begin(connection)
    except TimeoutError:
        connection.abort()
        raise LateLoginError(f"no SFTP session within {timeout:g} s", unanswered=False) from None
    session.round_trip = (loop.time() - begun) / _ROUND_TRIPS
    return session
