"""`OPTS PORT Ahead`: our server connects for files that still wait behind another one."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endpoints.gridftp.commands import format_host_port
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.server.data.early import MOST_EARLY
from tests.gridftp import ftp_dialogue
from tests.gridftp.ftp_dialogue import Dialogue

HERE = "127.0.0.1"
_open: list[socket.socket] = []


@pytest.fixture(autouse=True)
def _close_all() -> Iterator[None]:
    yield
    while _open:
        _open.pop().close()


def listen() -> socket.socket:
    _open.append(ftp_dialogue.listen())
    return _open[-1]


def accept(listener: socket.socket) -> socket.socket:
    _open.append(ftp_dialogue.accept(listener))
    return _open[-1]


@pytest.fixture
def session(serve: Callable[..., GridFtpServer]) -> Iterator[Dialogue]:
    with Dialogue(serve().port) as dialogue:
        dialogue.demand("TYPE I", "MODE S", "OPTS PORT Ahead=1;")
        yield dialogue


def lines(listener: socket.socket, command: str) -> list[bytes]:
    return [b"PORT " + format_host_port(HERE, listener.getsockname()[1]), command.encode()]


def test_the_connections_of_all_files_are_there_while_the_first_file_is_moved(session: Dialogue, folder: Path) -> None:
    """The senders would wait for them: here none has sent an octet, and all are connected."""
    listeners = [listen() for _ in range(5)]
    session.send(*(line for number, one in enumerate(listeners) for line in lines(one, f"STOR /f{number}")))
    senders = [accept(one) for one in listeners]
    for number, sender in enumerate(senders):
        sender.sendall(b"%d" % number * 1000)
        sender.close()
    for number in range(5):
        assert session.outcome().code == 200
        assert session.outcome().code == 226
        assert (folder / f"f{number}").read_bytes() == b"%d" % number * 1000


def test_no_more_than_a_bounded_number_is_opened_ahead_and_the_rest_in_its_turn(
    session: Dialogue, folder: Path
) -> None:
    listeners = [listen() for _ in range(MOST_EARLY + 5)]
    session.send(*(line for number, one in enumerate(listeners) for line in lines(one, f"STOR /f{number}")))
    # The first PORT does not wait, and its connection may count or not.
    senders = [accept(one) for one in listeners[:MOST_EARLY]]
    listeners[MOST_EARLY + 1].settimeout(0.5)
    with pytest.raises(TimeoutError):
        listeners[MOST_EARLY + 1].accept()
    for number, one in enumerate(listeners):
        one.settimeout(20)
        sender = senders[number] if number < len(senders) else accept(one)
        sender.sendall(b"%d" % number)
        sender.close()
        assert [session.outcome().code for _ in range(2)] == [200, 226]
        assert (folder / f"f{number}").read_bytes() == b"%d" % number


def test_a_file_that_is_refused_gives_its_connection_up_and_the_next_one_has_its_own(
    session: Dialogue, folder: Path
) -> None:
    (folder / "folder").mkdir()
    first, refused, last = listen(), listen(), listen()
    session.send(*lines(first, "STOR /first"), *lines(refused, "STOR /folder"), *lines(last, "STOR /last"))
    senders = [accept(one) for one in (first, refused, last)]
    for sender, octets in zip(senders, (b"first", b"", b"last"), strict=True):
        sender.sendall(octets)
    senders[0].close()
    assert [session.outcome().code for _ in range(3)] == [200, 226, 200]
    assert session.outcome().reply.is_error
    assert senders[1].recv(1) == b"", "its sender does not wait"
    senders[2].close()
    assert [session.outcome().code for _ in range(2)] == [200, 226]
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == {
        "first": b"first",
        "last": b"last",
    }


def test_when_the_client_goes_all_early_connections_are_closed(session: Dialogue) -> None:
    listeners = [listen() for _ in range(3)]
    session.send(*(line for number, one in enumerate(listeners) for line in lines(one, f"STOR /f{number}")))
    senders = [accept(one) for one in listeners]
    session.close()
    for sender in senders:
        with contextlib.suppress(ConnectionError):
            assert sender.recv(1) == b""


@pytest.mark.parametrize(
    "line", ["PORT 127,0,0,1,0,80", "PORT 224,0,0,1,80,80", "PORT nonsense", "EPRT |1|127.0.0.1|22|", "EPRT ", "PORT"]
)
def test_an_address_that_the_command_refuses_is_not_connected_to_early(session: Dialogue, line: str) -> None:
    first = listen()
    session.send(*lines(first, "STOR /first"), line)
    sender = accept(first)
    sender.close()
    assert [session.outcome().code for _ in range(2)] == [200, 226]
    assert session.outcome().code in (501, 504)


def test_without_the_option_a_connection_is_opened_in_its_turn(serve: Callable[..., GridFtpServer]) -> None:
    first, second = listen(), listen()
    with Dialogue(serve().port) as session:
        session.demand("TYPE I", "MODE S", "OPTS PORT Ahead=1;", "OPTS PORT Ahead=0;")
        session.send(*lines(first, "STOR /first"), *lines(second, "STOR /second"))
        sender = accept(first)
        second.settimeout(0.5)
        with pytest.raises(TimeoutError):
            second.accept()
        sender.close()
        second.settimeout(20)
        accept(second).close()
        assert [session.outcome().code for _ in range(4)] == [200, 226, 200, 226]
        assert session.ask("OPTS PORT Ahead=2;").code == 501
        assert session.ask("OPTS PORT").code == 501
