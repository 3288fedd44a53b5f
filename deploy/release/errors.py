"""Errors of a release."""

from __future__ import annotations


class ReleaseError(Exception):
    """A release cannot be made. The text is a sentence for the one who makes it."""
