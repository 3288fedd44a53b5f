"""Faults: typed failures, classified once, where the server's reply is known (docs/architecture.md, truth 4).

`classify` turns a reply into a `Fault`; `FaultError` carries it through Python. Callers of this package switch on
`Fault.kind` and never examine a server's text again. The kinds are the event codes of the Globus
Transfer API, so that a code means the same in a log, an event and a client.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from identity.gsi.printable import readable
from identity.gsi.printable import translatable as _

from .replies import Reply

#: Characters kept of a reply: enough to read, too few to fill a table.
MAX_RAW = 2000


class Kind(enum.StrEnum):
    ACL_CHANGED = "ACL_CHANGED"
    AGENT_AWAY = "GC_NOT_CONNECTED"
    AGENT_PAUSED = "GC_PAUSED"
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
    HOST_KEY_CHANGED = "HOST_KEY_CHANGED"
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


#: The computer of an endpoint is not connected, or its owner has paused it: no file is at fault. A task waits
#: until the computer is back (`workers.engine.retry.Wait`).
AWAY_KINDS = frozenset({Kind.AGENT_AWAY, Kind.AGENT_PAUSED})


class Side(enum.StrEnum):
    SOURCE = "source"
    DESTINATION = "destination"
    UNKNOWN = "unknown"


class FaultScope(enum.StrEnum):
    """The extent of a fault: only the file, its session, or the whole endpoint."""

    FILE = "file"
    SESSION = "session"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True)
class Fault:
    """One typed fault.

    retryable: False only where no repetition could ever help (a name that no server accepts); a person may provide a
    missing file or grant a permission, and so these are retried until the deadline.
    advice: one sentence for the user. raw: the server's own text. Unprintable characters are replaced in both.
    """

    kind: Kind
    side: Side = Side.UNKNOWN
    retryable: bool = True
    scope: FaultScope = FaultScope.FILE
    advice: str = ""
    raw: str = ""
    #: The server, as its endpoint names it ("dtn.example.org:2811"); "" where it is unknown, or where the user must
    #: not see it.
    server: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "advice", readable(self.advice))
        object.__setattr__(self, "raw", readable(self.raw[:MAX_RAW]))

    def at(self, side: Side) -> Fault:
        """The same fault with this side."""
        return replace(self, side=side)


class FaultError(Exception):
    """A fault as an exception."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault

    def __str__(self) -> str:
        return f"{self.fault.kind} ({self.fault.side}): {self.fault.raw or self.fault.advice}"


#: Phrases of servers, in lower case, and their kinds: the first match wins. The toolkit's structured codes
#: ("c=PATH_NOT_FOUND") come before the texts of the operating system. Error text is searched nowhere else.
_PHRASES: tuple[tuple[str, Kind], ...] = (
    ("c=path_not_found", Kind.FILE_NOT_FOUND),
    ("c=permission_denied", Kind.PERMISSION_DENIED),
    ("c=path_exists", Kind.PATH_EXISTS),
    ("c=not_a_directory", Kind.NOT_A_DIRECTORY),
    ("c=is_a_directory", Kind.IS_A_DIRECTORY),
    ("c=quota_exceeded", Kind.QUOTA_EXCEEDED),
    ("c=no_space_left", Kind.NO_SPACE_LEFT),
    # Of two causes neither is certain, and a missing file would count as removed: whoever needs to know asks.
    ("or permission denied", Kind.UNKNOWN),
    ("permission denied or", Kind.UNKNOWN),
    ("or access", Kind.UNKNOWN),
    ("or not accessible", Kind.UNKNOWN),
    ("or insufficient", Kind.UNKNOWN),
    ("quota exceeded", Kind.QUOTA_EXCEEDED),
    ("over quota", Kind.QUOTA_EXCEEDED),
    ("errno: 122", Kind.QUOTA_EXCEEDED),
    ("no space left on device", Kind.NO_SPACE_LEFT),
    ("no such file or directory", Kind.FILE_NOT_FOUND),
    # vsftpd gives no causes: these commands fail when the path is missing, or must not be read.
    ("failed to open file", Kind.FILE_NOT_FOUND),
    ("rnfr command failed", Kind.FILE_NOT_FOUND),
    # Nor do vsftpd and Pure-FTPd when the disk is full; a read-only one is vsftpd's usual cause of the others.
    ("failure writing to local file", Kind.NO_SPACE_LEFT),
    ("error during write to file", Kind.NO_SPACE_LEFT),
    ("create directory operation failed", Kind.PERMISSION_DENIED),
    ("rename failed", Kind.PERMISSION_DENIED),
    # IIS and others that give the texts of Windows; FileZilla Server, Serv-U and Apache FtpServer.
    ("cannot find the ", Kind.FILE_NOT_FOUND),
    ("file not found", Kind.FILE_NOT_FOUND),
    ("directory not found", Kind.FILE_NOT_FOUND),
    ("no such file", Kind.FILE_NOT_FOUND),
    ("does not exist", Kind.FILE_NOT_FOUND),
    ("doesn't exist", Kind.FILE_NOT_FOUND),
    ("access is denied", Kind.PERMISSION_DENIED),
    ("access denied", Kind.PERMISSION_DENIED),
    ("directory is not empty", Kind.DIRECTORY_NOT_EMPTY),
    ("not enough space", Kind.NO_SPACE_LEFT),
    ("insufficient disk", Kind.NO_SPACE_LEFT),
    ("insufficient storage", Kind.NO_SPACE_LEFT),
    ("disk full", Kind.NO_SPACE_LEFT),
    ("disk is full", Kind.NO_SPACE_LEFT),
    ("already exists", Kind.PATH_EXISTS),
    ("file name too long", Kind.INVALID_PATH_NAME),
    ("too many levels of symbolic links", Kind.INVALID_PATH_NAME),
    ("invalid or incomplete multibyte", Kind.INVALID_PATH_NAME),
    # Our own server, on Windows and macOS.
    ("not a file name on", Kind.INVALID_PATH_NAME),
    ("by its case only", Kind.INVALID_PATH_NAME),
    # Pure-FTPd; ProFTPD (PathDenyFilter, mod_lang); IIS; the text of RFC 959 for the reply 553.
    ("prohibited file name", Kind.INVALID_PATH_NAME),
    ("forbidden filename", Kind.INVALID_PATH_NAME),
    ("illegal character sequence in filename", Kind.INVALID_PATH_NAME),
    ("volume label syntax is incorrect", Kind.INVALID_PATH_NAME),
    ("file name not allowed", Kind.INVALID_PATH_NAME),
    ("invalid file name", Kind.INVALID_PATH_NAME),
    ("invalid filename", Kind.INVALID_PATH_NAME),
    ("illegal characters", Kind.INVALID_PATH_NAME),
    ("path not allowed", Kind.PERMISSION_DENIED),
    ("permission denied", Kind.PERMISSION_DENIED),
    ("operation not permitted", Kind.PERMISSION_DENIED),
    ("read-only file system", Kind.PERMISSION_DENIED),
    ("not a directory", Kind.NOT_A_DIRECTORY),
    ("is a directory", Kind.IS_A_DIRECTORY),
    ("directory not empty", Kind.DIRECTORY_NOT_EMPTY),
    ("errno: 39", Kind.DIRECTORY_NOT_EMPTY),
    # Our own server and ProFTPD, and Pure-FTPd, of a pipe, a socket or a device.
    ("not a regular file", Kind.UNSUPPORTED),
    ("only retrieve regular files", Kind.UNSUPPORTED),
    ("file exists", Kind.PATH_EXISTS),
    ("file too large", Kind.NO_SPACE_LEFT),
    ("too many open files", Kind.ENDPOINT_TOO_BUSY),
    ("no nodes available", Kind.ENDPOINT_TOO_BUSY),
    ("pipeline queue full", Kind.ENDPOINT_TOO_BUSY),
    ("server side credential failure", Kind.INVALID_SERVICE_CREDENTIAL),
    ("expired", Kind.NO_CREDENTIALS),
    ("connection refused", Kind.CONNECT_FAILED),
    ("no route to host", Kind.CONNECT_FAILED),
    ("network is unreachable", Kind.CONNECT_FAILED),
    ("connection reset", Kind.CONNECTION_RESET),
    ("broken pipe", Kind.CONNECTION_RESET),
    ("end-of-file was reached", Kind.CONNECTION_BROKEN),
    ("timed out", Kind.TIMEOUT),
    ("timeout", Kind.TIMEOUT),
)

#: The kind by the reply code, where no phrase matches (RFC 959 section 4.2.1, RFC 2228).
_CODES: dict[int, Kind] = {
    425: Kind.CONNECT_FAILED,
    426: Kind.CONNECTION_RESET,
    430: Kind.AUTH,
    450: Kind.PERMISSION_DENIED,
    452: Kind.NO_SPACE_LEFT,
    502: Kind.UNSUPPORTED,
    504: Kind.UNSUPPORTED,
    530: Kind.AUTH,
    532: Kind.AUTH,
    535: Kind.AUTH,
    552: Kind.QUOTA_EXCEEDED,
    553: Kind.PERMISSION_DENIED,
}

_ADVICE: dict[Kind, str] = {
    Kind.AGENT_AWAY: _(
        "The computer of this endpoint is not connected to this service. Start its agent "
        "(waybill-connect); tasks then go on by themselves."
    ),
    Kind.AGENT_PAUSED: _("The computer of this endpoint is paused by its owner. Tasks go on when that ends."),
    Kind.AUTH: _("The server refused the login; check the credential for this endpoint."),
    Kind.CONNECT_FAILED: _("A connection could not be made; the server may be down, or a firewall in the way."),
    Kind.ENDPOINT_TOO_BUSY: _("The server is too busy now."),
    Kind.FILE_NOT_FOUND: _("Nothing is there under this path."),
    Kind.FILE_SIZE_CHANGED: _("The file was changed while it was read."),
    Kind.PERMISSION_DENIED: _("The account on this endpoint may not do this; change the permissions or the path."),
    Kind.NO_SPACE_LEFT: _("The disk of this endpoint is full; make room."),
    Kind.QUOTA_EXCEEDED: _("The quota on this endpoint is used up; make room."),
    Kind.IS_A_DIRECTORY: _("This path is a folder; expected a file."),
    Kind.NOT_A_DIRECTORY: _("A component of this path is not a folder."),
    Kind.INVALID_PATH_NAME: _("This name cannot be used on this endpoint."),
    Kind.NO_CREDENTIALS: _("The credential for this endpoint has expired; renew it."),
    Kind.PATH_EXISTS: _("Something is there already under this path."),
    Kind.DIRECTORY_NOT_EMPTY: _("The folder is not empty."),
    Kind.GSI_DN_MISMATCH: _(
        "The server's certificate is for another host; check the host name, or give the endpoint the "
        "subject that this server has."
    ),
    Kind.HOST_KEY_CHANGED: _(
        "The server shows another host key than the registered one; nothing is sent to it until its "
        "endpoint's owner has accepted the new key."
    ),
    Kind.INVALID_SERVICE_CREDENTIAL: _(
        "The server's certificate is not accepted: it is expired, revoked, or of an "
        "authority that is not trusted here. Contact the administrator of the server."
    ),
    Kind.INSECURE_SERVER: _(
        "The server does not protect its control channel as it must, and nothing is sent to it in "
        "clear text. Contact the administrator of the server."
    ),
    Kind.TIMEOUT: _("The server did not answer in time."),
    Kind.CONNECTION_BROKEN: _("The connection ended too early."),
    Kind.CONNECTION_RESET: _("The connection ended too early."),
    Kind.INTERNAL_ERROR: _("An error in this service; contact its operator."),
    Kind.UNSUPPORTED: _("The server does not know how to do this."),
    Kind.VERIFY_CHECKSUM: _("What arrived is not what the source has now; the file is sent again."),
    Kind.EXTERNAL_CHECKSUM_MISMATCH: _("The file has not the checksum that was given with it."),
}

_SCOPES: dict[Kind, FaultScope] = {
    Kind.AGENT_AWAY: FaultScope.ENDPOINT,
    Kind.AGENT_PAUSED: FaultScope.ENDPOINT,
    Kind.AUTH: FaultScope.ENDPOINT,
    Kind.NO_CREDENTIALS: FaultScope.ENDPOINT,
    Kind.GSI_DN_MISMATCH: FaultScope.ENDPOINT,
    Kind.HOST_KEY_CHANGED: FaultScope.ENDPOINT,
    Kind.INSECURE_SERVER: FaultScope.ENDPOINT,
    Kind.INVALID_SERVICE_CREDENTIAL: FaultScope.ENDPOINT,
    Kind.CONNECT_FAILED: FaultScope.ENDPOINT,
    Kind.INTERNAL_ERROR: FaultScope.ENDPOINT,
    Kind.ENDPOINT_TOO_BUSY: FaultScope.ENDPOINT,
    Kind.CONNECTION_BROKEN: FaultScope.SESSION,
    Kind.CONNECTION_RESET: FaultScope.SESSION,
    Kind.TIMEOUT: FaultScope.SESSION,
}

NO_FILE = _("This is neither a file nor a folder, but a pipe, a socket or a device, and cannot be transferred.")

#: Advice against a refusal, by a phrase of the server.
_REMEDIES: tuple[tuple[str, str], ...] = (
    (
        "trusted ca certificates directory",
        _(
            "An empty folder mends that: ~/.globus/certificates in the home of the account, or "
            "/etc/grid-security/certificates on the host."
        ),
    ),
)


def make_fault(kind: Kind, raw: str = "", *, side: Side = Side.UNKNOWN, retryable: bool = True) -> Fault:
    """A fault of this kind, with the scope and the advice of the kind."""
    scope = _SCOPES.get(kind, FaultScope.FILE)
    return Fault(kind, side, retryable, scope, _ADVICE.get(kind, ""), raw)


def remedy(fault: Fault) -> str:
    """Advice for an administrator or user of the host, by the phrases of the refusal; "" where none is known."""
    text = fault.raw.lower()
    return next((cure for phrase, cure in _REMEDIES if phrase in text), "")


#: The words of a server that has no session left for this user, host or login, by its own limits. RFC 959 has 421 for
#: that; 530 and others are usual, at any command. No list of these texts exists: these are words about numbers.
_FULL = re.compile(
    r"too many|maximum|no more (?:than|connection|client|user|session)|(?:accept|allow\w*) (?:only|more|no more)"
    r"|only \d+ (?:connection|client|user|session)"
    r"|(?:connection|client|user|session|login|instance|process|account|host|server|ip)\w*\b.{0,40}\blimit|\bfull\b"
    r"|limit\w*\b.{0,40}\b(?:connection|client|user|session|login|instance|process|host)"
    r"|(?:try|retry)(?: again)? (?:later|in )|later\b.{0,20}\btry|\bbusy\b|overload|already (?:logged in|connected)"
    r"|temporarily|maintenance|unavailable|not available|shut(?:ting)? down|closed for"
    r"|max\.? (?:\d+|clients|connections|users)"
    r"|already \d+ (?:connection|client|user|session)|exceed\w*\b.{0,40}\b(?:connection|session|login|user)s\b"
    r"|(?:connection|session|user)s? exceeded|another session|only (?:one|1) (?:connection|session|login)|at capacity"
    r"|(?:not enough|insufficient) resources"
    # German, French, Spanish, Italian and Portuguese.
    r"|(?:zu viele|trop de|demasiad[ao]s|troppe|troppi|muit[ao]s|excesso de) "
    r"(?:verbindung|benutzer|sitzung|connexion|utilisateur|session|conexi|usuari|sesi|connession|utent|conex|usu)"
)
#: Words that mean this with any code.
_CERTAINLY_FULL = re.compile(r"too many (?:[\w-]+ ){0,2}(?:connection|user|session|login|client)s?\b")
#: A server that takes logins, or data, by TLS only (RFC 4217), and was asked in clear text.
_WANTS_TLS = re.compile(
    r"\b(?:ssl|tls|encrypt\w*)\b.{0,30}\b(?:required|mandatory)|\brequires? (?:\w+ ){0,3}(?:ssl|tls|encryption)\b"
    r"|\bmust use (?:ssl|tls|encryption)|\bonly (?:\w+ ){0,2}(?:ssl|tls|encrypted)\b"
    r"|\buse (?:\w+ ){0,3}(?:ssl|tls|auth)\b"
)
WANTS_TLS = "This server takes encrypted connections only: register it with the scheme ftpes."
#: A limit of wrong passwords: another try with this credential would be counted against its owner.
_LOCKED_OUT = re.compile(
    r"attempt|failures|wrong|incorrect|invalid|bad password|locked|banned|blacklist|disabled"
    r"|(?:login|logon|auth\w*) (?:has )?fail|fail\w* (?:login|auth|password)|too many (?:levels|open files)"
)
#: Replies by which servers refuse one session or data connection more.
_FULL_CODES = frozenset({421, 425, 430, 434, 500, 530})
#: Replies that refuse a login, whatever words they have; and those by which servers ask for TLS.
_LOGIN_CODES = frozenset({430, 530, 532, 535})
_TLS_CODES = frozenset({421, 503, 522, 530, 534, 550})
#: Left out of both sides of a comparison of names: marks by which servers quote and escape a name, and octets that they
#: send in another encoding, or replace.
_UNSTABLE = re.compile(rb"[\"'`\\?\x80-\xff]")
#: The octets before and behind a name, and the parts of a path around one that is known.
_BEFORE_NAME = b" \t\n([<=:,/"
_AFTER_NAME = re.compile(rb"(?=[\s:.,;)\]>/]|\Z)")
_REST_OF_PATH = re.compile(rb"(?=[\s:.,;)\]>]|\Z)|/\S*")
_ROOT = re.compile(rb"(?:^|(?<=[\s(\[<=:]))/[^:\n]*\Z", re.MULTILINE)
_REASONS = frozenset(phrase for phrase, _ in _PHRASES)


def classify(reply: Reply, side: Side = Side.UNKNOWN) -> Fault:
    """The fault of an error reply (4xx, 5xx). `raw` keeps the reply's text.

    The kind is read from the server's own words: never from the names that the command had (`Reply.names`) and that the
    server quotes. A file may be called "expired.csv".
    """
    text = _SearchedText(b"\n".join(reply.lines), reply.names)
    if reply.code in _TLS_CODES and text.matches(_WANTS_TLS):
        return Fault(Kind.UNSUPPORTED, side, False, FaultScope.ENDPOINT, WANTS_TLS, str(reply))
    kind = _kind(reply.code, text) or _CODES.get(reply.code, Kind.UNKNOWN)
    fault = make_fault(kind, str(reply), side=side, retryable=kind is not Kind.INVALID_PATH_NAME)
    return replace(fault, advice=NO_FILE) if kind is Kind.UNSUPPORTED and text.says("regular file") else fault


def is_full(reply: Reply) -> bool:
    """Whether the server says that it has no session, or no connection, left at the moment."""
    return reply.code in _FULL_CODES and _SearchedText(b"\n".join(reply.lines), reply.names).says_full


def _kind(code: int, text: _SearchedText) -> Kind | None:
    if text.says_full if code in _FULL_CODES else text.says_certainly_full:
        return Kind.ENDPOINT_TOO_BUSY
    kinds = (kind for phrase, kind in _PHRASES if text.says(phrase))
    # "530 Permission denied" speaks of the login, and of no file.
    return next((kind for kind in kinds if code not in _LOGIN_CODES or kind in _SCOPES), None)


class _SearchedText:
    """The words of a reply, in lower case, in which phrases are searched outside of quoted names only."""

    def __init__(self, text: bytes, names: Iterable[bytes]) -> None:
        plain = _UNSTABLE.sub(b"", text)
        self._text = plain.decode("ascii", "replace").lower()
        self._spans = [span for name in names for span in _quotations(plain, _UNSTABLE.sub(b"", name))]
        # The whole text, or what stands at its end behind a name, is the reason, also for a file of the same name.
        reason = self._text.rstrip(" .\n").rpartition(": ")[2]
        if reason in _REASONS:
            start = self._text.rindex(reason)
            self._spans = [span for span in self._spans if span[0] < start]
        rest = list(self._text)
        for start, end in self._spans:
            rest[start:end] = "/" * (end - start)
        self._rest = "".join(rest)

    def says(self, phrase: str) -> bool:
        """Whether the phrase is there, and is not a part of a name, from its first to its last letter."""
        return any(not self._is_quoted(*found.span()) for found in re.finditer(re.escape(phrase), self._text))

    @property
    def says_full(self) -> bool:
        """`is_full`, whatever the code."""
        return self.matches(_FULL) and not self.matches(_LOCKED_OUT)

    @property
    def says_certainly_full(self) -> bool:
        """`says_full` in words that mean nothing else."""
        return self.matches(_CERTAINLY_FULL) and not self.matches(_LOCKED_OUT)

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Whether the words have this, beside the names."""
        return pattern.search(self._rest) is not None

    def _is_quoted(self, start: int, end: int) -> bool:
        return any(first <= start and end <= last for first, last in self._spans)


def _quotations(text: bytes, name: bytes) -> Iterator[tuple[int, int]]:
    """Where the text has the name, also below another root or without its first folders, or one of its folders."""
    parts = [part for part in name.split(b"/") if part]
    folders = [b"/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    for one in folders:
        yield from _rooted(text, b"/" + one)
    tails = [b"/".join(parts[start:]) for start in range(len(parts))]
    for one in (*tails, *(one for one in folders if b"/" in one)):
        yield from _bare(text, one)


def _rooted(text: bytes, path: bytes) -> Iterator[tuple[int, int]]:
    """Where the text has the path, with what the server puts before it (its root), and what lies in the folder."""
    for start in _found(text, path):
        root = _ROOT.search(text[:start])
        if end := _REST_OF_PATH.match(text, start + len(path)):
            yield root.start() if root else start, end.end()


def _bare(text: bytes, name: bytes) -> Iterator[tuple[int, int]]:
    """Where the text has the name for itself, not as a part of a word."""
    for start in _found(text, name):
        end = start + len(name)
        if (not start or text[start - 1] in _BEFORE_NAME) and _AFTER_NAME.match(text, end):
            yield start, end


def _found(text: bytes, part: bytes) -> Iterator[int]:
    start = text.find(part)
    while start >= 0:
        yield start
        start = text.find(part, start + 1)


#: Pure-FTPd: "Output truncated to 500 matches"; vsftpd of a folder that it may not read, with 226: "Transfer done (but
#: failed to open directory)"; and what others say when they list a part only.
_CUT = re.compile(
    r"truncated|\b(?:failed|unable|could not|cannot|can't) (?:to )?(?:open|read|list|access|enter)\b"
    r"|\b(?:permission|access)(?: is| was)? denied\b|\binput/output error\b|\bi/o error\b|\bwith errors\b"
    r"|\baborted\b|\babor\b|\binterrupted\b|\btimed out\b|"
    r"\b(?:incomplete|partial) (?:directory |folder )?(?:list|output)|\btoo many (?:files|entries)",
    re.I,
)
#: "698 matches total", "12 files listed", "500 of 700 entries": a line that is a count and nothing else.
_COUNTED = re.compile(
    r"\W*(?:transfer complete\W*)?(?:total(?: of)?:?\s+)?(?:(\d{1,12}) of )?(\d{1,12})"
    r"\s+(?:matches|match|entries|files|items|objects)(?:\s+(?:in )?(?:total|listed|found|sent|shown|displayed))?\W*",
    re.I,
)
#: The words of servers that refuse to list a folder because nothing is in it.
_NOTHING = re.compile(
    r"\bno (?:such )?(?:files?|entries|items|match(?:es)?)\b|\bnot found\b|\bempty\b|\bnothing\b", re.I
)


def reported_shortfall(reply: Reply, lines: int) -> str:
    """The words of a final reply that speaks of more entries than the listing had lines; "" of any other one."""
    for line in reply.text.splitlines():
        counted = _COUNTED.fullmatch(line)
        short = counted and (int(counted[2]) > lines or int(counted[1] or counted[2]) < int(counted[2]))
        if short or _CUT.search(line):
            return str(reply)
    return ""


def says_nothing_there(reply: Reply) -> bool:
    """Whether a server refuses to list a folder because it found nothing: the folder is empty, or missing."""
    return reply.code in (450, 550) and _NOTHING.search(reply.text) is not None
