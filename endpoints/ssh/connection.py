"""A connection to an ssh account by asyncssh, directly or through a jump host.

A host is identified by the fingerprint of its key, which its endpoint's owner confirmed at registration. There is no
trust on first use. Nothing of the service's own account is used: no configuration, agent, key or list of known hosts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, cast

import asyncssh

from endpoints.gridftp.connection import CONNECT_TIMEOUT, session_fault
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.wire import fenced_socket as wires
from endpoints.gridftp.wire.fenced_socket import FencedSocket
from endpoints.gridftp.wire.put_off import SERVERS
from identity.gsi.printable import error_text

from .bounded_connection import BoundedConnection, FloodError, open_connection, server_address
from .channel import FAMILIES
from .keys import fingerprint_of, parse_ssh_key, valid_fingerprint
from .sshftp_login import KEY_REFUSED, NO_SSH, bounded_login, forget_family, known_families, remember_family

#: Seconds between two messages that keep a connection through firewalls, and how many may stay unanswered.
KEEPALIVE_SECONDS = 30
KEEPALIVES = 3
#: The ciphers that OpenSSH offers; first those that one core makes fast.
_CIPHERS = (
    "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes192-ctr,aes128-ctr"
)
#: Without the exchanges whose groups a server chooses: they may take seconds.
_EXCHANGES = (
    "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,"
    "diffie-hellman-group14-sha256"
)
_MACS = "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512"

# asyncssh logs each connection, and hostile peers with a traceback; the resulting fault has all information.
logging.getLogger("asyncssh").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class SshAccount:
    """An account on a host. pem: its private key, unencrypted (`parse_ssh_key`). host_key: the host's fingerprint."""

    username: str
    pem: bytes = field(repr=False)
    host_key: str

    @cached_property
    def key(self) -> str:
        """Names account, key and host, without a secret."""
        return f"{self.username}:{parse_ssh_key(self.pem.decode('ascii')).fingerprint}:{self.host_key}"


@dataclass(frozen=True)
class JumpHost:
    """A host through which another one is reached (ProxyJump of ssh_config).

    resolve: its addresses, which have passed the gate. Raises FaultError.
    """

    account: SshAccount
    port: int
    resolve: Callable[[], Awaitable[Sequence[str]]] = field(repr=False, compare=False)


#: Called in a thread with the fingerprint that a host shows in place of the registered one.
NoteHostKey = Callable[[str], object]


async def connect(
    host: str,
    port: int,
    account: SshAccount,
    *,
    timeout: float,
    jump: JumpHost | None = None,
    note_host_key: NoteHostKey | None = None,
) -> BoundedConnection:
    """Log in. timeout: seconds for all of it. Raises FaultError.

    The connection closes a jump host's connection with its own end.
    """
    try:
        async with bounded_login(account.username, timeout):
            if jump is None:
                return await _log_in(host, port, account, None)
            return await _through(jump, host, port, account)
    except HostKeyError as error:
        if note_host_key and error.host_key == account.host_key:
            await asyncio.to_thread(note_host_key, error.shown)
        raise


async def shown_host_key(host: str, port: int, *, timeout: float, jump: JumpHost | None = None) -> str:
    """The fingerprint of the host key that a server shows; nobody logs in there. Raises FaultError."""
    tunnel: BoundedConnection | None = None
    options = asyncssh.SSHClientConnectionOptions(
        config=None,
        known_hosts=None,
        x509_trusted_certs=None,
        client_keys=None,
        agent_path=None,
        server_host_key_algs=_algorithms(list(FAMILIES)),
        kex_algs=_EXCHANGES,
    )
    try:
        async with asyncio.timeout(timeout):
            tunnel = await _jump_login(jump) if jump else None
            connection = await _open(host, port, options, "kex", tunnel)
            key = connection.get_server_host_key()
            connection.abort()
    except TimeoutError:
        raise FaultError(session_fault(Kind.TIMEOUT, f"no host key within {timeout:g} s")) from None
    except (OSError, asyncssh.Error) as error:
        raise FaultError(_fault(error, "")) from None
    finally:
        if tunnel:
            tunnel.abort()
    if key is None:
        raise FaultError(_no_ssh("no host key was shown"))
    return fingerprint_of(key.public_data)


async def _through(jump: JumpHost, host: str, port: int, account: SshAccount) -> BoundedConnection:
    tunnel = await _jump_login(jump)
    try:
        return await _log_in(host, port, account, tunnel)
    except BaseException:
        tunnel.abort()
        raise


async def _jump_login(jump: JumpHost) -> BoundedConnection:
    try:
        last: FaultError | None = None
        for address in await jump.resolve():
            try:
                return await _log_in(address, jump.port, jump.account, None)
            except FaultError as error:
                last = error
        raise last or FaultError(make_fault(Kind.CONNECT_FAILED, "the jump host has no address"))
    except FaultError as error:
        error.fault = replace(error.fault, advice=f"At the jump host: {error.fault.advice}")
        raise


class _Pinned(asyncssh.SSHClient):
    """Accepts the one host key that is registered."""

    def __init__(self, wanted: str, tunnel: BoundedConnection | None) -> None:
        self._wanted = wanted
        self._tunnel = tunnel
        self._connected = False
        self.shown = ""

    def auth_completed(self) -> None:
        self._connected = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection to the jump host serves no other one. A login that failed may be tried through it again."""
        if self._tunnel and self._connected:
            self._tunnel.abort()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.shown = fingerprint_of(key.public_data)
        return valid_fingerprint(self._wanted) and self.shown == self._wanted


async def _log_in(host: str, port: int, account: SshAccount, tunnel: BoundedConnection | None) -> BoundedConnection:
    """Try the key families until the host shows the registered key; a host has up to three keys. Raises FaultError."""
    families = known_families(account.host_key) or list(FAMILIES)
    seen: list[str] = []
    while True:
        client = _Pinned(account.host_key, tunnel)
        try:
            connection = await _connect(host, port, account, client, families, tunnel)
        except asyncssh.HostKeyNotVerifiable:
            forget_family(account.host_key)
            seen.append(client.shown)
            families = _others(families)
            if not families or not valid_fingerprint(account.host_key):
                raise HostKeyError(account.host_key, seen[0]) from None
        except (OSError, asyncssh.Error) as error:
            forget_family(account.host_key)
            if seen and isinstance(error, asyncssh.KeyExchangeFailed):  # it has no other kind of key
                families = _others(families)
                if families:
                    continue
                raise HostKeyError(account.host_key, seen[0]) from None
            raise FaultError(_fault(error, account.username)) from None
        else:
            if len(families) == 1:
                remember_family(account.host_key, families[0])
            return connection


def _others(families: Sequence[str]) -> list[str]:
    """After all families together each one alone, then none."""
    everything = list(FAMILIES)
    if len(families) > 1:
        return everything[:1]
    return everything[everything.index(families[0]) + 1 :][:1]


async def _connect(
    host: str,
    port: int,
    account: SshAccount,
    client: _Pinned,
    families: Sequence[str],
    tunnel: BoundedConnection | None,
) -> BoundedConnection:
    options = asyncssh.SSHClientConnectionOptions(
        config=None,
        host=host,
        port=port,
        known_hosts=([], [], []),
        x509_trusted_certs=None,
        client_factory=lambda: client,
        username=account.username,
        client_keys=[asyncssh.import_private_key(account.pem, unsafe_skip_rsa_key_validation=True)],
        preferred_auth="publickey",
        agent_path=None,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_auth=False,
        gss_kex=False,
        server_host_key_algs=_algorithms(families),
        kex_algs=_EXCHANGES,
        encryption_algs=_CIPHERS,
        mac_algs=_MACS,
        compression_algs=["none"],
        keepalive_interval=KEEPALIVE_SECONDS,
        keepalive_count_max=KEEPALIVES,
        tcp_keepalive=True,
    )
    return await _open(host, port, options, "auth", tunnel)


async def _open(
    host: str,
    port: int,
    options: asyncssh.SSHClientConnectionOptions,
    wait: Literal["auth", "kex"],
    tunnel: BoundedConnection | None,
) -> BoundedConnection:
    SERVERS.check(*server_address(host, port, tunnel))
    if tunnel is not None:
        connection = await open_connection(host, port, options, wait=wait, tunnel=tunnel)
        wire = wire_of(tunnel)
    else:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            wire = await wires.connect(host, port)
        try:
            connection = await open_connection(host, port, options, wait=wait, wire=wire)
        except BaseException:
            wire.close()
            raise
    connection.set_extra_info(wire=wire)
    return connection


def wire_of(connection: BoundedConnection) -> FencedSocket:
    """The socket by which the octets of this connection leave: its own, or that to the jump host."""
    return cast(FencedSocket, connection.get_extra_info("wire"))


def _algorithms(families: Sequence[str]) -> list[str]:
    return [name for family in families for name in FAMILIES[family]]


class HostKeyError(FaultError):
    """The host shows another key than the registered one (`host_key`), or none is registered ("")."""

    def __init__(self, host_key: str, shown: str) -> None:
        look = "compare it with what `ssh-keygen -lf` prints on the host"
        if not host_key:
            advice = f"No host key is registered for this server. It shows {shown}: {look}, and register it."
        else:
            advice = (
                f"The server is not the one that was registered, or its host key was changed: it shows {shown} and not "
                f"{host_key}. Only if that is meant to be so, its endpoint's owner accepts the new key; {look}."
            )
        super().__init__(replace(make_fault(Kind.HOST_KEY_CHANGED, f"the server's host key is {shown}"), advice=advice))
        self.host_key = host_key
        self.shown = shown


def flood(reason: str) -> Fault:
    """The fault of a server that sends more than its budget."""
    advice = f"The ssh server sent {reason}, and is put off for a while. Its administrator should look at it."
    return Fault(Kind.ENDPOINT_ERROR, scope=FaultScope.ENDPOINT, advice=advice, raw=reason)


def _no_ssh(raw: str) -> Fault:
    return Fault(Kind.ENDPOINT_ERROR, scope=FaultScope.ENDPOINT, advice=NO_SSH, raw=raw)


def _fault(error: OSError | asyncssh.Error, username: str) -> Fault:
    text = error_text(error)[:500]
    if isinstance(error, FloodError):
        return flood(error.reason)
    if isinstance(error, asyncssh.PermissionDenied):
        advice = KEY_REFUSED.format(account=username)
        return Fault(Kind.AUTH, scope=FaultScope.ENDPOINT, advice=advice, raw=text)
    if isinstance(error, asyncssh.ChannelOpenError):
        advice = "The jump host could not reach the server: check its name and port as the jump host sees them."
        return Fault(Kind.CONNECT_FAILED, scope=FaultScope.ENDPOINT, advice=advice, raw=text)
    if isinstance(error, asyncssh.KeyExchangeFailed | asyncssh.ProtocolError | asyncssh.ProtocolNotSupported):
        # The error may contain the greeting of a server of another protocol: leave it out.
        return _no_ssh("no ssh key exchange")
    if isinstance(error, asyncssh.Error):
        return session_fault(Kind.CONNECTION_RESET, "the connection ended during the ssh login")
    return session_fault(Kind.CONNECT_FAILED, text, FaultScope.ENDPOINT)
