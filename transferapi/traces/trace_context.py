"""Identifiers of traces and spans, and their text form (W3C Trace Context, section 3.2: `traceparent`). Pure."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import NamedTuple

#: Version 00 has exactly this form; a later version may go on after another dash.
_FORM = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
#: Characters of the header that are read.
MOST = 256


class SpanId(NamedTuple):
    """A span within its trace; neither number is 0."""

    trace: int
    span: int

    @property
    def text(self) -> str:
        """The `traceparent` of a span that is recorded."""
        return f"00-{self.trace:032x}-{self.span:016x}-01"


def parse(text: str | None) -> SpanId | None:
    """The span that a `traceparent` names; None for anything that is none."""
    found = _FORM.fullmatch(text) if text and len(text) <= MOST else None
    if found is None or (found[1] == "00" and found[5]):
        return None
    named = SpanId(int(found[2], 16), int(found[3], 16))
    return named if all(named) else None


def new_trace() -> SpanId:
    """The first span of a new trace."""
    return SpanId(secrets.randbits(128) or 1, new_span())


def new_span() -> int:
    return secrets.randbits(64) or 1


def derived_span(*words: object) -> int:
    """The same number wherever it is made from the same words: workers find a span that another one has begun."""
    digest = hashlib.sha256("\0".join(map(str, words)).encode()).digest()
    return int.from_bytes(digest[:8], "big") or 1
