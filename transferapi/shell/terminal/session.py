"""The interactive mode, one command with a terminal (`ssh -t`), and the context of their commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from identity.models import User
from transferapi.shell import interpreter, output
from transferapi.shell.context import Caller, Context, Signal
from transferapi.shell.errors import OK, InterruptedByUserError, SessionEndedError, UsageError
from transferapi.tasks import maintenance

from .completion import Completer
from .editor import Complete, Editor, History
from .keyboard import Keyboard, TerminalChannel

P = ParamSpec("P")
T = TypeVar("T")

#: After so many characters of output without a pause, CTRL-C stops the command.
_LONG_OUTPUT = 32 << 10


@dataclass(frozen=True, slots=True)
class Typing:
    """How a person is asked for the lines of a list."""

    hint: str = ""
    prompt: str = ""
    complete: Complete | None = None


class TerminalContext:
    """Implements `transferapi.shell.context.Context`. Both outputs go to the terminal."""

    interactive = True
    has_input = True

    def __init__(
        self, channel: TerminalChannel, caller: Caller, keyboard: Keyboard, editor: Editor, typing: Typing
    ) -> None:
        self.transport = caller.transport
        self._typing = typing
        self._caller, self._channel, self._keyboard, self._editor = caller, channel, keyboard, editor
        self._written = 0

    @property
    def user(self) -> User:
        return self._caller.user

    @property
    def columns(self) -> int | None:
        return self._channel.size()[0] or None

    def out(self, text: str) -> None:
        self._channel.write(encoded(text))
        self._written += len(text)
        if self._written > _LONG_OUTPUT:
            self._written = 0
            self._keyboard.check()

    def err(self, text: str) -> None:
        self._channel.write(encoded(text))

    def lines(self) -> Iterator[bytes]:
        """A list that the user types or pastes; CTRL-D on an empty line ends it. It is not in the history."""
        if self._typing.hint:
            self.out(f"{self._typing.hint}\n")
        while True:
            try:
                line = self._editor.read(self._typing.prompt, complete=self._typing.complete)
            except EOFError:
                return
            yield line.encode(errors="surrogateescape")

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._caller.call(function, *args, **kwargs)

    def pause(self, seconds: float) -> Signal | None:
        self._written = 0
        return self._keyboard.watch(seconds)

    def prompt(self, text: str, *, echo: bool = True) -> str:
        """Neither the question nor the answer is kept anywhere."""
        try:
            return self._editor.read(text, echo=echo)
        except EOFError:
            raise InterruptedByUserError from None

    def allows(self, command: str) -> bool:
        return self._caller.allows(command)


def encoded(text: str) -> bytes:
    """For a terminal in raw mode: lines end with CR LF."""
    return output.encoded(text.replace("\n", "\r\n"))


PROMPT = "$ "
_LIST_PROMPT = "> "
_LIST_HINT = "Type one item a line. CTRL-D on an empty line ends the list, CTRL-C gives it up."


def run(channel: TerminalChannel, caller: Caller, *, site: str) -> int:
    """Read lines and run them until the user leaves. site: the name in the line of welcome.

    Returns the exit status, that of the last command. Raises DisconnectedError.
    """
    return _Session(channel, caller, interactive=True).run(site)


def run_line(channel: TerminalChannel, caller: Caller, line: str) -> int:
    """Run one line: no welcome, no prompt; CTRL-C, `bg` and questions as in the interactive mode.

    Returns the exit status. Raises DisconnectedError.
    """
    try:
        return _Session(channel, caller, interactive=False).interpret(line)
    except SessionEndedError:
        return OK


class _Session:
    def __init__(self, channel: TerminalChannel, caller: Caller, *, interactive: bool) -> None:
        self._channel = channel
        self._keyboard = Keyboard(channel)
        self._editor = Editor(channel, self._keyboard)
        completer = Completer(caller)
        self._complete = completer.complete
        typing = Typing(_LIST_HINT, _LIST_PROMPT, completer.complete_item) if interactive else Typing()
        self._context: Context = TerminalContext(channel, caller, self._keyboard, self._editor, typing)
        self._history = History()
        self._status = OK

    def run(self, site: str) -> int:
        self._write(f"Welcome to {site}, {self._context.user.username}. Type 'help' for help.\n")
        if notice := maintenance.current():
            self._write(f"Maintenance: {notice.sentence}\n")
        try:
            while True:
                self._one()
        except (EOFError, SessionEndedError):
            return self._status

    def interpret(self, line: str) -> int:
        return interpreter.run(line, self._context)

    def _one(self) -> None:
        """Read and run one line."""
        try:
            line = self._editor.read(PROMPT, self._history, self._complete)
        except InterruptedByUserError:
            return
        except UsageError as error:
            self._status = error.status
            self._write(f"Error: {error.message}\n")
            return
        self._status = self.interpret(line)
        if self._keyboard.dropped:
            self._keyboard.dropped = False
            self._write("Error: too much was typed ahead while the command ran; nothing of it was run\n")

    def _write(self, text: str) -> None:
        self._channel.write(encoded(text))
