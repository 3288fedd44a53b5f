"""MODE E, extended block mode (GFD.20): every block carries its place in the file, so that streams may run in parallel.

A header of 17 octets (descriptor, 64-bit count, 64-bit offset, network order) precedes `count` octets of the file
at `offset`. A sender ends each stream of a file with EOD, and tells on one of them, with EOF, how many EODs there
are in all: that number stands in the offset field. A stream without CLOSE may carry the next file after its EOD.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from .ranges import MAX_OFFSET

EOR = 128
EOF = 64
SUSPECT = 32
RESTART = 16
EOD = 8
CLOSE = 4

_STRUCT = struct.Struct("!BQQ")
HEADER_SIZE = _STRUCT.size


class HeaderError(ValueError):
    """A header that no sender of ours or the toolkit's would write."""


class Header(NamedTuple):
    """descriptor: the flags above. length: octets that follow. offset: their place, or with EOF the number of EODs."""

    descriptor: int
    length: int
    offset: int

    def encode(self) -> bytes:
        return _STRUCT.pack(*self)

    @property
    def eod_count(self) -> int | None:
        """How many streams end this file with EOD; None when this header does not tell."""
        return self.offset if self.descriptor & EOF else None


class Payload(NamedTuple):
    """A piece of the file: `data` belongs at `offset`."""

    offset: int
    data: memoryview


def end_of_data(streams: int | None = None, *, close: bool = False) -> bytes:
    """The header that ends a stream's part of a file; on one stream of all, `streams` tells how many there are."""
    flags = EOD | (CLOSE if close else 0)
    return _STRUCT.pack(flags, 0, 0) if streams is None else _STRUCT.pack(flags | EOF, 0, streams)


def decode(octets: bytes | bytearray | memoryview) -> Header:
    """Read one header of exactly 17 octets. -> HeaderError"""
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


class Decoder:
    """One stream's blocks, whatever the pieces in which its octets arrive. No state but the current block.

    `remaining` octets of the current block are still to come, and belong at `offset`. Whoever takes octets of the
    payload past the decoder (to splice them from a socket to a file) says so by `skip`.
    """

    __slots__ = ("_partial", "offset", "remaining")

    def __init__(self) -> None:
        self.remaining = 0
        self.offset = 0
        self._partial = bytearray()

    @property
    def at_boundary(self) -> bool:
        """Whether the octets so far end with a whole block."""
        return not self.remaining and not self._partial

    def step(self, data: memoryview, at: int) -> tuple[Header | Payload | None, int]:
        """The next event in data[at:] and where it ends; None when all is taken and there is none. -> HeaderError"""
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
        """So many octets of the current block's payload have been taken."""
        if not 0 <= octets <= self.remaining:
            raise ValueError(f"{octets} octets are not in this block: {self.remaining} remain")
        self.remaining -= octets
        self.offset += octets

    def _begin(self, header: Header) -> Header:
        self.remaining, self.offset = header.length, header.offset
        return header
