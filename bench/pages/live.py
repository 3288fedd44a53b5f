"""Many open live pages on one web process: its memory, and how long an event takes to all of them."""

from __future__ import annotations

import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlsplit

from bench.abuse.harness import Target
from bench.abuse.honest import resident
from deploy.stack.embedded import embedded_environment
from deploy.stack.free_ports import free_port
from tests.instance import Api

#: Streams of one user (`event_broadcaster`, which needs the settings of an instance).
MOST_OF_A_USER = 8
#: Environment of an instance whose web server has one process.
ONE_PROCESS = {"GUNICORN_CMD_ARGS": "--workers=1"}
#: Seconds in which every page must have got its event.
SECONDS = 30.0


@dataclass(frozen=True)
class Reader:
    """A user with a task; each has as many pages as a user may have."""

    token: str
    task: str


@dataclass(frozen=True)
class Found:
    """Megabytes of the web process before and with the pages, and seconds from a change to each page's event."""

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


def measure(api: Api, pages: int) -> Found:
    """Open the pages' streams, then cancel one task after another and time each stream."""
    [web] = Target(api).pids("web")
    readers = _readers(api, -(-pages // MOST_OF_A_USER))
    before = resident(web, "VmRSS")
    wanted = islice((reader for reader in readers for _ in range(MOST_OF_A_USER)), pages)
    streams = [(_listen(api, reader), reader.task) for reader in wanted]
    time.sleep(3)
    during = resident(web, "VmRSS")
    changed: dict[str, float] = {}
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(_cancel_all, api, readers, changed)
        heard = _hear(streams)
        work.result()
    for stream, _ in streams:
        stream.close()
    return Found(pages, before, during, [at - changed[task] for at, task in heard])


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


def _listen(api: Api, reader: Reader) -> socket.socket:
    """An open stream, as a page has it."""
    parts = urlsplit(api.url)
    stream = socket.create_connection((str(parts.hostname), int(parts.port or 80)), timeout=60)
    headers = f"Host: {parts.netloc}\r\nAuthorization: Bearer {reader.token}\r\nAccept: text/event-stream\r\n"
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
            seen += key.fileobj.recv(65536)  # type: ignore[union-attr]
            if b"CANCELED" in seen:
                found.append((time.monotonic(), task))
                selector.unregister(key.fileobj)
    selector.close()
    return found
