"""Errors of a box. Each message is one that an administrator can act on.

BoxError
|- BoxUsageError    options are invalid or missing
|- HostError        this machine: packages, privileges, ports, files that are in the way
|- WaybillError     the service cannot be reached, or refused; `status` is its HTTP status, 0 without an answer
"""

from __future__ import annotations


class BoxError(Exception):
    """The root of this tree."""


class BoxUsageError(BoxError):
    pass


class HostError(BoxError):
    pass


class WaybillError(BoxError):
    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)
