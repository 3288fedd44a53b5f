"""The dialogue with our server: logins, settings, hostile lines, and every limit."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time

import pytest

from endpoints.gridftp.server import GridFtpServer, ServerLimits
from endpoints.gridftp.server.admission import SessionLimits
from tests.gridftp.ftp_dialogue import Dialogue, connect, listen
from tests.waiting import eventually


@pytest.fixture
def server(serve):
    return serve()


@pytest.fixture
def dialogue(server):
    with Dialogue(server.port) as dialogue:
        yield dialogue


# ---- login


def test_nothing_but_the_login_is_done_before_it(server):
    with Dialogue(server.port, login=False) as dialogue:
        for line in ("SIZE /x", "PASV", "MLSC /", "STOR /x", "CWD /", "REST 5", "ABOR"):
            assert dialogue.ask(line).code == 530, line
        for line in ("FEAT", "HELP", "NOOP", "SYST"):
            assert dialogue.ask(line).code < 300, line


def test_only_anonymous_is_known(server):
    with Dialogue(server.port, login=False) as dialogue:
        assert [outcome.code for outcome in dialogue.ask_all("USER root", "PASS x", "PWD")] == [331, 530, 530]
        assert [outcome.code for outcome in dialogue.ask_all("PASS x", "USER ftp", "PASS", "PWD")] == [
            530,
            331,
            230,
            257,
        ]
        # A new USER ends the old login.
        assert [outcome.code for outcome in dialogue.ask_all("USER root", "PWD")] == [331, 530]


def test_quit_says_goodbye_and_hangs_up(dialogue):
    dialogue.send("QUIT", "NOOP")
    assert dialogue.next_reply().code == 221
    assert dialogue.is_closed()


# ---- what it says of itself


def test_the_features_are_those_that_clients_look_for(dialogue):
    lines = dialogue.ask("FEAT").reply.lines[1:-1]
    features = {line.strip().split(b" ")[0] for line in lines}
    wanted = {b"UTF8", b"MLST", b"MLSC", b"SIZE", b"REST", b"PARALLEL", b"SPAS", b"ERET", b"ESTO", b"CKSM"}
    assert wanted <= features
    # By this one clients know a server that strips octets beyond ASCII.
    assert b"DSI" not in features
    assert all(line.startswith(b" ") for line in lines)


def test_help_lists_every_command(dialogue):
    assert b" STOR" in dialogue.ask("HELP").reply.lines
    assert b" CHMOD" in dialogue.ask("SITE HELP").reply.lines


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("NOOP", 200), ("noop", 200), ("SYST", 215), ("TYPE I", 200), ("TYPE A N", 200), ("TYPE L 8", 200),
        ("TYPE E", 504), ("MODE S", 200), ("MODE e", 200), ("MODE B", 504), ("STRU F", 200), ("STRU R", 504),
        ("ALLO 100", 200), ("SBUF 1000000", 200), ("SBUF x", 501), ("SBUF 999999999999", 501),
        ("SITE STORBUFSIZE 1000", 200), ("DCAU N", 200), ("DCAU A", 200), ("PBSZ 1048576", 200), ("PROT C", 200),
        ("PROT P", 200), ("PROT S", 536), ("DCSC D", 200),
        ("TREV RESTART 1", 200), ("TREV PERF 0", 200), ("TREV RESTART -1", 501), ("TREV FOO 1", 501),
        ("TREV", 501), ("OPTS RETR Parallelism=4,4,4;", 200), ("OPTS RETR Parallelism=x;", 501), ("OPTS RETR", 501),
        ("OPTS RETR BlockSize=1000;StripeLayout=Blocked;", 200), ("OPTS UTF8 ON", 200), ("OPTS", 501),
        ("OPTS FOO x", 501), ("OPTS MLST Type;Size;", 200), ("OPTS MLST", 200), ("OPTS CKSM Markers=1;", 200),
        ("SITE WHOAMI", 200), ("SITE CLIENTINFO appname=\"x\";", 250), ("SITE FOO", 501), ("SITE", 501),
        ("REST 5", 350), ("REST 0-5,10-20", 350), ("REST 5-3", 501), ("REST x", 501), ("REST", 501), ("REST -", 501),
        ("REST 99999999999999999999999", 501), ("PORT 127,0,0,1,200,0", 200), ("PORT 127,0,0,1,0,80", 504),
        ("PORT 127,0,0,1,3,255", 504), ("PORT 1,2,3", 501), ("PORT 256,0,0,1,200,0", 501),
        ("PORT 1127,0,0,1,200,0", 501), ("PORT 127,0,0,1,200,0,1", 501), ("PORT 0,0,0,0,200,0", 504),
        ("PORT 224,0,0,1,200,0", 504), ("PORT", 501), ("EPRT |1|127.0.0.1|50000|", 200), ("EPRT |2|::1|50000|", 200),
        ("EPRT |1|127.0.0.1|80|", 504), ("EPRT |1|localhost|50000|", 501), ("EPRT |1|::1|50000|", 501), ("EPRT", 501),
        ("EPRT |1|127.0.0.1|x|", 501), ("EPRT |1|127.0.0.1|99999|", 504), ("SPOR 127,0,0,1,200,0", 200),
        ("SPOR 127,0,0,1,200,0 127,0,0,1,200,1", 501), ("SPAS", 229), ("EPSV", 229), ("EPSV 1", 229), ("EPSV 2", 522),
        ("EPSV ALL", 200), ("ABOR", 226), ("AUTH TLS", 502), ("FOO", 500), ("", 500), (" ", 500), ("STOR", 501),
        ("RNTO /x", 503), ("CWD /", 250), ("CDUP", 250), ("CWD /none", 550), ("PWD", 257), ("STAT", 211),
    ],
)  # fmt: skip
def test_each_command_has_its_answer(dialogue, line, code):
    assert dialogue.ask(line).code == code
    assert dialogue.ask("NOOP").code == 200


def test_the_current_folder_is_kept_and_quoted(dialogue, folder):
    (folder / 'a "quoted" one').mkdir()
    dialogue.demand('CWD /a "quoted" one', "MKD deeper", "CWD deeper")
    assert '"/a ""quoted"" one/deeper"' in dialogue.ask("PWD").text
    dialogue.demand("CDUP", "CDUP", "CDUP")
    assert '"/"' in dialogue.ask("PWD").text


# ---- hostile lines


@pytest.mark.parametrize("octet", [b"\x00", b"\x01", b"\t", b"\x1b", b"\x7f", b"\r"])
def test_a_control_character_is_refused_wherever_it_stands(dialogue, folder, octet):
    for verb in (b"MKD", b"STOR", b"RNFR", b"SIZE", b"USER", b"SITE CHMOD 644"):
        assert dialogue.ask(verb + b" /a" + octet + b"b").code == 501
    assert os.listdir(folder) == []


def test_octets_without_sense_get_an_answer_each(dialogue):
    rubbish = [bytes([octet]) * 3 for octet in range(128, 256, 5)]
    assert {outcome.code for outcome in dialogue.ask_all(*rubbish)} == {500}


def test_a_line_in_single_octets_is_a_line(dialogue):
    for octet in b"SIZE /none\r\n":
        dialogue.sock.sendall(bytes([octet]))
    assert dialogue.outcome().code == 550


def test_lines_may_end_with_a_line_feed_alone(dialogue):
    dialogue.sock.sendall(b"NOOP\nNOOP\r\n")
    assert [dialogue.outcome().code, dialogue.outcome().code] == [200, 200]


def test_abor_may_come_with_its_telnet_signals(dialogue):
    dialogue.sock.sendall(b"\xff\xf4\xff\xf2ABOR\r\n")
    assert dialogue.outcome().code == 226


@pytest.mark.parametrize("ended", [True, False])
def test_a_line_too_long_ends_the_session(serve, ended):
    server = serve(limits=ServerLimits(line=1000))
    with Dialogue(server.port) as dialogue:
        dialogue.sock.sendall(b"SIZE /" + b"x" * 2000 + (b"\r\n" if ended else b""))
        assert dialogue.next_reply().code == 500
        assert dialogue.is_closed()


# ---- limits


def test_thousands_of_pipelined_commands_are_answered_in_order(serve):
    """More than the queue takes: the client is read from when there is room, not dropped."""
    server = serve(limits=ServerLimits(queue=50))
    with Dialogue(server.port) as dialogue:
        lines = [f"SIZE /{number}" if number % 2 else "NOOP" for number in range(5000)]
        outcomes = dialogue.ask_all(*lines)
    assert [outcome.code for outcome in outcomes] == [550 if number % 2 else 200 for number in range(5000)]


def test_one_session_too_many_is_turned_away_until_another_ends(serve):
    server = serve(limits=ServerLimits(sessions=2))
    first, second = Dialogue(server.port), Dialogue(server.port)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as third:
        assert third.recv(100).startswith(b"421")
    first.close()
    eventually(lambda: server.sessions == 1)
    with Dialogue(server.port) as third_again:
        assert third_again.ask("NOOP").code == 200
    second.close()


def sessions_from(address, port):
    """Open as many sessions as the server takes from this address. Return them and the greeting of the refused one."""
    taken: list[socket.socket] = []
    while True:
        one = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(address, 0))
        greeting = one.recv(100)
        if not greeting.startswith(b"220"):
            one.close()
            return taken, greeting.decode()
        taken.append(one)


def test_no_client_takes_the_places_of_all(serve):
    server = serve(limits=ServerLimits(sessions=8))
    first, refusal = sessions_from("127.0.0.1", server.port)
    second, _ = sessions_from("127.0.0.2", server.port)
    third, _ = sessions_from("127.0.0.3", server.port)
    assert refusal == f"421 Too many sessions from your address ({len(first)}), try again later.\r\n"
    assert [len(first), len(second), len(third)] == [5, 2, 1]
    assert sessions_from("127.0.0.4", server.port) == ([], "421 Too many sessions, try again later.\r\n")
    for one in first:
        one.close()
    eventually(lambda: server.sessions == 3)
    fourth, _ = sessions_from("127.0.0.4", server.port)
    assert len(fourth) == 3
    for one in [*second, *third, *fourth]:
        one.close()


def test_eight_networks_without_a_login_keep_no_client_out(serve):
    server = serve(limits=ServerLimits(sessions=32))
    held = [one for number in range(1, 9) for one in sessions_from(f"127.0.{number}.1", server.port)[0]]
    assert server.sessions > 32 - 6
    honest = []
    for _ in range(6):
        sock = socket.create_connection(("127.0.0.1", server.port), timeout=20, source_address=("127.0.20.1", 0))
        honest.append(Dialogue(sock))
    assert [one.ask("NOOP").code for one in honest] == [200] * 6
    for one in honest:
        one.close()
    for one in held:
        one.close()


def test_a_client_that_has_logged_in_gives_no_place_up(serve):
    server = serve(limits=ServerLimits(sessions=4))
    users = []
    for number in (1, 1, 2, 3):
        sock = socket.create_connection(("127.0.0.1", server.port), timeout=20, source_address=(f"127.0.{number}.1", 0))
        users.append(Dialogue(sock))
    assert sessions_from("127.0.9.1", server.port)[1].startswith("421 Too many sessions")
    assert [one.ask("NOOP").code for one in users] == [200] * 4
    for one in users:
        one.close()


def test_the_share_of_an_address_can_be_fixed(serve):
    server = serve(limits=ServerLimits(sessions=8, sessions_per_address=3))
    taken = [sessions_from(f"127.0.0.{number}", server.port)[0] for number in (1, 2, 3)]
    assert [len(sessions) for sessions in taken] == [3, 3, 2]
    for one in itertools.chain(*taken):
        one.close()


def test_a_network_of_ipv6_is_one_client():
    admission = SessionLimits(ServerLimits(sessions_per_address=2))
    assert [admission.enter(f"2001:db8:0:7::{number}") for number in (1, 2)] == ["", ""]
    assert admission.enter("2001:db8:0:7:ffff::1") != ""
    assert admission.enter("2001:db8:0:8::1") == ""
    assert [admission.enter(address) for address in ("192.0.2.1", "::ffff:192.0.2.1")] == ["", ""]
    assert admission.enter("192.0.2.1") != ""
    assert admission.enter("192.0.2.2") == admission.enter("fe80::1%eth0") == ""
    admission.leave("::ffff:192.0.2.1")
    assert admission.enter("192.0.2.1") == ""


def test_commands_do_not_put_off_the_login(serve):
    server = serve(limits=ServerLimits(login_seconds=0.5))
    with Dialogue(server.port, login=False) as dialogue:
        code = 200
        while code == 200:
            dialogue.send("NOOP")
            code = dialogue.next_reply().code
        assert code == 421
        assert dialogue.is_closed()


def test_a_session_without_a_login_is_ended(serve):
    server = serve(limits=ServerLimits(login_seconds=0.1))
    with Dialogue(server.port, login=False) as dialogue:
        assert dialogue.next_reply().code == 421
        assert dialogue.is_closed()


def test_an_idle_session_is_ended_and_a_busy_one_is_not(serve, folder):
    server = serve(limits=ServerLimits(login_seconds=10, idle_seconds=0.3, connect_seconds=1.5))
    with Dialogue(server.port) as idle, Dialogue(server.port) as busy:
        busy.demand("MODE E")
        busy.passive()
        begun = time.monotonic()
        busy.send("STOR /x")
        assert idle.next_reply().code == 421
        assert idle.is_closed()
        assert busy.next_reply().code == 150
        # It ends by its own limit, which is the longer one.
        assert "timed out" in busy.outcome().text
        assert time.monotonic() - begun > 1.0


def test_a_client_that_never_reads_is_let_go(serve, folder):
    for number in range(3000):
        (folder / f"{number:0200}").touch()
    server = serve(limits=ServerLimits(reply_seconds=0.3))
    with Dialogue(server.port) as dialogue:
        dialogue.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        dialogue.send(*["MLSC /"] * 40)
        eventually(lambda: server.sessions == 0)


def test_a_client_that_is_gone_leaves_nothing_behind(server, folder):
    with Dialogue(server.port) as dialogue:
        dialogue.demand("MODE E")
        address = dialogue.passive()
        dialogue.send(*[f"STOR /{number}" for number in range(20)])
        assert dialogue.next_reply().code == 150
    eventually(lambda: server.sessions == 0)
    with pytest.raises(ConnectionRefusedError):
        connect(address)
    assert sorted(os.listdir(folder)) == ["0"]


def test_stopping_the_server_ends_a_transfer_at_once(serve):
    server = serve()
    with Dialogue(server.port) as dialogue, listen() as listener:
        dialogue.demand("MODE E")
        dialogue.port(listener.getsockname())
        dialogue.passive()
        dialogue.send("STOR /x")
        assert dialogue.next_reply().code == 150
        server.stop()
        assert server.sessions == 0
        assert dialogue.is_closed()


def test_data_ports_are_taken_from_the_range_in_turn(serve):
    low = _free_range(4)
    server = serve(data_ports=(low, low + 3))
    with Dialogue(server.port) as dialogue:
        ports = [dialogue.passive()[1] for _ in range(8)]
    assert set(ports) == set(range(low, low + 4))
    assert ports[:4] == ports[4:]


def test_a_range_without_a_free_port_is_an_error_and_not_the_end(serve):
    with listen() as taken:
        port = taken.getsockname()[1]
        server = serve(data_ports=(port, port))
        with Dialogue(server.port) as dialogue:
            assert dialogue.ask("PASV").reply.is_error
            assert dialogue.ask("NOOP").code == 200


def _free_range(count: int) -> int:
    for low in range(42000, 60000, count):
        sockets = []
        try:
            for port in range(low, low + count):
                sockets.append(socket.create_server(("127.0.0.1", port)))
            return low
        except OSError:
            continue
        finally:
            for sock in sockets:
                sock.close()
    raise AssertionError("no free range")


def test_an_ipv6_client_is_served_by_epsv(folder):
    try:
        server = GridFtpServer(folder, "::1")
        server.start()
    except OSError:
        pytest.skip("no IPv6 on this machine")
    try:
        with socket.create_connection(("::1", server.port), timeout=10) as control:
            stream = control.makefile("rwb", buffering=0)
            stream.readline()
            stream.write(b"USER ftp\r\nPASS x\r\nPASV\r\nEPSV\r\nNLST\r\n")
            assert [stream.readline()[:3] for _ in range(3)] == [b"331", b"230", b"425"]
            port = int(stream.readline().split(b"|")[3])
            with socket.create_connection(("::1", port), timeout=10) as data:
                assert data.recv(10) == b""
            assert [stream.readline()[:3] for _ in range(2)] == [b"150", b"226"]
            stream.close()
    finally:
        server.stop()


# ---- the command


@pytest.mark.own_interpreter
def test_the_command_says_where_it_listens_and_ends_on_sigterm(folder):
    command = [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(folder), "--port", "0", "--read-only"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"]
        with Dialogue(int(words[2].rpartition(":")[2])) as dialogue:
            assert dialogue.ask("MKD /x").code == 553
            process.terminate()
            assert process.wait(60) == 0


@pytest.mark.parametrize("arguments", [["--root", "/none/such"], ["--root", "/", "--data-ports", "9-3"], []])
def test_the_command_says_what_is_wrong_with_its_options(arguments):
    command = [sys.executable, "-m", "endpoints.gridftp.server", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode in (1, 2)
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_without_its_folder_or_port_does_not_start(folder, serve):
    with pytest.raises(FileNotFoundError):
        GridFtpServer(folder / "none").start()
    with pytest.raises(OSError, match="in use"):
        GridFtpServer(folder, port=serve().port).start()
