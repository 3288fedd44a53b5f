"""Connections with an unread rest of a body: the answer arrives, and each of them ends."""

from __future__ import annotations

import io
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from tests.waiting import eventually
from transferapi.rest.http import unread_bodies
from transferapi.rest.http.unread_bodies import Discarder, UnreadBodies


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(closing: ExitStack) -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection: that of the server, and that of the client."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = closing.enter_context(socket.create_connection(listening.getsockname(), 20))
        server, _ = listening.accept()
    return closing.enter_context(server), client


def refuse(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response("401 Unauthorized", [])
    return [b"refused"]


class Input(io.RawIOBase):
    """The body of a request, read from a connection as gunicorn does."""

    def __init__(self, connection: socket.socket, length: int) -> None:
        self._connection, self._left = connection, length

    def read(self, size: int = -1) -> bytes:
        chunk = self._connection.recv(min(size, self._left)) if self._left else b""
        self._left -= len(chunk)
        return chunk


def answer(server: socket.socket, length: int, **more: str) -> None:
    """As gunicorn does: send an answer, call `close`, close the connection."""
    environ = {"gunicorn.socket": server, "CONTENT_LENGTH": str(length), "wsgi.input": Input(server, length)}
    environ |= more
    answered = UnreadBodies(refuse)(environ, lambda *_: lambda _: None)
    for octets in answered:
        server.sendall(octets)
    answered.close()  # type: ignore[attr-defined]


def test_a_client_that_goes_on_sending_gets_its_answer(closing: ExitStack) -> None:
    server, client = connected(closing)
    client.sendall(b"x" * 1000)
    answer(server, 1 << 22)
    # For the server, the connection has ended: it waits for nothing.
    assert server.recv(100) == b""
    server.close()
    client.sendall(b"x" * (1 << 20))
    assert client.recv(100) == b"refused"
    client.sendall(b"x" * (1 << 20))
    assert client.recv(100) == b""


def test_a_connection_whose_body_was_read_goes_on(closing: ExitStack) -> None:
    server, client = connected(closing)
    client.sendall(b"x" * 1000)
    answer(server, 1000)
    client.sendall(b"next")
    assert (server.recv(100), client.recv(100)) == (b"next", b"refused")


def has_ended(client: socket.socket) -> bool:
    """Whether the server has closed both sides of a connection: it resets one on which octets still arrive."""
    try:
        client.send(b"x")
    except OSError:
        return True
    return False


def taken_over(discarder: Discarder, closing: ExitStack) -> list[socket.socket]:
    """Three clients whose connections `discarder` reads."""
    clients = []
    for _ in range(3):
        server, client = connected(closing)
        clients.append(client)
        discarder.take_over(server)
    return clients


def test_silent_and_endless_clients_are_ended(monkeypatch: pytest.MonkeyPatch, closing: ExitStack) -> None:
    monkeypatch.setattr(unread_bodies, "REST_SECONDS", 0.2)
    clients = taken_over(Discarder(), closing)
    eventually(lambda: all(has_ended(client) for client in clients))


def test_the_oldest_connection_ends_for_a_further_one(monkeypatch: pytest.MonkeyPatch, closing: ExitStack) -> None:
    monkeypatch.setattr(unread_bodies, "MOST", 2)
    monkeypatch.setattr(unread_bodies, "REST_SECONDS", 600.0)
    discarder = Discarder()
    clients = taken_over(discarder, closing)
    eventually(lambda: has_ended(clients[0]))
    assert [has_ended(client) for client in clients[1:]] == [False, False]
    for client in clients:
        client.close()
    eventually(lambda: not reading())
    clients = taken_over(discarder, closing)
    assert reading() == ["unread-bodies"]
    for client in clients:
        client.close()


def reading() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "unread-bodies"]


def test_processes_that_load_the_application_before_the_fork_share_no_descriptor() -> None:
    """Events of the connections of one would wake the other, again and again."""
    before = os.listdir("/proc/self/fd")
    application = UnreadBodies(refuse)
    assert (os.listdir("/proc/self/fd"), application._discarder._ends) == (before, {})


def test_a_body_in_chunks_is_not_parsed_again(closing: ExitStack) -> None:
    server, client = connected(closing)
    client.sendall(b"no chunk")
    answer(server, 0, HTTP_TRANSFER_ENCODING="chunked")
    server.close()
    assert (client.recv(100), client.recv(100)) == (b"refused", b"")
