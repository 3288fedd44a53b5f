"""The connections of a process that its threads share, with sockets in their place."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests.waiting import eventually
from transferapi.outages import shared_connections
from transferapi.outages.shared_connections import SharedConnections


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection, and the end of the server."""
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def test_the_connection_that_was_used_last_is_taken_first() -> None:
    shared: SharedConnections[socket.socket] = SharedConnections(lambda _: True)
    (one, its_end), (two, another_end) = socket.socketpair(), socket.socketpair()
    for connection in (one, two):
        shared.give_back(connection)
    assert shared.take() is two
    assert shared.take() is one
    assert shared.take() is None
    for connection in (one, two, its_end, another_end):
        connection.close()


def test_a_thread_waits_until_another_one_gives_its_connection_back(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    shared: SharedConnections[socket.socket] = SharedConnections(lambda _: True)
    found: list[socket.socket | None] = []
    waiting = threading.Thread(target=lambda: found.append(shared.take(60)))
    waiting.start()
    shared.give_back(pair[0])
    waiting.join(60)
    assert found == [pair[0]]


@pytest.mark.parametrize("farewell", [b"", b"E"])
def test_a_connection_that_the_server_has_ended_is_closed(
    pair: tuple[socket.socket, socket.socket], farewell: bytes
) -> None:
    shared: SharedConnections[socket.socket] = SharedConnections(lambda _: True)
    shared.give_back(pair[0])
    pair[1].sendall(farewell)
    pair[1].close()
    assert shared.take() is None
    assert pair[0].fileno() == -1


def test_a_connection_that_was_idle_is_asked_whether_it_works(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_connections, "CHECK_SECONDS", 0.0)
    asked: list[socket.socket] = []

    def fails(one: socket.socket) -> bool:
        asked.append(one)
        return False

    shared: SharedConnections[socket.socket] = SharedConnections(fails)
    shared.give_back(pair[0])
    assert shared.take() is None
    assert (asked, pair[0].fileno()) == ([pair[0]], -1)


def test_what_nobody_uses_is_closed_and_what_is_in_use_is_not(pair: tuple[socket.socket, socket.socket]) -> None:
    shared: SharedConnections[socket.socket] = SharedConnections(lambda _: True)
    shared.give_back(pair[0])
    shared.close_idle(3600)
    assert shared.take() is pair[0]
    shared.close_idle(0)
    assert pair[0].fileno() != -1
    shared.give_back(pair[0])
    shared.close_idle(0)
    eventually(lambda: pair[0].fileno() == -1)
    assert shared.take() is None
