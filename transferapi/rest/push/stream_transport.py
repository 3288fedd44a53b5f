"""Transports of streams: sockets that one thread serves together, or the thread of a request.

No write blocks. Octets that a client has not taken are buffered up to a bound that the caller keeps (`pending`). A
client that takes nothing for STALL_SECONDS is disconnected.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

#: A comment line: without it, proxies could take a quiet stream for a dead connection.
HEARTBEAT, HEARTBEAT_SECONDS = b": \n\n", 15.0
STALL_SECONDS = 30.0
#: The most octets that a client may send after its request before it is disconnected.
MAX_HEARD = 65536
_TICK = 1.0


class StreamTransport(Protocol):
    """Accepts octets at any time, and counts those that the client has not taken."""

    @property
    def pending(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Close it when the client has taken all octets."""


class ThreadTransport:
    """For servers that use a thread for each stream: the iterator returns what is written."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._waits = threading.Condition()
        self._finished = False
        self.closed = False

    @property
    def pending(self) -> int:
        with self._waits:
            return sum(map(len, self._chunks))

    def write(self, data: bytes) -> None:
        with self._waits:
            self._chunks.append(data)
            self._waits.notify()

    def finish(self) -> None:
        with self._waits:
            self._finished = True
            self._waits.notify()

    def close(self) -> None:
        """The client is gone."""
        self.closed = True

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with self._waits:
                self._waits.wait_for(lambda: self._chunks or self._finished, HEARTBEAT_SECONDS)
                data = b"".join(self._chunks)
                self._chunks.clear()
                finished = self._finished
            if data or not finished:
                yield data or HEARTBEAT
            else:
                return


class SocketTransport:
    """A connection that a web server hands over. Octets that are written before are buffered."""

    def __init__(self, writer: SocketWriter) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._buffer = bytearray()
        self._chunked = False
        self._finished = False
        self._heard = 0
        self._moved_at = time.monotonic()
        self.socket: socket.socket | None = None
        self.closed = False

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def attach(self, connection: socket.socket, *, chunked: bool) -> None:
        """Take over the connection. chunked: each part is preceded by its length (RFC 9112, 7.1)."""
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(STALL_SECONDS * 2000))
        with self._lock:
            self.socket = connection
            self._chunked = chunked
            waiting, self._buffer = bytes(self._buffer), bytearray()
            self._put(waiting)
            if self._finished:
                self._put_end()
        self._writer.touch(self)

    def write(self, data: bytes) -> None:
        with self._lock:
            self._put(data)
        self._writer.touch(self)

    def finish(self) -> None:
        with self._lock:
            if not self._finished:
                self._finished = True
                self._put_end()
        self._writer.touch(self)

    def close(self) -> None:
        self.closed = True
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.close()

    def _put(self, data: bytes) -> None:
        if data:
            self._buffer += b"%x\r\n%b\r\n" % (len(data), data) if self.socket and self._chunked else data

    def _put_end(self) -> None:
        if self.socket and self._chunked:
            self._buffer += b"0\r\n\r\n"

    # ---- for the writer's thread alone

    def flush(self) -> None:
        """Send as many octets as the socket takes."""
        assert self.socket is not None
        try:
            with self._lock:
                while self._buffer:
                    sent = self.socket.send(self._buffer)
                    del self._buffer[:sent]
                    self._moved_at = time.monotonic()
                over = self._finished
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            over = True
        if over:
            self.close()

    def hear(self) -> None:
        """Read and discard: a client has nothing to send, but the end of its connection shows here."""
        assert self.socket is not None
        try:
            while data := self.socket.recv(4096):
                self._heard += len(data)
                if self._heard > MAX_HEARD:
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            pass
        self.close()

    def tick(self, now: float) -> None:
        """Send a heartbeat, or disconnect a client that takes nothing."""
        if self._buffer and now - self._moved_at > STALL_SECONDS:
            self.close()
        elif not self._buffer and now - self._moved_at > HEARTBEAT_SECONDS:
            with self._lock:
                self._put(HEARTBEAT)
            self.flush()


class SocketWriter:
    """One thread that writes to all connections of this process."""

    def __init__(self, closed: Callable[[], None]) -> None:
        """closed: called when clients are gone."""
        self._closed = closed
        self._selector = selectors.DefaultSelector()
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        self._selector.register(self._near, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._touched: set[SocketTransport] = set()
        self._transports: dict[SocketTransport, int] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="streams-out", daemon=True)
        self._thread.start()

    def touch(self, transport: SocketTransport) -> None:
        """Note that the transport has octets to send."""
        if transport.socket is None:
            return
        with self._lock:
            self._touched.add(transport)
        with contextlib.suppress(OSError):
            self._far.send(b"x")

    def stop(self) -> None:
        """End the thread and close all connections."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._far.send(b"x")
        self._thread.join(10)

    def _run(self) -> None:
        next_tick = time.monotonic() + _TICK
        while not self._stopping:
            for key, events in self._selector.select(max(0.0, next_tick - time.monotonic())):
                self._happened(key, events)
            with self._lock:
                touched, self._touched = self._touched, set()
            for transport in touched:
                self._serve(transport)
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + _TICK
                for transport in list(self._transports):
                    transport.tick(now)
                    self._look_after(transport)
        for transport in self._transports:
            # The end of a stream may have been written just now.
            if not transport.closed:
                transport.flush()
            transport.close()
        self._selector.close()
        self._near.close()
        self._far.close()

    def _happened(self, key: selectors.SelectorKey, events: int) -> None:
        if key.data is None:
            with contextlib.suppress(OSError):
                self._near.recv(4096)
            return
        transport: SocketTransport = key.data
        if events & selectors.EVENT_READ:
            transport.hear()
        self._serve(transport)

    def _serve(self, transport: SocketTransport) -> None:
        if not transport.closed:
            transport.flush()
        self._look_after(transport)

    def _look_after(self, transport: SocketTransport) -> None:
        """Wait for the next event of this transport, or forget it."""
        known = self._transports.get(transport)
        if transport.closed:
            if known is not None:
                del self._transports[transport]
                # The closed socket has no descriptor any more: epoll has forgotten it, but the selector has not.
                with contextlib.suppress(KeyError, ValueError, OSError):
                    self._selector.unregister(transport.socket)  # type: ignore[arg-type]
            self._closed()
            return
        assert transport.socket is not None
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if transport.pending else 0)
        if known is None:
            self._selector.register(transport.socket, wanted, transport)
        elif known != wanted:
            self._selector.modify(transport.socket, wanted, transport)
        self._transports[transport] = wanted
