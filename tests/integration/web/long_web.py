"""The product's application, with answers beside it that are long, or that break off. For one process."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
waybill = get_wsgi_application()

MB = 1 << 20
#: Parts of MB octets in a long answer: more than may wait for all clients together (`StreamWorker.MOST_UNSENT`).
PARTS = 80
#: Below what an answer may be ahead of its client (`connections.MOST_AHEAD`).
WHOLE = 4_000_000
counts = {"made": 0, "open": 0}


class _Parts:
    def __init__(self) -> None:
        counts["open"] += 1

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(PARTS):
            counts["made"] += 1
            yield b"x" * MB

    def close(self) -> None:
        counts["open"] -= 1


def _breaking() -> Iterator[bytes]:
    yield b"first"
    raise ValueError("the rest is missing")


def _fill(connection: Any) -> None:
    """Fill the buffers of the connection, as if the client had stopped reading."""
    with contextlib.suppress(OSError):
        while True:
            connection.send(b"x" * 65536)


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    path, headers = environ["PATH_INFO"], [("Content-Type", "text/plain")]
    if "HTTP_X_FILL" in environ:
        _fill(environ["gunicorn.socket"])
    if path == "/parts":
        start_response("200 OK", headers)
        return _Parts()
    if path == "/whole":
        start_response("200 OK", [*headers, ("Content-Length", str(WHOLE))])
        return [b"x" * WHOLE]
    if path == "/breaks":
        start_response("200 OK", headers)
        return _breaking()
    if path == "/counts":
        start_response("200 OK", headers)
        return [json.dumps(counts).encode()]
    return waybill(environ, start_response)
