"""The context of a command that a person runs at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from identity.models import User
from transferapi.shell import output
from transferapi.shell.context import Caller, Signal
from transferapi.shell.errors import InterruptedByUserError

from .channel import TerminalChannel
from .editor import Complete, Editor
from .keyboard import Keyboard

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
