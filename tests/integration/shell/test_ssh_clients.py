"""Ssh clients of others at the shell: they run a command, and they end with a reason where they ask for files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.common import MSG_KEXINIT
from paramiko.message import Message

from identity.models import User
from tests.servers import ssh_clients
from tests.servers.shell_server import HOST, ShellServer, shell_server
from tests.servers.ssh_clients import Ended

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]
needs_clients = pytest.mark.ssh_clients
#: The programs of people show this text; libraries have an error of their own.
TEXT = b"Error: This server has no sftp and takes no files: the command 'scp' of its shell copies files"
SHOW_IT = ("OpenSSH", "PuTTY", "Dropbear")


@pytest.fixture
def server(transactional_db: None, redis_server: Any, alice: User, tmp_path: Path) -> Iterator[ShellServer]:
    with shell_server(tmp_path) as running:
        running.add_key(alice)
        yield running


@needs_clients
@pytest.mark.parametrize("client", ssh_clients.COMMAND)
def test_every_client_runs_a_command(server: ShellServer, client: str) -> None:
    ended = ssh_clients.COMMAND[client](server)
    assert (ended.returncode, ended.stdout) == (0, server.run("help help").stdout), ended


@needs_clients
@pytest.mark.parametrize("client", ssh_clients.SFTP)
def test_every_client_that_asks_for_sftp_fails_at_once(server: ShellServer, client: str) -> None:
    _is_refused(ssh_clients.SFTP[client](server), client)


@needs_clients
@pytest.mark.parametrize("client", ssh_clients.RCP)
def test_every_client_that_copies_by_the_old_protocol_fails_at_once(server: ShellServer, client: str) -> None:
    _is_refused(ssh_clients.RCP[client](server), client)


def _is_refused(ended: Ended, client: str) -> None:
    assert ended.returncode != 0, ended
    assert not client.startswith(SHOW_IT) or TEXT in ended.stdout + ended.stderr, ended
    assert ended.stderr, ended


@pytest.mark.parametrize("command", ["scp -D -r -v ep1:/t ep2:/f", "scp --label -t ep1:/x ep2:/y", "scp -d 1d -t"])
def test_the_command_scp_of_the_shell_is_distinguished_from_the_one_of_clients(
    server: ShellServer, command: str
) -> None:
    assert TEXT not in server.run(command).stdout


def _refused_copy(transport: paramiko.Transport) -> paramiko.Channel:
    channel = transport.open_session()
    channel.exec_command("scp -t x")
    received = b""
    while not received.endswith(b"\n"):
        received += channel.recv(1000)
    assert TEXT in received
    return channel


def test_a_client_of_the_old_protocol_ends_the_channel_before_the_server_does(server: ShellServer) -> None:
    transport = server.client()
    try:
        channel = _refused_copy(transport)
        other = transport.open_session()
        other.exec_command("help help")
        assert other.recv_exit_status() == 0
        assert not channel.eof_received
        channel.shutdown_write()
        assert channel.recv_exit_status() == 1
    finally:
        transport.close()


def test_a_client_of_the_old_protocol_that_never_ends_is_not_waited_for(alice: User, tmp_path: Path) -> None:
    with shell_server(tmp_path, client_end_seconds=0.1) as server:
        server.add_key(alice)
        transport = server.client()
        try:
            channel = _refused_copy(transport)
            channel.settimeout(30)
            assert channel.recv(1) == b""
            assert channel.recv_exit_status() == 1
        finally:
            transport.close()


# ---- messages of a key exchange that a client sends ahead (RFC 4253, 7.1)


class Guessing(paramiko.Transport):
    """Sends the first message of its preferred key exchange at once. right: whether the server then counts it."""

    right = True

    def _send_message(self, data: Any) -> None:
        packet = data.asbytes()
        if packet[0] != MSG_KEXINIT:
            super()._send_message(data)  # type: ignore[misc]
            return
        packet = packet[:-5] + b"\x01" + packet[-4:]
        self.local_kex_init = self._latest_kex_init = packet
        super()._send_message(Message(packet))  # type: ignore[misc]
        self.guess = self._kex_info[self.preferred_kex[0]](self)  # type: ignore[attr-defined]
        self.guess.start_kex()
        self.reply: tuple[int, ...] = self._expected_packet  # type: ignore[has-type]
        self._expected_packet = (MSG_KEXINIT,)

    def _parse_kex_init(self, m: Any) -> None:
        super()._parse_kex_init(m)  # type: ignore[misc]
        if self.right:
            self.kex_engine = self.guess
            self.guess.start_kex = lambda: self._expect_packet(*self.reply)  # type: ignore[attr-defined]


class GuessingWrongly(Guessing):
    right = False


@pytest.mark.parametrize(
    ("kind", "exchanges"),
    [
        (Guessing, ("mlkem768x25519-sha256", "curve25519-sha256@libssh.org")),
        (GuessingWrongly, ("curve25519-sha256@libssh.org", "mlkem768x25519-sha256")),
        (GuessingWrongly, ("ecdh-sha2-nistp256",)),
        (GuessingWrongly, ("diffie-hellman-group14-sha256", "ecdh-sha2-nistp384")),
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_a_guess_counts_where_both_sides_prefer_the_same_exchange(
    server: ShellServer, kind: type[Guessing], exchanges: tuple[str, ...], strict: bool
) -> None:
    transport = kind((HOST, server.port), strict_kex=strict)
    transport.get_security_options().kex = exchanges
    transport.connect(username="alice", pkey=paramiko.Ed25519Key(filename=str(server.folder / "alice")))
    try:
        channel = transport.open_session()
        channel.exec_command("help help")
        assert channel.makefile("rb").read() == server.run("help help").stdout
    finally:
        transport.close()


def test_a_message_of_the_exchange_that_was_not_announced_ends_the_connection(server: ShellServer) -> None:
    class Unannounced(GuessingWrongly):
        def _send_message(self, data: Any) -> None:
            paramiko.Transport._send_message(self, data)  # type: ignore[attr-defined]
            if data.asbytes()[0] == MSG_KEXINIT:
                message = Message()
                message.add_byte(b"\x1e")
                message.add_string(os.urandom(32))
                paramiko.Transport._send_message(self, message)  # type: ignore[attr-defined]

    transport = Unannounced((HOST, server.port))
    with pytest.raises((paramiko.SSHException, EOFError, OSError)):
        transport.start_client(timeout=30)
    transport.close()
