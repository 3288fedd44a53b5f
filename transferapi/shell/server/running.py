"""Runs the commands of one channel in a thread: one command, a list of commands on the input, or a terminal."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings

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

from .pipe_context import PipeContext
from .protocol import ShellChannel
from .session import ShellSession

if TYPE_CHECKING:
    from .connection import ShellConnection

log = logging.getLogger(__name__)
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
