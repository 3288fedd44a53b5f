"""The rest of a request's body that no view has read: it is discarded after the answer has been sent.

A connection that is closed with unread octets is reset (RFC 9112 section 9.6): the client, or HAProxy, which passes a
long body on as it arrives, would lose the answer to a request that is refused early. Gunicorn reads 64 KiB of such a
rest, and holds a thread meanwhile. Here one thread of the process reads all of them.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: Octets that are discarded at once, and those that a thread of the web server discards before it hands over.
PIECE, AT_ONCE = 1 << 16, 1 << 18
#: Seconds for which the rest of a body is read.
REST_SECONDS = 5.0
#: Connections that are read at the same time in a process; the oldest one is closed for a further one.
MOST = 256


class UnreadBodies:
    """A WSGI application that hands connections with unread octets of a body to `Discarder`, and calls another one."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._discarder = Discarder()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer = self._application(environ, start_response)
        connection = environ.get("gunicorn.socket")
        has_body = environ.get("CONTENT_LENGTH") or "HTTP_TRANSFER_ENCODING" in environ
        # The keys of a TLS connection are in the object that gunicorn has; this is for laboratories.
        if not has_body or connection is None or isinstance(connection, ssl.SSLSocket):
            return answer
        return _Answer(answer, environ, self._discarder)


@dataclass
class _Answer:
    """The octets of an answer. A WSGI server calls `close` when it has sent them (PEP 3333)."""

    octets: Iterable[bytes]
    environ: WSGIEnvironment
    discarder: Discarder

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.octets)

    def close(self) -> None:
        try:
            if hasattr(self.octets, "close"):
                self.octets.close()
        finally:
            connection = self.environ["gunicorn.socket"]
            # A client that has gone away needs nothing.
            with suppress(OSError):
                if not _was_read(self.environ, connection):
                    self.discarder.take_over(connection)


def _was_read(environ: WSGIEnvironment, connection: socket.socket) -> bool:
    """Read what has arrived of a body. Returns whether its end is reached. Raises OSError."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        # Every view refuses it (`KnownLengths`), and a wrong chunk raises an error of the web server's own.
        return False
    connection.setblocking(False)
    try:
        for _ in range(AT_ONCE // PIECE):
            if not environ["wsgi.input"].read(PIECE):
                return True
    except BlockingIOError:
        pass
    finally:
        connection.setblocking(True)
    return False


class Discarder:
    """Reads connections to their end, for at most REST_SECONDS each. Any thread may call `take_over`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Connections, and when their time ends (time.monotonic); the oldest first.
        self._ends: dict[socket.socket, float] = {}
        #: Made with the thread: gunicorn loads the application before it forks, and a selector of the system would be
        #: that of all processes.
        self._selector: selectors.BaseSelector | None = None

    def take_over(self, connection: socket.socket) -> None:
        """End the sending side and read the other one here. To its owner the connection seems closed by the peer.

        Raises OSError.
        """
        taken = connection.dup()
        try:
            _close_by_peer(connection)
        except OSError:
            taken.close()
            raise
        with suppress(OSError):
            taken.shutdown(socket.SHUT_WR)
        taken.setblocking(False)
        with self._lock:
            if len(self._ends) >= MOST:
                self._close(next(iter(self._ends)))
            if self._selector is None:
                selector = selectors.DefaultSelector()
                threading.Thread(target=self._run, args=(selector,), name="unread-bodies", daemon=True).start()
                self._selector = selector
            self._selector.register(taken, selectors.EVENT_READ)
            self._ends[taken] = time.monotonic() + REST_SECONDS

    def _run(self, selector: selectors.BaseSelector) -> None:
        """Returns when there is no connection left."""
        with selector:
            while True:
                ready = selector.select(0.25)
                with self._lock:
                    for key, _ in ready:
                        if key.fileobj in self._ends and _discard(key.fileobj):
                            self._close(key.fileobj)
                    now = time.monotonic()
                    for connection in [each for each, end in self._ends.items() if end <= now]:
                        self._close(connection)
                    if not self._ends:
                        self._selector = None
                        return

    def _close(self, connection: socket.socket) -> None:
        del self._ends[connection]
        if self._selector is not None:
            self._selector.unregister(connection)
        connection.close()


def _discard(connection: socket.socket) -> bool:
    """Returns whether the peer has ended the connection."""
    try:
        return not connection.recv(PIECE)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _close_by_peer(connection: socket.socket) -> None:
    """Put an ended connection in the place of this one, which stays open in copies (`dup`). Raises OSError."""
    ended, peer = socket.socketpair()
    with ended, peer:
        os.dup2(ended.fileno(), connection.fileno(), inheritable=False)
