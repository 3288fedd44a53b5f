"""One ssh connection: its transport and channels, its sign-in, and what its client may ask for.

Paramiko believes the length of a packet before the client has signed in, reads a first line without end, does not
check that a client keeps to its window, and remembers every channel. Each of these is bounded here. Paramiko takes the
guess of a client for its answer; RFC 4253, 7.1, is kept here.

The commands of a channel run in a thread of it; `session` has their work.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import paramiko
from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_REQUEST,
    MSG_CHANNEL_WINDOW_ADJUST,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_RESOURCE_SHORTAGE,
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

from identity import audit, ssh_keys
from identity.networks import network_of
from transferapi.shell.context import Signal
from transferapi.shell.errors import DisconnectedError
from transferapi.tasks.upkeep import tallies

from . import session
from .admission import FailureLog, ShellConnectionLimits, Ticket
from .bounds import ShellBounds
from .calls import Calls
from .input import ChannelInput
from .key_exchanges import KeyExchanges
from .session import ShellSession, Work
from .sign_in import Answer, ShellLogin, ShellSignIn

log = logging.getLogger(__name__)
METHODS = "publickey,keyboard-interactive"
#: The identification of programs that show the standard error of a subsystem: `sftp`, `scp`, `psftp`, `pscp`.
_PROGRAMS_OF_PEOPLE = ("OpenSSH_", "PuTTY")
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


@dataclass
class ServerState:
    """The parts of a server that all its connections share: its key, its limits, and the threads for calls."""

    host_key: paramiko.PKey
    bounds: ShellBounds
    admission: ShellConnectionLimits
    calls: Calls
    sign_ins: Calls
    failures: FailureLog
    key_exchanges: KeyExchanges


class ShellConnection(paramiko.ServerInterface):
    """The thread of its transport calls the `check_...` methods; the others may be called by any thread.

    gone: called once with the connection, when the connection has ended.
    The base class refuses what is not here: the methods `none` and `password`, variables, forwarded ports.
    """

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        server: ServerState,
        ticket: Ticket,
        gone: Callable[[ShellConnection], object],
    ) -> None:
        self.server, self.ticket, self._gone = server, ticket, gone
        self.address = address
        self.network = network_of(address)
        self.began = self._active = time.monotonic()
        self.session: ShellSession | None = None
        self._sign_in = ShellSignIn(self._call_for_sign_in, address, server.bounds.attempts)
        self._channels: dict[int, ShellChannel] = {}
        self._over = self._ending = False
        self.transport = ShellTransport(sock, self)

    # ---- its life

    def start(self) -> None:
        # With an event, paramiko does not wait for the key exchange.
        self.transport.start_server(event=threading.Event(), server=self)

    def touch(self) -> None:
        """The user or a command has done something."""
        self._active = time.monotonic()

    def end(self, reason: str = "") -> None:
        """Close the connection, after a message with the reason, if there is one."""
        self._ending = True
        if reason:
            self.transport.disconnect(BY_APPLICATION, reason)
        else:
            self.transport.hang_up()

    def overdue(self, now: float) -> str | None:
        """The reason for which this connection must end now; "": without a message. None if it may go on."""
        bounds = self.server.bounds
        since = self.transport.bounded.writing_since
        if since is not None and now - since > bounds.write_seconds:
            return ""
        if self.session is None:
            limit = bounds.sign_in_seconds if self.transport.initial_kex_done else bounds.handshake_seconds
            return "" if now - self.began > limit else None
        if now - self._active > bounds.idle_seconds:
            return f"Nothing has happened here for {bounds.idle_seconds / 60:.0f} minutes"
        if now - self.began > bounds.session_seconds:
            return f"A session lasts at most {bounds.session_seconds / 3600:.0f} hours; tasks go on"
        return None

    def may_exchange_keys(self) -> bool:
        """Wait for the turn of this client's next key exchange. False: the connection is to end."""
        admission, ticket = self.server.admission, self.ticket
        return self.server.key_exchanges.wait(self.network, lambda: admission.is_stranger(ticket) and not self._ending)

    def signed_in(self) -> None:
        """The transport has verified the sign-in."""
        login = self._sign_in.login
        assert login is not None
        if not self.server.admission.sign_in(self.ticket, login.user.pk):
            tallies.add("shell_sign_ins", "crowded")
            self.transport.disconnect(TOO_MANY_CONNECTIONS, "There are too many sessions; close some, or try later")
            return
        tallies.add("shell_sign_ins", "accepted")
        self.session = ShellSession(login, self.address, self.server.calls, self.touch)
        self.transport.set_keepalive(self.server.bounds.keepalive_seconds)
        log.info("ssh: %s signed in by %s from %s", quote(login.user.username), login.method, self.address)
        with contextlib.suppress(Exception):
            self.server.sign_ins.call(login.user.pk, lambda: _note(login, self.address))

    def ended(self) -> None:
        """The transport's thread is over; a second call has no effect."""
        if self._over:
            return
        self._over = True
        for number in list(self._channels):
            self.closed(number)
        self.server.admission.leave(self.ticket)
        self._gone(self)
        if self.session is None:
            self.server.failures.failed(self.network, self._failure())
        else:
            log.info(
                "ssh: %s from %s has left after %.0f s and %d commands",
                quote(self.session.user.username), self.address, time.monotonic() - self.began, self.session.commands,
            )  # fmt: skip

    def _failure(self) -> str:
        if not self.transport.initial_kex_done:
            return "no key exchange"
        return self._sign_in.refusal or "not signed in"

    # ---- sign-in

    def _call_for_sign_in(self, function: Callable[[], Answer]) -> Answer:
        return self.server.sign_ins.call(self.network, function)

    def get_allowed_auths(self, username: str) -> str:
        return METHODS

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        answer = self._checked(self._sign_in.with_key(username, key.asbytes()))
        assert isinstance(answer, int)
        return answer

    def check_auth_interactive(self, username: str, submethods: str) -> Answer:
        return self._checked(self._sign_in.with_questions(username))

    def check_auth_interactive_response(self, responses: list[str]) -> Answer:
        return self._checked(self._sign_in.answered(responses))

    def _checked(self, answer: Answer) -> Answer:
        if self._sign_in.refusal:
            self.end(self._sign_in.refusal)
        return answer

    # ---- channels

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if self.session is None or kind != "session":
            return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        if len(self._channels) >= self.server.bounds.channels:
            return OPEN_FAILED_RESOURCE_SHORTAGE
        if not self.server.admission.open_channel(self.session.user.pk):
            return OPEN_FAILED_RESOURCE_SHORTAGE
        return OPEN_SUCCEEDED

    def opened(self, channel: ShellChannel) -> None:
        self.touch()
        self._channels[channel.chanid] = channel

    def closed(self, number: int) -> None:
        """The channel has gone; a second call has no effect."""
        if (channel := self._channels.get(number)) is not None:
            channel.gone = True
            self.release(channel)

    def release(self, channel: ShellChannel) -> None:
        """Count the channel no more where it has gone and its command has ended: until then it has a thread."""
        if not channel.gone or channel.working or self._channels.pop(channel.chanid, None) is None:
            return
        if self.session is not None:
            self.server.admission.close_channel(self.session.user.pk)

    def check_channel_pty_request(
        self, channel: Any, term: bytes, width: int, height: int, pixelwidth: int, pixelheight: int, modes: bytes
    ) -> bool:
        if channel.started:
            return False
        name = term.decode("ascii", "replace")
        channel.has_terminal = True
        channel.term = name if len(name) <= 64 and name.isprintable() else ""
        channel.window = _window(width, height)
        return True

    def check_channel_window_change_request(
        self, channel: Any, width: int, height: int, pixelwidth: int, pixelheight: int
    ) -> bool:
        channel.window = _window(width, height)
        channel.input.resize()
        return True

    def check_channel_exec_request(self, channel: Any, command: bytes) -> bool:
        return self._begin(channel, partial(session.run_command, command))

    def check_channel_shell_request(self, channel: Any) -> bool:
        return self._begin(channel, session.run_shell)

    def check_channel_subsystem_request(self, channel: Any, name: str) -> bool:
        """There is none. Libraries are refused (RFC 4254, 6.5): libssh2 waits without end where a subsystem is accepted
        and ends. A program shows a text only where it is accepted; one that wants no answer sees only the end.
        """
        program = self.transport.remote_version.removeprefix("SSH-2.0-")
        shows_text = program.startswith(_PROGRAMS_OF_PEOPLE) or not channel.wants_answer
        return shows_text and self._begin(channel, session.refuse_subsystem)

    def check_channel_x11_request(self, *_: Any) -> bool:
        """Nothing is forwarded, but OpenSSH would complain of a refusal on standard error, where scripts see it."""
        return True

    def check_channel_forward_agent_request(self, channel: Any) -> bool:
        """The same as for X11."""
        return True

    def _begin(self, channel: ShellChannel, work: Work) -> bool:
        """Prepare the thread of this channel, which starts after the answer.

        False if it has one or nobody has signed in.
        """
        if channel.started or self.session is None:
            return False
        channel.started = True
        target = partial(_run, self.session, channel, work)
        channel.pending = threading.Thread(target=target, name="command", daemon=True)
        return True


def _window(width: int, height: int) -> tuple[int, int]:
    return min(width, 10_000), min(height, 10_000)


def _note(login: ShellLogin, address: str) -> None:
    """Record the sign-in, and the use of the key. With the database."""
    if login.key is not None:
        ssh_keys.used(login.key)
    fingerprint = login.key.fingerprint if login.key else ""
    way = "ssh key" if login.key else "ssh"
    facts = {"key": fingerprint, "second_factor": "code" if login.with_code else ""}
    audit.record(audit.What.SIGNED_IN, login.user, facts, way=way, address=address)


def _run(caller: ShellSession, channel: ShellChannel, work: Work) -> None:
    status = session.FAILED
    try:
        status = work(caller, channel)
    except DisconnectedError:
        pass
    except Exception:
        log.exception("ssh: a session failed")
    finally:
        channel.finish(status)
        channel.ended()


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
        #: Called before a key exchange of a client that has not signed in; False: the connection is to end.
        self.may_exchange_keys: Callable[[], bool] = lambda: True

    def read_message(self) -> tuple[int, Message]:
        kind, message = super().read_message()
        if self.ignore_guess and kind in _KEY_EXCHANGE_MESSAGES:
            self.ignore_guess = False
            kind, message = super().read_message()
        if kind in _KEY_EXCHANGE_MESSAGES and self.left is not None and not self.may_exchange_keys():
            raise SSHException("the connection has ended before its key exchange")
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
        self.bounds = connection.server.bounds
        self._room = self.bounds.window

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
        self.bounds = bounds = connection.server.bounds
        super().__init__(sock, bounds.window, bounds.packet, packetizer_class=BoundedPacketizer)
        self.connection = connection
        assert isinstance(self.packetizer, BoundedPacketizer)
        self.bounded = self.packetizer
        self.bounded.may_exchange_keys = connection.may_exchange_keys
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
        if self._ever < self.bounds.channels_ever:
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
        channel.settimeout(self.bounds.write_seconds)
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
