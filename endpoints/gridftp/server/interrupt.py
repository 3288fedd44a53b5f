"""An event by which one thread ends the waits of another."""

from __future__ import annotations

import socket
import threading

from .errors import AbortedError


class Interrupt:
    """Set from any thread; the worker polls `fd` with its sockets, and calls `check` between pieces of work."""

    def __init__(self) -> None:
        # A pair of sockets: the only thing that every system can wait for together with sockets.
        self._receiver, self._sender = socket.socketpair()
        self.fd = self._receiver.fileno()
        self._lock = threading.Lock()
        self._is_set = False
        self._closed = False

    def set(self) -> None:
        with self._lock:
            if not (self._is_set or self._closed):
                self._sender.send(b"!")
            self._is_set = True

    def clear(self) -> None:
        with self._lock:
            if self._is_set:
                self._is_set = False
                self._receiver.recv(1)

    def check(self) -> None:
        if self._is_set:
            raise AbortedError

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._receiver.close()
            self._sender.close()
