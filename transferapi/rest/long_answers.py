"""Answers with many rows: made while they are sent, in parts, each in `patience.turn`.

The request keeps its seat, and what it holds, until the web server has done with the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from rest_framework.request import Request

from endpoints import listings, patience
from endpoints.patience import Seat

#: Octets of an answer that is made before it is sent, so that its length is known.
SHORT = 512 * 1024


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
        while self._made:
            yield self._made.pop(0)
        while part := self._next():
            yield part

    def close(self) -> None:
        """Its rows are forgotten first."""
        self._parts = None
        self._made.clear()
        self._seat.leave()
        listings.give_back(self._seat.held)
