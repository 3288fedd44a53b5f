"""The features of a server that a test takes away."""

from __future__ import annotations

from dataclasses import replace

from endpoints.gridftp.features import Features


def without(features: Features, name: str) -> Features:
    """The same server, if it did not know this command."""
    return replace(features, names=features.names - {name})
