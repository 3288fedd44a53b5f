"""The data connections of one session (RFC 959 section 3.2, GFD.20). Only the session's worker touches them."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import select
import socket
import struct
from collections.abc import Callable, Iterable
from time import monotonic

from endpoints.gridftp.mode_e import HEADER_SIZE, Decoder

from .errors import AbortedError, DataError
from .interrupt import Interrupt
from .limits import Limits
from .peers import everybody

#: Seconds to free a receiver that waits for a sender that will not come.
_HANG_UP_SECONDS = 5.0
#: What is read at once where small files may follow one another.
READ_AHEAD = 64 * 1024
_ABORTIVE = struct.pack("ii", 1, 0)
_NOTHING = memoryview(b"")

Address = tuple[str, int]


class Connection:
    """One data connection. What belongs to the next file stays in `rest` until that file's command comes."""

    __slots__ = ("ahead", "closing", "decoder", "ended", "ending", "rest", "sock", "touched")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.decoder = Decoder()
        self.rest = _NOTHING
        #: The sender has said that it will close this one.
        self.closing = False
        self.begin_file()

    def begin_file(self) -> None:
        #: EOD has been seen; with `ending`, once the rest of its block is there.
        self.ended = self.ending = False
        #: Something of this file came this way.
        self.touched = False
        #: How much to read where a header is due: just that when large blocks come, so that they can be spliced.
        self.ahead = READ_AHEAD

    def expect_large_blocks(self, yes: bool) -> None:
        self.ahead = HEADER_SIZE if yes else READ_AHEAD

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """So that the other side cannot take this for the end of a file."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE)
        self.sock.close()


class PortRange:
    """Ports for passive data connections, used in turn, so that a late comer to an old port finds nobody there."""

    def __init__(self, low: int, high: int) -> None:
        if not 0 < low <= high < 65536:
            raise ValueError(f"not a range of ports: {low}-{high}")
        self._low, self._count = low, high - low + 1
        self._next = random.randrange(self._count)  # noqa: S311 - spreads, hides nothing

    def listen(self, host: str, backlog: int) -> socket.socket:
        for _ in range(self._count):
            port = self._low + self._next
            self._next = (self._next + 1) % self._count
            with contextlib.suppress(OSError):
                return _listen(host, port, backlog)
        raise OSError(errno.EADDRINUSE, "no data port is free")


def _listen(host: str, port: int, backlog: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=backlog)
    listener.setblocking(False)
    return listener


class DataChannel:
    """Where the data comes from or goes to: a listening socket (PASV) or addresses (PORT), and the connections made.

    before_wait: called before the worker sleeps, to send what the client should have by then. admits: whether a
    connection that came in may be used; others are closed, and the right one is still waited for.
    """

    def __init__(
        self,
        limits: Limits,
        interrupt: Interrupt,
        before_wait: Callable[[], None],
        ports: PortRange | None,
        admits: Callable[[socket.socket], bool] = everybody,
    ) -> None:
        self.connections: list[Connection] = []
        self.buffer_size = 0
        self._limits = limits
        self._interrupt = interrupt
        self._before_wait = before_wait
        self._ports = ports
        self._admits = admits
        self._listener: socket.socket | None = None
        self._target: Address | None = None
        self._failed = False

    # ---- opening and closing

    def listen(self, host: str) -> Address:
        """Be passive, at a new port."""
        self.close()
        backlog = self._limits.streams
        self._listener = self._ports.listen(host, backlog) if self._ports else _listen(host, 0, backlog)
        self._set_buffers(self._listener)
        address = self._listener.getsockname()
        return address[0], address[1]

    def aim(self, target: Address) -> None:
        """Be active: connect there when data is to flow."""
        self.close()
        self._target = target

    def close(self) -> None:
        """No channel any more. What was sent still arrives."""
        for connection in self.connections:
            connection.close()
        self.connections.clear()
        if self._listener:
            self._listener.close()
        self._listener = self._target = None
        self._failed = False

    def fail(self, *, resetting: bool = False, sending_blocks: bool = False) -> None:
        """The rule of failing files: see the package."""
        if resetting:
            for connection in self.connections:
                connection.reset()
        elif sending_blocks and self._target and not self.connections:
            with contextlib.suppress(DataError, AbortedError, OSError):
                self._connect(1, _HANG_UP_SECONDS)
        self.close()
        self._failed = True

    def require(self) -> None:
        """-> DataError when no transfer can begin."""
        if self._failed:
            raise DataError.not_opened("closed after an earlier transfer failed, send PASV or PORT")
        if not (self._listener or self._target):
            raise DataError.not_opened("send PASV or PORT first")

    @property
    def passive(self) -> bool:
        return self._listener is not None

    @property
    def reused(self) -> bool:
        return bool(self.connections)

    # ---- connections

    def single(self) -> Connection:
        """The one connection of a MODE S transfer, made by whichever side has to."""
        if self._target:
            self._connect(1, self._limits.connect_seconds)
        else:
            until = monotonic() + self._limits.connect_seconds
            while not self.connections:
                self.wait([], select.POLLIN, until, DataError.not_opened("timed out waiting for a connection"))
        return self.connections[0]

    def outgoing(self, parallelism: int) -> list[Connection]:
        """The connections of a MODE E sender, made when there are none.

        All are made before the first file and all are used for each: were one first used in a later file, a receiver
        that is still at an earlier one could take what comes on it for a part of that.
        """
        if not self.connections:
            self._connect(min(parallelism, self._limits.streams), self._limits.connect_seconds)
        return self.connections

    def check(self) -> None:
        """Between two pieces of work without a wait. -> AbortedError"""
        self._interrupt.check()

    def drop(self, connection: Connection) -> None:
        self.connections.remove(connection)
        connection.close()

    def wait(
        self, connections: Iterable[Connection], event: int, until: float, late: DataError, wake_at: float | None = None
    ) -> list[Connection]:
        """Sleep until some of the connections are ready, or somebody new has connected; those are returned.

        `until`, `wake_at`: monotonic seconds. Raises `late` at `until`, AbortedError when interrupted; returns nothing
        at `wake_at`.
        """
        self._before_wait()
        by_fd = {connection.fileno(): connection for connection in connections}
        poller = select.poll()
        for fd in by_fd:
            poller.register(fd, event)
        poller.register(self._interrupt.fd, select.POLLIN)
        accepting = self._listener if event == select.POLLIN else None
        if accepting:
            poller.register(accepting, select.POLLIN)
        target = until if wake_at is None else min(until, wake_at)
        found = poller.poll(max(0.0, target - monotonic()) * 1000 + 1)
        self._interrupt.check()
        if not found and monotonic() >= until:
            raise late
        ready = [by_fd[fd] for fd, _ in found if fd in by_fd]
        if accepting and any(fd == accepting.fileno() for fd, _ in found):
            ready += self._accept(accepting)
        return ready

    def _accept(self, listener: socket.socket) -> list[Connection]:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return []
        if len(self.connections) >= self._limits.streams or not self._admits(sock):
            sock.close()
            return []
        self.connections.append(Connection(sock))
        return self.connections[-1:]

    def _connect(self, count: int, seconds: float) -> None:
        """All at once: a long way costs one round trip. -> DataError"""
        assert self._target is not None
        until = monotonic() + seconds
        fresh: list[Connection] = []
        try:
            for _ in range(count):
                fresh.append(self._begin_connect(self._target))
            waiting = set(fresh)
            while waiting:
                late = DataError.not_opened(f"connecting to {self._target[0]} timed out")
                for connection in self.wait(waiting, select.POLLOUT, until, late):
                    _finish_connect(connection.sock)
                    waiting.discard(connection)
        except OSError as error:
            raise DataError.not_opened(error.strerror or str(error)) from error
        else:
            self.connections += fresh
            fresh = []
        finally:
            for connection in fresh:
                connection.close()

    def _begin_connect(self, target: Address) -> Connection:
        sock = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET)
        self._set_buffers(sock)
        connection = Connection(sock)
        number = sock.connect_ex(target)
        if number not in (0, errno.EINPROGRESS):
            sock.close()
            raise OSError(number, os.strerror(number))
        return connection

    def _set_buffers(self, sock: socket.socket) -> None:
        """SBUF. Without it the kernel tunes the buffers itself, and does it well."""
        if self.buffer_size:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.buffer_size)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.buffer_size)


def _finish_connect(sock: socket.socket) -> None:
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # On one machine, a connect to a free ephemeral port can meet itself (RFC 793 section 3.4, simultaneous open).
    # A connection that is reset already has no peer any more: whoever uses it will hear of that.
    with contextlib.suppress(OSError):
        if not number and sock.getsockname() == sock.getpeername():
            number = errno.ECONNREFUSED
    if number:
        raise OSError(number, os.strerror(number))
