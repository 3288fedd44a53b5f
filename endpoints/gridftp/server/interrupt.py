"""How one thread ends the waits of another."""

from __future__ import annotations

import os
import threading

from .errors import AbortedError


class Interrupt:
    """Set from any thread; the worker has `fd` among what it polls, and looks by `check` between pieces of work."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._is_set = False
        self._closed = False

    def set(self) -> None:
        with self._lock:
            self._is_set = True
            if not self._closed:
                os.eventfd_write(self.fd, 1)

    def clear(self) -> None:
        with self._lock:
            if self._is_set:
                self._is_set = False
                os.eventfd_read(self.fd)

    def check(self) -> None:
        if self._is_set:
            raise AbortedError

    def close(self) -> None:
        with self._lock:
            self._closed = True
            os.close(self.fd)
