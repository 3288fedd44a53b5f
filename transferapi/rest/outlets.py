"""Where the octets of a stream go: to a socket that one thread serves with all others, or to the thread of a request.

Nothing here blocks who writes. What a reader does not take is kept up to a bound that the writer keeps (`pending`), and
one that takes nothing for STALL_SECONDS is left.
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

#: A line that says nothing, so that nobody between takes a quiet stream for a dead one.
HEARTBEAT, HEARTBEAT_SECONDS = b": \n\n", 15.0
STALL_SECONDS = 30.0
#: What a reader may say after his request before he is taken for somebody else.
MAX_HEARD = 65536
_TICK = 1.0


class Outlet(Protocol):
    """Takes octets at any time, and says how many nobody has taken from it yet."""

    @property
    def pending(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Close it when all is taken."""


class ThreadOutlet:
    """For servers that give a stream a thread: what is written comes out of its iterator."""

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
        """Its reader is gone."""
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


class SocketOutlet:
    """A connection that a web server has handed over. Until it has, what is written waits."""

    def __init__(self, writer: Writer) -> None:
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
        """From now on the connection is ours. chunked: each part has its length before it (RFC 9112, 7.1)."""
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
        self._writer.add(self)

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
        """Send what the connection takes."""
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
        """A reader has nothing more to say; when he hangs up, it is here that it shows."""
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
        """A sign of life, or the end of one who takes nothing."""
        if self._buffer and now - self._moved_at > STALL_SECONDS:
            self.close()
        elif not self._buffer and now - self._moved_at > HEARTBEAT_SECONDS:
            with self._lock:
                self._put(HEARTBEAT)
            self.flush()


class Writer:
    """One thread for all the connections of this process."""

    def __init__(self, closed: Callable[[], None]) -> None:
        """closed: called when readers are gone."""
        self._closed = closed
        self._selector = selectors.DefaultSelector()
        self._near, self._far = socket.socketpair()
        self._near.setblocking(False)
        self._far.setblocking(False)
        self._selector.register(self._near, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._touched: set[SocketOutlet] = set()
        self._outlets: dict[SocketOutlet, int] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="streams-out", daemon=True)
        self._thread.start()

    def add(self, outlet: SocketOutlet) -> None:
        self.touch(outlet)

    def touch(self, outlet: SocketOutlet) -> None:
        """It has something to send."""
        if outlet.socket is None:
            return
        with self._lock:
            self._touched.add(outlet)
        with contextlib.suppress(OSError):
            self._far.send(b"x")

    def stop(self) -> None:
        """End the thread and hang up."""
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
            for outlet in touched:
                self._serve(outlet)
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + _TICK
                for outlet in list(self._outlets):
                    outlet.tick(now)
                    self._look_after(outlet)
        for outlet in self._outlets:
            outlet.close()
        self._selector.close()
        self._near.close()
        self._far.close()

    def _happened(self, key: selectors.SelectorKey, events: int) -> None:
        if key.data is None:
            with contextlib.suppress(OSError):
                self._near.recv(4096)
            return
        outlet: SocketOutlet = key.data
        if events & selectors.EVENT_READ:
            outlet.hear()
        self._serve(outlet)

    def _serve(self, outlet: SocketOutlet) -> None:
        if not outlet.closed:
            outlet.flush()
        self._look_after(outlet)

    def _look_after(self, outlet: SocketOutlet) -> None:
        """Wait for what it needs next, or forget it."""
        known = self._outlets.get(outlet)
        if outlet.closed:
            if known is not None:
                del self._outlets[outlet]
                # The socket is closed, and so has no number any more: epoll has forgotten it, the selector has not.
                with contextlib.suppress(KeyError, ValueError, OSError):
                    self._selector.unregister(outlet.socket)  # type: ignore[arg-type]
            self._closed()
            return
        assert outlet.socket is not None
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if outlet.pending else 0)
        if known is None:
            self._selector.register(outlet.socket, wanted, outlet)
        elif known != wanted:
            self._selector.modify(outlet.socket, wanted, outlet)
        self._outlets[outlet] = wanted
