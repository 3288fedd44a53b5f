"""Many open live pages on one events server: its memory, and how long an event takes to all of them."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.abuse.honest import resident
from deploy.endpoint.authority import Authority
from deploy.stack.child import spawn, stop
from deploy.stack.embedded import embedded_environment
from deploy.stack.free_ports import HOST, free_port
from deploy.stack.roles import EVENTS
from tests.instance import Api
from tests.waiting import children_of, eventually

#: Streams of each user: half of those that are allowed.
OF_A_USER = 8
#: Seconds in which every page must have got its event.
SECONDS = 30.0


@dataclass(frozen=True)
class Reader:
    """A user with a task; each has as many pages as a user may have."""

    token: str
    task: str


@dataclass(frozen=True)
class Found:
    """Megabytes of the events server before and with the pages, and seconds from a change to each page's event."""

    pages: int
    before: float
    during: float
    delays: list[float]

    @property
    def lines(self) -> list[tuple[str, str]]:
        got = sorted(self.delays)
        return [
            ("pages that got the event", f"{len(got)} of {self.pages}"),
            ("memory of the process before, MB", f"{self.before:.0f}"),
            ("memory with all pages, MB", f"{self.during:.0f}"),
            ("an event, median, ms", f"{1000 * statistics.median(got):.0f}"),
            ("an event, slowest, ms (bar: 1000)", f"{1000 * got[-1]:.0f}"),
        ]


def measure(api: Api, pages: int, *, tls: bool) -> Found:
    """Open the pages' streams, then cancel one task after another and time each stream."""
    readers = _readers(api, -(-pages // OF_A_USER))
    with _events_server(api, tls=tls) as (process, port, context):
        before = resident(process, "VmRSS")
        wanted = islice((reader for reader in readers for _ in range(OF_A_USER)), pages)
        streams = [(_listen(port, context, reader), reader.task) for reader in wanted]
        time.sleep(3)
        during = resident(process, "VmRSS")
        changed: dict[str, float] = {}
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(_cancel_all, api, readers, changed)
            heard = _hear(streams)
            work.result()
        for stream, _ in streams:
            stream.close()
    return Found(pages, before, during, [at - changed[task] for at, task in heard])


@contextmanager
def _events_server(api: Api, *, tls: bool) -> Iterator[tuple[int, int, ssl.SSLContext | None]]:
    """Its worker, its port, and what its clients need for TLS, if it ends TLS itself."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        folder = Path(name)
        authority = Authority(folder / "authority", namespace="/O=Bench")
        host = authority.issue_host(["localhost"])
        environment = {**os.environ, **embedded_environment(api.home)}
        if tls:
            environment |= {"WAYBILL_TLS_CERTIFICATE": str(host.certificate), "WAYBILL_TLS_KEY": str(host.key)}
        log = folder / "events.log"
        *words, application = EVENTS
        words += ["--bind", f"{HOST}:{port}", application]
        process = spawn([sys.executable, "-m", *words], log=log, env=environment)
        try:
            eventually(lambda: "listening on" in log.read_text() or process.poll() is not None, seconds=60)
            [worker] = children_of(process.pid)
            yield worker, port, ssl.create_default_context(capath=str(authority.certificates)) if tls else None
        finally:
            stop(process)


def _readers(api: Api, count: int) -> list[Reader]:
    environment = os.environ | embedded_environment(api.home) | {"DJANGO_SETTINGS_MODULE": "transferapi.settings"}
    command = [sys.executable, "-m", "bench.pages.users", str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    nowhere = api.endpoint("nobody-answers", free_port())
    return [Reader(token, _submit(api, token, nowhere)) for token in json.loads(done.stdout.splitlines()[-1])]


def _call(api: Api, token: str, method: str, path: str, document: object = None) -> dict[str, str]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None if document is None else json.dumps(document).encode()
    request = urllib.request.Request(f"{api.url}/v0.10{path}", body, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, str] = json.load(answer)
    return found


def _submit(api: Api, token: str, endpoint: str) -> str:
    item = {"DATA_TYPE": "transfer_item", "source_path": "/a", "destination_path": "/b"}
    document = {
        "DATA_TYPE": "transfer",
        "submission_id": _call(api, token, "GET", "/submission_id")["value"],
        "source_endpoint": endpoint,
        "destination_endpoint": endpoint,
        "DATA": [item],
    }
    return _call(api, token, "POST", "/transfer", document)["task_id"]


def _listen(port: int, context: ssl.SSLContext | None, reader: Reader) -> socket.socket:
    """An open stream, as a page has it."""
    plain = socket.create_connection((HOST, port), timeout=60)
    stream = context.wrap_socket(plain, server_hostname="localhost") if context else plain
    headers = f"Host: localhost\r\nAuthorization: Bearer {reader.token}\r\nAccept: text/event-stream\r\n"
    stream.sendall(f"GET /v0.10/event_stream HTTP/1.1\r\n{headers}\r\n".encode())
    answer = stream.recv(65536)
    if b" 200 " not in answer.split(b"\r\n")[0]:
        raise RuntimeError(answer[:300].decode(errors="replace"))
    stream.setblocking(False)
    return stream


def _cancel_all(api: Api, readers: list[Reader], changed: dict[str, float]) -> None:
    for reader in readers:
        changed[reader.task] = time.monotonic()
        _call(api, reader.token, "POST", f"/task/{reader.task}/cancel")


def _hear(streams: list[tuple[socket.socket, str]]) -> list[tuple[float, str]]:
    """When each stream got the end of its task."""
    selector = selectors.DefaultSelector()
    for stream, task in streams:
        selector.register(stream, selectors.EVENT_READ, (task, bytearray()))
    found: list[tuple[float, str]] = []
    end = time.monotonic() + SECONDS
    while len(found) < len(streams) and time.monotonic() < end:
        for key, _ in selector.select(0.5):
            task, seen = key.data
            with contextlib.suppress(ssl.SSLWantReadError, BlockingIOError):
                seen += key.fileobj.recv(65536)  # type: ignore[union-attr]
            if b"CANCELED" in seen:
                found.append((time.monotonic(), task))
                selector.unregister(key.fileobj)
    selector.close()
    return found
