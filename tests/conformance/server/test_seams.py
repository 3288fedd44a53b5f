"""Our server as programs embed it: sockets that exist already, data through a relay, several folders, stdio."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.server import GridFtpServer, RootPart, ServerLimits
from endpoints.gridftp.server.data import file_watch
from endpoints.gridftp.server.data.files_moved import FileUnderWay
from endpoints.gridftp.server.data.send import BLOCK_SIZE
from tests.gridftp.ftp_dialogue import Dialogue

SIZE = 3 * 2**20 + 77


class Relay:
    """Joins the two parties of a token."""

    def __init__(self) -> None:
        self.opened = 0
        self._waiting: dict[str, socket.socket] = {}
        self._is_closed = False
        self._lock = threading.Lock()

    def open(self, token: str) -> socket.socket:
        with self._lock:
            self.opened += 1
            # A session that ends late must not leave a socket that nobody closes.
            if self._is_closed or token.startswith("refused"):
                raise ConnectionRefusedError("the relay does not know this token")
            if token in self._waiting:
                return self._waiting.pop(token)
            ours, self._waiting[token] = socket.socketpair()
            return ours

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for sock in self._waiting.values():
                sock.close()


class Session(Dialogue):
    """A control channel by `serve_socket`."""

    def __init__(self, server: GridFtpServer, own_host: str = "", user: str = "alice") -> None:
        mine, theirs = socket.socketpair()
        mine.settimeout(20)
        server.serve_socket(theirs, own_host)
        super().__init__(mine, login=False)
        self.demand(f"USER {user}", "PASS x", "TYPE I")


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay()
    yield made
    made.close()


@pytest.fixture
def pair(serve: Callable[..., GridFtpServer], folder: Path, tmp_path: Path, relay: Relay) -> Iterator[list[Session]]:
    """Sessions with two servers that listen nowhere: the source serves `folder`, the destination `other`."""
    (tmp_path / "other").mkdir()
    options = {"port": None, "open_relayed": relay.open, "limits": ServerLimits(connect_seconds=5, stall_seconds=5)}
    sessions = [Session(serve(place, **options)) for place in (folder, tmp_path / "other")]
    yield sessions
    for session in sessions:
        session.close()


def test_a_server_without_a_port_serves_the_sockets_that_it_is_given(serve, folder):
    (folder / "f").write_bytes(b"hello")
    server = serve(port=None)
    assert server.port == 0
    with Session(server) as one, Session(server, user="bob") as two:
        assert one.ask("SIZE /f").text == two.ask("SIZE /f").text == "5"
        assert one.ask("SITE WHOAMI").text == "alice"
        assert server.sessions == 2


def test_a_given_socket_has_data_connections_at_the_given_address_only(serve, folder):
    (folder / "f").write_bytes(b"hello")
    server = serve(port=None)
    with Session(server) as session:
        assert session.ask("PASV").code == session.ask("EPSV").code == 425
    with Session(server, "127.0.0.1") as session:
        address = session.passive()
        with socket.create_connection(address) as data:
            assert session.ask("RETR /f").code == 226
            assert data.recv(100) == b"hello"


def test_a_server_that_has_stopped_takes_no_more_sockets(folder):
    server = GridFtpServer(folder, port=None)
    server.start()
    server.stop()
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(RuntimeError):
        server.serve_socket(theirs)


@pytest.mark.parametrize("streams", [1, 4])
def test_files_go_through_a_relay_in_blocks(pair, folder, tmp_path, relay, streams):
    contents = {str(number): os.urandom(size) for number, size in enumerate((SIZE, 0, 100))}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    tokens = " ".join(f"t{number}" for number in range(streams))
    for session in pair:
        session.demand("MODE E", f"SITE WAYBILL DATA {tokens}")
    for name in contents:
        pair[0].send(f"RETR /{name}")
        pair[1].send(f"STOR /{name}")
    assert [session.outcome().code for session in pair for _ in contents] == [226] * 6
    assert {name: (tmp_path / "other" / name).read_bytes() for name in contents} == contents
    assert relay.opened == 2 * streams


def test_a_file_goes_through_a_relay_as_a_stream(pair, folder, tmp_path):
    (folder / "f").write_bytes(os.urandom(SIZE))
    for number in range(2):
        for session in pair:
            session.demand(f"SITE WAYBILL DATA t{number}")
        pair[0].send("RETR /f")
        pair[1].send(f"STOR /{number}")
        assert [session.outcome().code for session in pair] == [226, 226]
        assert (tmp_path / "other" / str(number)).read_bytes() == (folder / "f").read_bytes()
    assert pair[0].ask("RETR /f").code == 425


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("mode", ["E", "S"])
def test_a_side_that_fails_before_it_opens_its_channel_frees_the_other(pair, folder, tmp_path, failing, mode):
    (folder / "f").write_bytes(os.urandom(SIZE))
    (tmp_path / "other" / "closed").mkdir()
    for session in pair:
        session.demand(f"MODE {mode}", "SITE WAYBILL DATA one")
    pair[0].send("RETR /none" if failing == 0 else "RETR /f")
    pair[1].send("STOR /x" if failing == 0 else "STOR /closed")
    codes = [session.outcome().code for session in pair]
    assert codes[failing] in (550, 553)
    if mode == "E" or failing == 1:
        assert codes[1 - failing] == 426


def test_a_relay_that_refuses_is_an_error_of_the_data_connection(pair, folder):
    (folder / "f").write_bytes(b"x")
    pair[0].demand("MODE E", "SITE WAYBILL DATA refused")
    assert pair[0].ask("RETR /f").code == 425


def test_words_that_are_no_tokens_are_refused(pair, serve, folder):
    for bad in ("SITE WAYBILL", "SITE WAYBILL PRESS x"):
        assert pair[0].ask(bad).code == 502
    many = " ".join(["t"] * 65)
    for bad in (
        "SITE WAYBILL DATA",
        f"SITE WAYBILL DATA {'x' * 257}",
        "SITE WAYBILL DATA a/b",
        f"SITE WAYBILL DATA {many}",
    ):
        assert pair[0].ask(bad).code == 501
    with Dialogue(serve().port) as plain:
        assert plain.ask("SITE WAYBILL DATA token").code == 502


# ---- reports about large files


#: Several blocks of a sender.
LARGE = 6 * BLOCK_SIZE


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> tuple[list[FileUnderWay], list[FileUnderWay]]:
    """The reports of the sender, and of the receiver."""
    monkeypatch.setattr(file_watch, "LARGE", LARGE // 2)
    return [], []


@pytest.fixture
def move(serve, folder, tmp_path, told) -> Iterator[Callable[[str], None]]:
    """Moves a file between two servers that report."""
    (tmp_path / "there").mkdir()
    (folder / "large").write_bytes(bytes(LARGE))
    (folder / "small").write_bytes(bytes(LARGE // 3))
    places = zip((folder, tmp_path / "there"), told, strict=True)
    source, destination = (Dialogue(serve(place, on_progress=reports.append).port) for place, reports in places)

    def move_one(name: str) -> None:
        source.port(destination.passive())
        source.send(f"RETR /{name}")
        destination.send(f"STOR /{name}")
        assert [session.outcome().code for session in (source, destination)] == [226, 226]

    with source, destination:
        source.demand("TYPE I")
        destination.demand("TYPE I")
        yield move_one


def test_how_far_a_large_file_is_is_reported_by_both_sides(move, told, monkeypatch):
    for name in ("FIRST_SECONDS", "LONGEST_SECONDS"):
        monkeypatch.setattr(file_watch, name, 0.0)
    move("large")
    for sends, reports in zip((True, False), told, strict=True):
        assert {(one.path, one.sends, one.size) for one in reports} == {(b"/large", sends, LARGE if sends else None)}
        octets = [one.octets for one in reports]
        assert octets == sorted(octets)
        assert len(octets) >= 6
        assert octets[-1] == LARGE


def test_the_begin_of_large_files_is_reported_at_once_and_no_small_file(move, told, monkeypatch):
    monkeypatch.setattr(file_watch, "FIRST_SECONDS", 3600.0)
    move("small")
    move("large")
    assert [[one.path for one in reports] for reports in told] == [[b"/large"], [b"/large"]]


# ---- several folders


@pytest.fixture
def parts(tmp_path: Path) -> list[RootPart]:
    made = []
    for name, writable in (("data", True), ("archive", False)):
        (tmp_path / "disk" / name).mkdir(parents=True)
        (tmp_path / "disk" / name / "f").write_text(name)
        made.append(RootPart(str(tmp_path / "disk" / name), f"my {name}", writable))
    return made


@pytest.fixture
def session(serve: Callable[..., GridFtpServer], parts: list[RootPart]) -> Iterator[Dialogue]:
    with Dialogue(serve(None, roots=parts).port) as dialogue:
        yield dialogue


def names(dialogue: Dialogue, path: str) -> list[str]:
    outcome = dialogue.ask(f"MLSC {path}")
    assert outcome.code == 250, outcome.text
    return sorted(line.decode().partition("; ")[2] for line in outcome.reply.lines[1:-1])


def test_several_folders_are_one_tree(session):
    assert names(session, "/") == ["my archive", "my data"]
    assert names(session, "/my data") == names(session, "/my data/../my archive/") == ["f"]
    assert names(session, "/my data/../../../..") == ["my archive", "my data"]
    assert session.ask("SIZE /my archive/f").text == "7"
    session.demand("CWD /my data", "CWD ..", "CWD my archive", "SIZE f")
    for missing in ("SIZE /other", "CWD /my", "MLSC /my datas", "SIZE /my data/../../f", "MLST /none"):
        assert session.ask(missing).code == 550


def test_a_part_that_is_read_only_takes_no_changes(session, tmp_path):
    changes = ("MKD /{}/new", "DELE /{}/f", "SITE CHMOD 600 /{}/f", "SITE TRNC 0 /{}/f", "MFMT 20200101000000 /{}/f")
    for change in changes:
        assert session.ask(change.format("my archive")).reply.is_error, change
    for change in (*changes[:1], *changes[2:]):
        assert not session.ask(change.format("my data")).reply.is_error, change
    session.passive()
    assert session.ask("STOR /my archive/f").code == 553
    assert (tmp_path / "disk" / "archive" / "f").read_text() == "archive"
    assert "Perm=adfrw" not in session.ask("MLST /my archive/f").reply.text


def test_the_top_takes_no_changes(session, tmp_path):
    for change in ("MKD /new", "MKD /my data", "RMD /my data", "RMD /", "DELE /my data", "RNFR /my data"):
        assert session.ask(change).reply.is_error, change
    session.passive()
    assert session.ask("STOR /new").code == 553
    assert sorted(os.listdir(tmp_path / "disk")) == ["archive", "data"]


def test_nothing_moves_from_a_part_to_a_read_only_one(session, tmp_path):
    session.demand("RNFR /my data/f")
    assert session.ask("RNTO /my archive/g").code == 553
    assert (tmp_path / "disk" / "data" / "f").exists()


def test_a_symlink_leads_out_of_no_part(session, tmp_path):
    for number, target in enumerate(("../archive/f", str(tmp_path / "disk" / "archive" / "f"), "/etc/passwd")):
        (tmp_path / "disk" / "data" / str(number)).symlink_to(target)
        assert session.ask(f"MFMT 20200101000000 /my data/{number}").code == 550
        session.passive()
        assert session.ask(f"RETR /my data/{number}").code == 550


def test_a_confined_session_sees_its_folders_of_the_parts_only(session):
    session.demand("SITE RESTRICT RW/my data/,RW/my archive")
    assert session.ask("MLSC /").code == 550
    assert names(session, "/my archive") == ["f"]
    assert session.ask("DELE /my archive/f").code == 550
    session.demand("DELE /my data/f")


def test_a_session_confined_to_the_top_sees_all_parts(session):
    session.demand("SITE RESTRICT R/")
    assert names(session, "/") == ["my archive", "my data"]
    assert session.ask("DELE /my data/f").code == 550


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "~", "/"])
def test_a_part_needs_a_name_of_a_folder(tmp_path, name):
    with pytest.raises(ValueError, match="name"):
        GridFtpServer(roots=[RootPart(str(tmp_path), name), RootPart(str(tmp_path), "x")]).start()


def test_two_parts_of_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="same name"):
        GridFtpServer(roots=[RootPart(str(tmp_path), "x")] * 2).start()


def test_parts_that_may_vanish_are_missing_alone_and_come_back(serve, tmp_path, parts):
    away = tmp_path / "away"
    (tmp_path / "disk" / "data").rename(away)
    with Dialogue(serve(None, roots=[part._replace(may_vanish=True) for part in parts]).port) as dialogue:
        assert names(dialogue, "/") == ["my archive"]
        assert dialogue.ask("SIZE /my data/f").code == 550
        dialogue.demand("SIZE /my archive/f", "MLST /")
        away.rename(tmp_path / "disk" / "data")
        assert names(dialogue, "/") == ["my archive", "my data"]
        dialogue.demand("SIZE /my data/f", "DELE /my data/f")
        (tmp_path / "disk" / "data").rename(away)
        assert dialogue.ask("MKD /my data/new").code == 550
        assert not (away / "new").exists()
        (tmp_path / "disk" / "archive").rename(tmp_path / "gone")
        assert names(dialogue, "/") == []
        assert dialogue.ask("MLST /").code == 550


def test_a_part_that_is_to_be_there_is_missed_at_the_start(tmp_path):
    with pytest.raises(FileNotFoundError):
        GridFtpServer(roots=[RootPart(str(tmp_path / "none"), "x"), RootPart(str(tmp_path), "y")]).start()


def test_one_part_without_a_name_is_the_whole_tree(serve, tmp_path, folder):
    (folder / "f").write_text("x")
    with Dialogue(serve(None, roots=[RootPart(str(folder), writable=False)]).port) as dialogue:
        assert names(dialogue, "/") == ["f"]
        assert dialogue.ask("DELE /f").code == 550


# ---- standard input and output


def test_a_session_on_standard_input_and_output(folder):
    (folder / "f").write_bytes(b"hello")
    command = [sys.executable, "-m", "endpoints.gridftp.server", "--stdio", "--root", str(folder)]
    environment = os.environ | {"SSH_CONNECTION": "::1 1 127.0.0.1 22"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"USER waybill\r\nPASS x\r\nSIZE /f\r\nEPSV\r\nQUIT\r\n")
        process.stdin.flush()
        assert [line[:3] for line in process.stdout] == [b"220", b"331", b"230", b"213", b"229", b"221"]
        assert process.wait(20) == 0


def test_a_stdio_session_ends_when_its_input_ends(folder):
    command = [sys.executable, "-m", "endpoints.gridftp.server", "--stdio", "--root", f"ro:{folder}"]
    done = subprocess.run(command, input=b"USER a\r\n", capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"220 ")
