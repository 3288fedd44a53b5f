"""Sockets for data connections by TCP: listening, or on their way to another host."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
from typing import Callable, Tuple

#: WSAEWOULDBLOCK.
_WINDOWS_WOULD_BLOCK = 10035
Address = Tuple[str, int]
#: Opens one data connection through a relay, for a token of `SITE WAYBILL DATA`. Called in a session's worker thread;
#: returns a connected socket, or raises OSError, within a time limit of its own.
OpenRelayed = Callable[[str], socket.socket]


class PortRange:
    """Ports for passive data connections, used in turn: a late connection to an old port is refused."""

    def __init__(self, low: int, high: int) -> None:
        if not 0 < low <= high < 65536:
            raise ValueError(f"not a range of ports: {low}-{high}")
        self._low, self._count = low, high - low + 1
        self._next = random.randrange(self._count)  # noqa: S311 - spreads, hides nothing

    def listen(self, host: str, backlog: int) -> socket.socket:
        """`listen` at one of these ports. Raises OSError."""
        for _ in range(self._count):
            port = self._low + self._next
            self._next = (self._next + 1) % self._count
            with contextlib.suppress(OSError):
                return listen(host, backlog, port)
        raise OSError(errno.EADDRINUSE, "no data port is free")


def connect(target: Address, buffer_size: int = 0) -> socket.socket:
    """A socket that does not block, on its way to `target`. Raises OSError."""
    sock = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET)
    try:
        set_buffers(sock, buffer_size)
        sock.setblocking(False)
        number = sock.connect_ex(target)
        if number not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK, _WINDOWS_WOULD_BLOCK):
            raise OSError(number, os.strerror(number))
    except BaseException:
        sock.close()
        raise
    return sock


def set_buffers(sock: socket.socket, octets: int) -> None:
    """Apply SBUF. Without it (0) the kernel tunes the buffers."""
    if octets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, octets)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, octets)


def listen(host: str, backlog: int, port: int = 0) -> socket.socket:
    """A listening socket that does not block; port 0: any free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=backlog)
    listener.setblocking(False)
    return listener
