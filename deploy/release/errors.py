"""Errors of a release."""

from __future__ import annotations


class ReleaseError(Exception):
    """A release cannot be made. `reason` is a sentence for the one who makes it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
