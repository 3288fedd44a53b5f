"""A receiver of OTLP/HTTP for tests: it reads the real messages (opentelemetry-proto) and keeps their spans."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Received:
    """A span as it came. Ids in hexadecimal; parent "" for the first one of a trace; times in nanoseconds."""

    name: str
    trace: str
    id: str
    parent: str
    service: str
    begun: int
    ended: int
    failed: bool
    facts: dict[str, Any]
    links: tuple[str, ...]


class Collector:
    """status: with which it answers; it keeps spans of accepted messages only. hangs: answers nothing until it ends."""

    def __init__(self, port: int = 0) -> None:
        self.status, self.hangs = 200, False
        self.location = ""
        self.spans: list[Received] = []
        self.headers: list[dict[str, str]] = []
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def of_trace(self, trace: str) -> Sequence[Received]:
        return [one for one in self.spans if one.trace == trace]

    def named(self, name: str) -> Sequence[Received]:
        return [one for one in list(self.spans) if one.name == name]

    def took(self, path: str, headers: dict[str, str], body: bytes) -> int:
        self.headers.append({"path": path, **{name.lower(): value for name, value in headers.items()}})
        if self.hangs:
            self._ended.wait()
        if self.status == 200:
            message = ExportTraceServiceRequest()
            message.ParseFromString(gzip.decompress(body))
            self.spans += _spans(message)
        return self.status


def _handler(collector: Collector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(collector.took(self.path, dict(self.headers), body))
            if collector.location:
                self.send_header("Location", collector.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """No lines."""

    return Handler


def _spans(message: Any) -> Iterator[Received]:
    for resource in message.resource_spans:
        service = _facts(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Received(
                    *(span.name, span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), service),
                    *(span.start_time_unix_nano, span.end_time_unix_nano, span.status.code == 2),
                    _facts(span.attributes),
                    tuple(f"{link.trace_id.hex()}-{link.span_id.hex()}" for link in span.links),
                )


def _facts(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    collector = Collector(port)
    try:
        yield collector
    finally:
        collector.close()
