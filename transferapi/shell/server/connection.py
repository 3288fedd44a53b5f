"""One connection: its sign-in, its channels, and what its client may ask for.

The commands of a channel run in a thread: one command, a list of commands on the input, or a terminal.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import paramiko
from django.conf import settings
from paramiko.common import OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED, OPEN_FAILED_RESOURCE_SHORTAGE, OPEN_SUCCEEDED

from identity import audit, ssh_keys
from identity.networks import network_of
from transferapi.shell import interpreter
from transferapi.shell.errors import (
    INTERRUPTED,
    OK,
    USAGE,
    DisconnectedError,
    InterruptedByUserError,
    SessionEndedError,
    UsageError,
)
from transferapi.shell.terminal import session as terminal
from transferapi.shell.words import MAX_LINE
from transferapi.tasks.upkeep import tallies

from .channel import BY_APPLICATION, TOO_MANY_CONNECTIONS, PipeContext, ShellChannel, ShellSession, ShellTransport
from .sign_in import Answer, ShellLogin, ShellSignIn

if TYPE_CHECKING:
    from .admission import Ticket
    from .listener import Listener

log = logging.getLogger(__name__)
METHODS = "publickey,keyboard-interactive"
#: The identification of programs that show the standard error of a subsystem: `sftp`, `scp`, `psftp`, `pscp`.
_PROGRAMS_OF_PEOPLE = ("OpenSSH_", "PuTTY")


class ShellConnection(paramiko.ServerInterface):
    """The thread of its transport calls the `check_...` methods; the others may be called by any thread.

    The base class refuses what is not here: the methods `none` and `password`, variables, forwarded ports.
    """

    def __init__(self, sock: socket.socket, address: str, server: Listener, ticket: Ticket) -> None:
        self.server, self.ticket = server, ticket
        self.address = address
        self.network = network_of(address)
        self.began = self._active = time.monotonic()
        self.session: ShellSession | None = None
        self._sign_in = ShellSignIn(self._call_for_sign_in, address, server.bounds.attempts)
        self._channels: dict[int, ShellChannel] = {}
        self._over = False
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
        if reason:
            self.transport.disconnect(BY_APPLICATION, reason)
        else:
            self.transport.hang_up()

    def overdue(self, now: float) -> str | None:
        """The reason for which this connection must end now; "": without a message. None: it may go on."""
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
        self.server.gone(self)
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
        return begin(self, channel, partial(run_command, command))

    def check_channel_shell_request(self, channel: Any) -> bool:
        return begin(self, channel, run_shell)

    def check_channel_subsystem_request(self, channel: Any, name: str) -> bool:
        """There is none. Libraries are refused (RFC 4254, 6.5): libssh2 waits without end where a subsystem is accepted
        and ends. A program shows a text only where it is accepted; one that wants no answer sees only the end.
        """
        program = self.transport.remote_version.removeprefix("SSH-2.0-")
        shows_text = program.startswith(_PROGRAMS_OF_PEOPLE) or not channel.wants_answer
        return shows_text and begin(self, channel, refuse_subsystem)

    def check_channel_x11_request(self, *_: Any) -> bool:
        """Nothing is forwarded, but OpenSSH would complain of a refusal on standard error, where scripts see it."""
        return True

    def check_channel_forward_agent_request(self, channel: Any) -> bool:
        """The same as for X11."""
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


#: For a command that failed because of an error in our code.
_FAILED = 1
_TAKES_NO_FILES = (
    b"Error: This server has no sftp and takes no files: the command 'scp' of its shell copies files between "
    b"endpoints. See: ssh HOST man scp\n"
)
#: The command that a client of the protocol of rcp runs at the server (`scp -O`, `pscp -scp`, libraries). The command
#: `scp` of this shell has neither -t (to) nor -f (from).
_RCP = re.compile(rb"\s*scp(\s+-[dpqrv]+)*\s+-[dpqrv]*[tf][dpqrv]*(\s|$)")
#: How that protocol begins an error that ends it; the text is shown to the user, to the end of the line.
_RCP_ERROR = b"\x02"
#: The work of a channel; it returns the exit status.
Work = Callable[[ShellSession, ShellChannel], int]


def begin(connection: ShellConnection, channel: ShellChannel, work: Work) -> bool:
    """Prepare the thread of this channel, which starts after the answer; False: it has one, or nobody has signed in."""
    session = connection.session
    if channel.started or session is None:
        return False
    channel.started = True
    channel.pending = threading.Thread(target=_run, args=(session, channel, work), name="command", daemon=True)
    return True


def _run(session: ShellSession, channel: ShellChannel, work: Work) -> None:
    status = _FAILED
    try:
        status = work(session, channel)
    except DisconnectedError:
        pass
    except Exception:
        log.exception("ssh: a session failed")
    finally:
        channel.finish(status)
        channel.ended()


def run_command(command: bytes, session: ShellSession, channel: ShellChannel) -> int:
    """The one command of the channel."""
    if len(command) > MAX_LINE:
        channel.write_error(f"Error: the command is longer than {MAX_LINE} octets\n".encode())
        return USAGE
    if channel.has_terminal:
        return terminal.run_line(channel, session, _text(command))
    if _RCP.match(command):
        return _refuse_rcp(channel)
    return _one(PipeContext(session, channel, has_input=True), _text(command), OK)


def _refuse_rcp(channel: ShellChannel) -> int:
    """Send the error of the protocol, and let the client end first, at most `client_end_seconds` later.

    PuTTY looks whether the channel has ended before it reads what arrived: with the end at once, it shows no text.
    """
    channel.write(_RCP_ERROR + _TAKES_NO_FILES)
    until = time.monotonic() + channel.connection.server.bounds.client_end_seconds
    while (left := until - time.monotonic()) > 0 and channel.read(left) != b"":
        pass
    return _FAILED


def run_shell(session: ShellSession, channel: ShellChannel) -> int:
    """At a terminal, a person types; otherwise each line of the input is a command."""
    if channel.has_terminal:
        return terminal.run(channel, session, site=_site())
    return _list(session, channel)


def refuse_subsystem(session: ShellSession, channel: ShellChannel) -> int:
    """The client asked for a subsystem, such as sftp."""
    channel.write_error(_TAKES_NO_FILES)
    return _FAILED


def _site() -> str:
    """The name of this service in the line of welcome."""
    return urlsplit(settings.PUBLIC_URL).hostname or "Waybill"


def _list(session: ShellSession, channel: ShellChannel) -> int:
    """Run each line of the input; the exit status is that of the last command."""
    context = PipeContext(session, channel, has_input=False)
    status = OK
    try:
        while (line := _next_line(context, channel)) is not None:
            status = _one(context, line, status)
    except SessionEndedError:
        pass
    return status


def _next_line(context: PipeContext, channel: ShellChannel) -> str | None:
    while True:
        try:
            line = channel.read_line()
            return None if line is None else _text(line)
        except UsageError as error:
            context.err(f"Error: {error.message}\n")
            channel.skip_line()
        except InterruptedByUserError:
            pass


def _one(context: PipeContext, line: str, before: int) -> int:
    """The exit status of one line; an empty one keeps the status of the command before."""
    if not line.strip():
        return before
    try:
        status = interpreter.run(line, context)
    except SessionEndedError:
        context.flush()
        if context.has_input:
            return before
        raise
    try:
        context.flush()
    except InterruptedByUserError:
        return INTERRUPTED
    return status


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")
