"""The ssh server of the shell, with the real OpenSSH client: exec, lists of commands, terminals, and sign-in."""

from __future__ import annotations

import base64
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import pexpect
import pytest
from django.db import connections

from endpoints.models import Endpoint
from identity import one_time_codes, ssh_keys
from identity.hidden import Secret
from identity.models import AuditEvent, User
from identity.ssh_public_keys import KeyRestrictions
from tests.integration.cast import make_endpoint, submit
from tests.integration.pages import PASSWORD
from tests.servers.shell_server import ShellServer, shell_server
from tests.waiting import eventually
from transferapi.shell.server.calls import Calls

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]


@pytest.fixture
def server(transactional_db: None, redis_server: Any, alice: User, tmp_path: Path) -> Iterator[ShellServer]:
    with shell_server(tmp_path) as running:
        running.add_key(alice)
        yield running


def ok(result: subprocess.CompletedProcess[bytes]) -> str:
    """Standard output of a command that must succeed in silence."""
    assert (result.returncode, result.stderr) == (0, b""), result
    return result.stdout.decode()


# ---- one command


def test_a_command_prints_its_result_and_ends_with_status_0(server: ShellServer) -> None:
    assert ok(server.run("help")).startswith("Type '<command> -h' for basic help on a command.\n")


def test_a_trailing_line_break_and_a_command_in_quotes_are_accepted(server: ShellServer) -> None:
    assert ok(server.run("help help\n")) == ok(server.run("help", "'help'")) != ""


def test_an_error_goes_to_standard_error_with_its_status(server: ShellServer) -> None:
    result = server.run("nonsense")
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr == b"Error: No such command 'nonsense': type 'help' for the commands\n"


def test_a_command_sees_the_endpoints_of_its_user_only(server: ShellServer, alice: User, bob: User) -> None:
    make_endpoint(bob, "private")
    result = server.run("ls bob#private/")
    assert result.returncode == 1
    assert b"No such endpoint" in result.stderr or b"not found" in result.stderr.lower(), result.stderr


@pytest.mark.parametrize("command", [b"help \xff\x00\x1b[2J", b"'", b'ls "a', b"\\", b"help \xed\xa0\x80"])
def test_octets_that_are_no_text_give_an_error_and_no_crash(server: ShellServer, command: bytes) -> None:
    transport = server.client()
    channel = transport.open_session()
    channel.exec_command(command)
    assert channel.recv_exit_status() in (1, 2)
    shown = channel.makefile_stderr("rb").read()
    assert b"\x1b" not in shown
    assert b"request id" not in shown
    transport.close()


def test_a_command_that_is_too_long_is_refused(server: ShellServer) -> None:
    transport = server.client()
    channel = transport.open_session()
    channel.exec_command(b"help " + b"x" * (70 << 10))
    assert channel.recv_exit_status() == 2
    assert channel.makefile_stderr("rb").read() == b"Error: the command is longer than 65536 octets\n"
    channel = transport.open_session()
    with pytest.raises((paramiko.SSHException, OSError, EOFError)):
        channel.exec_command(b"x" * (300 << 10))
    assert ok(server.run("help"))


def test_variables_of_the_client_are_ignored(server: ShellServer) -> None:
    assert ok(server.run("help", options=("-o", "SetEnv=LD_PRELOAD=/tmp/x.so")))


# ---- a terminal for one command


def test_with_a_terminal_lines_end_with_cr_and_errors_are_on_standard_output(server: ShellServer) -> None:
    plain = ok(server.run("help"))
    with_terminal = server.run("help", options=("-tt",))
    assert with_terminal.stdout.decode() == plain.replace("\n", "\r\n")
    wrong = server.run("nonsense", options=("-tt",))
    assert wrong.returncode == 2
    assert wrong.stdout.startswith(b"Error: No such command 'nonsense'")


# ---- commands on the input


def test_commands_on_the_input_run_in_turn_without_a_prompt(server: ShellServer) -> None:
    assert ok(server.run(input=b"help help\n\nhelp man\r\n")) == ok(server.run("help help")) + ok(
        server.run("help man")
    )


def test_the_status_is_that_of_the_last_command(server: ShellServer) -> None:
    assert server.run(input=b"help help\nnonsense\n").returncode == 2
    assert server.run(input=b"nonsense\nhelp help").returncode == 0
    assert server.run(input=b"nonsense\n\n\n").returncode == 2
    assert server.run(input=b"").returncode == 0


def test_exit_ends_the_list_of_commands(server: ShellServer) -> None:
    result = server.run(input=b"help help\nexit\nnonsense\n")
    assert ok(result) == ok(server.run("help help"))


def test_a_line_that_is_too_long_is_one_error_and_the_next_line_runs(server: ShellServer) -> None:
    result = server.run(input=b"x" * 300_000 + b"\nhelp help\n")
    assert result.returncode == 0
    assert result.stderr == b"Error: a line is longer than 65536 octets\n"
    assert result.stdout.decode() == ok(server.run("help help"))


# ---- the terminal


@pytest.fixture
def terminal(server: ShellServer) -> Iterator[pexpect.spawn[bytes]]:
    command = server.command(options=("-tt",))
    child: pexpect.spawn[bytes] = pexpect.spawn(command[0], command[1:], timeout=30)
    yield child
    child.close(force=True)


def test_a_person_is_welcomed_and_gets_a_prompt(terminal: pexpect.spawn[bytes]) -> None:
    terminal.expect_exact("Welcome to 127.0.0.1, alice. Type 'help' for help.\r\n$ ")
    terminal.send("help help\r")
    terminal.expect_exact("help help\r\nUsage: help")
    terminal.expect(r"\$ $")
    terminal.send("nonsense\r")
    terminal.expect_exact("Error: No such command 'nonsense'")
    terminal.send("exit\r")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 2


def test_the_end_of_the_input_leaves_the_terminal(terminal: pexpect.spawn[bytes]) -> None:
    terminal.expect_exact("$ ")
    terminal.sendeof()
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0


# ---- sign-in


def test_a_key_signs_in_its_user_only(server: ShellServer, bob: User) -> None:
    assert server.run("help", user="bob", key="alice").returncode == 255
    ssh_keys.add(bob, server.public_key(server.folder / "alice"))
    assert ok(server.run("help", user="bob", key="alice"))


def test_a_key_counts_at_once_and_so_does_its_removal(server: ShellServer, alice: User) -> None:
    file = server.add_key(alice, name="other")
    assert ok(server.run("help", key="other"))
    (key,) = (key for key in ssh_keys.list_of(alice) if key.line == server.public_key(file))
    ssh_keys.remove(alice, key.id)
    assert server.run("help", key="other").returncode == 255


def test_a_session_whose_key_was_removed_can_do_nothing_more(server: ShellServer, alice: User) -> None:
    make_endpoint(alice, "ep")
    transport = server.client()
    ssh_keys.remove(alice, ssh_keys.list_of(alice)[0].id)
    channel = transport.open_session()
    channel.exec_command("ls ep/")
    assert channel.recv_exit_status() == 1
    assert channel.makefile_stderr("rb").read() == b"Error: This sign-in is no longer valid; connect again\n"
    transport.close()


_REFUSED = (1, b"Error: This sign-in is no longer valid; connect again\n")


def run_in(transport: paramiko.Transport, words: str) -> tuple[int, bytes]:
    """The exit status and standard error of a command in a session that is open."""
    channel = transport.open_session()
    channel.exec_command(words)
    return channel.recv_exit_status(), channel.makefile_stderr("rb").read()


@pytest.mark.parametrize("words", ["scp -D ep:/a ep:/b", "transfer -- ep/a ep/b", "rm -D ep:/a"])
def test_a_session_whose_key_was_removed_submits_nothing(server: ShellServer, alice: User, words: str) -> None:
    """`scp` goes on where the destination cannot be looked at: the refusal must not count as a check."""
    make_endpoint(alice, "ep")
    transport = server.client()
    ssh_keys.remove(alice, ssh_keys.list_of(alice)[0].id)
    assert run_in(transport, words) == _REFUSED
    transport.close()


def test_a_session_ends_where_its_key_was_added_again_with_fewer_commands(server: ShellServer, alice: User) -> None:
    transport = server.client()
    [key] = ssh_keys.list_of(alice)
    ssh_keys.remove(alice, key.id)
    ssh_keys.add(alice, key.line, restrictions=KeyRestrictions(commands=frozenset({"help"})))
    assert run_in(transport, "status") == _REFUSED
    assert server.run("status").returncode == 2
    transport.close()


def test_a_command_that_waits_ends_when_its_key_is_removed(
    server: ShellServer, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transferapi.shell.server.session.RENEW_SECONDS", 0.0)
    ep = make_endpoint(alice, "ep")
    task = submit(alice, ep, ep)
    transport = server.client()
    channel = transport.open_session()
    channel.exec_command(f"wait {task.pk}")
    assert channel.recv(1)
    ssh_keys.remove(alice, ssh_keys.list_of(alice)[0].id)
    assert channel.recv_exit_status() == 1
    assert channel.makefile_stderr("rb").read().endswith(_REFUSED[1])
    transport.close()


def test_an_inactive_user_does_not_sign_in(server: ShellServer, alice: User) -> None:
    alice.is_active = False
    alice.save()
    assert server.run("help").returncode == 255


def test_a_key_may_be_restricted_to_commands(server: ShellServer, alice: User) -> None:
    server.add_key(alice, KeyRestrictions(commands=frozenset({"help"})), "narrow")
    assert ok(server.run("help help", key="narrow"))
    refused = server.run("ls x/", key="narrow")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert refused.stderr == b"Error: The ssh key of this session does not permit the command 'ls'\n"


def test_a_key_may_be_restricted_to_endpoints(server: ShellServer, alice: User) -> None:
    one, other = make_endpoint(alice, "one"), make_endpoint(alice, "other")
    server.add_key(alice, KeyRestrictions(endpoints=frozenset({one.pk})), "narrow")
    unknown = server.run(f"ls {other.pk}/", key="narrow").stderr
    known = server.run(f"ls {one.pk}/", key="narrow").stderr
    assert unknown == server.run("ls 00000000-0000-0000-0000-000000000000/", key="narrow").stderr.replace(
        b"00000000-0000-0000-0000-000000000000", str(other.pk).encode()
    )
    assert known != unknown.replace(str(other.pk).encode(), str(one.pk).encode())


def log_in(server: ShellServer, *answers: str, words: str = "help help") -> paramiko.Channel:
    """Sign in by keyboard-interactive with these answers, in their order, and run a command."""
    transport = paramiko.Transport(("127.0.0.1", server.port))
    transport.start_client(timeout=30)
    left = list(answers)
    asked: list[str] = []

    def answer(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        asked.extend(text for text, _ in prompts)
        assert not any(echo for _, echo in prompts)
        return [left.pop(0) if left else "" for _ in prompts]

    transport.auth_interactive("alice", answer)
    channel = transport.open_session()
    channel.exec_command(words)
    return channel


@pytest.fixture
def with_password(server: ShellServer, passwords: None) -> ShellServer:
    return server


def test_a_password_signs_in(with_password: ShellServer) -> None:
    assert log_in(with_password, PASSWORD).recv_exit_status() == 0


def test_a_wrong_password_does_not_sign_in(with_password: ShellServer) -> None:
    with pytest.raises(paramiko.AuthenticationException):
        log_in(with_password, "wrong")


def test_a_user_with_one_time_codes_needs_password_and_code(with_password: ShellServer, alice: User) -> None:
    enrolment = one_time_codes.begin_enrolment(alice)
    secret = base64.b32decode(enrolment.secret.value.replace(" ", "").upper())
    codes = one_time_codes.confirm(alice, Secret(one_time_codes.code_at(secret, one_time_codes.step_at(time.time()))))
    with pytest.raises(paramiko.AuthenticationException):
        log_in(with_password, PASSWORD, "000000")
    assert log_in(with_password, PASSWORD, codes[0].value).recv_exit_status() == 0
    with pytest.raises(paramiko.AuthenticationException):
        log_in(with_password, PASSWORD, codes[0].value)


def test_a_code_after_the_password_is_a_second_factor_here_too(with_password: ShellServer, alice: User) -> None:
    endpoint = make_endpoint(alice, "strict")
    Endpoint.objects.filter(pk=endpoint.pk).update(mfa_required=True)
    by_password = log_in(with_password, PASSWORD, words="ls strict/~/")
    assert by_password.recv_exit_status() != 0
    assert b"second factor" in (said := by_password.makefile_stderr().read()) or b"one-time code" in said
    enrolment = one_time_codes.begin_enrolment(alice)
    secret = base64.b32decode(enrolment.secret.value.replace(" ", "").upper())
    codes = one_time_codes.confirm(alice, Secret(one_time_codes.code_at(secret, one_time_codes.step_at(time.time()))))
    with_code = log_in(with_password, PASSWORD, codes[0].value, words="ls strict/~/")
    with_code.recv_exit_status()
    # The demand is met; the server of the endpoint is not there.
    assert b"one-time code" not in with_code.makefile_stderr().read()
    rows = AuditEvent.objects.filter(what="signed_in").order_by("pk")
    assert [(row.way, row.details.get("second_factor")) for row in rows] == [("ssh", None), ("ssh", "code")]


@pytest.fixture
def questions(with_password: ShellServer) -> Iterator[pexpect.spawn[bytes]]:
    """OpenSSH, which asks for the password at a terminal."""
    options = ("-o", "PreferredAuthentications=keyboard-interactive", "-o", "LogLevel=INFO")
    command = with_password.command("help help", options=options)
    child: pexpect.spawn[bytes] = pexpect.spawn(command[0], command[1:], timeout=30)
    yield child
    child.close(force=True)


def test_openssh_asks_for_the_password_without_echo(questions: pexpect.spawn[bytes]) -> None:
    questions.expect_exact("Password: ")
    questions.sendline("wrong")
    questions.expect_exact("Password: ")
    questions.sendline(PASSWORD)
    questions.expect_exact("Usage: help")
    questions.expect(pexpect.EOF)
    questions.close()
    assert questions.exitstatus == 0


def test_openssh_shows_why_a_password_was_not_compared(
    with_password: ShellServer, questions: pexpect.spawn[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("identity.password_sign_in.MOST_OF_A_PAIR", 0)
    questions.expect_exact("Password: ")
    questions.sendline(PASSWORD)
    questions.expect_exact("Too many attempts. Try again in 5 minutes.")


def test_answers_without_a_question_do_not_sign_in(with_password: ShellServer) -> None:
    transport = paramiko.Transport(("127.0.0.1", with_password.port))
    transport.start_client(timeout=30)
    with pytest.raises(paramiko.AuthenticationException):
        transport.auth_interactive("alice", lambda *_: [PASSWORD, PASSWORD])
    transport.close()


@pytest.mark.parametrize("method", ["auth_none", "auth_password"])
def test_other_ways_to_sign_in_are_refused(server: ShellServer, method: str) -> None:
    transport = paramiko.Transport(("127.0.0.1", server.port))
    transport.start_client(timeout=30)
    words = ["alice"] if method == "auth_none" else ["alice", PASSWORD]
    with pytest.raises(paramiko.BadAuthenticationType) as refused:
        getattr(transport, method)(*words)
    assert refused.value.allowed_types == ["publickey", "keyboard-interactive"]
    transport.close()


def test_guesses_of_passwords_are_limited_and_keys_still_sign_in(with_password: ShellServer) -> None:
    for _ in range(12):
        with pytest.raises(paramiko.SSHException):
            log_in(with_password, "wrong")
    with pytest.raises(paramiko.AuthenticationException):
        log_in(with_password, PASSWORD)
    assert ok(with_password.run("help"))


# ---- what is refused


@pytest.mark.parametrize(
    "option",
    [
        "KexAlgorithms=diffie-hellman-group14-sha1",
        "KexAlgorithms=diffie-hellman-group-exchange-sha1",
        "Ciphers=aes128-cbc",
        "Ciphers=3des-cbc",
        "MACs=hmac-sha1",
        "HostKeyAlgorithms=ssh-rsa",
        "PubkeyAcceptedAlgorithms=ssh-rsa",
    ],
)
def test_old_algorithms_are_refused(server: ShellServer, option: str) -> None:
    more = ("-o", "Ciphers=aes128-ctr") if option.startswith("MACs") else ()
    assert server.run("help", options=("-o", option, *more)).returncode == 255


@pytest.mark.parametrize("option", ["curve25519-sha256", "ecdh-sha2-nistp256"])
def test_present_algorithms_are_accepted(server: ShellServer, option: str) -> None:
    assert ok(server.run("help", options=("-o", f"KexAlgorithms={option}")))


def test_forwarding_is_refused_and_the_session_goes_on(server: ShellServer, tmp_path: Path) -> None:
    """ForwardX11 without a display would print a warning of the client's own."""
    agent = tmp_path / "agent"
    assert ok(server.run("help", options=("-A", "-o", f"IdentityAgent={agent}")))
    assert server.run("help", options=("-R", "0:127.0.0.1:22")).returncode == 0
    assert server.run("help", options=("-W", "127.0.0.1:22")).returncode == 255
    transport = server.client()
    for kind in ("direct-tcpip", "x11", "auth-agent@openssh.com", "tun@openssh.com", "nonsense"):
        with pytest.raises(paramiko.ChannelException):
            transport.open_channel(kind, ("127.0.0.1", 22), ("127.0.0.1", 1))
    with pytest.raises(paramiko.SSHException):
        transport.request_port_forward("", 0)
    channel = transport.open_session()
    channel.request_x11(auth_cookie="00")
    assert channel.request_forward_agent(lambda _: None)
    channel.exec_command("help")
    assert channel.recv_exit_status() == 0
    transport.close()


def test_there_is_no_sftp_and_the_refusal_names_the_way(server: ShellServer) -> None:
    result = server.run("sftp", options=("-s",))
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.startswith(b"Error: This server has no sftp")


# ---- the end


def test_a_stop_is_announced_to_the_clients(server: ShellServer, terminal: pexpect.spawn[bytes]) -> None:
    terminal.expect_exact("$ ")
    server.listener.stop()
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 255
    assert server.sessions() == 0


def test_a_log_has_sign_ins_and_no_lines(server: ShellServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    server.run("nonsense hunter2")
    server.run("help", user="hunter2", key="alice")
    eventually(lambda: "has left after" in caplog.text and "ended without a sign-in" in caplog.text)
    assert "ssh: alice signed in by key SHA256:" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_database_that_is_away_is_a_clear_error(
    server: ShellServer, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_endpoint(alice, "ep")
    transport = server.client()
    monkeypatch.setitem(connections.databases["default"], "HOST", "/nowhere")
    channel = transport.open_session()
    channel.exec_command("ls ep/")
    assert channel.recv_exit_status() == 1
    assert channel.makefile_stderr("rb").read() == b"Error: The service is busy or restarts; try again\n"
    transport.close()
    # The threads of sign-ins have their connections still.
    server.listener.state.sign_ins.close()
    server.listener.state.sign_ins = Calls(1, 1, 1.0)
    refused = server.run("help", options=("-o", "LogLevel=INFO"))
    assert refused.returncode == 255
    assert b"The service is busy or restarts; try again" in refused.stderr
    monkeypatch.undo()
    assert ok(server.run("help"))
