"""Logging in to a GridFTP server over ssh (sshftp): the control channel is a command's standard input and output.

The host is known by the fingerprint of its key, which the endpoint's owner registers as the server's subject: there is
no trust at first sight, for the first one to be seen might be the wrong one. The server takes no credential of the
user with it: data channels are protected, if at all, by a key of our own (`data_security`).
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from .gridftp.connection import CONNECT_TIMEOUT, ControlConnection, session_fault
from .gridftp.control import Lost
from .gridftp.faults import Fault, FaultError, Kind, Scope, make_fault
from .gridftp.words import of_system
from .sshchannel import FAMILIES, Bridge, BridgeFailedError, Failure, Order
from .sshkeys import SshUserNameError, check_username, parse_ssh_key

NOT_CONFIGURED = "500 Server is not configured for SSHFTP connections."
#: As globus-url-copy has it (gridftp-ssh), with a printf that all shells understand.
COMMAND = (
    "( test -f .globus/sshftp && .globus/sshftp ) || "
    "( test -f /etc/grid-security/sshftp && /etc/grid-security/sshftp ) || "
    f"printf '{NOT_CONFIGURED}\\r\\n'"
)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
#: Fingerprints of hosts whose kind of key is remembered, so that no connection is made in vain.
_REMEMBERED = 1000
_families: dict[str, str] = {}


def valid_fingerprint(text: str) -> bool:
    """Whether this is a fingerprint as `ssh-keygen -lf` prints it: "SHA256:" and 43 characters."""
    return _FINGERPRINT.fullmatch(text) is not None


@dataclass(frozen=True)
class SshLogin:
    """A `Login` (see `gridftp.login`) as an account that an ssh key opens.

    pem: the private key, unencrypted, as `parse_ssh_key` makes it. host_key: fingerprint of the host's key.
    """

    username: str
    pem: bytes = field(repr=False)
    host_key: str = ""

    protected = True
    #: The server wants both commands and looks at neither: it runs as the account already.
    user = b"sshftp"
    password = b"dummy"

    @cached_property
    def key(self) -> str:
        return f"ssh:{self.username}:{self._fingerprint}:{self.host_key}"

    @cached_property
    def _fingerprint(self) -> str:
        return parse_ssh_key(self.pem.decode("ascii")).fingerprint

    async def connect(self, host: str, port: int, *, timeout: float = CONNECT_TIMEOUT) -> ControlConnection:
        """A control connection to the server that the account has there. Raises FaultError."""
        try:
            check_username(self.username)
            async with asyncio.timeout(timeout):
                return await self._connect(host, port, timeout)
        except SshUserNameError as error:
            raise FaultError(make_fault(Kind.AUTH, error.reason)) from None
        except TimeoutError:
            raise FaultError(session_fault(Kind.TIMEOUT, f"no ssh login within {timeout:g} s")) from None

    async def _connect(self, host: str, port: int, timeout: float) -> ControlConnection:
        """Try until the host shows the kind of key that was registered: it shows one only, and has up to three."""
        known = _families.get(self.host_key)
        families = [known] if known else list(FAMILIES)
        seen: list[str] = []
        while True:
            try:
                return await self._dial(host, port, families, timeout)
            except BridgeFailedError as error:
                _families.pop(self.host_key, None)
                if error.failure is not Failure.HOST_KEY:
                    if seen and error.failure is Failure.NO_SSH:
                        raise FaultError(self._wrong_host(seen)) from None  # it has no other kind of key
                    raise FaultError(self._fault(error)) from None
                seen.append(error.fingerprint)
                remaining = [family for family in families if family != error.family]
                if not valid_fingerprint(self.host_key) or not remaining or not error.family:
                    raise FaultError(self._wrong_host(seen)) from None
                families = remaining

    async def _dial(self, host: str, port: int, families: list[str], timeout: float) -> ControlConnection:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        connected = await _tcp(host, port)
        trip = loop.time() - begun
        started: asyncio.Future[socket.socket] = loop.create_future()
        order = Order(self.username, self.pem, COMMAND, self._accept, families, timeout)
        bridge = Bridge(connected, order, _reporter(loop, started))
        bridge.start()
        try:
            ours = await started
        except BaseException:
            bridge.close()
            raise
        try:
            _, connection = await loop.create_connection(lambda: SshConnection(host, bridge, trip), sock=ours)
        except BaseException:
            ours.close()
            bridge.close()
            raise
        _remember(self.host_key, bridge.family)
        return connection

    def _accept(self, fingerprint: str) -> bool:
        return valid_fingerprint(self.host_key) and fingerprint == self.host_key

    def _wrong_host(self, seen: list[str]) -> Fault:
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
        return replace(fault, advice=advice, scope=Scope.ENDPOINT)

    def _fault(self, error: BridgeFailedError) -> Fault:
        kind, scope, advice = _FAULTS[error.failure]
        return Fault(kind, scope=scope, advice=advice.format(account=self.username), raw=error.text[:500])


_FAULTS = {
    Failure.NO_SSH: (
        Kind.ENDPOINT_ERROR,
        Scope.ENDPOINT,
        "The server does not speak ssh here, or only with algorithms that are no longer safe: check host and port.",
    ),
    Failure.REFUSED: (
        Kind.AUTH,
        Scope.ENDPOINT,
        "The server does not accept this ssh key for the account {account}; add its public key to the account's "
        "authorized_keys, or activate the endpoint with another one.",
    ),
    Failure.NO_COMMAND: (
        Kind.ENDPOINT_ERROR,
        Scope.ENDPOINT,
        "The server does not let the account {account} run commands, and so no GridFTP server.",
    ),
    Failure.BROKEN: (Kind.CONNECTION_RESET, Scope.SESSION, "The connection ended during the ssh login."),
}


class SshConnection(ControlConnection):
    """A control connection that travels by a bridge."""

    def __init__(self, host: str, bridge: Bridge, trip: float) -> None:
        super().__init__()
        self._host = host
        self._bridge = bridge
        self._note_round_trip(trip)

    @property
    def peer_host(self) -> str:
        return self._host

    def connection_lost(self, exc: Exception | None) -> None:
        self._bridge.close()
        super().connection_lost(exc)

    def _lose(self, event: Lost) -> None:
        super()._lose(event._replace(fault=self._explained(event.fault)))

    def _explained(self, fault: Fault) -> Fault:
        """What the remote shell has said, where no server has begun to speak."""
        if fault.raw.endswith(NOT_CONFIGURED):
            advice = (
                "No GridFTP server is set up for ssh on this host: its administrator runs "
                "`globus-gridftp-server-enable-sshftp`."
            )
            return replace(fault, kind=Kind.UNSUPPORTED, scope=Scope.ENDPOINT, advice=advice)
        said = self._bridge.stderr.decode("utf-8", "replace").strip()
        return replace(fault, raw=f"{fault.raw}: {said}") if said else fault


def _remember(host_key: str, family: str) -> None:
    if len(_families) >= _REMEMBERED:
        _families.clear()
    _families[host_key] = family


async def _tcp(host: str, port: int) -> socket.socket:
    """Connect to an address, not to a name. Raises FaultError."""
    connected = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, (host, port))
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except OSError as error:
        connected.close()
        raise FaultError(session_fault(Kind.CONNECT_FAILED, of_system(error), Scope.ENDPOINT)) from None
    except BaseException:
        connected.close()
        raise
    return connected


def _reporter(
    loop: asyncio.AbstractEventLoop, started: asyncio.Future[socket.socket]
) -> Callable[[socket.socket | Exception], None]:
    """Carries what the thread of a bridge has to say to the event loop, which may have stopped caring."""

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
