"""Login to a GridFTP server over ssh (sshftp): the control channel is the standard input and output of a command.

The host is identified by the fingerprint of its key, which the endpoint's owner registers as the server's subject.
There is no trust on first use: the first key could be an attacker's. The login gives the server no user credential:
data channels are protected, if at all, by a key of our own (`data_security`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from endpoints.gridftp.connection import CONNECT_TIMEOUT, ControlConnection, LateLoginError, session_fault
from endpoints.gridftp.control import Lost
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, make_fault
from endpoints.gridftp.wire.fenced_socket import FencedSocket, connect
from identity.gsi.printable import error_text

from .channel import FAMILIES, BridgeFailedError, BridgeOptions, CommandBridge, Failure
from .keys import SshUserNameError, check_username, parse_ssh_key, valid_fingerprint

NOT_CONFIGURED = "500 Server is not configured for SSHFTP connections."
#: As in globus-url-copy (gridftp-ssh), with a printf that all shells understand.
COMMAND = (
    "( test -f .globus/sshftp && .globus/sshftp ) || "
    "( test -f /etc/grid-security/sshftp && /etc/grid-security/sshftp ) || "
    f"printf '{NOT_CONFIGURED}\\r\\n'"
)
#: Advice for faults of a login.
NO_SSH = "The server does not speak ssh here, or only with algorithms that are no longer safe: check host and port."
KEY_REFUSED = (
    "The server does not accept this ssh key for the account {account}; add its public key to the account's "
    "authorized_keys, or activate the endpoint with another one."
)
#: Hosts whose key family is cached by fingerprint, to save a failing connection.
_REMEMBERED = 1000
_families: dict[str, str] = {}


@dataclass(frozen=True)
class SshLogin:
    """A `Login` (see `gridftp.login`) to an account by an ssh key.

    pem: the private key, unencrypted, as `parse_ssh_key` returns it. host_key: fingerprint of the host's key.
    """

    username: str
    pem: bytes = field(repr=False)
    host_key: str = ""

    protected = True
    #: The server expects both commands and ignores their values: it runs as the account already.
    user = b"sshftp"
    password = b"dummy"

    @cached_property
    def key(self) -> str:
        return f"ssh:{self.username}:{parse_ssh_key(self.pem.decode('ascii')).fingerprint}:{self.host_key}"

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """A control connection to the server that the account runs there. Raises FaultError."""
        async with bounded_login(self.username, timeout):
            return await self._connect(host, port, timeout)

    async def _connect(self, host: str, port: int, timeout: float) -> ControlConnection:
        """Try the key families until the host presents the registered key; it presents one of up to three keys."""
        families = known_families(self.host_key) or list(FAMILIES)
        seen: list[str] = []
        while True:
            try:
                return await self._dial(host, port, families, timeout)
            except BridgeFailedError as error:
                _families.pop(self.host_key, None)
                if error.failure is not Failure.HOST_KEY:
                    if seen and error.failure is Failure.NO_SSH:
                        raise FaultError(self.wrong_host(seen)) from None  # it has no other kind of key
                    raise FaultError(self.failed(error)) from None
                seen.append(error.fingerprint)
                remaining = [family for family in families if family != error.family]
                if not valid_fingerprint(self.host_key) or not remaining or not error.family:
                    raise FaultError(self.wrong_host(seen)) from None
                families = remaining

    async def _dial(self, host: str, port: int, families: list[str], timeout: float) -> ControlConnection:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        connected = await connect_socket(host, port)
        trip = loop.time() - begun
        started: asyncio.Future[socket.socket] = loop.create_future()
        options = BridgeOptions(self.username, self.pem, COMMAND, self._accept, families, timeout)
        bridge = CommandBridge(connected, options, _reporter(loop, started))
        bridge.start()
        ours = await _end_of(bridge, started)
        try:
            _, connection = await loop.create_connection(
                lambda: SshConnection(host, bridge, connected, trip), sock=ours
            )
        except BaseException:
            ours.close()
            bridge.close()
            raise
        remember_family(self.host_key, bridge.family)
        return connection

    def _accept(self, fingerprint: str) -> bool:
        return valid_fingerprint(self.host_key) and fingerprint == self.host_key

    def wrong_host(self, seen: list[str]) -> Fault:
        """The fault of a host with other keys than the registered one. seen: their fingerprints."""
        fault = make_fault(Kind.GSI_DN_MISMATCH, f"the server's host key is {seen[0]}")
        look = "compare it with what `ssh-keygen -lf` prints on the host"
        if not self.host_key:
            advice = f"No host key is registered for this server. It shows {seen[0]}: {look}, and register it."
        elif not valid_fingerprint(self.host_key):
            advice = f"The registered subject is not a fingerprint (SHA256:...). The server shows {seen[0]}: {look}."
        else:
            advice = (
                f"The server is not the one that was registered, or its host key was changed: it shows {seen[0]} "
                f"and not {self.host_key}. Only if that is meant to be so, register the new one; {look}."
            )
        return replace(fault, advice=advice, scope=FaultScope.ENDPOINT)

    def failed(self, error: BridgeFailedError) -> Fault:
        """The fault of a login that failed at this step."""
        kind, scope, advice = _FAULTS[error.failure]
        return Fault(kind, scope=scope, advice=advice.format(account=self.username), raw=error.text[:500])


_FAULTS = {
    Failure.NO_SSH: (
        Kind.ENDPOINT_ERROR,
        FaultScope.ENDPOINT,
        NO_SSH,
    ),
    Failure.REFUSED: (
        Kind.AUTH,
        FaultScope.ENDPOINT,
        KEY_REFUSED,
    ),
    Failure.NO_COMMAND: (
        Kind.ENDPOINT_ERROR,
        FaultScope.ENDPOINT,
        "The server does not let the account {account} run commands, and so no GridFTP server.",
    ),
    Failure.BROKEN: (Kind.CONNECTION_RESET, FaultScope.SESSION, "The connection ended during the ssh login."),
}


class SshConnection(ControlConnection):
    """A control connection over a bridge."""

    def __init__(self, host: str, bridge: CommandBridge, wire: FencedSocket, trip: float) -> None:
        super().__init__()
        self.wire = wire
        self._host = host
        self._bridge = bridge
        self._note_round_trip(trip)

    @property
    def peer_host(self) -> str:
        return self._host

    def connection_lost(self, exc: Exception | None) -> None:
        self._bridge.close()
        super().connection_lost(exc)

    def _explained(self, event: Lost) -> Lost:
        return event._replace(fault=self._with_text_of_shell(event.fault))

    def _with_text_of_shell(self, fault: Fault) -> Fault:
        """Add the error text of the remote shell, when no server has started."""
        if fault.raw.endswith(NOT_CONFIGURED):
            advice = (
                "No GridFTP server is set up for ssh on this host: its administrator runs "
                "`globus-gridftp-server-enable-sshftp`."
            )
            return replace(fault, kind=Kind.UNSUPPORTED, scope=FaultScope.ENDPOINT, advice=advice)
        stderr = self._bridge.stderr.decode("utf-8", "replace").strip()
        return replace(fault, raw=f"{fault.raw}: {stderr}") if stderr else fault


@asynccontextmanager
async def bounded_login(username: str, timeout: float) -> AsyncIterator[None]:
    """The block logs in to this account. Raises FaultError where the name is not valid, or the login takes longer."""
    try:
        check_username(username)
        async with asyncio.timeout(timeout):
            yield
    except SshUserNameError as error:
        raise FaultError(make_fault(Kind.AUTH, error.reason)) from None
    except TimeoutError:
        raise LateLoginError(f"no ssh login within {timeout:g} s", unanswered=False) from None


def known_families(host_key: str) -> list[str]:
    """The family of the registered key, where an earlier login has found it; else none."""
    known = _families.get(host_key)
    return [known] if known else []


def remember_family(host_key: str, family: str) -> None:
    """The host with this key presents keys of this family."""
    if len(_families) >= _REMEMBERED:
        _families.clear()
    _families[host_key] = family


def forget_family(host_key: str) -> None:
    """The host has another key, or another kind of key."""
    _families.pop(host_key, None)


async def connect_socket(host: str, port: int) -> FencedSocket:
    """Connect to an address, not to a name. Raises FaultError."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            connected = await connect(host, port)
    except OSError as error:  # TimeoutError too
        raise FaultError(session_fault(Kind.CONNECT_FAILED, error_text(error), FaultScope.ENDPOINT)) from None
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return connected


async def _end_of(bridge: CommandBridge, started: asyncio.Future[socket.socket]) -> socket.socket:
    """Our end of the bridge's socket pair, once it is `started`. A caller that is canceled leaves nothing open."""
    try:
        return await started
    except BaseException:
        bridge.close()
        # A cancel may come between the result and our next turn: nobody else has this socket then.
        if started.done() and not started.cancelled() and started.exception() is None:
            started.result().close()
        raise


def _reporter(
    loop: asyncio.AbstractEventLoop, started: asyncio.Future[socket.socket]
) -> Callable[[socket.socket | Exception], None]:
    """A callback that passes a bridge's result to the event loop, where the waiting coroutine may be gone already."""

    def settle(outcome: socket.socket | Exception) -> None:
        if isinstance(outcome, Exception):
            if not started.done():
                started.set_exception(outcome)
        elif started.done():
            outcome.close()
        else:
            started.set_result(outcome)

    def report(outcome: socket.socket | Exception) -> None:
        try:
            loop.call_soon_threadsafe(settle, outcome)
        except RuntimeError:  # the loop is closed
            if isinstance(outcome, socket.socket):
                outcome.close()

    return report
