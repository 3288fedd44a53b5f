"""Answers with many rows, made in parts while they are sent, each part in `concurrency_limits.cpu_lock`.

The request keeps its slot, and the rows, until the web server has closed the answer.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from typing import Any

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from rest_framework.request import Request

from endpoints import concurrency_limits, listing_limits
from endpoints.concurrency_limits import RequestSlot

#: Octets of an answer that is made before it is sent, so that its length is known.
SHORT = 512 * 1024
#: Octets a second at which a client must take an answer, and seconds that it may be late in addition.
SLOWEST, PAUSE = 50_000, 30.0


def answered(request: Request, document: Any, slot: RequestSlot) -> HttpResponseBase:
    """An answer in the negotiated format. The slot is released when the answer ends."""
    renderer: Any = request.accepted_renderer
    charset = f"; charset={renderer.charset}" if renderer.charset else ""
    body = _Body(renderer.parts(document), slot)
    short = body.begin()
    if short is None:
        return StreamingHttpResponse(body, content_type=f"{renderer.media_type}{charset}")
    body.close()
    return HttpResponse(short, content_type=f"{renderer.media_type}{charset}")


def paced(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Raises ConnectionResetError where the client takes the answer too slowly: it would hold its slot long."""
    begun, sent, waited = time.monotonic(), 0, 0.0
    while True:
        asked = time.monotonic()
        part = next(parts, b"")
        waited += time.monotonic() - asked
        if not part:
            return
        if time.monotonic() - begun - waited > PAUSE + sent / SLOWEST:
            raise ConnectionResetError(errno.ECONNRESET, "the client takes its answer too slowly")
        yield part
        sent += len(part)


class _Body:
    """The iterable of the web server, which closes it in every case."""

    def __init__(self, parts: Iterator[bytes], slot: RequestSlot) -> None:
        self._parts: Iterator[bytes] | None = parts
        self._made: list[bytes] = []
        self._slot = slot

    def begin(self) -> bytes | None:
        """The whole answer where it is short, else None."""
        length = 0
        while length <= SHORT:
            part = self._next()
            if not part:
                return b"".join(self._made)
            self._made.append(part)
            length += len(part)
        return None

    def _next(self) -> bytes:
        """The next part; b"" at the end."""
        if self._parts is None:
            return b""
        with concurrency_limits.cpu_lock:
            return next(self._parts, b"")

    def __iter__(self) -> Iterator[bytes]:
        return paced(iter(lambda: self._made.pop(0) if self._made else self._next(), b""))

    def close(self) -> None:
        """Free the rows, then release the slot."""
        self._parts = None
        self._made.clear()
        self._slot.leave()
        listing_limits.trim_memory(self._slot.reserved)
