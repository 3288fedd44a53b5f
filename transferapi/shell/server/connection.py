"""One connection: its sign-in, its channels, and what its client may ask for."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import paramiko
from paramiko.common import (
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_RESOURCE_SHORTAGE,
    OPEN_SUCCEEDED,
)

from identity import audit, ssh_keys
from identity.networks import network_of
from transferapi.tasks.upkeep import tallies

from . import running
from .protocol import BY_APPLICATION, TOO_MANY_CONNECTIONS, ShellChannel, ShellTransport
from .session import ShellSession
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
        return running.begin(self, channel, partial(running.run_command, command))

    def check_channel_shell_request(self, channel: Any) -> bool:
        return running.begin(self, channel, running.run_shell)

    def check_channel_subsystem_request(self, channel: Any, name: str) -> bool:
        """There is none. Libraries are refused (RFC 4254, 6.5): libssh2 waits without end where a subsystem is accepted
        and ends. A program shows a text only where it is accepted; one that wants no answer sees only the end.
        """
        program = self.transport.remote_version.removeprefix("SSH-2.0-")
        shows_text = program.startswith(_PROGRAMS_OF_PEOPLE) or not channel.wants_answer
        return shows_text and running.begin(self, channel, running.refuse_subsystem)

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
