"""The interactive mode: welcome, prompt, lines that run, Ctrl-C, and one command with a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import pytest

from identity.models import User
from transferapi.shell.command import COMMANDS, HELP, Heading, ShellCommand
from transferapi.shell.context import Context, Signal
from transferapi.shell.foreground import Progress, follow
from transferapi.shell.options import Arguments
from transferapi.shell.terminal import session

P = ParamSpec("P")
T = TypeVar("T")

WELCOME = "Welcome to waybill.example, joe. Type 'help' for help."


class Terminal:
    """The client's side: parts of input that arrive one after the other, and all that was written."""

    def __init__(self, *parts: bytes, term: str = "xterm") -> None:
        self._parts = iter(parts)
        self.term = term
        self.sent = b""

    def read(self, timeout: float | None) -> bytes | None:
        return next(self._parts, b"")

    def write(self, data: bytes) -> None:
        self.sent += data

    def size(self) -> tuple[int, int]:
        return 80, 24


class Joe:
    """A caller who may use every command but `man`."""

    user = User(username="joe")
    transport = "ssh"

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    def allows(self, command: str) -> bool:
        return command != "man"


def talk(*parts: bytes, **more: Any) -> tuple[int, list[str]]:
    """The exit status and the lines on the terminal."""
    terminal = Terminal(*parts, **more)
    status = session.run(terminal, Joe(), site="waybill.example")
    return status, terminal.sent.decode().split("\r\n")


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Context], int | None]], None]:
    """Adds a command for the duration of a test."""

    def add(name: str, run: Callable[[Context], int | None]) -> None:
        def with_arguments(context: Context, arguments: Arguments) -> int | None:
            return run(context)

        monkeypatch.setitem(COMMANDS, name, ShellCommand(name, "", Heading.OTHER, "A test", (HELP,), with_arguments))

    return add


def test_a_session_begins_with_the_welcome_and_the_prompt_and_echoes() -> None:
    assert talk(b"nonsense\r", b"exit\r") == (
        2,
        [WELCOME, "$ nonsense", "Error: No such command 'nonsense': type 'help' for the commands", "$ exit", ""],
    )


@pytest.mark.parametrize("way", [b"exit\r", b"quit\r", b"logout\n", b"\x04", b""])
def test_exit_quit_logout_ctrl_d_and_the_end_of_input_leave(way: bytes) -> None:
    status, lines = talk(*filter(None, [b"help\r", way, b"never\r" if way else b""]))
    assert status == 0
    assert "never" not in "".join(lines)


def test_the_lines_of_a_command_end_with_cr_lf() -> None:
    terminal = Terminal(b"help\r", b"exit\r")
    session.run(terminal, Joe(), site="waybill.example")
    assert terminal.sent.count(b"\n") == terminal.sent.count(b"\r\n")


def test_a_key_that_restricts_commands_restricts_completion_too() -> None:
    assert talk(b"ma", b"\t", b"\x03", b"exit\r")[1][1] == "$ ma\a^C"
    assert talk(b"qu", b"\t", b"\x03", b"he", b"\t", b"\r", b"exit\r")[1][1:3] == ["$ qu\a^C", "$ help "]


def test_a_question_is_asked_without_echo_and_its_answer_is_not_in_the_history(
    declare: Callable[[str, Callable[[Context], int | None]], None],
) -> None:
    answers = []

    def ask(context: Context) -> None:
        answers.append(context.prompt("Passphrase: ", echo=False))

    declare("ask", ask)
    status, lines = talk(b"ask\r", b"secret\r", b"\x1b[A\x1b[A\r", b"again\r", b"exit\r")
    assert answers == ["secret", "again"]
    assert lines == [WELCOME, "$ ask", "Passphrase: ", "$ \aask", "Passphrase: ", "$ exit", ""]
    assert status == 0


def test_ctrl_c_at_a_question_ends_the_command(
    declare: Callable[[str, Callable[[Context], int | None]], None],
) -> None:
    def ask(context: Context) -> None:
        context.prompt("User name: ")

    declare("ask", ask)
    assert talk(b"ask\r", b"jo\x03")[1] == [WELCOME, "$ ask", "User name: jo^C", "$ ", ""]
    assert session.run_line(Terminal(b"\x03"), Joe(), "ask") == 130


@pytest.mark.parametrize(
    ("typed", "signal", "rest"),
    [
        (b"\x03", Signal.INTERRUPT, ["$ "]),
        (b"bg\r", Signal.BACKGROUND, ["$ "]),
        (b"help -h\rexit\r\x03", Signal.INTERRUPT, ["$ "]),
        (b"bg\nexit\n", Signal.BACKGROUND, ["$ exit"]),
        (b"x\x1a", Signal.BACKGROUND, ["$ "]),
    ],
)
def test_ctrl_c_and_bg_reach_a_command_that_waits(
    declare: Callable[[str, Callable[[Context], int | None]], None],
    typed: bytes,
    signal: Signal,
    rest: list[str],
) -> None:
    ends = []

    def wait(context: Context) -> None:
        ends.append(follow(context, lambda: Progress(1, 2, 3.0, ended=False)))

    declare("wait-for-it", wait)
    _, lines = talk(b"wait-for-it\r", typed)
    assert [end.name for end in ends] == [signal.name]
    typed_for_them = " bg" if b"\x1a" in typed else ""
    assert lines[2:] == [f"\r[{'X' * 31}{'':32}] 1/2 3.00 mbps{typed_for_them}", *rest, ""]


def test_ctrl_c_stops_a_long_output(declare: Callable[[str, Callable[[Context], int | None]], None]) -> None:
    written = []

    def write(context: Context) -> None:
        for number in range(100_000):
            context.out("x" * 99 + "\n")
            written.append(number)

    declare("write", write)
    status, lines = talk(b"write\r", b"\x03")
    assert status == 130
    assert len(written) < 1000
    assert lines[-2] == "$ "


def test_one_command_with_a_terminal_has_no_prompt_and_no_welcome() -> None:
    terminal = Terminal()
    assert session.run_line(terminal, Joe(), "nonsense\n") == 2
    assert terminal.sent == b"Error: No such command 'nonsense': type 'help' for the commands\r\n"
    assert session.run_line(terminal, Joe(), "exit") == 0


def test_a_list_is_typed_line_by_line_and_ends_with_ctrl_d(
    declare: Callable[[str, Callable[[Context], int | None]], None],
) -> None:
    lists: list[list[bytes]] = []
    declare("list-it", lambda context: lists.append(list(context.lines())))
    status, lines = talk(b"list-it\r", b"a/x b/y\rc/\xff d\r", b"\x04", b"\x1b[A\r", b"half\x03", b"exit\r")
    assert lists == [[b"a/x b/y", b"c/\xff d"]]
    hint = "Type one item a line. CTRL-D on an empty line ends the list, CTRL-C gives it up."
    assert lines[1:6] == ["$ list-it", hint, "> a/x b/y", "> c/\N{REPLACEMENT CHARACTER} d", "> "]
    assert lines[6:] == ["$ list-it", hint, "> half^C", "$ exit", ""]
    assert status == 130
    terminal = Terminal(b"a b\n", b"c d")
    session.run_line(terminal, Joe(), "list-it")
    assert lists[-1] == [b"a b", b"c d"]
    assert terminal.sent == b"a b\r\nc d\r\n\r\n"


def test_too_much_that_is_typed_ahead_is_dropped_with_a_message(
    declare: Callable[[str, Callable[[Context], int | None]], None],
) -> None:
    def wait(context: Context) -> None:
        assert context.pause(60) is Signal.INTERRUPT

    declare("wait-for-it", wait)
    lines = talk(b"wait-for-it\r", *[b"exit\r" * 5000] * 4, b"\x03", b"help exit\r")[1]
    assert lines[2] == "Error: too much was typed ahead while the command ran; nothing of it was run"
    assert lines[3] == "$ help exit"
