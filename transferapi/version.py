"""The version of this service."""

from __future__ import annotations

from importlib import metadata

#: The name of the distribution, in pyproject.toml and on a package index.
DISTRIBUTION = "waybill-transfer"


def service_version() -> str:
    """The version of the installed service; "unknown" where it runs from a folder that is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"
