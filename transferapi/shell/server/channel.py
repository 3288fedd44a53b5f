"""The ssh protocol of paramiko, with bounds on what a client makes the server keep in memory.

Paramiko believes the length of a packet before the client has signed in, reads a first line without end, does not
check that a client keeps to its window, and remembers every channel. Each of these is bounded here. Paramiko takes the
guess of a client for its answer; RFC 4253, 7.1, is kept here.

`ShellSession` is the user of a connection, as commands see it: the services, with the restrictions of the key.
`PipeContext` is the context of a command without a terminal: output in two streams, input as lines.
"""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import paramiko
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_REQUEST,
    MSG_CHANNEL_WINDOW_ADJUST,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
    cMSG_CHANNEL_OPEN_FAILURE,
    cMSG_CHANNEL_OPEN_SUCCESS,
    cMSG_CHANNEL_WINDOW_ADJUST,
    cMSG_DISCONNECT,
)
from paramiko.kex_curve25519 import KexCurve25519
from paramiko.message import Message
from paramiko.packet import Packetizer
from paramiko.ssh_exception import SSHException

from endpoints.permissions import restricted_to
from identity import user_names
from identity.call_origin import Origin, comes_from
from identity.models import User
from identity.sign_in_proof import SignInProof, proven_by
from transferapi.rest.http import rate_limit
from transferapi.rest.http.errors import TooManyRequests
from transferapi.shell.context import Signal
from transferapi.shell.errors import DisconnectedError, InterruptedByUserError, ShellError
from transferapi.shell.output import encoded

from .bounds import ShellBounds
from .calls import Calls
from .input import ChannelInput
from .sign_in import ShellLogin

if TYPE_CHECKING:
    from .connection import ShellConnection

P = ParamSpec("P")
T = TypeVar("T")
#: Seconds after which a command that still works has the user and the key looked up again.
RENEW_SECONDS = 5.0


@dataclass(slots=True)
class _Admission:
    """The admission of one command. counted: as a request. until: the sign-in need not be looked up again before."""

    counted: bool = False
    until: float = -math.inf


class ShellSession:
    """The caller (`context.Caller`) of all commands of one connection. touch: called when a command works."""

    transport = "ssh"

    def __init__(self, login: ShellLogin, address: str, calls: Calls, touch: Callable[[], object]) -> None:
        self.login = login
        self.user: User = login.user
        self.commands = 0
        self._address, self._calls, self._touch = address, calls, touch
        self._proof = SignInProof(datetime.now(UTC), login.way, user_names.identity_name(login.user))
        #: The admission of the command of this thread.
        self._thread = threading.local()

    def allows(self, command: str) -> bool:
        """See `context.Caller.allows`. Each command asks once, before it does anything else."""
        self.commands += 1
        self._thread.admission = _Admission()
        commands = self.login.restrictions.commands
        return commands is None or command in commands

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """See `context.Caller.call`. The first call of a command counts as a request of the user.

        The user and the key are looked up at the first call of a command, and every few seconds while it works. Raises
        TooManyRequests, and ShellError where the user or the key is no longer valid.
        """
        self._touch()
        work = partial(function, *args, **kwargs)
        admission: _Admission = self._thread.__dict__.setdefault("admission", _Admission())
        if not admission.counted:
            self._take()
            admission.counted = True
        if time.monotonic() < admission.until:
            return self._calls.call(self.user.pk, partial(self._restricted, work))
        return self._calls.call(self.user.pk, partial(self._renewed, admission, work))

    def _take(self) -> None:
        taken = rate_limit.take(self.user.pk, self._address)
        if taken is not None and taken.wait:
            raise TooManyRequests(f"You ask too often; wait {taken.wait} seconds", taken.wait)

    def _renewed(self, admission: _Admission, work: Callable[[], T]) -> T:
        """Only a sign-in that is valid admits the command: one that goes on after an error is refused again."""
        login = self.login.renewed()
        if login is None:
            raise ShellError("This sign-in is no longer valid; connect again", "ClientError.AuthenticationFailed")
        self.login, self.user = login, login.user
        admission.until = time.monotonic() + RENEW_SECONDS
        return self._restricted(work)

    def _restricted(self, function: Callable[[], T]) -> T:
        here, endpoints = Origin(self._address), self.login.restrictions.endpoints
        with restricted_to(endpoints), comes_from(here), proven_by(lambda: self._proof):
            return function()


#: Without SHA-1, CBC, DSA, and Diffie-Hellman in prime fields, which costs the server much. OpenSSH has all of these
#: since 6.5 (2014).
KEY_EXCHANGES = (
    "mlkem768x25519-sha256",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
)
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
USER_KEYS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
#: Reasons of a disconnection (RFC 4253, 11.1).
BY_APPLICATION, TOO_MANY_CONNECTIONS = 11, 12
#: The messages of a key exchange (RFC 4253, 12).
_KEY_EXCHANGE_MESSAGES = range(30, 50)
_SIGNALS = {"INT": Signal.INTERRUPT, "TERM": Signal.DISCONNECTED, "HUP": Signal.DISCONNECTED}


class BoundedPacketizer(Packetizer):
    """Reads packets of a bounded length, and a bounded number of octets before the client has signed in."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.bounds = ShellBounds()
        #: Octets that may still arrive; None: the client has signed in.
        self.left: int | None = self.bounds.before_sign_in
        self._banner_left = self.bounds.banner
        #: Since when a write has been waiting for the client.
        self.writing_since: float | None = None
        #: The next message of the key exchange is the wrong guess of the client.
        self.ignore_guess = False

    def read_message(self) -> tuple[int, Message]:
        kind, message = super().read_message()
        if self.ignore_guess and kind in _KEY_EXCHANGE_MESSAGES:
            self.ignore_guess = False
            kind, message = super().read_message()
        return kind, message

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if not 0 <= n <= self.bounds.largest_packet:
            raise SSHException("a packet is longer than this server reads")
        if self.left is not None:
            self.left -= n
            if self.left < 0:
                raise SSHException("too much was sent before the sign-in")
        return bytes(super().read_all(n, check_rekey))

    def _read_timeout(self, timeout: float) -> bytes:
        data = bytes(super()._read_timeout(timeout))  # type: ignore[misc]
        self._banner_left -= len(data)
        if self._banner_left < 0:
            raise SSHException("the first lines are too long")
        return data

    def write_all(self, out: Any) -> None:
        self.writing_since = time.monotonic()
        try:
            super().write_all(out)
        finally:
            self.writing_since = None

    def start_handshake(self, timeout: float) -> None:
        """Paramiko would start a thread for each connection; `listener.Listener` watches the time of all."""


class ShellChannel(paramiko.Channel):
    """A session channel. Its input goes to `input`; the window opens as the input is read."""

    def __init__(self, chanid: int, connection: ShellConnection) -> None:
        super().__init__(chanid)
        self.connection = connection
        self.input = ChannelInput()
        #: The terminal that the client asked for: name, columns and rows.
        self.term = ""
        self.has_terminal = False
        self.window = (0, 0)
        self.started = False
        #: Whether the client wants an answer to the request that is being handled.
        self.wants_answer = True
        #: The thread that `_handle_request` starts after the answer to the request.
        self.pending: threading.Thread | None = None
        #: Whether that thread runs, and whether the connection knows the channel no more.
        self.working = self.gone = False
        self._room = connection.server.bounds.window

    # ---- for the thread of the command

    def read(self, timeout: float | None) -> bytes | None:
        """See `ChannelInput.read`."""
        data = self.input.read(timeout)
        if data:
            self._took(len(data))
        return data

    def read_line(self) -> bytes | None:
        """See `ChannelInput.line`."""
        line, taken = self.input.line()
        self._took(taken)
        return line

    def skip_line(self) -> None:
        """Drop the rest of a line that is too long. Raises DisconnectedError."""
        ended = False
        while not ended:
            ended, taken = self.input.skip()
            self._took(taken)

    def write(self, data: bytes) -> None:
        """Send all; wait while the client does not read. Raises DisconnectedError."""
        self._write(self.sendall, data)

    def write_error(self, data: bytes) -> None:
        """The same, to the standard error of the client."""
        self._write(self.sendall_stderr, data)

    def size(self) -> tuple[int, int]:
        return self.window

    def finish(self, status: int) -> None:
        """Send the exit status, and close."""
        with contextlib.suppress(OSError, EOFError, SSHException):
            if not self.closed:
                self.send_exit_status(status)
            self.close()

    def ended(self) -> None:
        """The thread of the command is over."""
        self.working = False
        self.connection.release(self)

    def _write(self, send: Any, data: bytes) -> None:
        try:
            send(data)
        except (OSError, EOFError, SSHException) as error:
            if isinstance(error, TimeoutError):
                self.connection.end()
            raise DisconnectedError from None

    def _took(self, octets: int) -> None:
        more: int = self._check_add_window(octets)  # type: ignore[attr-defined]
        if more:
            with self.lock:
                self._room += more
            adjust = _message(cMSG_CHANNEL_WINDOW_ADJUST, self.remote_chanid, more)
            with contextlib.suppress(OSError, EOFError, SSHException):
                self.connection.transport._send_user_message(adjust)  # type: ignore[attr-defined]

    # ---- for the thread of the connection

    def _feed(self, m: Any) -> None:
        data = self._received(m)
        self.connection.touch()
        self.input.feed(data)

    def _feed_extended(self, m: Any) -> None:
        """Clients have no use for it. It counts in the window, which it thereby uses up."""
        m.get_int()
        self._received(m)

    def _received(self, m: Any) -> bytes:
        data: bytes = m.get_binary()
        with self.lock:
            self._room -= len(data)
        if self._room < 0:
            raise SSHException("the client does not keep to its window")
        return data

    def _handle_eof(self, m: Any) -> None:
        super()._handle_eof(m)  # type: ignore[misc]
        self.input.end()

    def _set_closed(self) -> None:
        super()._set_closed()  # type: ignore[misc]
        self.input.close()

    def _handle_request(self, m: Any) -> None:
        start = m.packet.tell()
        kind, self.wants_answer = m.get_text(), m.get_boolean()
        if kind == "signal":
            if (signal := _SIGNALS.get(m.get_text())) is not None:
                self.input.signal(signal)
            return
        m.packet.seek(start)
        super()._handle_request(m)  # type: ignore[misc]
        # Output must not come before the answer to the request.
        if self.pending is not None:
            thread, self.pending = self.pending, None
            self.working = True
            try:
                thread.start()
            except RuntimeError:
                self.ended()
                raise


class ShellTransport(paramiko.Transport):
    """The server's side of one connection."""

    _CLIENT_ID = "Waybill"
    #: Seconds after which an idle thread looks around. Paramiko looks ten times a second, for each connection.
    _active_check_timeout = 5.0
    #: Paramiko knows this one only by the name that it had before RFC 8731.
    _kex_info = paramiko.Transport._kex_info | {"curve25519-sha256": KexCurve25519}  # type: ignore[attr-defined]
    _preferred_kex = KEY_EXCHANGES
    _preferred_ciphers = CIPHERS
    _preferred_macs = MACS
    _preferred_pubkeys = USER_KEYS
    _preferred_compression = ("none",)
    _channel_handler_table = {  # noqa: RUF012 - as in the base class
        MSG_CHANNEL_DATA: ShellChannel._feed,
        MSG_CHANNEL_EXTENDED_DATA: ShellChannel._feed_extended,
        MSG_CHANNEL_WINDOW_ADJUST: paramiko.Channel._window_adjust,  # type: ignore[attr-defined]
        MSG_CHANNEL_REQUEST: ShellChannel._handle_request,
        MSG_CHANNEL_EOF: ShellChannel._handle_eof,
        MSG_CHANNEL_CLOSE: paramiko.Channel._handle_close,  # type: ignore[attr-defined]
    }

    def __init__(self, sock: socket.socket, connection: ShellConnection) -> None:
        bounds = connection.server.bounds
        super().__init__(sock, bounds.window, bounds.packet, packetizer_class=BoundedPacketizer)
        self.connection = connection
        assert isinstance(self.packetizer, BoundedPacketizer)
        self.bounded = self.packetizer
        self.banner_timeout = bounds.handshake_seconds
        self._ever = 0
        self.add_server_key(connection.server.host_key)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.connection.ended()

    def disconnect(self, reason: int, text: str) -> None:
        """Send the reason to the client, and end the connection."""
        with contextlib.suppress(OSError, EOFError, SSHException):
            self._send_message(_message(cMSG_DISCONNECT, reason, text, "en"))  # type: ignore[attr-defined]
        self.hang_up()

    def hang_up(self) -> None:
        """End the connection. Its own thread closes the socket: another one could then get its descriptor."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def _parse_kex_init(self, m: Any) -> None:
        start = m.packet.tell()
        theirs = self._really_parse_kex_init(m)  # type: ignore[attr-defined]
        m.packet.seek(start)
        super()._parse_kex_init(m)  # type: ignore[misc]
        ours = self._get_latest_kex_init()  # type: ignore[attr-defined]
        self.bounded.ignore_guess = theirs["kex_follows"] and not _guess_is_right(theirs, ours)

    def _auth_trigger(self) -> None:
        super()._auth_trigger()  # type: ignore[misc]
        self.bounded.left = None
        self.connection.signed_in()

    def _parse_channel_open(self, m: Any) -> None:
        kind, remote, window, packet = m.get_text(), m.get_int(), m.get_int(), m.get_int()
        with self.lock:
            number = self._next_channel()  # type: ignore[attr-defined]
        reason = OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        # Paramiko remembers the number of each channel.
        if self._ever < self.connection.server.bounds.channels_ever:
            reason = self.connection.check_channel_request(kind, number)
        if reason != OPEN_SUCCEEDED:
            self._send_message(_message(cMSG_CHANNEL_OPEN_FAILURE, remote, reason, "", "en"))  # type: ignore[attr-defined]
            return
        self._ever += 1
        channel = ShellChannel(number, self.connection)
        with self.lock:
            self._channels.put(number, channel)  # type: ignore[attr-defined]
            self.channels_seen[number] = True
            channel._set_transport(self)  # type: ignore[attr-defined]
            channel._set_window(self.default_window_size, self.default_max_packet_size)  # type: ignore[attr-defined]
            channel._set_remote_channel(remote, window, packet)  # type: ignore[attr-defined]
        channel.settimeout(self.connection.server.bounds.write_seconds)
        self.connection.opened(channel)
        bounds = self.default_window_size, self.default_max_packet_size
        self._send_message(_message(cMSG_CHANNEL_OPEN_SUCCESS, remote, number, *bounds))  # type: ignore[attr-defined]

    def _unlink_channel(self, chanid: int) -> None:
        super()._unlink_channel(chanid)  # type: ignore[misc]
        self.connection.closed(chanid)


def _guess_is_right(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether the message of the key exchange that a client has sent ahead counts (RFC 4253, 7.1).

    It does not where the first algorithms differ, even if the exchange that it begins is agreed upon afterwards:
    Dropbear's client begins curve25519-sha256, and the first name of ours is another.
    """
    lists = ("kex_algo_list", "server_key_algo_list")
    return all(theirs[name][:1] == ours[name][:1] for name in lists)


def _message(kind: bytes, *values: int | str) -> Message:
    message = Message()
    message.add_byte(kind)
    for value in values:
        if isinstance(value, int):
            message.add_int(value)
        else:
            message.add_string(value)
    return message


#: A line of the input by which the user leaves a foreground command running, as at a terminal.
_BACKGROUND = b"bg"


class PipeContext:
    """See `context.Context`. has_input: the input belongs to the command, and not to a list of commands."""

    interactive = False
    columns = None

    def __init__(self, session: ShellSession, channel: ShellChannel, *, has_input: bool) -> None:
        self.has_input = has_input
        self.transport = session.transport
        self._session, self._channel = session, channel
        self._most = channel.connection.server.bounds.output
        #: Output that is to be sent.
        self._held = bytearray()
        self._reading = False

    @property
    def user(self) -> User:
        return self._session.user

    def allows(self, command: str) -> bool:
        return self._session.allows(command)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.flush()
        return self._session.call(function, *args, **kwargs)

    def out(self, text: str) -> None:
        """Write to standard output. Small texts are sent together: each packet costs time. Raises DisconnectedError."""
        self._held += encoded(text)
        if len(self._held) >= self._most:
            self.flush()

    def err(self, text: str) -> None:
        self.flush()
        self._channel.write_error(encoded(text))

    def lines(self) -> Iterator[bytes]:
        self._reading = True
        while self.has_input and (line := self._line()) is not None:
            yield line

    def pause(self, seconds: float) -> Signal | None:
        self.flush()
        return self._channel.input.wait(seconds, _BACKGROUND if self.has_input and not self._reading else None)

    def prompt(self, text: str, *, echo: bool = True) -> str:
        raise ShellError("There is no terminal to ask at: connect with ssh -t")

    def flush(self) -> None:
        """Send the output that is held. Raises DisconnectedError, InterruptedByUserError."""
        data = bytes(self._held)
        self._held.clear()
        if self._channel.input.interrupted():
            raise InterruptedByUserError
        if data:
            self._channel.write(data)

    def _line(self) -> bytes | None:
        self.flush()
        return self._channel.read_line()
