"""A server for its own account only: the kernel must name that account as the owner of the client's socket.

The tests with another account need root, which can start processes of another account.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from deploy.stack.child import spawn, stop, wait_ready
from deploy.stack.free_ports import free_port
from deploy.stack.places import drop_to
from endpoints.gridftp.server.data.judged_listener import JudgedListener
from endpoints.gridftp.server.peers import own_account, owner_of_peer
from tests.gridftp.ftp_dialogue import Dialogue, accept, connect, listen, read_all
from tests.waiting import eventually
from transferapi.config import CHECKOUT

AS_ANOTHER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c"]
by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")


@pytest.fixture
def server(serve, folder):
    (folder / "file").write_bytes(b"ours")
    return serve(own_account=True)


def as_another(script: str) -> str:
    """Run a script as another account and return its output."""
    done = subprocess.run([*AS_ANOTHER, script], capture_output=True, timeout=30, check=True)
    return done.stdout.decode()


def test_the_own_account_is_served_on_both_channels(server):
    with Dialogue(server.port) as dialogue:
        with connect(dialogue.passive()) as data:
            dialogue.send("RETR /file")
            assert read_all(data) == b"ours"
        assert dialogue.outcome().code == 226


def test_a_client_over_ipv6_has_an_owner_too():
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as listener,
        connect(listener.getsockname()[:2]),
        listener.accept()[0] as served,
    ):
        assert owner_of_peer(served) == os.geteuid()


def test_one_that_is_closed_already_is_nobodys():
    """The kernel lists a closed socket with root's user id, whichever account opened it."""
    with listen() as listener:
        connect(listener.getsockname()).close()
        with accept(listener) as left:
            assert owner_of_peer(left) is None
            assert not own_account(left)


@by_root
def test_another_account_is_refused_before_its_first_command(server, folder):
    opened = f"exec 3<>/dev/tcp/127.0.0.1/{server.port}"
    assert as_another(f"{opened}; cat <&3") == "421 Only the account that runs this server is served.\r\n"
    as_another(
        f"trap '' PIPE; {opened}; printf 'USER ftp\\r\\nPASS x\\r\\nMKD /theirs\\r\\n' >&3 2>&- ; cat <&3 2>&- || true"
    )
    assert server.sessions == 0
    assert [path.name for path in folder.iterdir()] == ["file"]


@by_root
def test_another_account_that_is_first_at_a_data_port_neither_gets_nor_gives_anything(server, folder):
    with Dialogue(server.port) as dialogue:
        for command, sent in (("RETR /file", b""), ("STOR /new", b"ours, too")):
            host, port = dialogue.passive()
            dialogue.send(command)
            assert as_another(f"exec 3<>/dev/tcp/{host}/{port}; printf theirs >&3; cat <&3 2>&- || true") == ""
            with connect((host, port)) as data:
                data.sendall(sent)
                data.shutdown(socket.SHUT_WR)
                assert read_all(data) == (b"ours" if not sent else b"")
            assert dialogue.outcome().code == 226
    assert (folder / "new").read_bytes() == b"ours, too"


@by_root
@pytest.mark.parametrize("mode", ["S", "E"])
def test_a_data_connection_of_another_account_is_reported_within_seconds_by_the_side_that_refuses_it(
    server, folder, mode
):
    """The sender may have written all its octets before it notices, and reports success."""
    with Dialogue(server.port) as dialogue:
        dialogue.demand(f"MODE {mode}")
        host, port = dialogue.passive()
        dialogue.send("STOR /sent")
        as_another(f"exec 3<>/dev/tcp/{host}/{port}; echo theirs >&3; sleep 0.2")
        outcome = dialogue.outcome()
    assert outcome.code == 425
    assert "another account" in outcome.text
    assert not (folder / "sent").exists() or not (folder / "sent").read_bytes()


@by_root
def test_another_account_cannot_keep_the_right_peer_out(server, folder):
    with Dialogue(server.port) as dialogue:
        host, port = dialogue.passive()
        dialogue.send("STOR /sent")
        as_another(f"exec 3<>/dev/tcp/{host}/{port}; read -t 5 line <&3 || true")
        with connect((host, port)) as data:
            data.sendall(b"ours")
            data.shutdown(socket.SHUT_WR)
            assert dialogue.outcome().code == 226
    assert (folder / "sent").read_bytes() == b"ours"


def test_a_client_of_this_account_may_close_as_soon_as_it_has_sent_a_small_file(server, folder):
    """As ftplib and curl do: connect, STOR, wait for 150, send, close."""
    with Dialogue(server.port) as dialogue:
        for number in range(50):
            with connect(dialogue.passive()) as data:
                dialogue.send(f"STOR /small{number}")
                assert dialogue.next_reply().code == 150
                data.sendall(b"small")
            assert dialogue.outcome().code == 226
    assert {(folder / f"small{number}").read_bytes() for number in range(50)} == {b"small"}


def test_a_client_of_this_account_may_close_before_the_server_has_read_stor(server, folder):
    """It does not wait for 150, and its end of the data connection is closed when the server reads the command."""
    with Dialogue(server.port) as dialogue:
        for number in range(20):
            with connect(dialogue.passive()) as data:
                # A reply of the server: meanwhile it accepts.
                assert dialogue.ask("NOOP").code == 200
                data.sendall(b"small")
            dialogue.send(f"STOR /early{number}")
            assert dialogue.outcome().code == 226
    assert {(folder / f"early{number}").read_bytes() for number in range(20)} == {b"small"}


@by_root
def test_another_account_that_comes_before_the_command_neither_gets_nor_gives_anything(server, folder):
    with Dialogue(server.port) as dialogue:
        host, port = dialogue.passive()
        assert as_another(f"exec 3<>/dev/tcp/{host}/{port}; echo theirs >&3; cat <&3 2>&- || true") == ""
        dialogue.send("STOR /new")
        with connect((host, port)) as data:
            data.sendall(b"ours, too")
            data.shutdown(socket.SHUT_WR)
            assert dialogue.outcome().code == 226
    assert (folder / "new").read_bytes() == b"ours, too"


def test_the_threads_and_sockets_of_passive_ports_end_with_them(server):
    with Dialogue(server.port) as dialogue:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(30):
            connect(dialogue.passive()).close()
        assert dialogue.ask("NOOP").code == 200
        eventually(lambda: len(os.listdir("/proc/self/fd")) < before + 10)
        eventually(lambda: sum(one.name == "accepting" for one in threading.enumerate()) <= 1)


class FullProcess(socket.socket):
    """A listening socket of a process that may open no more files."""

    def accept(self):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_process_without_room_for_a_connection_reports_it_to_who_accepts():
    listening = FullProcess()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    listening.setblocking(False)
    judged = JudgedListener(listening, lambda _: True, 4)
    with socket.create_connection(listening.getsockname()):
        eventually(lambda: select.select([judged], [], [], 0)[0])
        with pytest.raises(OSError, match="Too many open files"):
            judged.accept()
        judged.judge_all()
    judged.close()


@pytest.fixture
def below_a_closed_folder(folder):
    """The port of a server that `make up` of root starts: as another account, which may not pass to its folder."""
    account = pwd.getpwnam("nobody")
    closed = folder / "closed"
    served = closed / "served"
    served.mkdir(parents=True)
    closed.chmod(0o700)
    for name, mode in (("open", 0o644), ("closed", 0)):
        (served / name).write_bytes(b"ours")
        (served / name).chmod(mode)
    (served / "roots").mkdir(mode=0o700)
    for path in (served, served / "open", served / "closed"):
        os.chown(path, account.pw_uid, account.pw_gid)
    port = free_port()
    words = [sys.executable, "-m", "endpoints.gridftp.server", "--root", served, "--port", str(port), "--own-account"]
    process = spawn([*drop_to(account, served), *words], log=folder / "log", cwd=CHECKOUT)
    wait_ready("the server", process, lambda: b"listening" in (folder / "log").read_bytes(), timeout=30)
    yield port, process.pid
    stop(process)


@by_root
def test_a_server_below_a_closed_folder_has_no_right_that_its_account_does_not_have(below_a_closed_folder):
    port, pid = below_a_closed_folder
    with Dialogue(port) as dialogue:
        with connect(dialogue.passive()) as data:
            dialogue.send("RETR /open")
            assert read_all(data) == b"ours"
        assert dialogue.outcome().code == 226
        dialogue.passive()
        assert dialogue.ask("RETR /closed").code == 550
        dialogue.passive()
        assert dialogue.ask("NLST /roots").code == 550
        assert dialogue.ask("CKSM SHA256 0 -1 /open").code == 213
        assert dialogue.ask("CKSM SHA256 0 -1 /closed").code == 550
        assert dialogue.ask("MLST /open").code == 250
        assert dialogue.ask("MDTM /open").code == 213
        assert dialogue.ask("NONSENSE").code == 500
        with connect(dialogue.passive()) as data:
            dialogue.send("STOR /new")
            data.sendall(b"new")
            data.shutdown(socket.SHUT_WR)
            assert dialogue.outcome().code == 226
        for thread in Path(f"/proc/{pid}/task").iterdir():
            try:
                status = (thread / "status").read_text()
            except FileNotFoundError:
                continue  # it has ended: a thread serves one data channel
            sets = re.findall(r"^Cap(?:Inh|Prm|Eff|Amb):\t(\w+)$", status, re.MULTILINE)
            assert sets == ["0" * 16] * 4
            assert "\nNoNewPrivs:\t1\n" in status
