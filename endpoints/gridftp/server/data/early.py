"""Connections that are begun before the PORT that names their address is executed (OPTS PORT Ahead)."""

from __future__ import annotations

import socket
import threading

from .connector import Address, connect

#: Maximum of one session. A command further back connects when it is executed.
MOST_EARLY = 16


class EarlyConnections:
    """Connections of PORT commands that wait, in the order of these commands.

    `begin` is called in the loop, all else in the session's thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[tuple[Address, socket.socket]] = []
        self._closed = False

    def begin(self, target: Address) -> None:
        """Connect, and do not wait; the kernel tunes the buffers. Raises OSError."""
        with self._lock:
            if not self._closed and len(self._all) < MOST_EARLY:
                self._all.append((target, connect(target)))

    def take(self, target: Address) -> socket.socket | None:
        """The connection to this address that was begun first, on its way or open; the caller closes it."""
        with self._lock:
            for index, (address, sock) in enumerate(self._all):
                if address == target:
                    del self._all[index]
                    return sock
        return None

    def close(self) -> None:
        """Close all; no more are begun."""
        with self._lock:
            self._closed = True
            for _, sock in self._all:
                sock.close()
            self._all.clear()
