"""Faults: what went wrong, classified once, where it was understood (truth 4).

`classify` turns a reply into a `Fault`; `FaultError` carries one through Python. Everything above this package
switches on `Fault.kind` and never looks at a server's text again. The kinds are the event codes of the Globus
Transfer API, so that a code means the same in a log, an event and a client.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from .replies import Reply
from .words import readable

#: Text kept of a reply: enough to read, too little to fill a table.
MAX_RAW = 2000


class Kind(enum.StrEnum):
    ACL_CHANGED = "ACL_CHANGED"
    AUTH = "AUTH"
    CONNECT_FAILED = "CONNECT_FAILED"
    CONNECTION_BROKEN = "CONNECTION_BROKEN"
    CONNECTION_RESET = "CONNECTION_RESET"
    ENDPOINT_ERROR = "ENDPOINT_ERROR"
    ENDPOINT_TOO_BUSY = "ENDPOINT_TOO_BUSY"
    EXTERNAL_CHECKSUM_MISMATCH = "EXTERNAL_CHECKSUM_MISMATCH"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    FILE_SIZE_CHANGED = "FILE_SIZE_CHANGED"
    GSI_DN_MISMATCH = "GSI_DN_MISMATCH"
    INSECURE_SERVER = "INSECURE_SERVER"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    INVALID_PATH_NAME = "INVALID_PATH_NAME"
    INVALID_SERVICE_CREDENTIAL = "INVALID_SERVICE_CREDENTIAL"
    INVALID_SYMLINK = "INVALID_SYMLINK"
    AMBIGUOUS_PATH = "AMBIGUOUS_PATH"
    IS_A_DIRECTORY = "IS_A_DIRECTORY"
    NOT_A_DIRECTORY = "NOT_A_DIRECTORY"
    NOT_A_SYMLINK = "NOT_A_SYMLINK"
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
    VERIFY_CHECKSUM = "VERIFY_CHECKSUM"


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
    advice: one sentence for the user. raw: the server's own words; what cannot be read or shown is replaced in both.
    """

    kind: Kind
    side: Side = Side.UNKNOWN
    retryable: bool = True
    scope: Scope = Scope.FILE
    advice: str = ""
    raw: str = ""
    #: The server that it was met at, as its endpoint has it ("dtn.example.org:2811"); "" where that is not known, or
    #: not for the user to know.
    server: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "advice", readable(self.advice))
        object.__setattr__(self, "raw", readable(self.raw[:MAX_RAW]))

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


#: What servers say, in lower case, and what it means: the first match wins. The toolkit's structured codes
#: ("c=PATH_NOT_FOUND") stand before the texts of the operating system. Nowhere else is error text searched.
_PHRASES: tuple[tuple[str, Kind], ...] = (
    ("c=path_not_found", Kind.FILE_NOT_FOUND),
    ("c=permission_denied", Kind.PERMISSION_DENIED),
    ("c=path_exists", Kind.PATH_EXISTS),
    ("c=not_a_directory", Kind.NOT_A_DIRECTORY),
    ("c=is_a_directory", Kind.IS_A_DIRECTORY),
    ("c=quota_exceeded", Kind.QUOTA_EXCEEDED),
    ("c=no_space_left", Kind.NO_SPACE_LEFT),
    ("quota exceeded", Kind.QUOTA_EXCEEDED),
    ("over quota", Kind.QUOTA_EXCEEDED),
    ("errno: 122", Kind.QUOTA_EXCEEDED),
    ("no space left on device", Kind.NO_SPACE_LEFT),
    ("no such file or directory", Kind.FILE_NOT_FOUND),
    ("file name too long", Kind.INVALID_PATH_NAME),
    ("too many levels of symbolic links", Kind.INVALID_PATH_NAME),
    ("invalid or incomplete multibyte", Kind.INVALID_PATH_NAME),
    ("path not allowed", Kind.PERMISSION_DENIED),
    ("permission denied", Kind.PERMISSION_DENIED),
    ("operation not permitted", Kind.PERMISSION_DENIED),
    ("read-only file system", Kind.PERMISSION_DENIED),
    ("not a directory", Kind.NOT_A_DIRECTORY),
    ("is a directory", Kind.IS_A_DIRECTORY),
    ("directory not empty", Kind.DIRECTORY_NOT_EMPTY),
    ("errno: 39", Kind.DIRECTORY_NOT_EMPTY),
    ("file exists", Kind.PATH_EXISTS),
    ("file too large", Kind.NO_SPACE_LEFT),
    ("too many open files", Kind.ENDPOINT_TOO_BUSY),
    ("no nodes available", Kind.ENDPOINT_TOO_BUSY),
    ("pipeline queue full", Kind.ENDPOINT_TOO_BUSY),
    ("server side credential failure", Kind.INVALID_SERVICE_CREDENTIAL),
    ("expired", Kind.NO_CREDENTIALS),
    ("connection refused", Kind.CONNECT_FAILED),
    ("connection reset", Kind.CONNECTION_RESET),
    ("broken pipe", Kind.CONNECTION_RESET),
    ("end-of-file was reached", Kind.CONNECTION_BROKEN),
    ("timed out", Kind.TIMEOUT),
    ("timeout", Kind.TIMEOUT),
)

#: What remains to be said by the reply code alone (RFC 959 section 4.2.1, RFC 2228).
_CODES: dict[int, Kind] = {
    425: Kind.CONNECT_FAILED,
    426: Kind.CONNECTION_RESET,
    430: Kind.AUTH,
    450: Kind.PERMISSION_DENIED,
    452: Kind.NO_SPACE_LEFT,
    500: Kind.UNKNOWN,
    502: Kind.UNSUPPORTED,
    504: Kind.UNSUPPORTED,
    530: Kind.AUTH,
    532: Kind.AUTH,
    535: Kind.AUTH,
    552: Kind.QUOTA_EXCEEDED,
    553: Kind.PERMISSION_DENIED,
}

_ADVICE: dict[Kind, str] = {
    Kind.AUTH: "The server refused the login; check the credential for this endpoint.",
    Kind.CONNECT_FAILED: "A connection could not be made; the server may be down, or a firewall in the way.",
    Kind.ENDPOINT_TOO_BUSY: "The server has too much to do; it is asked again later.",
    Kind.FILE_NOT_FOUND: "Nothing is there under this path; put it there, or cancel the task.",
    Kind.PERMISSION_DENIED: "The account on this endpoint may not do this; change the permissions or the path.",
    Kind.NO_SPACE_LEFT: "The disk of this endpoint is full; make room, and the file is tried again.",
    Kind.QUOTA_EXCEEDED: "The quota on this endpoint is used up; make room, and the file is tried again.",
    Kind.IS_A_DIRECTORY: "This path is a folder, and a file is wanted.",
    Kind.NOT_A_DIRECTORY: "A component of this path is not a folder.",
    Kind.INVALID_PATH_NAME: "This name cannot be used on this endpoint.",
    Kind.NO_CREDENTIALS: "The credential for this endpoint has expired; renew it, and the task goes on.",
    Kind.PATH_EXISTS: "Something is there already under this path.",
    Kind.DIRECTORY_NOT_EMPTY: "The folder is not empty.",
    Kind.GSI_DN_MISMATCH: "The server's certificate is for another host; check the host name, or give the endpoint the "
    "subject that this server has.",
    Kind.INVALID_SERVICE_CREDENTIAL: "The server's certificate is not accepted: it is expired, revoked, or of an "
    "authority that is not trusted here; its administrator must see to it.",
    Kind.INSECURE_SERVER: "The server does not protect its control channel as it must, and nothing is sent to it in "
    "clear text; tell its administrator.",
    Kind.TIMEOUT: "No word came in time; it is tried again.",
    Kind.CONNECTION_BROKEN: "The connection ended too early; it is tried again.",
    Kind.CONNECTION_RESET: "The connection ended too early; it is tried again.",
    Kind.INTERNAL_ERROR: "Something of this service is not in order; its operator must see to it.",
    Kind.UNSUPPORTED: "The server does not know how to do this.",
    Kind.VERIFY_CHECKSUM: "What arrived is not what the source has now; the file is sent again.",
    Kind.EXTERNAL_CHECKSUM_MISMATCH: "The file has not the checksum that was given with it.",
}

_SCOPES: dict[Kind, Scope] = {
    Kind.AUTH: Scope.ENDPOINT,
    Kind.NO_CREDENTIALS: Scope.ENDPOINT,
    Kind.GSI_DN_MISMATCH: Scope.ENDPOINT,
    Kind.INSECURE_SERVER: Scope.ENDPOINT,
    Kind.INVALID_SERVICE_CREDENTIAL: Scope.ENDPOINT,
    Kind.CONNECT_FAILED: Scope.ENDPOINT,
    Kind.INTERNAL_ERROR: Scope.ENDPOINT,
    Kind.ENDPOINT_TOO_BUSY: Scope.ENDPOINT,
    Kind.CONNECTION_BROKEN: Scope.SESSION,
    Kind.CONNECTION_RESET: Scope.SESSION,
    Kind.TIMEOUT: Scope.SESSION,
}

#: What mends a refusal, by what the server says.
_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        "trusted ca certificates directory",
        "An empty folder mends that: ~/.globus/certificates in the home of the account, or "
        "/etc/grid-security/certificates on the host.",
    ),
)


def make_fault(kind: Kind, raw: str = "", *, side: Side = Side.UNKNOWN, retryable: bool = True) -> Fault:
    """A fault of this kind with the scope and the advice that belong to it."""
    scope = _SCOPES.get(kind, Scope.FILE)
    return Fault(kind, side, retryable, scope, _ADVICE.get(kind, ""), raw)


def remedy(fault: Fault) -> str:
    """What an administrator or user of the host can do about this refusal, where its words tell; else ""."""
    text = fault.raw.lower()
    return next((cure for phrase, cure in _REMEDIES if phrase in text), "")


def classify(reply: Reply, side: Side = Side.UNKNOWN) -> Fault:
    """What an error reply (4xx, 5xx) means. The reply's own words are kept in `raw`."""
    raw = str(reply)
    text = raw.lower()
    kind = next((kind for phrase, kind in _PHRASES if phrase in text), None)
    if kind is None:
        kind = _CODES.get(reply.code, Kind.UNKNOWN)
    return make_fault(kind, raw, side=side, retryable=kind is not Kind.INVALID_PATH_NAME)
