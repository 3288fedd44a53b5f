"""The begin of a trace: the request that submits a task, or the submission itself where no request did.

Only requests that submit tasks have spans. A `traceparent` of a client is not continued: the client would choose what
is kept, and could put spans into the trace of somebody else. The new trace has a link to it
(docs/decisions/metrics-and-traces.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .spans import Span, SpanKind, first, is_on
from .trace_context import parse


class Request:
    """A request that may submit tasks. span: None before it does, and where its trace is not kept."""

    def __init__(self, traceparent: str | None) -> None:
        self.begun = time.time_ns()
        self.span: Span | None = None
        self._link = parse(traceparent)
        self._decided = False

    def begin(self) -> Span | None:
        """All tasks of one request have one trace."""
        if not self._decided:
            self._decided = True
            self.span = first("request", SpanKind.SERVER, begun=self.begun, link=self._link)
        return self.span


class Submission:
    """The trace of one new task. context: what the task keeps, for `spans.below`."""

    def __init__(self, span: Span, *, is_request: bool) -> None:
        self.context = span.id.text
        self._span = span
        self._is_request = is_request

    def committed(self) -> None:
        """The task is written. The span of a request ends with the request."""
        if not self._is_request:
            self._span.end()


_request: ContextVar[Request | None] = ContextVar("waybill_traced_request", default=None)


@contextmanager
def request(traceparent: str | None) -> Iterator[Request]:
    """Tasks that are submitted within belong to this request."""
    begun = Request(traceparent)
    token = _request.set(begun)
    try:
        yield begun
    finally:
        _request.reset(token)


def submission() -> Submission | None:
    """The trace of a task that is being submitted; None where it has none."""
    if not is_on():
        return None
    around = _request.get()
    span = around.begin() if around else first("submit")
    return Submission(span, is_request=around is not None) if span else None
