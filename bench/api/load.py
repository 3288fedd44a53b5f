"""A client of low cost: prepared requests on connections that stay open, in processes of its own."""

from __future__ import annotations

import multiprocessing
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .service import HOST


@dataclass(frozen=True)
class Load:
    """seconds: the time of each request; rate: requests a second, of all clients together."""

    seconds: list[float]
    rate: float

    @property
    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.seconds) * 1000

    @property
    def p95(self) -> float:
        """Milliseconds."""
        return statistics.quantiles(self.seconds, n=20)[-1] * 1000


def request(method: str, path: str, token: str, body: bytes = b"") -> bytes:
    """One HTTP request, whole."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", f"Authorization: Bearer {token}", "Accept: application/json"]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


class Connection:
    """An open connection. Each answer of our server has a length or comes in chunks."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, message: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self._socket.sendall(message)
        head, _, body = self._until_head().partition(b"\r\n\r\n")
        fields = head.lower().split(b"\r\n")
        status = int(head.split(b" ", 2)[1])
        if b"transfer-encoding: chunked" in fields:
            return status, self._chunks(body)
        length = next(int(field.split(b":")[1]) for field in fields if field.startswith(b"content-length:"))
        parts, left = [body], length - len(body)
        while left > 0:
            parts.append(self._receive())
            left -= len(parts[-1])
        return status, b"".join(parts)

    def _chunks(self, first: bytes) -> bytes:
        """A body in chunks, without their heads (RFC 9112 section 7.1)."""
        parts = [first]
        while not b"".join(parts[-2:]).endswith(b"\r\n0\r\n\r\n"):
            parts.append(self._receive())
        data, found, at = b"".join(parts), [], 0
        while size := int(data[at : (start := data.index(b"\r\n", at) + 2)], 16):
            found.append(data[start : start + size])
            at = start + size + 2
        return b"".join(found)

    def _until_head(self) -> bytes:
        found = self._receive()
        while b"\r\n\r\n" not in found:
            found += self._receive()
        return found

    def _receive(self) -> bytes:
        octets = self._socket.recv(1 << 18)
        if not octets:
            raise ConnectionError("the server closed the connection")
        return octets

    def close(self) -> None:
        self._socket.close()


def once(port: int, message: bytes) -> tuple[int, bytes, float]:
    """Status, body and seconds of one request on a connection of its own."""
    connection = Connection(port)
    begun = time.perf_counter()
    status, body = connection.ask(message)
    seconds = time.perf_counter() - begun
    connection.close()
    return status, body, seconds


def run(port: int, per_client: Sequence[Sequence[bytes]], expect: int) -> Load:
    """Each client sends its requests one after another, all clients at once. Raises RuntimeError for another status."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(len(per_client) + 1)
    answers = context.SimpleQueue()

    def client(messages: Sequence[bytes]) -> None:
        connection = Connection(port)
        seconds: list[float] = []
        wrong = ""
        start.wait(60)
        for message in messages:
            begun = time.perf_counter()
            status, body = connection.ask(message)
            seconds.append(time.perf_counter() - begun)
            if status != expect:
                wrong = f"{status}: {body[:500]!r}"
                break
        answers.put((seconds, wrong))

    clients = [context.Process(target=client, args=(messages,), daemon=True) for messages in per_client]
    for process in clients:
        process.start()
    start.wait(60)
    begun = time.perf_counter()
    found = [answers.get() for _ in clients]
    elapsed = time.perf_counter() - begun
    for process in clients:
        process.join(30)
    if wrong := next((words for _, words in found if words), ""):
        raise RuntimeError(f"not {expect} but {wrong}")
    return Load([one for seconds, _ in found for one in seconds], sum(len(each) for each, _ in found) / elapsed)
