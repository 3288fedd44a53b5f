"""Login to an SFTP server by an ssh key. The host is identified by the pinned fingerprint of its key."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import asyncssh

from endpoints.gridftp.connection import CONNECT_TIMEOUT, ControlConnection, session_fault
from endpoints.gridftp.faults import Fault, FaultError, Kind, make_fault
from endpoints.ssh.channel import FAMILIES, BridgeFailedError, Failure
from endpoints.ssh.keys import SshUserNameError, check_username, fingerprint_of
from endpoints.ssh.login import SshLogin, connect_socket, known_families, remember_family
from identity.gsi.printable import error_text

from .session import SftpSession

#: AES-GCM costs the least time here. Nothing that OpenSSH does not offer by default either.
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com",
            "aes128-ctr", "aes192-ctr", "aes256-ctr")  # fmt: skip
#: Without the exchanges whose groups a server chooses.
_EXCHANGES = ("curve25519-sha256", "curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "ecdh-sha2-nistp384",
              "ecdh-sha2-nistp521", "diffie-hellman-group14-sha256")  # fmt: skip
_MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")

# asyncssh logs each connection, and hostile peers with a traceback; the resulting fault has all information.
logging.getLogger("asyncssh").setLevel(logging.CRITICAL)


class _Client(asyncssh.SSHClient):
    """Accepts the host key with the pinned fingerprint."""

    def __init__(self, pinned: str) -> None:
        self._pinned = pinned
        self.fingerprint = ""
        self.family = ""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.fingerprint = fingerprint_of(key.public_data)
        name = key.get_algorithm()
        self.family = next((family for family in FAMILIES if family in name), "")
        return bool(self._pinned) and self.fingerprint == self._pinned


@dataclass(frozen=True)
class SftpLogin(SshLogin):
    """A login that opens SFTP sessions. Fields as in `SshLogin`."""

    @cached_property
    def key(self) -> str:
        return f"sftp:{super().key}"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """An SFTP server has no control channel of FTP. Raises FaultError."""
        raise FaultError(make_fault(Kind.UNSUPPORTED, "an SFTP server has no control channel"))

    async def open_session(
        self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT, facts: str = ""
    ) -> SftpSession:
        """Connect, log in, and begin an SFTP session. host: an address that has passed the gate. Raises FaultError."""
        try:
            check_username(self.username)
            async with asyncio.timeout(timeout):
                connection, trip = await self._ssh(host, port)
                return await SftpSession.begin(connection, self, trip)
        except SshUserNameError as error:
            raise FaultError(make_fault(Kind.AUTH, error.reason)) from None
        except TimeoutError:
            raise FaultError(session_fault(Kind.TIMEOUT, f"no SFTP session within {timeout:g} s")) from None

    async def _ssh(self, host: str, port: int) -> tuple[asyncssh.SSHClientConnection, float]:
        """Try the families of host keys until the host presents the registered key."""
        families = known_families(self.host_key) or list(FAMILIES)
        seen: list[str] = []
        while True:
            client = _Client(self.host_key)
            loop = asyncio.get_running_loop()
            begun = loop.time()
            connected = await connect_socket(host, port)
            trip = loop.time() - begun
            try:
                connection = await self._handshake(connected, client, families)
                remember_family(self.host_key, client.family)
                return connection, trip
            except asyncssh.HostKeyNotVerifiable:
                seen.append(client.fingerprint)
                families = [family for family in families if family != client.family]
                if not self.host_key or not families or not client.family:
                    raise FaultError(self.wrong_host(seen)) from None
            except asyncssh.KeyExchangeFailed as error:
                raise FaultError(self._no_kex(seen, error)) from None
            except asyncssh.PermissionDenied as error:
                raise FaultError(self.failed(BridgeFailedError(Failure.REFUSED, error_text(error)))) from None
            except (asyncssh.Error, OSError, EOFError, ValueError) as error:
                raise FaultError(self.failed(BridgeFailedError(_failure(error), error_text(error)))) from None

    def _no_kex(self, seen: Sequence[str], error: Exception) -> Fault:
        if seen:
            return self.wrong_host(list(seen))
        return self.failed(BridgeFailedError(Failure.NO_SSH, error_text(error)))

    async def _handshake(
        self, connected: socket.socket, client: _Client, families: Sequence[str]
    ) -> asyncssh.SSHClientConnection:
        key = asyncssh.import_private_key(self.pem, unsafe_skip_rsa_key_validation=True)
        try:
            return await asyncssh.connect(
                sock=connected,
                config=None,
                client_factory=lambda: client,
                known_hosts=([], [], []),
                server_host_key_algs=[name for family in families for name in FAMILIES[family]],
                username=self.username,
                client_keys=[key],
                agent_path=None,
                preferred_auth="publickey",
                gss_host=None,
                gss_kex=False,
                gss_auth=False,
                x509_trusted_certs=None,
                kex_algs=list(_EXCHANGES),
                encryption_algs=list(_CIPHERS),
                mac_algs=list(_MACS),
                compression_algs=["none"],
                keepalive_interval=30,
                keepalive_count_max=3,
            )
        except BaseException:
            connected.close()
            raise


def _failure(error: Exception) -> Failure:
    return Failure.NO_SSH if isinstance(error, asyncssh.ProtocolError) else Failure.BROKEN
