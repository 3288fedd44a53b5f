"""Faults: what went wrong, classified once, where it was understood (truth 4).

`classify` turns a reply into a `Fault`; `FaultError` carries one through Python. Everything above this package
switches on `Fault.kind` and never looks at a server's text again. The kinds are the event codes of the Globus
Transfer API, so that a code means the same in a log, an event and a client.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace


class Kind(enum.StrEnum):
    AUTH = "AUTH"
    CONNECT_FAILED = "CONNECT_FAILED"
    CONNECTION_BROKEN = "CONNECTION_BROKEN"
    CONNECTION_RESET = "CONNECTION_RESET"
    ENDPOINT_ERROR = "ENDPOINT_ERROR"
    ENDPOINT_TOO_BUSY = "ENDPOINT_TOO_BUSY"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    FILE_SIZE_CHANGED = "FILE_SIZE_CHANGED"
    INVALID_PATH_NAME = "INVALID_PATH_NAME"
    AMBIGUOUS_PATH = "AMBIGUOUS_PATH"
    IS_A_DIRECTORY = "IS_A_DIRECTORY"
    NOT_A_DIRECTORY = "NOT_A_DIRECTORY"
    PATH_EXISTS = "PATH_EXISTS"
    DIRECTORY_NOT_EMPTY = "DIRECTORY_NOT_EMPTY"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    NO_SPACE_LEFT = "NO_SPACE_LEFT"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NO_CREDENTIALS = "NO_CREDENTIALS"
    TIMEOUT = "TIMEOUT"
    UNSUPPORTED = "UNSUPPORTED"
    UNKNOWN = "UNKNOWN"


class Side(enum.StrEnum):
    SOURCE = "source"
    DESTINATION = "destination"
    UNKNOWN = "unknown"


class Scope(enum.StrEnum):
    """What a fault spoils: only the file, the session it came by, or the whole endpoint."""

    FILE = "file"
    SESSION = "session"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class Fault:
    """One typed fault.

    retryable: False only where no repetition could ever help (a name no server can take); a missing file or a
    refused permission may be mended by a person and so is retried until the deadline.
    advice: one sentence for the user. raw: the server's own words, undecodable bytes replaced.
    """

    kind: Kind
    side: Side = Side.UNKNOWN
    retryable: bool = True
    scope: Scope = Scope.FILE
    advice: str = ""
    raw: str = ""

    def at(self, side: Side) -> Fault:
        """The same fault, seen on this side."""
        return replace(self, side=side)


class FaultError(Exception):
    """A fault on its way up."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault

    def __str__(self) -> str:
        return f"{self.fault.kind} ({self.fault.side}): {self.fault.raw or self.fault.advice}"
