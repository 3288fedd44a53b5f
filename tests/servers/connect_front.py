"""One address for a web server and a relay, as a front server gives it: agents know one address only."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from wsgiref.simple_server import WSGIRequestHandler, make_server

from django.core.wsgi import get_wsgi_application
from django.db import connections


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def web() -> Iterator[int]:
    """The pages and the API of the service in this process, over the test database. Yields the port."""
    server = make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=_Quiet)

    def serve() -> None:
        server.serve_forever(0.05)
        connections.close_all()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()


_TUNNEL = b"GET /connect/tunnel "


@contextmanager
def front(web_port: int, relay_port: int) -> Iterator[int]:
    """Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, web_port, relay_port), daemon=True).start()
        yield int(listener.getsockname()[1])
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, web_port: int, relay_port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, web_port, relay_port), daemon=True).start()


def _serve(client: socket.socket, web_port: int, relay_port: int) -> None:
    with client:
        first = client.recv(65536)
        port = relay_port if first.startswith(_TUNNEL) else web_port
        with socket.create_connection(("127.0.0.1", port)) as server:
            server.sendall(first)
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join(60)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while octets := source.recv(65536):
            target.sendall(octets)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
