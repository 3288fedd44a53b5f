"""A listening socket whose connections are accepted and judged as soon as they come, before a command needs them.

The account of a client is known by the kernel's table of sockets, which names none for a socket that is closed. A
client may send a small file and close before its STOR is read, or without waiting for 150: so a thread accepts.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable

from endpoints.gridftp.server.polling import POLLIN, Poller

#: Seconds: nothing but a connection, or the end, wakes the thread.
_LONG = 3600.0


class NotAdmittedError(ConnectionError):
    """A connection came that may not be used here; it is closed."""


class JudgedListener:
    """A listening socket whose connections are judged in a thread before they may be used. Takes over `listener`.

    most: connections that wait here; further ones are closed.

    As a listening socket it is readable while there is a connection, or a refusal, for `accept`.
    """

    def __init__(self, listener: socket.socket, admits: Callable[[socket.socket], bool], most: int) -> None:
        self._listener, self._admits, self._most = listener, admits, most
        self._lock, self._judging = threading.Lock(), threading.Lock()
        #: None: one that was refused.
        self._accepted: deque[socket.socket | None] = deque()
        self._ready, self._signal = socket.socketpair()
        self._ready.setblocking(False)
        self._closed = False
        #: Why the thread has ended: this process may open no more files.
        self._failure: OSError | None = None
        threading.Thread(target=self._run, name="accepting", daemon=True).start()

    def fileno(self) -> int:
        return self._ready.fileno()

    def judge_all(self) -> None:
        """Accept what has come, and wait for what the thread judges just now."""
        while not (self._closed or self._failure) and self._take_one():
            pass

    def accept(self) -> socket.socket:
        """The connection that came first. Raises BlockingIOError where there is none, NotAdmittedError, OSError."""
        with self._lock:
            if not self._ready.recv(1):
                raise self._failure or ConnectionAbortedError
            sock = self._accepted.popleft()
        if sock is None:
            raise NotAdmittedError
        return sock

    def close(self) -> None:
        """Close it, and the connections that nobody has accepted here; does not wait for the thread."""
        with self._lock:
            self._closed = True
            # The thread sees the end of the pair, and closes the listening socket: another one may get its number.
            self._ready.close()
            while self._accepted:
                if (sock := self._accepted.popleft()) is not None:
                    sock.close()

    def _run(self) -> None:
        poller = Poller()
        poller.register(self._listener.fileno(), POLLIN)
        poller.register(self._signal.fileno(), POLLIN)
        with self._listener, self._signal:
            try:
                while not self._closed:
                    poller.poll(_LONG)
                    self.judge_all()
            except OSError as error:
                # The end of the pair shows it to `accept`.
                self._failure = error

    def _take_one(self) -> bool:
        """Accept and judge the connection that came first; return whether there was one."""
        with self._judging:
            try:
                sock = self._listener.accept()[0]
            except (BlockingIOError, ConnectionError):
                return False
            self._keep(sock if self._admits(sock) else None, sock)
        return True

    def _keep(self, admitted: socket.socket | None, sock: socket.socket) -> None:
        if admitted is None:
            sock.close()
        with self._lock:
            if self._closed or len(self._accepted) >= self._most:
                sock.close()
                return
            self._accepted.append(admitted)
            with contextlib.suppress(OSError):
                self._signal.send(b"\0")
