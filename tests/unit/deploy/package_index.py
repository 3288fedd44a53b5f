"""A package index of the test's own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class PackageIndex:
    """Answers with `pages`: by path, a document, octets or a status."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[tuple[str, str | None]] = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append((self.path, self.headers["Authorization"]))
                page = index.pages.get(self.path, 404)
                self.send_response(page if isinstance(page, int) else 200)
                self.end_headers()
                if not isinstance(page, int):
                    self.wfile.write(page if isinstance(page, bytes) else json.dumps(page).encode())

            def log_message(self, *words: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/root/simple/"


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    index = PackageIndex()
    threading.Thread(target=index.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield index
    index.server.shutdown()
    index.server.server_close()
