"""The version of this service."""

from __future__ import annotations

from importlib import metadata


def service_version() -> str:
    """The version of the installed service; "unknown" where it runs from a folder that is not installed."""
    try:
        return metadata.version("waybill")
    except metadata.PackageNotFoundError:
        return "unknown"
