"""A web server that says what a test wants it to say, over TLS or without, each connection in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

from deploy.endpoint.authority import CertificateFiles

#: Takes the whole request, gives what is sent back, piece by piece.
Script = Callable[[bytes], Iterator[bytes]]


class LyingServer:
    """identity None: without TLS. `heard` are all requests."""

    def __init__(self, script: Script, identity: CertificateFiles | None) -> None:
        self._script = script
        self._context: ssl.SSLContext | None = None
        if identity:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(identity.certificate, identity.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[bytes] = []

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._listener.settimeout(0.05)
        self._begin(self._accept)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        self._listener.close()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                self._begin(self._serve, self._listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.settimeout(20)
            if self._context:
                with self._context.wrap_socket(connection, server_side=True) as secure:
                    self._talk(secure)
            else:
                self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        request = _read_request(connection)
        self.heard.append(request)
        for piece in self._script(request):
            if self._stopping.is_set():
                return
            connection.sendall(piece)


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    """An honest answer's octets."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def drip(data: bytes, *, seconds: float) -> Iterator[bytes]:
    """One octet at a time."""
    for octet in data:
        yield bytes([octet])
        time.sleep(seconds)
