"""The caller of a command: the user, the channels, and the way to the services.

Each way in makes a context: the ssh server (`server/`), the terminal (`terminal/`), and `POST /shell` (`https.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import ParamSpec, Protocol, TypeVar

from identity.models import User

P = ParamSpec("P")
T = TypeVar("T")


class Signal(Enum):
    """Why a pause ended before its time."""

    INTERRUPT = auto()  # CTRL-C
    BACKGROUND = auto()  # the user typed `bg`
    DISCONNECTED = auto()


class Caller(Protocol):
    """The part of a context that all commands of one session share. The terminal makes its contexts of it."""

    @property
    def user(self) -> User:
        """The user as the session knows them now."""

    #: How the user reached the shell, for `transfer -g` and the like: "ssh" or "https".
    transport: str

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses the database or an endpoint; only within it may rows be read.

        The number of such calls at one time is bounded, and none holds a connection of the database afterwards.
        """

    def allows(self, command: str) -> bool:
        """Whether the key of this session may call this command."""


class Context(Caller, Protocol):
    """The caller of one command."""

    #: Whether a person sits at a terminal: prompts are possible.
    interactive: bool
    #: Whether the command may read `lines`: from a pipe or as a person types them, but not from a list of commands.
    has_input: bool

    @property
    def columns(self) -> int | None:
        """The columns of the terminal now; None if there is no terminal, or it has not said."""

    def out(self, text: str) -> None:
        """Write to standard output; lines end with \\n.

        Raises DisconnectedError, and InterruptedByUserError where CTRL-C stops a long output.
        """

    def err(self, text: str) -> None:
        """Write to standard error. Raises DisconnectedError."""

    def lines(self) -> Iterator[bytes]:
        """The lines of standard input without line ends, read as they arrive. None where `has_input` is False.

        Raises UsageError where a line is longer than `words.MAX_LINE`, DisconnectedError.
        """

    def pause(self, seconds: float) -> Signal | None:
        """Wait; None when the time is over. Nothing is held meanwhile."""

    def prompt(self, text: str, *, echo: bool = True) -> str:
        """Ask the person at the terminal. Raises ShellError where `interactive` is False, InterruptedByUserError."""
