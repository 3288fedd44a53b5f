"""Real servers of the product for tests of streams, and clients that listen to them."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.child import spawn, stop
from deploy.stack.free_ports import free_port
from deploy.stack.redis import Redis
from tests.gridftp.authority import Authority
from tests.waiting import children_of, eventually
from transferapi.config import CHECKOUT


@dataclass
class Web:
    """A gunicorn with the settings of the product; `context` where it ends TLS."""

    port: int
    pid: int
    context: ssl.SSLContext | None
    readers: list[Reader] = field(default_factory=list)

    def listen(self, token: str, path: str = "/event_stream", version: str = "HTTP/1.1") -> Reader:
        self.readers.append(Reader(self, token, path, version))
        return self.readers[-1]

    def connection(self) -> http.client.HTTPConnection:
        if self.context:
            return http.client.HTTPSConnection("localhost", self.port, timeout=30, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def get(self, token: str, path: str) -> tuple[int, Any, http.client.HTTPMessage]:
        asked = self.connection()
        asked.request("GET", f"/v0.10{path}", headers={"Authorization": f"Bearer {token}"})
        answer = asked.getresponse()
        body = answer.read()
        asked.close()
        return answer.status, json.loads(body) if body else None, answer.headers

    def close_readers(self) -> None:
        while self.readers:
            self.readers.pop().close()

    def threads(self) -> int:
        """Number of threads of its workers."""
        return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in children_of(self.pid))


class Reader:
    """One stream, read when asked."""

    def __init__(self, web: Web, token: str, path: str, version: str) -> None:
        plain = socket.create_connection(("127.0.0.1", web.port), 30)
        self.socket = web.context.wrap_socket(plain, server_hostname="localhost") if web.context else plain
        lines = [f"GET /v0.10{path} {version}", "Host: localhost", f"Authorization: Bearer {token}"]
        self.socket.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        self.raw = b""

    def until(self, words: bytes) -> None:
        while words not in self.raw:
            chunk = self.socket.recv(65536)
            assert chunk, self.raw
            self.raw += chunk

    def to_end(self) -> None:
        while chunk := self.socket.recv(65536):
            self.raw += chunk

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    def close(self) -> None:
        self.socket.close()


@contextmanager
def running_server(
    program: Sequence[str],
    tmp_path: Path,
    database_url: str,
    redis: Redis,
    authority: Authority,
    host: CertificateFiles | None = None,
    more: Sequence[str] = (),
) -> Iterator[Web]:
    """program: WEB or EVENTS of `deploy.stack.roles`. host: for its TLS. more: words for gunicorn."""
    port = free_port()
    *words, application = program
    words += ["--bind", f"127.0.0.1:{port}", *more, application]
    context = ssl.create_default_context(capath=str(authority.certificates)) if host else None
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")},
        "DATABASE_URL": database_url,
        "REDIS_URL": redis.url(),
        "WAYBILL_SECRET_KEY": settings.SECRET_KEY,
        "WAYBILL_RATE_LIMIT": "0",
        "WAYBILL_HOME": str(tmp_path),
        "WAYBILL_PORT": str(port),
        "WAYBILL_CERTIFICATES": str(authority.certificates),
    }
    if host:
        environ |= {"WAYBILL_TLS_CERTIFICATE": str(host.certificate), "WAYBILL_TLS_KEY": str(host.key)}
    log = tmp_path / "server.log"
    process = spawn([sys.executable, "-m", *words], log=log, env=environ, cwd=CHECKOUT)
    try:
        eventually(lambda: "Booting worker" in log.read_text() or process.poll() is not None, seconds=90)
        assert process.poll() is None, log.read_text()
        running = Web(port, process.pid, context)
        yield running
        running.close_readers()
    finally:
        stop(process)
    assert "Traceback" not in log.read_text(), log.read_text()
