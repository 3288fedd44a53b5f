"""A client that is gone: what it had said is not executed when the server, whose process stood still, goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.server import disconnects
from endpoints.gridftp.server.disconnects import DisconnectWatch, has_ended, has_no_reader
from tests.faults.stations import OwnStation
from tests.gridftp.ftp_dialogue import Dialogue, reset
from tests.gridftp.toolkit import hand_over
from tests.waiting import eventually

GOOD = b"good" * 1000
TRIES = 4
#: The last words of a client, for a path and an old file beside it.
LAST_WORDS: dict[str, list[str]] = {
    "DELE": ["DELE {path}"],
    "STOR": ["PASV", "STOR {path}"],
    "ESTO": ["PASV", "ESTO A 0 {path}"],
    "RNTO": ["RNFR {aside}", "RNTO {path}"],
    "rename away": ["RNFR {path}", "RNTO {path}.gone"],
    "REPLACE": ["SITE WAYBILL REPLACE {length} {aside} {path}"],
    "TRNC": ["SITE TRNC 1 {path}"],
    "behind others": ["NOOP", "FEAT", "SIZE {path}", "MKD {path}.folder", "DELE {path}"],
}


def wait_until_stopped(pid: int) -> None:
    """The signal alone is not enough: the threads of a process stop one after another (proc(5), state T)."""

    def stopped() -> bool:
        states = [path.read_text().rpartition(") ")[2][0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
        return set(states) == {"T"}

    eventually(stopped)


@pytest.fixture
def station(folder: Path) -> Iterator[OwnStation]:
    for above in (folder, *folder.parents):
        if above.is_relative_to("/tmp/"):
            above.chmod(0o755)
    station = OwnStation(folder)
    asyncio.run(station.start())
    yield station
    station.end()


def freeze(station: OwnStation) -> None:
    station.freeze(0)
    for pid in station.processes(0):
        wait_until_stopped(pid)


@pytest.mark.parametrize("how", ["FIN", "RST", "half"])
@pytest.mark.parametrize("words", LAST_WORDS)
def test_a_client_that_has_disconnected_has_nothing_done(
    folder: Path, station: OwnStation, words: str, how: str
) -> None:
    for number in range(TRIES):
        real, aside = folder / f"real {number}", folder / f"aside {number}"
        real.write_bytes(GOOD)
        aside.write_bytes(b"old")
    hand_over(folder, stop_at=folder.parent)
    before = sorted(os.listdir(folder))
    for number in range(TRIES):
        path, aside_path = f"/real {number}", f"/aside {number}"
        dialogue = Dialogue(station.port)
        dialogue.demand("TYPE I", "MODE S")
        freeze(station)
        dialogue.send(*(word.format(path=path, aside=aside_path, length=len(aside_path)) for word in LAST_WORDS[words]))
        if how == "half":
            dialogue.sock.shutdown(socket.SHUT_WR)
        elif how == "RST":
            reset(dialogue.sock)
        else:
            dialogue.close()
        time.sleep(0.02)
        station.thaw()
        if how == "half":
            assert dialogue.is_closed()
        dialogue.close()
        assert asyncio.run(station.empty()) == 0
        assert (folder / f"real {number}").read_bytes() == GOOD
    assert sorted(os.listdir(folder)) == before


def test_a_client_that_is_there_has_all_of_it_done(folder: Path, station: OwnStation) -> None:
    (folder / "file").write_bytes(GOOD)
    hand_over(folder, stop_at=folder.parent)
    with Dialogue(station.port) as dialogue:
        freeze(station)
        dialogue.send("RNFR /file", "RNTO /other", "MKD /new", "DELE /other")
        time.sleep(0.02)
        station.thaw()
        assert [dialogue.outcome().code for _ in range(4)] == [350, 250, 257, 250]
    assert os.listdir(folder) == ["new"]


# ---- standard input and output, as ssh gives them


class Stdio:
    """A server of one session, whose pipes are in our hands."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "endpoints.gridftp.server", "--stdio", "--root", str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin
        assert self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout
        assert self.output.readline().startswith(b"220 ")
        self.say("USER a", "PASS b")
        assert [self.output.readline()[:3] for _ in range(2)] == [b"331", b"230"]

    def say(self, *lines: str) -> None:
        self.input.write(b"".join(line.encode() + b"\r\n" for line in lines))
        self.input.flush()


@pytest.fixture
def stdio(folder: Path) -> Iterator[Callable[[], Stdio]]:
    started: list[Stdio] = []

    def start() -> Stdio:
        started.append(Stdio(folder))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait(20)
        one.output.close()
        one.input.close()


def test_over_ssh_a_client_that_is_gone_has_nothing_done(folder: Path, stdio: Callable[[], Stdio]) -> None:
    (folder / "file").write_bytes(GOOD)
    for _ in range(TRIES):
        server = stdio()
        server.process.send_signal(signal.SIGSTOP)
        wait_until_stopped(server.process.pid)
        server.say("SIZE /file", "DELE /file")
        server.input.close()
        server.output.close()
        server.process.send_signal(signal.SIGCONT)
        assert server.process.wait(20) == 0
        assert (folder / "file").read_bytes() == GOOD


def test_over_ssh_the_end_of_the_input_is_no_hang_up_while_the_output_is_read(
    folder: Path, stdio: Callable[[], Stdio]
) -> None:
    server = stdio()
    server.say(*(f"MKD /{number}" for number in range(300)))
    server.input.close()
    assert [line[:3] for line in server.output] == [b"257"] * 300 + [b"221"]
    assert server.process.wait(20) == 0
    assert len(os.listdir(folder)) == 300


def test_over_ssh_a_line_that_was_cut_is_no_command(folder: Path, stdio: Callable[[], Stdio]) -> None:
    (folder / "file").write_bytes(GOOD)
    server = stdio()
    server.input.write(b"NOOP\r\nDELE /file")
    server.input.close()
    assert server.process.wait(20) == 0
    assert (folder / "file").read_bytes() == GOOD


def test_over_ssh_a_transfer_ends_when_nobody_reads_any_more(folder: Path, stdio: Callable[[], Stdio]) -> None:
    """Its client had ended the input before, and so the input says nothing."""
    server = stdio()
    server.say("PASV", "STOR /file")
    assert server.output.readline()[:3] == b"227"
    server.input.close()
    eventually(lambda: (folder / "file").exists())
    assert server.process.poll() is None
    server.output.close()
    assert server.process.wait(20) == 0


# ---- the look itself


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server = listener.accept()[0]
    with client, server:
        server.setblocking(False)
        yield client, server


@pytest.mark.parametrize("polls", [True, False])
def test_an_end_is_seen_whatever_waits_before_it(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, polls: bool
) -> None:
    monkeypatch.setattr(disconnects, "POLLS", polls)
    client, server = pair
    watch = DisconnectWatch(server)
    assert not watch._has_ended()
    client.sendall(b"DELE /x\r\n")
    assert not watch._has_ended()
    client.shutdown(socket.SHUT_WR)
    if not polls:
        # Windows shows no more.
        assert not watch._has_ended()
        server.recv(100)
    eventually(watch._has_ended)
    server.close()
    assert watch._has_ended()


def test_a_look_counts_for_a_moment_only(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(disconnects, "steady_seconds", lambda: now)
    client, server = pair
    watch = DisconnectWatch(server)
    assert not watch.has_disconnected()
    client.close()
    eventually(lambda: has_ended(server.fileno()))
    assert not watch.has_disconnected()
    now += disconnects.FRESH_SECONDS
    assert watch.has_disconnected()


def test_a_pipe_without_a_reader_is_known() -> None:
    reading, writing = os.pipe()
    assert not has_no_reader(writing)
    os.close(reading)
    assert has_no_reader(writing, None)
    os.close(writing)
