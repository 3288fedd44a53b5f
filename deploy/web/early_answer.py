"""Answers that the web server gives without the application."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_HEAD = "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
#: Headers of each: no cache keeps it, and a browser shows it as the type says.
_FIXED = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True)
class EarlyAnswer:
    """An answer after which the connection is closed. status: code and phrase, such as "411 Length Required"."""

    status: str
    text: str
    kind: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Of the document, for the log.
    request_id: str = ""

    def octets(self) -> bytes:
        text = self.text.encode()
        head = _HEAD.format(status=self.status, kind=self.kind, length=len(text))
        more = "".join(f"{name}: {value}\r\n" for name, value in {**_FIXED, **self.headers}.items())
        return f"{head}{more}\r\n".encode("latin-1") + text
