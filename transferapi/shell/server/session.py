"""The context of commands: the user with the restrictions of the key, and the input and output of a channel.

`run_command` and `run_shell` are the work of a channel: one command, a list of commands on the input, or a terminal.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import ParamSpec, Protocol, TypeVar
from urllib.parse import urlsplit

from django.conf import settings

from endpoints.error_meanings import TooManyRequests
from endpoints.permissions import restricted_to
from identity import user_names
from identity.call_origin import Origin, comes_from
from identity.models import User
from identity.sign_in_proof import SignInProof, proven_by
from transferapi.rest.http import rate_limit
from transferapi.shell import interpreter
from transferapi.shell.context import Signal
from transferapi.shell.errors import (
    INTERRUPTED,
    OK,
    USAGE,
    InterruptedByUserError,
    SessionEndedError,
    ShellError,
    UsageError,
)
from transferapi.shell.output import encoded
from transferapi.shell.terminal import session as terminal
from transferapi.shell.terminal.keyboard import TerminalChannel
from transferapi.shell.words import MAX_LINE

from .bounds import ShellBounds
from .calls import Calls
from .input import ChannelInput
from .sign_in import ShellLogin

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


class CommandChannel(TerminalChannel, Protocol):
    """A channel as its command uses it. Each method raises DisconnectedError where the connection has ended."""

    input: ChannelInput
    has_terminal: bool
    bounds: ShellBounds

    def read_line(self) -> bytes | None:
        """See `ChannelInput.line`."""

    def skip_line(self) -> None:
        """Drop the rest of a line that is too long."""

    def write_error(self, data: bytes) -> None:
        """Send all of `data` to the standard error of the client."""


#: A line of the input by which the user leaves a foreground command running, as at a terminal.
_BACKGROUND = b"bg"


class PipeContext:
    """See `context.Context`. has_input: the input belongs to the command, and not to a list of commands."""

    interactive = False
    columns = None

    def __init__(self, session: ShellSession, channel: CommandChannel, *, has_input: bool) -> None:
        self.has_input = has_input
        self.transport = session.transport
        self._session, self._channel = session, channel
        self._most = channel.bounds.output
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


#: The exit status of a command that failed because of an error in our code.
FAILED = 1
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
Work = Callable[[ShellSession, CommandChannel], int]


def run_command(command: bytes, session: ShellSession, channel: CommandChannel) -> int:
    """The one command of the channel."""
    if len(command) > MAX_LINE:
        channel.write_error(f"Error: the command is longer than {MAX_LINE} octets\n".encode())
        return USAGE
    if channel.has_terminal:
        return terminal.run_line(channel, session, _text(command))
    if _RCP.match(command):
        return _refuse_rcp(channel)
    return _one(PipeContext(session, channel, has_input=True), _text(command), OK)


def _refuse_rcp(channel: CommandChannel) -> int:
    """Send the error of the protocol, and let the client end first, at most `client_end_seconds` later.

    PuTTY looks whether the channel has ended before it reads what arrived: with the end at once, it shows no text.
    """
    channel.write(_RCP_ERROR + _TAKES_NO_FILES)
    until = time.monotonic() + channel.bounds.client_end_seconds
    while (left := until - time.monotonic()) > 0 and channel.read(left) != b"":
        pass
    return FAILED


def run_shell(session: ShellSession, channel: CommandChannel) -> int:
    """At a terminal, a person types; otherwise each line of the input is a command."""
    if channel.has_terminal:
        return terminal.run(channel, session, site=_site())
    return _list(session, channel)


def refuse_subsystem(session: ShellSession, channel: CommandChannel) -> int:
    """The client asked for a subsystem, such as sftp."""
    channel.write_error(_TAKES_NO_FILES)
    return FAILED


def _site() -> str:
    """The name of this service in the line of welcome."""
    return urlsplit(settings.PUBLIC_URL).hostname or "Waybill"


def _list(session: ShellSession, channel: CommandChannel) -> int:
    """Run each line of the input; the exit status is that of the last command."""
    context = PipeContext(session, channel, has_input=False)
    status = OK
    try:
        while (line := _next_line(context, channel)) is not None:
            status = _one(context, line, status)
    except SessionEndedError:
        pass
    return status


def _next_line(context: PipeContext, channel: CommandChannel) -> str | None:
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
