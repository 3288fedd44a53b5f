"""A line between clients and a server that counts what the clients say, and that can go dead without a word."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import Self


class CountingLine:
    """target: a port on loopback, or the path of a unix socket; the line is of the same kind."""

    def __init__(self, target: int | Path) -> None:
        self._target = target
        #: Octets that each client has said so far, in the order of their connections.
        self.said: list[int] = []
        #: Set: nothing passes any more, and no connection ends.
        self.dead = threading.Event()
        self._ending = threading.Event()
        self._sockets: list[socket.socket] = []
        if isinstance(target, Path):
            self.folder = Path(tempfile.mkdtemp(prefix="waybill-line-"))
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(str(self.folder / target.name))
            self._listener.listen(50)
        else:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self.port = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        if isinstance(self._target, Path):
            os.unlink(self.folder / self._target.name)
            self.folder.rmdir()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(near.family)
                self._sockets += near, far
                far.connect(str(self._target) if isinstance(self._target, Path) else ("127.0.0.1", self._target))
                self.said.append(0)
                for source, sink, number in ((near, far, len(self.said) - 1), (far, near, None)):
                    threading.Thread(target=self._copy, args=(source, sink, number), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, number: int | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while self.dead.is_set() and not self._ending.wait(0.05):
                    pass
                if number is not None:
                    self.said[number] += len(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
