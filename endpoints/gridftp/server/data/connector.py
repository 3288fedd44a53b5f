"""How data connections are opened: the seam for programs that have other ways than this machine's own sockets."""

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


class DataConnector:
    """Data connections by TCP. A program may pass one of its own to the server.

    data_ports: for passive connections, else any free ports.
    """

    def __init__(self, data_ports: PortRange | None = None) -> None:
        self._ports = data_ports

    def listen(self, host: str, backlog: int) -> socket.socket:
        """A listening socket that does not block. Raises OSError."""
        return self._ports.listen(host, backlog) if self._ports else _listen(host, 0, backlog)

    def connect(self, target: Address, prepare: Callable[[socket.socket], None]) -> socket.socket:
        """A socket that does not block, on its way to `target`. prepare: called before it connects. Raises OSError."""
        sock = socket.socket(socket.AF_INET6 if ":" in target[0] else socket.AF_INET)
        try:
            prepare(sock)
            sock.setblocking(False)
            number = sock.connect_ex(target)
            if number not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK, _WINDOWS_WOULD_BLOCK):
                raise OSError(number, os.strerror(number))
        except BaseException:
            sock.close()
            raise
        return sock


class PortRange:
    """Ports for passive data connections, used in turn: a late connection to an old port is refused."""

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
