"""The shell's terminal through the real OpenSSH client on a pseudo-terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from endpoints import bookmarks
from identity.models import User
from tests.integration.cast import make_endpoint
from tests.screen import Screen
from tests.servers.shell_server import ShellServer, shell_server

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]


@pytest.fixture
def server(transactional_db: None, redis_server: Any, alice: User, tmp_path: Path) -> Iterator[ShellServer]:
    with shell_server(tmp_path) as running:
        running.add_key(alice)
        yield running


def open_terminal(server: ShellServer, term: str, *words: str, columns: int = 80) -> pexpect.spawn[bytes]:
    command = server.command(*words, options=("-tt",))
    return pexpect.spawn(
        command[0],
        command[1:],
        timeout=30,
        dimensions=(24, columns),
        env={"TERM": term, "PATH": "/usr/bin:/bin"},
        echo=False,
    )


@pytest.fixture
def terminal(server: ShellServer) -> Iterator[pexpect.spawn[bytes]]:
    child = open_terminal(server, "xterm")
    child.expect_exact("Type 'help' for help.\r\n$ ")
    yield child
    child.close(force=True)


def before(child: pexpect.spawn[bytes]) -> bytes:
    """The octets before those that were expected."""
    assert child.before is not None
    return child.before


def screen_after(child: pexpect.spawn[bytes], *, columns: int = 80) -> Screen:
    """The screen when the session has ended; the prompt was there before."""
    screen = Screen(columns, 24)
    child.expect(pexpect.EOF)
    screen.feed(b"$ " + before(child))
    return screen


def test_a_program_finds_its_line_the_output_and_the_prompt(terminal: pexpect.spawn[bytes]) -> None:
    """As programs of that time drove the shell: the line that they typed comes back first."""
    line = "man help " + "x" * 200
    terminal.sendline(line)
    terminal.expect(r"\$ $")
    typed, *output = before(terminal).decode().split("\r\n")
    assert typed == line
    assert output[0] == "Usage: man COMMAND"
    assert b"\x1b" not in before(terminal)


def test_keys_edit_the_line_that_runs(terminal: pexpect.spawn[bytes]) -> None:
    terminal.send("elp exi\x01h\x05t")
    terminal.send("\x1b[D\x1b[D\x1b[D\x1b[D\x1b[D\x1b[C\x1b[3~e")
    terminal.send("\rexit\r")
    assert screen_after(terminal).lines()[:2] == ["$ help exit", "Usage: exit"]


def test_tab_completes_commands_endpoints_and_bookmarks(terminal: pexpect.spawn[bytes], alice: User) -> None:
    make_endpoint(alice, "laboratory")
    bookmarks.create(alice, name="bench", endpoint="laboratory", path="/data/")
    terminal.send("endpoint-det\t")
    terminal.expect_exact("endpoint-details ")
    terminal.send("lab\t")
    terminal.expect_exact("laboratory ")
    terminal.send("\x15ls ^b\t")
    terminal.expect_exact("^bench/")
    terminal.send("\x03exit\r")
    terminal.expect(pexpect.EOF)


def test_a_pasted_block_runs_line_by_line(terminal: pexpect.spawn[bytes]) -> None:
    terminal.send("\x1b[200~nonsense1\rnonsense2\rnonsense3\r\x1b[201~exit\r")
    errors = [line for line in screen_after(terminal).lines() if line.startswith("Error")]
    assert [error.split("'")[1] for error in errors] == ["nonsense1", "nonsense2", "nonsense3"]


def test_ctrl_c_and_ctrl_z_leave_the_session_in_place(terminal: pexpect.spawn[bytes]) -> None:
    terminal.send("abc\x03")
    terminal.expect_exact("abc^C\r\n$ ")
    terminal.send("hel\x1ap exit\r")
    terminal.expect_exact("Usage: exit")
    terminal.send("\x04")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_a_plain_terminal_gets_no_escape_sequence(server: ShellServer, term: str) -> None:
    child = open_terminal(server, term, columns=40)
    child.expect_exact("$ ")
    child.send("x" * 60)
    child.expect_exact("x" * 60)
    child.send("\x01")
    child.expect_exact("\r")
    child.send("\x0b\x12\x07help exi\x02\x02\x02\x05t\x1b[A\x1b[B\rexit\r")
    child.expect(pexpect.EOF)
    assert (b"\x1b" in before(child)) == (term == "xterm")
    assert b"Usage: exit\r\n" in before(child)


def test_the_window_may_change_its_width(terminal: pexpect.spawn[bytes]) -> None:
    terminal.send("y" * 100)
    terminal.expect_exact("y" * 100)
    terminal.setwinsize(24, 50)
    # The terminal itself would have wrapped the line to three rows: the line is drawn anew from two rows above.
    terminal.expect_exact("\r\x1b[2A\x1b[J$ " + "y" * 100)
    terminal.send("\x03exit\r")
    terminal.expect(pexpect.EOF)


def test_a_question_needs_a_terminal_and_a_passphrase_is_not_echoed(server: ShellServer, alice: User) -> None:
    make_endpoint(alice, "grid", scheme="gsiftp")
    child = open_terminal(server, "xterm", "endpoint-activate", "-m", "myproxy.invalid", "grid")
    child.expect_exact("Username at myproxy.invalid: ")
    child.sendline("alice")
    child.expect_exact("Passphrase: ")
    child.sendline("very secret")
    child.expect(pexpect.EOF)
    assert b"very secret" not in before(child)
    child.close()
    assert child.exitstatus == 1
