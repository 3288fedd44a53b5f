"""Attacks of strangers and of users on the ssh server: each is bounded, and nobody else is disturbed."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.common import cMSG_CHANNEL_DATA, cMSG_CHANNEL_REQUEST
from paramiko.message import Message

from identity.models import User
from tests.integration.cast import make_endpoint
from tests.servers.shell_server import HOST, ShellServer, shell_server
from tests.waiting import eventually
from transferapi.shell.command import COMMANDS, HELP, Heading, ShellCommand
from transferapi.shell.context import Context, Signal
from transferapi.shell.errors import DisconnectedError
from transferapi.shell.options import Arguments

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]
Start = Callable[..., ShellServer]


@pytest.fixture
def start(transactional_db: None, redis_server: Any, alice: User, tmp_path: Path) -> Iterator[Start]:
    """Start a server with other bounds than the product's: `start(strangers=2)`."""
    with ExitStack() as running:

        def make(**bounds: Any) -> ShellServer:
            server = running.enter_context(shell_server(tmp_path, **bounds))
            server.add_key(alice)
            return server

        yield make


@pytest.fixture
def command() -> Iterator[Callable[[str, Callable[[Context], int]], None]]:
    """Declare a command for this test: `command("name", run)`."""
    made: list[str] = []

    def declare(name: str, run: Callable[[Context], int]) -> None:
        def run_it(context: Context, arguments: Arguments) -> int:
            return run(context)

        COMMANDS[name] = ShellCommand(name, "", Heading.OTHER, "", (HELP,), run_it)
        made.append(name)

    yield declare
    for name in made:
        del COMMANDS[name]


def stranger(server: ShellServer, first: bytes = b"") -> socket.socket:
    made = socket.create_connection((HOST, server.port), timeout=30)
    made.sendall(first)
    return made


def is_closed(sock: socket.socket) -> bool:
    """Whether the server has closed the connection; waits at most 30 s, and drops what arrives before."""
    try:
        while sock.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def helps(server: ShellServer) -> None:
    """Another client is served."""
    result = server.run("help")
    assert (result.returncode, result.stderr) == (0, b""), result


# ---- before the sign-in


@pytest.mark.parametrize(
    "first",
    [
        b"SSH-2.0-" + b"x" * 100_000,
        b"no line\r\n" * 10_000,
        b"GET / HTTP/1.1\r\n\r\n" * 1000,
        b"SSH-1.5-old\r\n",
        b"SSH-2.0-liar\r\n" + b"\xff\xff\xff\xff" + b"x" * 100_000,
        b"SSH-2.0-liar\r\n" + b"\x00\x00\x00\x00" + b"x" * 100,
        b"SSH-2.0-liar\r\n" + b"\x00\x00\x00\x0c\x0a\x63" + b"x" * 100,
        b"SSH-2.0-liar\r\n" + (b"\x00\x00\x00\x0c\x0a\x02" + bytes(10)) * 60_000,
    ],
    ids=["endless line", "many lines", "http", "protocol 1", "4 GB packet", "no packet", "unknown", "ignored packets"],
)  # fmt: skip
def test_a_stranger_who_sends_nonsense_is_disconnected(start: Start, first: bytes) -> None:
    server = start()
    sock = stranger(server)
    with contextlib.suppress(OSError):
        sock.sendall(first)
    assert is_closed(sock)
    sock.close()
    helps(server)


def test_a_stranger_who_sends_an_octet_now_and_then_is_disconnected(start: Start) -> None:
    server = start(handshake_seconds=1.0)
    sock, closed = stranger(server, b"SSH-2.0-slow\r\n"), False
    until = time.monotonic() + 30
    while not closed and time.monotonic() < until:
        try:
            sock.sendall(b"\0")
            time.sleep(0.1)
        except OSError:
            closed = True
    sock.close()
    assert closed
    eventually(lambda: server.listener.state.admission.strangers == 0)


def test_a_client_that_does_not_sign_in_is_disconnected(start: Start) -> None:
    server = start(sign_in_seconds=1.0)
    transport = paramiko.Transport((HOST, server.port))
    transport.start_client(timeout=30)
    eventually(lambda: not transport.is_active())


def test_a_client_that_tries_keys_without_end_is_disconnected(start: Start) -> None:
    server = start(attempts=5)
    transport = paramiko.Transport((HOST, server.port))
    transport.start_client(timeout=30)
    refused = 0
    with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
        for _ in range(50):
            try:
                transport.auth_publickey("alice", paramiko.ECDSAKey.generate())
            except paramiko.AuthenticationException:
                refused += 1
    assert refused <= 6
    eventually(lambda: not transport.is_active())


def test_silent_strangers_do_not_keep_a_user_out(start: Start) -> None:
    """All come from one network here, which therefore has room for more than all places."""
    server = start(strangers=10, strangers_of_network=1000, failures=1000)
    strangers = [stranger(server) for _ in range(200)]
    eventually(lambda: server.listener.state.admission.strangers <= 10)
    helps(server)
    for sock in strangers:
        sock.close()


def test_a_flood_of_logins_from_one_network_does_not_disturb_another(start: Start) -> None:
    server = start(failures=20)
    stop = threading.Event()
    tried = []

    def flood() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError), socket.socket() as sock:
                sock.bind(("127.0.0.2", 0))
                sock.settimeout(5)
                sock.connect((HOST, server.port))
                sock.sendall(b"SSH-2.0-flood\r\n")
                sock.recv(1)
            tried.append(1)

    floods = [threading.Thread(target=flood) for _ in range(4)]
    for one in floods:
        one.start()
    eventually(lambda: len(tried) > 500)
    for _ in range(3):
        helps(server)
    stop.set()
    for one in floods:
        one.join()
    with socket.socket() as sock:
        sock.bind(("127.0.0.2", 0))
        sock.settimeout(30)
        sock.connect((HOST, server.port))
        assert is_closed(sock)


def test_strangers_that_exchange_keys_again_and_again_have_no_more_turns_than_all(start: Start) -> None:
    """Also within one connection. Whoever has signed in may, as OpenSSH does after each gigabyte."""
    server = start(key_exchanges=3, key_exchanges_per_second=0.001, handshake_seconds=4.0, sign_in_seconds=8.0)
    user = server.client()
    with contextlib.closing(paramiko.Transport((HOST, server.port))) as attacker:
        attacker.start_client(timeout=30)
        attacker.renegotiate_keys()
        with pytest.raises((paramiko.SSHException, EOFError)):
            attacker.renegotiate_keys()
    another = paramiko.Transport((HOST, server.port))
    with pytest.raises((paramiko.SSHException, EOFError)):
        another.start_client(timeout=30)
    another.close()
    for _ in range(5):
        user.renegotiate_keys()
    assert user.is_active()
    user.close()
    eventually(lambda: server.listener.state.admission.strangers == 0)


def test_too_many_sessions_of_a_user_are_refused_with_a_reason(start: Start) -> None:
    server = start(sessions_of_user=2)
    held = [server.client() for _ in range(2)]
    refused = server.run("help", options=("-o", "LogLevel=INFO"))
    assert refused.returncode == 255
    assert b"There are too many sessions" in refused.stderr
    held[0].close()
    eventually(lambda: server.sessions() < 2)
    helps(server)
    held[1].close()


# ---- channels


def test_ten_thousand_channels_are_refused_and_do_no_harm(start: Start) -> None:
    server = start()
    transport = server.client()
    held, refused = [], 0
    for _ in range(200):
        try:
            held.append(transport.open_session(timeout=30))
        except paramiko.ChannelException:
            refused += 1
    assert (len(held), refused) == (10, 190)
    for _ in range(9_800):
        message = Message()
        message.add_byte(bytes([90]))
        message.add_string("session")
        for value in (77, 1 << 20, 1 << 15):
            message.add_int(value)
        transport._send_user_message(message)  # type: ignore[attr-defined]
    channel = held.pop()
    channel.exec_command("help")
    assert channel.recv_exit_status() == 0
    helps(server)
    transport.close()
    eventually(lambda: server.sessions() == 0)
    assert server.listener.state.admission._channels == 0


def test_a_connection_has_a_bounded_number_of_channels_in_its_life(start: Start) -> None:
    server = start(channels_ever=5)
    transport = server.client()
    for _ in range(5):
        channel = transport.open_session()
        channel.exec_command("help")
        assert channel.recv_exit_status() == 0
        channel.close()
    with pytest.raises(paramiko.ChannelException):
        transport.open_session()
    transport.close()


def test_a_channel_counts_until_its_command_has_ended(start: Start, command: Any) -> None:
    """Otherwise a client that closes channels gets a thread of the server for each, without end."""
    begun, end = threading.Semaphore(0), threading.Event()

    def work(context: Context) -> int:
        begun.release()
        end.wait(60)
        return 0

    command("works-long", work)
    server = start(channels=2)
    transport = server.client()
    for _ in range(2):
        channel = transport.open_session()
        channel.exec_command("works-long")
        assert begun.acquire(timeout=30)
        channel.close()
    try:
        with pytest.raises(paramiko.ChannelException):
            transport.open_session()
    finally:
        end.set()
    eventually(lambda: server.listener.state.admission._channels == 0)
    transport.open_session()
    transport.close()


def test_a_channel_runs_one_command_only(start: Start) -> None:
    server = start()
    transport = server.client()
    channel = transport.open_session()
    channel.invoke_shell()
    with pytest.raises((paramiko.SSHException, OSError)):
        channel.exec_command("help")
    transport.close()
    helps(server)


def test_a_client_that_sends_more_than_its_window_is_disconnected(start: Start, command: Any) -> None:
    command("test-hold", lambda context: context.pause(60) and 1)
    server = start(window=16 << 10)
    transport = server.client()
    channel = transport.open_session()
    channel.exec_command("test-hold")
    for _ in range(100):
        message = Message()
        message.add_byte(cMSG_CHANNEL_DATA)
        message.add_int(channel.remote_chanid)
        message.add_string(b"x" * 8192)
        with contextlib.suppress(OSError, EOFError):
            transport._send_user_message(message)  # type: ignore[attr-defined]
    eventually(lambda: not transport.is_active())
    helps(server)


# ---- output and input


def wait(context: Context, found: list[object]) -> int:
    found.append(context.pause(60))
    return 7


def endless(context: Context) -> int:
    while True:
        context.out("x" * 79 + "\n")


def test_a_client_that_never_reads_is_disconnected_and_fills_no_memory(start: Start, command: Any) -> None:
    command("test-endless", endless)
    server = start(write_seconds=1.0)
    transport = paramiko.Transport((HOST, server.port), default_window_size=1 << 15)
    transport.connect(username="alice", pkey=paramiko.Ed25519Key(filename=str(server.folder / "alice")))
    channel = transport.open_session()
    channel.exec_command("test-endless")
    eventually(lambda: server.sessions() == 0)
    helps(server)


def test_a_client_that_does_not_read_its_socket_is_disconnected(start: Start, command: Any) -> None:
    """Its window is open, but the network is not."""
    command("test-endless", endless)
    server = start(write_seconds=2.0)
    process = subprocess.Popen(server.command("test-endless"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    eventually(lambda: server.sessions() == 1)
    assert process.stdout is not None
    process.stdout.read(1000)
    os.kill(process.pid, 19)  # SIGSTOP: it reads nothing more
    eventually(lambda: server.sessions() == 0)
    process.kill()
    process.communicate()
    helps(server)


def test_a_command_goes_on_to_its_end_of_its_own_when_the_client_leaves(start: Start, command: Any) -> None:
    ended: list[object] = []

    def wait(context: Context) -> int:
        context.out("begun\n")
        context.pause(0)
        ended.append(context.pause(60))
        try:
            context.out("more\n")
            context.pause(0)
        except DisconnectedError:
            ended.append("no output")
            raise
        return 0

    command("test-wait", wait)
    server = start()
    process = subprocess.Popen(server.command("test-wait"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.kill()
    process.communicate()
    eventually(lambda: ended == [Signal.DISCONNECTED, "no output"])
    helps(server)


@pytest.mark.parametrize(("name", "expected"), [("INT", Signal.INTERRUPT), ("HUP", Signal.DISCONNECTED)])
def test_a_signal_reaches_the_command(start: Start, command: Any, name: str, expected: Signal) -> None:
    found: list[object] = []
    command("test-wait", lambda context: wait(context, found))
    server = start()
    transport = server.client()
    channel = transport.open_session()
    channel.exec_command("test-wait")
    message = Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("signal")
    message.add_boolean(False)
    message.add_string(name)
    transport._send_user_message(message)  # type: ignore[attr-defined]
    assert channel.recv_exit_status() == 7
    assert found == [expected]
    transport.close()


def test_bg_on_the_input_ends_a_wait(start: Start, command: Any) -> None:
    found: list[object] = []
    command("test-wait", lambda context: wait(context, found))
    result = start().run("test-wait", input=b"bg\n")
    assert result.returncode == 7
    assert found == [Signal.BACKGROUND]


def test_a_long_list_is_read_in_bounded_memory(start: Start, command: Any, tmp_path: Path) -> None:
    most = 0

    def count(context: Context) -> int:
        nonlocal most
        lines = 0
        for _ in context.lines():
            lines += 1
            if lines % 10_000 == 0:
                most = max(most, *(len(one._data) for one in inputs(server)))
        context.out(f"{lines}\n")
        return 0

    command("test-count", count)
    server = start()
    many = tmp_path / "lines"
    many.write_bytes(b"".join(b"ep1/some/path/file-%07d ep2/some/path/\n" % number for number in range(200_000)))
    with many.open("rb") as given:
        result = subprocess.run(server.command("test-count"), stdin=given, capture_output=True, check=False, timeout=60)
    assert (result.stdout, result.stderr) == (b"200000\n", b"")
    assert most <= server.listener.state.bounds.window


def inputs(server: ShellServer) -> list[Any]:
    return [channel.input for one in list(server.listener._connections) for channel in one._channels.values()]


def test_output_of_other_channels_goes_on_while_one_waits(start: Start, command: Any) -> None:
    """One connection, two channels: the first has a full window."""
    command("test-endless", endless)
    server = start()
    transport = server.client()
    stuck = transport.open_session(window_size=1 << 15)
    stuck.exec_command("test-endless")
    other = transport.open_session()
    other.exec_command("help")
    assert other.recv_exit_status() == 0
    transport.close()


# ---- time and fair use


def test_an_idle_session_ends_with_a_reason(start: Start) -> None:
    server = start(idle_seconds=1.0)
    process = subprocess.run(
        server.command(options=("-N", "-o", "LogLevel=INFO")), capture_output=True, timeout=60, check=False
    )
    assert process.returncode == 255
    assert b"Nothing has happened here for" in process.stderr


def test_a_session_has_an_end(start: Start) -> None:
    server = start(session_seconds=1.0)
    process = subprocess.run(
        server.command(options=("-N", "-o", "LogLevel=INFO")), capture_output=True, timeout=60, check=False
    )
    assert b"A session lasts at most" in process.stderr


def test_commands_take_from_the_rate_limit_of_the_user(start: Start, alice: User, settings: Any) -> None:
    make_endpoint(alice, "ep")
    server = start()
    settings.RATE_LIMIT = 1
    result = server.run(input=b"endpoint-nonsense\n" + b"ls nowhere/\n" * 30)
    assert result.returncode == 1
    assert b"You ask too often; wait" in result.stderr


def test_connected_sessions_hold_no_connection_of_the_database(start: Start) -> None:
    server = start()
    held = [server.client() for _ in range(20)]
    eventually(lambda: server.sessions() == 20)
    threads = [one.name for one in threading.enumerate() if one.name in ("calls", "sign-ins")]
    assert len(threads) <= server.listener.state.bounds.calls_of_sign_ins
    for transport in held:
        channel = transport.open_session()
        channel.exec_command("help")
        assert channel.recv_exit_status() == 0
        transport.close()
    eventually(lambda: server.sessions() == 0)
