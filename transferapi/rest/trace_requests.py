"""The first span of a trace: a request that submits a task. Other requests have none."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from transferapi.traces import spans, submissions

from .access_log import route_of
from .http.errors import request_id
from .middleware import Middleware


class TraceRequests(Middleware):
    """Middleware, directly after `AccessLog`: record the span of a request that submits a task.

    The span ends when the view has answered. The body of a streamed answer is sent after that, and is not in the span.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not spans.is_on():
            return self._get_response(request)
        with submissions.request(request.headers.get("traceparent")) as traced:
            status = 500
            try:
                answer = self._get_response(request)
                status = answer.status_code
                return answer
            finally:
                if traced.span is not None:
                    _end(traced.span, request, status)


def _end(span: spans.Span, request: HttpRequest, status: int) -> None:
    """The names of attributes are those of OpenTelemetry's conventions for HTTP."""
    route = route_of(request)
    span.name = f"{request.method} {route}"
    span.attributes = {
        "http.request.method": str(request.method),
        "http.route": route,
        "http.response.status_code": status,
        "waybill.request": request_id(request),
    }
    if status >= 500:
        span.error = str(status)
    span.end()
