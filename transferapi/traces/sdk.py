"""Spans by the SDK of OpenTelemetry, sent by OTLP/HTTP. Loaded only where WAYBILL_TRACES is set."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context
from opentelemetry.trace import SpanKind as OtelKind

from .span_queue import Sent, SpanQueue
from .spans import Span, SpanKind
from .trace_context import SpanId

log = logging.getLogger(__name__)

#: Seconds for one message with all its tries, and octets of an answer.
SECONDS, MOST_ANSWER = 5.0, 64 << 10
#: Answers after which the same spans are tried again: the collector is busy or away, or the operator can correct it.
_LATER = (401, 403, 404, 408, 429)
_KINDS = {SpanKind.INTERNAL: OtelKind.INTERNAL, SpanKind.SERVER: OtelKind.SERVER, SpanKind.CLIENT: OtelKind.CLIENT}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class BoundedSession(requests.Session):
    """Uses no proxy and no password of the environment, and reads a short answer in bounded time only.

    status: of the last answer; 0: there was none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False
        self.status = 0

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        self.status = 0
        until = time.monotonic() + SECONDS
        answer = super().send(request, **{**options, "stream": True, "allow_redirects": False})
        body = b""
        for part in answer.iter_content(4096):
            body += part
            if len(body) > MOST_ANSWER or time.monotonic() > until:
                answer.close()
                raise requests.exceptions.InvalidHeader("the answer is too long")
        answer._content = body
        self.status = answer.status_code
        if 300 <= answer.status_code < 400:
            # The exporter would count it as success.
            raise requests.exceptions.InvalidURL("a redirect")
        return answer


class Collector:
    """Sends batches to a collector. Raises nothing."""

    def __init__(self, address: str, headers: Mapping[str, str]) -> None:
        self._session = BoundedSession()
        # Its lines hold addresses and texts of the collector; the queue logs outages.
        for name in ("opentelemetry", "urllib3.connectionpool"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._exporter = OTLPSpanExporter(
            address,
            # The authorities that this system trusts, as for all other servers of the operator.
            certificate_file=ssl.get_default_verify_paths().cafile,
            # Given even where there are none: the environment's would be used otherwise.
            headers=dict(headers),
            timeout=SECONDS,
            compression=Compression.Gzip,
            session=self._session,
        )

    def send(self, batch: Sequence[ReadableSpan]) -> Sent:
        try:
            accepted = self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception:
            # Whatever the exporter fails with, the thread that sends must go on.
            return Sent.AWAY
        if accepted:
            return Sent.ACCEPTED
        status = self._session.status
        return Sent.REFUSED if 400 <= status < 500 and status not in _LATER else Sent.AWAY

    @property
    def status(self) -> int:
        """Of HTTP, of the last answer; 0: there was none."""
        return self._session.status

    def give_up(self) -> None:
        """Try nothing again: the process ends."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _GivenIds(IdGenerator):
    """Spans have ids already: of this thread's span that is being made."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def use(self, given: SpanId) -> None:
        self._of_thread.given = given

    def generate_trace_id(self) -> int:
        return int(self._of_thread.given.trace)

    def generate_span_id(self) -> int:
        return int(self._of_thread.given.span)


class _IntoQueue(SpanProcessor):
    def __init__(self, queue: SpanQueue[ReadableSpan]) -> None:
        self._queue = queue

    def on_end(self, span: ReadableSpan) -> None:
        self._queue.add(span)


class Exporter:
    """kind: of the process, "web", "worker" or "shell". version: of the service."""

    def __init__(self, address: str, headers: Mapping[str, str], kind: str, version: str) -> None:
        self._collector = Collector(address, headers)
        self.queue: SpanQueue[ReadableSpan] = SpanQueue(self._collector.send)
        self._ids = _GivenIds()
        facts = {
            "service.namespace": "waybill",
            "service.name": f"waybill-{kind}",
            "service.version": version,
            "host.name": socket.gethostname(),
        }
        provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource(facts), id_generator=self._ids, shutdown_on_exit=False
        )
        provider.add_span_processor(_IntoQueue(self.queue))
        self._tracer = provider.get_tracer("waybill", version)

    def record(self, span: Span) -> None:
        """Raises nothing: it is called after commits, and where a slice ends."""
        try:
            self._record(span)
        except Exception as error:
            log.warning("a span cannot be recorded: %s", type(error).__name__)

    def _record(self, span: Span) -> None:
        self._ids.use(span.id)
        above = _context(SpanId(span.id.trace, span.parent)) if span.parent else _NONE
        made = self._tracer.start_span(
            span.name,
            set_span_in_context(NonRecordingSpan(above)),
            _KINDS[span.kind],
            span.attributes,
            [Link(_context(span.link))] if span.link else None,
            span.begun,
        )
        if span.error:
            made.set_attribute("error.type", span.error)
            made.set_status(Status(StatusCode.ERROR))
        made.end(span.ended)

    def stop(self, seconds: float) -> None:
        """Send what waits, for at most so many seconds."""
        self.queue.stop(seconds)
        self._collector.give_up()


_NONE = SpanContext(0, 0, is_remote=False)


def _context(named: SpanId) -> SpanContext:
    return SpanContext(named.trace, named.span, is_remote=True, trace_flags=_SAMPLED)
