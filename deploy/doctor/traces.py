"""Traces: whether the collector takes a message of ours, which is empty."""

from __future__ import annotations

from collections.abc import Iterator

from transferapi.config import Config
from transferapi.traces import settings

from .findings import Finding, error, good


def check(config: Config) -> Iterator[Finding]:
    """Nothing where there are no traces. At most 5 s."""
    if not config.traces:
        return
    from transferapi.traces.sdk import Collector
    from transferapi.traces.span_queue import Sent

    headers = settings.headers(config.traces_headers.value if config.traces_headers else "")
    collector = Collector(config.traces, headers)
    if collector.send([]) is Sent.ACCEPTED:
        yield good("The collector takes traces")
    elif collector.status in (401, 403):
        yield error(
            f"The collector of WAYBILL_TRACES refuses this service (status {collector.status}).",
            "Correct WAYBILL_TRACES_HEADERS.",
        )
    elif collector.status:
        yield error(
            f"The collector of WAYBILL_TRACES answers with status {collector.status}.",
            "Check the path of WAYBILL_TRACES (/v1/traces), and that it is the port of OTLP/HTTP, not of gRPC.",
        )
    else:
        yield error(
            "The collector of WAYBILL_TRACES does not answer as one.",
            "Check WAYBILL_TRACES, its certificate and the firewall. Tasks run without it.",
        )
