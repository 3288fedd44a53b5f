"""The environment variables of traces."""

from __future__ import annotations

from dataclasses import dataclass

from identity.hidden import Secret
from transferapi.traces import settings

from .declaration import secret, variable


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    """Traces of tasks, for an OpenTelemetry collector."""

    traces: str = variable(
        "WAYBILL_TRACES",
        settings.collector,
        "",
        "the OTLP/HTTP receiver of an OpenTelemetry collector, such as http://127.0.0.1:4318; its path is /v1/traces "
        "where none is given (default: no traces)",
    )
    #: Lines; `traces.settings.headers` reads them.
    traces_headers: Secret | None = secret(
        "WAYBILL_TRACES_HEADERS",
        settings.headers,
        "headers for the collector, one a line, such as Authorization: Bearer ... (or ..._FILE; default: none)",
    )
    traces_ratio: float = variable(
        "WAYBILL_TRACES_RATIO",
        settings.ratio,
        "1",
        "the part of all submissions that is traced, 0 to 1, such as 0.05 (default 1)",
    )
