"""Traces of this process are switched on here, and off before it ends. Without WAYBILL_TRACES, nothing is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from . import spans

if TYPE_CHECKING:
    from .sdk import Exporter

#: Seconds for the spans that wait when the process ends: less than a supervisor gives it.
STOP_SECONDS = 1.0
_exporter: Exporter | None = None


def start(address: str, headers: Mapping[str, str], ratio: float, *, kind: str, version: str) -> None:
    """Export spans of this process from now on. Call it after the fork."""
    global _exporter
    from .sdk import Exporter

    _exporter = Exporter(address, headers, kind, version)
    spans.install(_exporter.record, ratio)


def stop(seconds: float = STOP_SECONDS) -> None:
    """Send what waits, for at most so many seconds."""
    global _exporter
    ending, _exporter = _exporter, None
    spans.install(None, 0.0)
    if ending is not None:
        ending.stop(seconds)


def take_counts() -> dict[str, int]:
    """Spans that were exported and dropped since the last call, for metrics."""
    if _exporter is None:
        return {}
    exported, dropped = _exporter.queue.take_counts()
    return {"spans_exported": exported, "spans_dropped": dropped}
