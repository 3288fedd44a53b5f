"""The interpreter of the shell: help, manual pages, errors with their exit status, and the forms of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from identity.models import User
from tests.shell_context import Result, Shell
from transferapi.shell.command import COMMANDS, HELP, Heading, ShellCommand, operands
from transferapi.shell.commands.help import WIDTH, manual
from transferapi.shell.context import Context
from transferapi.shell.errors import OperationError, SessionEndedError
from transferapi.shell.options import Arguments, number, option
from transferapi.shell.output import FORM
from transferapi.shell.words import MAX_LINE

JOE = User(username="joe")


def run(line: str, **more: Any) -> Result:
    shell = Shell(JOE)
    for name, value in more.items():
        setattr(shell, name, value)
    return shell.run(line)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command `fail [--perf-p N] OPERAND`."""

    def fail(context: Context, arguments: Arguments) -> None:
        [text] = operands(arguments, 1)
        if text == "operation":
            raise OperationError("Cannot make it", "MKD /x\ny", "Path already exists", "550-a\n550 b", "Exists")
        raise ValueError(f"a secret of {text}")

    options = (option("--perf-p", metavar="N", about="a number", read=number(1, 64)), FORM, HELP)
    monkeypatch.setitem(COMMANDS, "fail", ShellCommand("fail", "OPERAND", Heading.OTHER, "Fail", options, fail))


def test_help_has_two_hints_and_the_three_headings_in_columns() -> None:
    lines = run("help").out.split("\n")
    assert lines[:5] == [
        "Type '<command> -h' for basic help on a command.",
        "Type 'man <command>' for detailed help.",
        "",
        "Task Management       Endpoint Management       Other",
        "---------------       -------------------       -----",
    ]
    columns = [{line[begin:end].strip() for line in lines[5:]} for begin, end in ((0, 22), (22, 48), (48, 80))]
    for heading, names in zip(Heading, columns, strict=True):
        listed = {one.name for one in COMMANDS.values() if one.heading is heading and not one.hidden}
        assert names - {""} == listed, heading
    assert {"exit", "help", "man"} <= columns[2]
    assert not {"quit", "logout"} & columns[2]


def test_help_shows_what_the_key_permits_and_leaving_is_always_permitted() -> None:
    lines = run("help", allowed={"help"}).out.split("\n")
    assert [line.strip() for line in lines[5:]] == ["exit", "help", ""]
    assert run("man help", allowed={"help"}) == Result(
        2, "", "Error: The ssh key of this session does not permit the command 'man'\n"
    )
    with pytest.raises(SessionEndedError):
        run("exit", allowed={"help"})


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_and_a_manual_page_of_79_columns(name: str) -> None:
    command = COMMANDS[name]
    assert run(f"{name} -h") == run(f"{name} --help") == run(f"help {name}")
    assert run(f"{name} -h").out.startswith(f"Usage: {name} {command.usage}".rstrip() + "\n\n")
    page = run(f"man {name}").out
    assert page == manual(command)
    assert len(command.manual) > 40, "the docstring of the command is its manual page"
    assert [line for line in page.splitlines() if len(line) > WIDTH and not line.startswith("Usage: ")] == []


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("nonsense", "Error: No such command 'nonsense': type 'help' for the commands\n"),
        ("hepl", "Error: No such command 'hepl': did you mean 'help'?\n"),
        ("man hepl", "Error: No manual entry for 'hepl'; did you mean 'help'?\n"),
        ("help 'x", "Error: column 6: the quote ' is not closed; write \\' for an apostrophe\n"),
        ("x" * (MAX_LINE + 1), f"Error: the line is longer than {MAX_LINE} octets; nothing of it was run\n"),
        ("\x1b[31m", "Error: No such command '\\x1b[31m': type 'help' for the commands\n"),
        ("man", "Usage: man COMMAND\n\nman: error: an operand is missing\n"),
        ("man ----perf-p", "Usage: man COMMAND\n\nman: error: no such option: ----perf-p (column 5)\n"),
        (
            "man a b",
            "Usage: man COMMAND\n\nman: error: column 7: 'b' is one operand too many; quote a name with blanks\n",
        ),
        (
            "fail --perf-p=6--perf-cc=6 x",
            "Error: Invalid Number '6--perf-cc=6'\n--perf-p takes a number from 1 to 64\n",
        ),
        (
            "fail operation",
            "Error: Cannot make it\nCommand: MKD /x\\ny\nMessage: Path already exists\n"
            "Details: 550-a\nDetails: 550 b\n",
        ),
    ],
)
@pytest.mark.usefixtures("failing")
def test_an_error_is_text_on_standard_error_alone(line: str, error: str) -> None:
    found = run(line)
    assert (found.out, found.err) == ("", error)
    assert found.status == (2 if "Usage:" in error or ": error:" in error else found.status)
    assert found.status in (1, 2)


@pytest.mark.parametrize(
    ("line", "status", "code"),
    [
        ("fail -O json operation", 1, "Exists"),
        ("fail -Ojson a b", 2, "ClientError.BadRequest"),
        ("fail --output-format=json --perf-p=x x", 1, "ClientError.BadRequest"),
    ],
)
@pytest.mark.usefixtures("failing")
def test_an_error_is_a_document_where_the_line_asks_for_json(line: str, status: int, code: str) -> None:
    found = run(line)
    assert (found.status, found.out) == (status, "")
    assert json.loads(found.err)["code"] == code


@pytest.mark.usefixtures("failing")
def test_an_error_of_ours_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    found = run("fail x")
    assert found.status == 1
    assert found.err.startswith("Error: ")
    assert "secret" not in found.err
    assert "the command fail failed" in caplog.text


@given(st.text(), st.sampled_from(["", "help ", "man ", "exit ", "help -", "man --"]))
def test_any_line_ends_with_a_status_and_never_with_that_of_ssh(line: str, begin: str) -> None:
    try:
        found = run(begin + line)
    except SessionEndedError:
        assert line.split()[0:1] in ([], ["exit"], ["quit"], ["logout"])
        return
    assert found.status in (0, 1, 2)
    assert bool(found.err) == (found.status != 0)
