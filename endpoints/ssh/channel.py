"""A command on a remote host over ssh, its standard streams bridged into one end of a socket pair.

paramiko uses threads, not an event loop: each bridge has its own thread, which logs in and then copies data, beside
paramiko's thread. Both end with the connection, whichever side ends it. Buffers are bounded: by the window of the
channel on one side, by the socket pair on the other.
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
from paramiko.common import MSG_KEXINIT, cMSG_CHANNEL_DATA
from paramiko.packet import Packetizer

from identity.gsi.printable import error_text
from identity.gsi.private_keys import open_key

from .keys import fingerprint_of
from .message_budget import MAX_GREETING, MessageBudget, TooManyMessagesError

#: Families of host keys: an owner registers the fingerprint of one key, and a host has several.
FAMILIES: dict[str, tuple[str, ...]] = {
    "ed25519": ("ssh-ed25519",),
    "ecdsa": ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    "rsa": ("rsa-sha2-512", "rsa-sha2-256"),
}
#: Algorithms that OpenSSH does not offer by default either, and key exchanges that paramiko computes in Python while
#: all other threads wait: two seconds with 8,192 bits, which a server may choose; group 14 takes 0.05.
_UNWANTED = {
    "kex": ["diffie-hellman-group-exchange-sha256", "diffie-hellman-group16-sha512"],
    "ciphers": ["aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"],
    "macs": ["hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"],
}
#: Octets of one packet: OpenSSH's own limit. Without one a server could make us wait for, and store, 4 GB.
MAX_PACKET = 256 * 1024
#: Octets that wait to be copied: twice the window of the channel. paramiko itself has no limit.
MAX_WAITING = 2 * 2**21
#: Octets of the command's standard error that are kept.
MAX_STDERR = 1000
_CHUNK = 65536

# paramiko logs each hostile peer with a traceback; the resulting fault has all information.
_log_name = f"{__name__}.paramiko"
logging.getLogger(_log_name).setLevel(logging.CRITICAL)


class Failure(enum.Enum):
    """The step at which the login failed."""

    NO_SSH = enum.auto()  # the peer does not speak ssh, or only old ssh
    HOST_KEY = enum.auto()  # another host key than the expected one
    REFUSED = enum.auto()  # the key is not accepted for this account
    NO_COMMAND = enum.auto()  # the account may not run commands
    BROKEN = enum.auto()  # the connection was lost


@dataclass(eq=False)
class BridgeFailedError(Exception):
    """The command did not start. text: paramiko's, may contain the server's. fingerprint: of the presented host key."""

    failure: Failure
    text: str = ""
    fingerprint: str = ""
    family: str = ""


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """The parameters of a bridge.

    pem: unencrypted, in OpenSSH's form. accept: whether this fingerprint is that of the host.
    families: of acceptable host keys. timeout: seconds for each step.
    """

    username: str
    pem: bytes = field(repr=False)
    command: str
    accept: Callable[[str], bool]
    families: Sequence[str]
    timeout: float


class CommandBridge(threading.Thread):
    """Runs one command on a connected socket, which it owns from now on.

    report: called once, in this thread, with our end of the socket pair, or with the error.
    """

    def __init__(
        self, connected: socket.socket, options: BridgeOptions, report: Callable[[socket.socket | Exception], None]
    ):
        super().__init__(name=f"ssh {options.username}", daemon=True)
        self._socket = connected
        self._options = options
        self._report = report
        #: The family of the presented host key.
        self.family = ""
        #: The last octets of the command's standard error.
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
            transport = _transport(self._socket, self._options)
            channel = _start(transport, self._options)
            self.family = _family(transport.get_remote_server_key().get_name())
            ours, theirs = socket.socketpair()
            self._report(ours)
            self._pump(channel, theirs)
        except BridgeFailedError as error:
            self._report(error)
        except Exception as error:
            # While copying, the end of the socket pair is the signal; before that, the caller waits for `report`.
            if theirs is None:
                self._report(BridgeFailedError(Failure.BROKEN, error_text(error)))
        finally:
            if theirs:
                theirs.close()
            if transport:
                transport.close()
                if transport.is_alive():
                    transport.join(self._options.timeout)
            if channel:
                channel.close()  # frees its pipe; nothing can be sent any more
            self._socket.close()

    def _pump(self, channel: paramiko.Channel, theirs: socket.socket) -> None:
        """Copy until either side ends; data sent before the end is passed on."""
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
                    poll.unregister(theirs)  # the command reads no more, but may have written an error
            # Read this first: data sent before the end has then arrived.
            ended = channel.eof_received or channel.closed
            if channel.recv_stderr_ready():
                self.stderr = (self.stderr + channel.recv_stderr(_CHUNK))[-MAX_STDERR:]
            if channel.recv_ready():
                theirs.sendall(channel.recv(_CHUNK))
            elif ended and not channel.recv_stderr_ready():
                return


class _BoundedPacketizer(Packetizer):
    """Refuses packets that a correct server never sends, before they use memory."""

    _banner = 0
    #: Set once the channel is open.
    channel: paramiko.Channel | None = None

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.budget = MessageBudget()

    def start_handshake(self, timeout: float) -> None:
        """Start no timer: its thread would outlive a failed handshake. The caller has a timeout of its own."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > MAX_PACKET:
            raise paramiko.SSHException("a packet beyond all bounds")
        return super().read_all(n, check_rekey)

    def read_message(self) -> tuple[int, paramiko.Message]:
        if self.channel and len(self.channel.in_buffer) + len(self.channel.in_stderr_buffer) > MAX_WAITING:
            raise paramiko.SSHException("more than the window of the channel allows")
        kind, message = super().read_message()
        try:
            self.budget.received(len(message.asbytes()))
            if kind == MSG_KEXINIT:
                self.budget.key_exchange()
        except TooManyMessagesError as error:
            raise paramiko.SSHException(error.reason) from None
        return kind, message

    def send_message(self, data: paramiko.Message) -> None:
        octets = data.asbytes()
        if octets[:1] == cMSG_CHANNEL_DATA:
            self.budget.sent(len(octets))
        super().send_message(data)

    def _read_timeout(self, timeout: float) -> bytes:
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._banner += len(data)
        if self._banner > MAX_GREETING:
            raise paramiko.SSHException("no ssh version in the first 64 KB")
        return data


def _transport(connected: socket.socket, options: BridgeOptions) -> paramiko.Transport:
    unwanted = [name for family, names in FAMILIES.items() if family not in options.families for name in names]
    transport = paramiko.Transport(
        connected,
        disabled_algorithms={**_UNWANTED, "keys": unwanted},
        packetizer_class=_BoundedPacketizer,
    )
    transport.set_log_channel(_log_name)
    transport.banner_timeout = options.timeout
    transport.handshake_timeout = options.timeout
    transport.auth_timeout = options.timeout
    transport.channel_timeout = options.timeout
    return transport


def _start(transport: paramiko.Transport, options: BridgeOptions) -> paramiko.Channel:
    """Handshake, check of the host key, login, start of the command. Raises BridgeFailedError."""
    try:
        transport.start_client(timeout=options.timeout)
        shown = transport.get_remote_server_key()
    except paramiko.SSHException as error:
        # paramiko's error contains the greeting of a server of another protocol: leave it out.
        text = error_text(error) if transport.remote_version else "no ssh version was sent"
        raise BridgeFailedError(Failure.NO_SSH, text) from None
    except (EOFError, OSError) as error:
        raise BridgeFailedError(Failure.BROKEN, error_text(error)) from None
    fingerprint = fingerprint_of(shown.asbytes())
    if not options.accept(fingerprint):
        raise BridgeFailedError(Failure.HOST_KEY, "", fingerprint, _family(shown.get_name()))
    _log_in(transport, options)
    try:
        channel = transport.open_session(timeout=options.timeout)
        assert isinstance(transport.packetizer, _BoundedPacketizer)
        transport.packetizer.channel = channel
        transport.packetizer.budget.logged_in()
        channel.exec_command(options.command)
    except (paramiko.SSHException, EOFError, OSError) as error:
        refused = isinstance(error, paramiko.SSHException) and transport.is_active()
        raise BridgeFailedError(Failure.NO_COMMAND if refused else Failure.BROKEN, error_text(error)) from None
    return channel


def _log_in(transport: paramiko.Transport, options: BridgeOptions) -> None:
    """Use this key and nothing else: no agent, no password, no key files of the service's own account."""
    try:
        more = transport.auth_publickey(options.username, _private_key(options.pem))
    except (paramiko.SSHException, EOFError, OSError) as error:
        # A closed connection does not mean that the key was refused.
        refused = isinstance(error, paramiko.AuthenticationException) and transport.is_active()
        raise BridgeFailedError(Failure.REFUSED if refused else Failure.BROKEN, error_text(error)) from None
    if more:
        raise BridgeFailedError(Failure.REFUSED, f"the server also requires {', '.join(more)}")


def _private_key(pem: bytes) -> paramiko.PKey:
    key = open_key(load_ssh_private_key, pem, None)
    if isinstance(key, rsa.RSAPrivateKey):
        return paramiko.RSAKey(key=key)  # paramiko's own parser would test its factors for primality
    text = pem.decode("ascii")
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey):
        with contextlib.suppress(paramiko.SSHException, ValueError):
            return kind.from_private_key(io.StringIO(text))
    raise paramiko.SSHException("not a private key in OpenSSH's form")


def _family(algorithm: str) -> str:
    return next((family for family in FAMILIES if family in algorithm), "")
