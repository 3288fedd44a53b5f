"""Replies of a control channel (RFC 959 section 4.2, RFC 2228 section 6): bytes in, `Reply` objects out.

The parser takes received octets in pieces of any size; it does not know the socket. Hostile input raises `ReplyError`:
a line or a reply without end, or a line that is no reply where one must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from identity.gsi.printable import MAX_SHOWN, shown

#: Octets of a line: many times those of a path of 4096 octets with all its facts.
MAX_LINE = 64 * 1024
#: Octets of one multi-line reply, with `LINE_COST` for each line: of an ordinary one, and of a part of a listing.
#: Long MLSC listings arrive as many replies, the toolkit's of 1,000 entries each.
MAX_REPLY, MAX_LISTING_REPLY = 256 * 1024, 8 * 1024 * 1024
#: Octets of memory for a line object.
LINE_COST = 64
#: The codes that a reply may begin with.
_CODES = {b"%d" % code: code for code in range(100, 660)}


class ReplyError(Exception):
    """The server sent something that is no reply. `reason` does not quote it."""

    def __init__(self, reason: str, line: bytes) -> None:
        super().__init__(f"{reason}: {shown(line[:MAX_SHOWN])}")
        self.reason = reason


class Reply(NamedTuple):
    """One complete reply: its code, and its lines without the code, the separator and the line ends.

    names: of an error: the paths of the command that it answers, which its text may quote.
    """

    code: int
    lines: tuple[bytes, ...]
    names: tuple[bytes, ...] = ()

    @property
    def is_preliminary(self) -> bool:
        """1xx: more replies to the same command follow."""
        return self.code < 200

    @property
    def is_error(self) -> bool:
        """4xx or 5xx: the command failed."""
        return 400 <= self.code < 600

    @property
    def text(self) -> str:
        """All lines, decoded as UTF-8 with surrogateescape, joined by line feeds."""
        return b"\n".join(self.lines).decode("utf-8", "surrogateescape")

    def __str__(self) -> str:
        return f"{self.code} {b' / '.join(self.lines).decode('utf-8', 'replace')}"


class ReplyParser:
    """Assembles replies from the bytes of a control channel.

    most: called at each line for the limit of its reply, MAX_REPLY or MAX_LISTING_REPLY. In a listing whose first line
    ends with CR LF, as RFC 959 wants it, a bare LF belongs to a name.
    """

    def __init__(self, most: Callable[[], int] = lambda: MAX_REPLY) -> None:
        self._most = most
        self._buffer = b""
        self._lines: list[bytes] = []
        self._code = 0
        self._end = b""
        self._size = 0
        #: The first line of this reply ended with CR LF; and a line of a listing that has a bare LF so far.
        self._ends_crlf = False
        self._held: list[bytes] = []
        self._held_octets = 0

    @property
    def between_replies(self) -> bool:
        """No reply has arrived in part."""
        return not self._buffer and not self._code

    def feed(self, data: bytes) -> Iterator[Reply]:
        """Take received octets; yield each reply that they complete. A ReplyError ends the channel."""
        *lines, rest = (self._buffer + data).split(b"\n")
        self._buffer = rest
        for line in lines:
            if len(line) + self._held_octets > MAX_LINE:
                raise ReplyError("a line too long", line)
            reply = self._next(line) if self._code else self._begin(line)
            if reply is not None:
                yield reply
        if len(rest) > MAX_LINE:
            raise ReplyError("a line without end", rest)

    def _begin(self, line: bytes) -> Reply | None:
        ends_crlf = line.endswith(b"\r")
        if ends_crlf:
            line = line[:-1]
        code, separator = _CODES.get(line[:3]), line[3:4]
        if code is None or separator not in (b" ", b"-", b""):
            raise ReplyError("not a reply", line)
        if separator != b"-":
            return Reply(code, (line[4:],))
        self._code = code
        self._ends_crlf = ends_crlf
        self._end = line[:3] + b" "
        self._size = len(line) + LINE_COST
        self._lines = [line[4:]]
        return None

    def _next(self, line: bytes) -> Reply | None:
        """One more line of a reply with several."""
        ends_crlf = line.endswith(b"\r")
        if not ends_crlf and self._ends_crlf and self._most() > MAX_REPLY:
            self._held.append(line)
            self._held_octets += len(line) + 1
            return None
        if self._held:
            line = b"\n".join((*self._held, line))
            self._held, self._held_octets = [], 0
        return self._continue(line[:-1] if ends_crlf else line)

    def _continue(self, line: bytes) -> Reply | None:
        """RFC 959 section 4.2: a multi-line reply ends with a line that begins with its code and a space."""
        self._size += len(line) + LINE_COST
        if self._size > self._most():
            raise ReplyError("a reply without end", line)
        if line.startswith(self._end) or line == self._end[:3]:
            reply = Reply(self._code, (*self._lines, line[4:]))
            self._code = 0
            self._lines = []
            return reply
        # The toolkit repeats "550-" on every line of an error; the code is not part of the text.
        self._lines.append(line[4:] if line[:3] == self._end[:3] and line[3:4] == b"-" else line)
        return None
