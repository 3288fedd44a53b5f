"""The forms of a control channel: lines in clear, lines in TLS (RFC 4217), and protected lines of GSI (RFC 2228)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

from .errors import WireError
from .security.certificates import CertificateError
from .security.gss import TlsEnd

_PROTECTED = re.compile(rb"(?:ENC|MIC|CONF) ([A-Za-z0-9+/=]+)\r?", re.IGNORECASE)
_LAST_LINE = re.compile(rb"[0-9]{3} ")


class ClearWire:
    """Octets to command lines, without their ends but with a final CR, and replies to octets."""

    def __init__(self, line_limit: int) -> None:
        self._limit = line_limit
        self._partial = b""

    def lines(self, data: bytes) -> list[bytes]:
        """The complete lines. Raises WireError where one is too long."""
        *lines, self._partial = (self._partial + data).split(b"\n") if self._partial else data.split(b"\n")
        if len(self._partial) > self._limit or any(len(line) > self._limit for line in lines):
            raise WireError("500 Command line too long: closing control connection.")
        return lines

    def take_rest(self) -> bytes:
        """The octets after the last line; they are forgotten here."""
        rest, self._partial = self._partial, b""
        return rest

    def replies(self, data: bytes) -> bytes:
        return data


class TlsWire(ClearWire):
    """After AUTH TLS: everything is TLS, also the handshake. send: octets that are no reply."""

    def __init__(
        self, line_limit: int, end: TlsEnd, send: Callable[[bytes], None], ready: Callable[[str], None]
    ) -> None:
        super().__init__(line_limit)
        self._end = end
        self._send = send
        self._ready = ready

    def lines(self, data: bytes) -> list[bytes]:
        """The complete lines. Raises WireError also if TLS fails."""
        try:
            if not self._end.complete:
                self._send(self._end.shake_hands(data))
                if not self._end.complete:
                    return []
                self._ready(self._end.identity())
                data = b""
            return super().lines(self._end.open(data))
        except CertificateError as error:
            raise WireError("") from error

    def replies(self, data: bytes) -> bytes:
        return self._end.seal(data) if data and self._end.complete else b""


class GssWire(ClearWire):
    """After AUTH GSSAPI: each command is one line of base64, and so is each line of a reply."""

    def __init__(self, line_limit: int, end: TlsEnd) -> None:
        # In base64, with the records around it.
        super().__init__(line_limit * 2)
        self._end = end
        self._inner = ClearWire(line_limit)

    def lines(self, data: bytes) -> list[bytes]:
        """The complete lines. Raises WireError also for a line in clear."""
        octets = []
        for line in super().lines(data):
            match = _PROTECTED.fullmatch(line)
            if match is None:
                raise WireError("533 Command protection level denied: closing control connection.")
            try:
                octets.append(self._end.open(base64.b64decode(match[1], validate=True)))
            except (CertificateError, binascii.Error) as error:
                raise WireError("535 Not protected by this session: closing control connection.") from error
        return self._inner.lines(b"".join(octets))

    def replies(self, data: bytes) -> bytes:
        return b"".join(map(self._protected, data.splitlines(keepends=True)))

    def _protected(self, line: bytes) -> bytes:
        separator = b" " if _LAST_LINE.match(line) else b"-"
        return b"632%b%b\r\n" % (separator, binascii.b2a_base64(self._end.seal(line), newline=False))
