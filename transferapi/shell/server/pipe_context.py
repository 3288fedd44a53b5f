"""The context of a command without a terminal: output in two streams, input as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from identity.models import User
from transferapi.shell.context import Signal
from transferapi.shell.errors import InterruptedByUserError, ShellError
from transferapi.shell.output import encoded

from .protocol import ShellChannel
from .session import ShellSession

P = ParamSpec("P")
T = TypeVar("T")
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
