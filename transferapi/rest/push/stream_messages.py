"""Messages of a stream in the form of the HTML standard (9.2, server-sent events)."""

from __future__ import annotations

from transferapi.rest.http.json_documents import dumps
from transferapi.tasks.notify.feed import Cursor


def position(at: Cursor) -> bytes:
    """A message without an event: the position from which the client resumes."""
    return b"id: %b\n\n" % str(at).encode()


def message(name: str, document: object, at: Cursor | None = None) -> bytes:
    """An event with a document, and the client's position after it. JSON in ASCII has no line ends."""
    place = f"id: {at}\n" if at else ""
    return f"{place}event: {name}\ndata: ".encode() + dumps(document) + b"\n\n"
