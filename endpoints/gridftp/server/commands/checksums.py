"""CKSM: `CKSM ALGORITHM offset length path`, length -1 for all that follows (GFD.47)."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Iterator
from typing import Callable, Protocol

from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.positions import read_at
from endpoints.gridftp.server.session import ServerSession

from .table import command


class HashObject(Protocol):
    def update(self, data: memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


class _Adler32:
    def __init__(self) -> None:
        self._value = zlib.adler32(b"")

    def update(self, data: memoryview, /) -> None:
        self._value = zlib.adler32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


def _not_for_security(name: str) -> Callable[[], HashObject]:
    """A maker of digests that protect nothing, which systems that allow only secure digests must be asked for.

    Python has the argument for it from 3.9 on.
    """
    try:
        hashlib.new(name, usedforsecurity=False)  # novermin
    except (TypeError, ValueError):
        return lambda: hashlib.new(name)
    return lambda: hashlib.new(name, usedforsecurity=False)  # novermin


#: Checksums against accidents, not against attacks: MD5 and SHA1 are among them.
ALGORITHMS: dict[bytes, Callable[[], HashObject]] = {
    b"MD5": _not_for_security("md5"),
    b"SHA1": _not_for_security("sha1"),
    b"SHA256": hashlib.sha256,
    b"SHA512": hashlib.sha512,
    b"ADLER32": _Adler32,
}


_MARKER = b"113-Status Marker\r\n Timestamp: %.1f\r\n Bytes Processed: %d\r\n113 End\r\n"


@command("CKSM", feature="CKSM MD5:10;ADLER32:10;SHA1:10;SHA256:11;SHA512:12;")
def checksum(session: ServerSession, argument: bytes) -> None:
    words = argument.split(b" ", 3)
    if len(words) != 4:
        raise CommandRefusedError(501, "CKSM: expected algorithm, offset, length and path.")
    make = ALGORITHMS.get(words[0].upper())
    if make is None:
        raise CommandRefusedError(504, "CKSM: expected one of MD5, ADLER32, SHA1, SHA256, SHA512.")
    offset, length = _integer(words[1], 0), _integer(words[2], -1)
    session.flush()
    with session.service.root.opened_file(session.path(words[3]), os.O_RDONLY) as (fd, _):
        digest = make()
        for piece in _with_markers(session, _pieces(fd, offset, length, memoryview(session.buffer))):
            digest.update(piece)
    session.reply(213, digest.hexdigest())


def _pieces(fd: int, offset: int, length: int, buffer: memoryview) -> Iterator[memoryview]:
    """Yield the octets of the file up to its end, or up to `length`."""
    while length:
        wanted = len(buffer) if length < 0 else min(length, len(buffer))
        taken = _read_into(fd, buffer[:wanted], offset)
        if not taken:
            return
        yield buffer[:taken]
        offset += taken
        length -= taken if length > 0 else 0


def _read_into(fd: int, buffer: memoryview, offset: int) -> int:
    if hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], offset)
    data = read_at(fd, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


def _with_markers(session: ServerSession, pieces: Iterator[memoryview]) -> Iterator[memoryview]:
    """Send replies 113 with the progress, at the interval of OPTS CKSM; raises AbortedError when interrupted."""
    octets, last = 0, time.monotonic()
    for piece in pieces:
        yield piece
        session.interrupt.check()
        octets += len(piece)
        now = time.monotonic()
        if session.checksum_interval and now - last >= session.checksum_interval:
            last = now
            session.say(_MARKER % (time.time(), octets))
            session.flush()


def _integer(text: bytes, least: int) -> int:
    digits = text[1:] if least < 0 and text.startswith(b"-") else text
    if not digits.isdigit() or len(digits) > 18 or int(text) < least:
        raise CommandRefusedError(501, "CKSM: offset and length are whole numbers.")
    return int(text)
