"""Ends the connections of clients that take too long to say what they want: a thread waits for each of them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import Any


class Deadlines:
    """By when each connection must have sent its request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: dict[Any, float] = {}

    def put(self, connection: Any, seconds: float) -> None:
        """From now. connection: of gunicorn, with a `sock`; one that has a deadline already gets another."""
        with self._lock:
            self._ends[connection] = time.monotonic() + seconds

    def lift(self, connection: Any) -> None:
        with self._lock:
            self._ends.pop(connection, None)

    def end_overdue(self) -> None:
        """Who waits for them reads the end of the connection, and gives its thread back."""
        now = time.monotonic()
        with self._lock:
            overdue = [connection for connection, end in self._ends.items() if end < now]
            for connection in overdue:
                del self._ends[connection]
                with contextlib.suppress(OSError):
                    # Of the socket below a TLS one, too: nothing more is said to this client.
                    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


def bound_writing(sock: socket.socket, seconds: int) -> None:
    """Writing fails when the client has taken nothing for so long (socket(7), SO_SNDTIMEO)."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", seconds, 0))
