"""Spans: what was done, from when to when, as part of which trace. Without WAYBILL_TRACES nothing here does anything.

A span is handed to the recorder when it ends, and nothing is kept of it. This module imports nothing of OpenTelemetry:
`sdk` does, and is loaded only where traces are on.

Attributes hold words of the code, numbers, and ids of tasks and endpoints; never a path, a name, a message of a server,
or any other text of a user: traces leave the service.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from .trace_context import SpanId, new_span, new_trace, parse

Value = str | int | float | bool


class SpanKind(StrEnum):
    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


@dataclass(slots=True)
class Span:
    """begun: nanoseconds since 1970. parent: 0 for the first span of a trace. link: a span of somebody else's trace."""

    name: str
    id: SpanId
    parent: int
    begun: int
    kind: SpanKind = SpanKind.INTERNAL
    attributes: dict[str, Value] = field(default_factory=dict)
    link: SpanId | None = None
    #: A word of the code where what was done has failed.
    error: str = ""
    ended: int = 0

    def end(self, at: int = 0) -> None:
        """Record it, once. at: 0 for now."""
        if not self.ended:
            self.ended = max(at or time.time_ns(), self.begun)
            if _record is not None:
                _record(self)


_record: Callable[[Span], None] | None = None
_ratio = 1.0


def install(record: Callable[[Span], None] | None, ratio: float) -> None:
    """Hand ended spans to `record` from now on; None: traces are off. ratio: of the traces that are begun here."""
    global _record, _ratio
    _record, _ratio = record, ratio


def is_on() -> bool:
    return _record is not None


def first(name: str, kind: SpanKind = SpanKind.INTERNAL, *, begun: int = 0, link: SpanId | None = None) -> Span | None:
    """The first span of a new trace; None where traces are off, or this one is not among those that are kept."""
    if not is_on() or random.random() >= _ratio:  # noqa: S311 - no secret
        return None
    return Span(name, new_trace(), 0, begun or time.time_ns(), kind, link=link)


def below(
    parent: str | None,
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    *,
    begun: int = 0,
    span: int = 0,
    attributes: Mapping[str, Value] | None = None,
) -> Span | None:
    """A span below the one that this `traceparent` names; None where there is none, or traces are off.

    span: its number, where others must find it; 0: any.
    """
    above = parse(parent) if is_on() else None
    if above is None:
        return None
    named = SpanId(above.trace, span or new_span())
    return Span(name, named, above.span, begun or time.time_ns(), kind, dict(attributes or {}))
