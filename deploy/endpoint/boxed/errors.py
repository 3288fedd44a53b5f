"""Errors of a box. Each message is one that an administrator can act on."""

from __future__ import annotations


class BoxError(Exception):
    """The options are wrong, or this machine does not allow it: packages, privileges, ports, files in the way."""


class WaybillError(BoxError):
    """The service cannot be reached, or has refused. status: of HTTP; 0: there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)
