"""MODE E, extended block mode (GFD.20): every block carries its offset, so that streams may run in parallel.

A header of 17 octets (descriptor, 64-bit count, 64-bit offset, network order) precedes `count` octets of the file
at `offset`. A sender ends each stream of a file with EOD, and sends on one of them, with EOF, the number of all
EODs in the offset field. A stream without CLOSE may carry the next file after its EOD.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from endpoints.gridftp.ranges import MAX_OFFSET

EOF = 64
SUSPECT = 32
RESTART = 16
EOD = 8
CLOSE = 4

_STRUCT = struct.Struct("!BQQ")
HEADER_SIZE = _STRUCT.size


class HeaderError(ValueError):
    """A header that neither our server nor the toolkit's would send."""


class Header(NamedTuple):
    """descriptor: the flags above. length: octets that follow. offset: in the file; with EOF the number of EODs."""

    descriptor: int
    length: int
    offset: int

    def encode(self) -> bytes:
        return _STRUCT.pack(*self)


class Payload(NamedTuple):
    """A piece of the file at `offset`."""

    offset: int
    data: memoryview


def end_of_data(streams: int | None = None) -> bytes:
    """The header that ends a stream's part of a file; on exactly one stream, `streams` is the number of all."""
    return _STRUCT.pack(EOD, 0, 0) if streams is None else _STRUCT.pack(EOD | EOF, 0, streams)


def decode(octets: bytes | bytearray | memoryview) -> Header:
    """Parse a header of exactly 17 octets. Raises HeaderError."""
    if len(octets) != HEADER_SIZE:
        raise HeaderError(f"a header has {HEADER_SIZE} octets, not {len(octets)}")
    header = Header._make(_STRUCT.unpack(octets))
    flags, length, offset = header
    if flags & (SUSPECT | RESTART):
        raise HeaderError(f"descriptor {flags:#04x}: blocks that are suspect or restart markers are not taken")
    if length > MAX_OFFSET or offset > MAX_OFFSET or (length and not flags & EOF and length + offset > MAX_OFFSET):
        raise HeaderError(f"a block of {length} octets at {offset} lies beyond 2**63")
    if length and flags & EOF:
        raise HeaderError("the offset of an EOF block is a count of streams: it can have no data")
    return header


class BlockDecoder:
    """The decoder of one stream, whose octets arrive in pieces of any size. Its only state is the current block.

    `remaining` octets of the current block have not arrived, and belong at `offset`. A caller that moves octets of the
    payload itself (by splice from a socket to a file) calls `skip`.
    """

    __slots__ = ("_partial", "offset", "remaining")

    def __init__(self) -> None:
        self.remaining = 0
        self.offset = 0
        self._partial = bytearray()

    @property
    def at_boundary(self) -> bool:
        """Whether the octets so far end with a complete block."""
        return not self.remaining and not self._partial

    def step(self, data: memoryview, at: int) -> tuple[Header | Payload | None, int]:
        """The next event in data[at:], or None where there is none, and the offset after it. Raises HeaderError."""
        if self.remaining:
            piece = data[at : at + self.remaining]
            if not piece:
                return None, at
            event = Payload(self.offset, piece)
            self.skip(len(piece))
            return event, at + len(piece)
        if not self._partial and len(data) - at >= HEADER_SIZE:
            return self._begin(decode(data[at : at + HEADER_SIZE])), at + HEADER_SIZE
        end = min(len(data), at + HEADER_SIZE - len(self._partial))
        self._partial += data[at:end]
        if len(self._partial) < HEADER_SIZE:
            return None, end
        header = decode(self._partial)
        self._partial.clear()
        return self._begin(header), end

    def skip(self, octets: int) -> None:
        """The caller has moved this number of octets of the current block's payload itself."""
        if not 0 <= octets <= self.remaining:
            raise ValueError(f"{octets} octets are not in this block: {self.remaining} remain")
        self.remaining -= octets
        self.offset += octets

    def _begin(self, header: Header) -> Header:
        self.remaining, self.offset = header.length, header.offset
        return header
