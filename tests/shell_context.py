"""A caller of shell commands for tests: it runs lines in this process, against the test database, and keeps the output.

shell = Shell(alice)
shell.ok("transfer -- ep1/a ep2/b")          # standard output; fails where the status is not 0
shell.run("rm ep1/x").err                     # status, out and err
shell.run("transfer", lines=["ep1/a ep2/b"])  # with standard input
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from identity.models import User
from transferapi.shell import interpreter, words
from transferapi.shell.context import Signal
from transferapi.shell.errors import DisconnectedError, InterruptedByUserError, ShellError, UsageError

P = ParamSpec("P")
T = TypeVar("T")

#: Called in each pause of a command; returns the signal that ends the pause, or None.
Pause = Callable[[], Signal | None]


@dataclass(frozen=True, slots=True)
class Result:
    """The exit status and the output of one line."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class ShellContext:
    """The context of one line. It has the same bounds as the real ones."""

    def __init__(self, shell: Shell, lines: Iterable[str | bytes] | None) -> None:
        self.user = shell.user
        self.interactive = shell.interactive
        self.columns: int | None = shell.columns
        self.has_input = lines is not None
        self.transport = shell.transport
        self.written: list[str] = []
        self.errors: list[str] = []
        self._shell = shell
        self._lines = lines
        #: Calls that are in progress: output and input within one would hold a connection of the database.
        self._calls = 0

    def out(self, text: str) -> None:
        self._outside("out")
        self._check_connection()
        self.written.append(text)

    def err(self, text: str) -> None:
        self._outside("err")
        self._check_connection()
        self.errors.append(text)

    def lines(self) -> Iterator[bytes]:
        assert self._lines is not None, "a command without standard input reads it"
        for line in self._lines:
            self._outside("lines")
            octets = line.encode("utf-8", "surrogateescape") if isinstance(line, str) else line
            if len(octets) > words.MAX_LINE:
                raise UsageError(f"a line is longer than {words.MAX_LINE} octets")
            yield octets

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._outside("call")
        self._calls += 1
        try:
            return function(*args, **kwargs)
        finally:
            self._calls -= 1

    def pause(self, seconds: float) -> Signal | None:
        self._outside("pause")
        self._shell.paused += 1
        assert self._shell.paused < 10_000, "the command waits without end"
        if self._shell.on_pause is not None:
            return self._shell.on_pause()
        time.sleep(min(seconds, 0.2))
        return None

    def prompt(self, text: str, *, echo: bool = True) -> str:
        self._outside("prompt")
        if not self.interactive:
            raise ShellError("there is no terminal to ask at")
        self.written.append(text)
        if not self._shell.answers:
            raise InterruptedByUserError
        answer = self._shell.answers.pop(0)
        self.written.append(f"{answer}\n" if echo else "\n")
        return answer

    def allows(self, command: str) -> bool:
        return self._shell.allowed is None or command in self._shell.allowed

    def _outside(self, what: str) -> None:
        assert not self._calls, f"{what} within a call holds a connection of the database"

    def _check_connection(self) -> None:
        if self._shell.disconnected:
            raise DisconnectedError


class Shell:
    """A session of one user. Set its attributes between the lines."""

    def __init__(self, user: User, *, interactive: bool = False, transport: str = "ssh") -> None:
        self.user = user
        self.interactive = interactive
        self.columns: int | None = None
        self.transport = transport
        #: None: a pause lasts at most 0.2 seconds and gets no signal.
        self.on_pause: Pause | None = None
        #: The answers to prompts, in their order; without one left, the user presses CTRL-C.
        self.answers: list[str] = []
        #: The commands that the key permits; None: all.
        self.allowed: set[str] | None = None
        #: The client has gone: output raises DisconnectedError.
        self.disconnected = False
        self.paused = 0

    def run(self, line: str, lines: Iterable[str | bytes] | None = None) -> Result:
        """Run one line. lines: standard input without line ends; None if there is none."""
        self.paused = 0
        context = ShellContext(self, lines)
        status = interpreter.run(line, context)
        return Result(status, "".join(context.written), "".join(context.errors))

    def ok(self, line: str, lines: Iterable[str | bytes] | None = None) -> str:
        """The standard output of a line that must succeed, without a word on standard error."""
        found = self.run(line, lines)
        assert (found.status, found.err) == (0, ""), found
        return found.out

    def fails(self, line: str, lines: Iterable[str | bytes] | None = None, *, status: int = 1) -> str:
        """The standard error of a line that must fail with this status, without a word on standard output."""
        found = self.run(line, lines)
        assert (found.status, found.out) == (status, ""), found
        return found.err
