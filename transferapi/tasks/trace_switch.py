"""Turns traces on in a process, as the settings say. It loads no model: workers begin without them."""

from __future__ import annotations

from django.conf import settings

from transferapi.traces import exporting
from transferapi.traces import settings as trace_settings
from transferapi.version import service_version


def begin(kind: str) -> None:
    """Export spans of this process, where the settings say so. kind: "web", "worker" ... After the fork."""
    if settings.TRACES:
        headers = trace_settings.headers(settings.TRACES_HEADERS.value if settings.TRACES_HEADERS else "")
        exporting.start(settings.TRACES, headers, settings.TRACES_RATIO, kind=kind, version=service_version())
