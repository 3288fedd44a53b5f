"""Answers with many rows: made while they are sent, in parts, each in `patience.turn`.

The request keeps its seat, and what it holds, until the web server has done with the answer.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from typing import Any

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from rest_framework.request import Request

from endpoints import listings, patience
from endpoints.patience import Seat

#: Octets of an answer that is made before it is sent, so that its length is known.
SHORT = 512 * 1024
#: Octets a second at which a client takes an answer, at least, and seconds that it may be late beside that.
SLOWEST, PAUSE = 50_000, 30.0


def answered(request: Request, document: Any, seat: Seat) -> HttpResponseBase:
    """An answer in the form that was agreed on. The seat is left with its end."""
    renderer: Any = request.accepted_renderer
    charset = f"; charset={renderer.charset}" if renderer.charset else ""
    body = _Body(renderer.parts(document), seat)
    short = body.begin()
    if short is None:
        return StreamingHttpResponse(body, content_type=f"{renderer.media_type}{charset}")
    body.close()
    return HttpResponse(short, content_type=f"{renderer.media_type}{charset}")


class _Body:
    """What the web server iterates over, and closes whatever happens."""

    def __init__(self, parts: Iterator[bytes], seat: Seat) -> None:
        self._parts: Iterator[bytes] | None = parts
        self._made: list[bytes] = []
        self._seat = seat

    def begin(self) -> bytes | None:
        """All of a short one, else None."""
        length = 0
        while length <= SHORT:
            part = self._next()
            if not part:
                return b"".join(self._made)
            self._made.append(part)
            length += len(part)
        return None

    def _next(self) -> bytes:
        """b"" at the end."""
        if self._parts is None:
            return b""
        with patience.turn:
            return next(self._parts, b"")

    def __iter__(self) -> Iterator[bytes]:
        """Raises ConnectionResetError where the client takes it too slowly: it would keep the seat for hours."""
        begun, sent = time.monotonic(), 0
        while part := self._made.pop(0) if self._made else self._next():
            if time.monotonic() - begun > PAUSE + sent / SLOWEST:
                raise ConnectionResetError(errno.ECONNRESET, "the client takes its answer too slowly")
            yield part
            sent += len(part)

    def close(self) -> None:
        """Its rows are forgotten first."""
        self._parts = None
        self._made.clear()
        self._seat.leave()
        listings.give_back(self._seat.held)
