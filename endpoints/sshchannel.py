"""A command on a remote host over ssh, its standard streams bridged into one end of a socket pair.

paramiko knows threads and no event loop: each bridge has a thread of its own, which logs in and then pumps, beside the
one that paramiko needs. Both end with the connection, whoever ends it. What is buffered has bounds: the window of the
channel on one side, the socket pair on the other.
"""

from __future__ import annotations

import contextlib
import enum
import io
import logging
import select
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import paramiko
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from paramiko.packet import Packetizer

from .gridftp.private_keys import open_key
from .gridftp.words import of_system
from .sshkeys import fingerprint_of

#: Host keys and their families: an owner registers the fingerprint of one key, and hosts have several.
FAMILIES: dict[str, tuple[str, ...]] = {
    "ed25519": ("ssh-ed25519",),
    "ecdsa": ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    "rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
#: What OpenSSH no longer offers by itself either. And key exchanges that paramiko calculates in Python, while all other
#: threads wait: with numbers of 8,192 bits, which a server may choose, for two seconds; group 14 takes 0.05.
_UNWANTED = {
    "kex": ["diffie-hellman-group-exchange-sha256", "diffie-hellman-group16-sha512"],
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"],
    "macs": ["hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"],
}
#: Octets of one packet: OpenSSH's own limit. Without one a server could make us wait for, and keep, 4 GB.
MAX_PACKET = 256 * 1024
#: Octets of text that a server may send before its version (RFC 4253, 4.2).
MAX_BANNER = 64 * 1024
#: Octets that wait for the pump: twice what the window of the channel allows. paramiko takes whatever comes.
MAX_WAITING = 2 * 2**21
#: What is kept of what the command says on its standard error.
MAX_STDERR = 1000
_CHUNK = 65536

# It logs each hostile peer with a traceback: the fault that comes of it says all that there is to know.
_log_name = f"{__name__}.paramiko"
logging.getLogger(_log_name).setLevel(logging.CRITICAL)


class Failure(enum.Enum):
    """What the login did not get past."""

    NO_SSH = enum.auto()  # what answers there is not ssh, or only old ssh
    HOST_KEY = enum.auto()  # another host key than the expected one
    REFUSED = enum.auto()  # the key is not accepted for this account
    NO_COMMAND = enum.auto()  # the account may not run commands
    BROKEN = enum.auto()  # the connection ended in the middle


@dataclass(eq=False)
class BridgeFailedError(Exception):
    """The command did not start. text: of paramiko, and so of the server, too. fingerprint: of the host key shown."""

    failure: Failure
    text: str = ""
    fingerprint: str = ""
    family: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done there.

    pem: unencrypted, in OpenSSH's form. accept: whether this is the fingerprint of the host.
    families: of host keys that may be shown. timeout: seconds for each step.
    """

    username: str
    pem: bytes = field(repr=False)
    command: str
    accept: Callable[[str], bool]
    families: Sequence[str]
    timeout: float


class Bridge(threading.Thread):
    """Runs one command on a connected socket, which it owns from here on.

    report: called once, in this thread, with our end of the socket pair, or with why there is none.
    """

    def __init__(self, connected: socket.socket, order: Order, report: Callable[[socket.socket | Exception], None]):
        super().__init__(name=f"ssh {order.username}", daemon=True)
        self._socket = connected
        self._order = order
        self._report = report
        #: Of the key that the host has shown.
        self.family = ""
        #: The last that the command said on its standard error.
        self.stderr = b""

    def close(self) -> None:
        """End it from any thread; returns at once."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> None:
        theirs: socket.socket | None = None
        transport: paramiko.Transport | None = None
        channel: paramiko.Channel | None = None
        try:
            transport = _transport(self._socket, self._order)
            channel = _start(transport, self._order)
            self.family = _family(transport.get_remote_server_key().get_name())
            ours, theirs = socket.socketpair()
            self._report(ours)
            self._pump(channel, theirs)
        except BridgeFailedError as error:
            self._report(error)
        except Exception as error:
            # While it pumps the end of the socket pair says it all; before, somebody waits for a word.
            if theirs is None:
                self._report(BridgeFailedError(Failure.BROKEN, _text(error)))
        finally:
            if theirs:
                theirs.close()
            if transport:
                transport.close()
                if transport.is_alive():
                    transport.join(self._order.timeout)
            if channel:
                channel.close()  # its pipe, that is: nothing is left that it could be said to
            self._socket.close()

    def _pump(self, channel: paramiko.Channel, theirs: socket.socket) -> None:
        """Until either side has ended; all that the command has said before that is passed on."""
        poll = select.poll()
        poll.register(channel.fileno(), select.POLLIN)
        poll.register(theirs, select.POLLIN)
        while True:
            ready = {number for number, _ in poll.poll()}
            if theirs.fileno() in ready:
                data = theirs.recv(_CHUNK)
                if not data:
                    return
                try:
                    channel.sendall(data)
                except OSError:
                    poll.unregister(theirs)  # nobody listens there any more, but may have said why
            # Looked at first: what was said before the end is there by then.
            ended = channel.eof_received or channel.closed
            if channel.recv_stderr_ready():
                self.stderr = (self.stderr + channel.recv_stderr(_CHUNK))[-MAX_STDERR:]
            if channel.recv_ready():
                theirs.sendall(channel.recv(_CHUNK))
            elif ended and not channel.recv_stderr_ready():
                return


class _BoundedPacketizer(Packetizer):
    """Refuses what a sane server never sends, before memory is spent on it."""

    _banner = 0
    #: Once there is one.
    channel: paramiko.Channel | None = None

    def start_handshake(self, timeout: float) -> None:
        """No timer, which would be a thread that outlives a failed handshake: whoever waits closes the bridge."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > MAX_PACKET:
            raise paramiko.SSHException("a packet beyond all bounds")
        return super().read_all(n, check_rekey)

    def read_message(self) -> tuple[int, paramiko.Message]:
        if self.channel and len(self.channel.in_buffer) + len(self.channel.in_stderr_buffer) > MAX_WAITING:
            raise paramiko.SSHException("more than the window of the channel allows")
        return super().read_message()

    def _read_timeout(self, timeout: float) -> bytes:
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._banner += len(data)
        if self._banner > MAX_BANNER:
            raise paramiko.SSHException("no ssh version in the first 64 KB")
        return data


def _transport(connected: socket.socket, order: Order) -> paramiko.Transport:
    unwanted = [name for family, names in FAMILIES.items() if family not in order.families for name in names]
    transport = paramiko.Transport(
        connected,
        disabled_algorithms={**_UNWANTED, "keys": unwanted},
        packetizer_class=_BoundedPacketizer,
    )
    transport.set_log_channel(_log_name)
    transport.banner_timeout = order.timeout
    transport.handshake_timeout = order.timeout
    transport.auth_timeout = order.timeout
    transport.channel_timeout = order.timeout
    return transport


def _start(transport: paramiko.Transport, order: Order) -> paramiko.Channel:
    """Shake hands, look at the host key, log in, run the command. Raises BridgeFailedError."""
    try:
        transport.start_client(timeout=order.timeout)
        shown = transport.get_remote_server_key()
    except paramiko.SSHException as error:
        # What a server of another kind greets with stays unsaid: paramiko puts it into its error.
        text = _text(error) if transport.remote_version else "no ssh version was sent"
        raise BridgeFailedError(Failure.NO_SSH, text) from None
    except (EOFError, OSError) as error:
        raise BridgeFailedError(Failure.BROKEN, _text(error)) from None
    fingerprint = fingerprint_of(shown.asbytes())
    if not order.accept(fingerprint):
        raise BridgeFailedError(Failure.HOST_KEY, "", fingerprint, _family(shown.get_name()))
    _log_in(transport, order)
    try:
        channel = transport.open_session(timeout=order.timeout)
        assert isinstance(transport.packetizer, _BoundedPacketizer)
        transport.packetizer.channel = channel
        channel.exec_command(order.command)
    except (paramiko.SSHException, EOFError, OSError) as error:
        refused = isinstance(error, paramiko.SSHException) and transport.is_active()
        raise BridgeFailedError(Failure.NO_COMMAND if refused else Failure.BROKEN, _text(error)) from None
    return channel


def _log_in(transport: paramiko.Transport, order: Order) -> None:
    """With this key and nothing else: no agent, no password, no files of the account that we run as."""
    try:
        more = transport.auth_publickey(order.username, _private_key(order.pem))
    except (paramiko.SSHException, EOFError, OSError) as error:
        # A server that ends the connection has not said that the key is wrong.
        refused = isinstance(error, paramiko.AuthenticationException) and transport.is_active()
        raise BridgeFailedError(Failure.REFUSED if refused else Failure.BROKEN, _text(error)) from None
    if more:
        raise BridgeFailedError(Failure.REFUSED, f"the server also wants {', '.join(more)}")


def _private_key(pem: bytes) -> paramiko.PKey:
    key = open_key(load_ssh_private_key, pem, None)
    if isinstance(key, rsa.RSAPrivateKey):
        return paramiko.RSAKey(key=key)  # paramiko itself would prove that its factors are primes
    text = pem.decode("ascii")
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey):
        with contextlib.suppress(paramiko.SSHException, ValueError):
            return kind.from_private_key(io.StringIO(text))
    raise paramiko.SSHException("not a private key in OpenSSH's form")


def _family(algorithm: str) -> str:
    return next((family for family in FAMILIES if family in algorithm), "")


def _text(error: Exception) -> str:
    return of_system(error)
