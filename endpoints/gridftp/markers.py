"""Restart and performance markers: the preliminary replies 111 and 112 (GFD.20, sections on restart and performance).

A receiver reports by 111 the ranges on its disk and by 112 its progress. The 111 markers are incremental: each has the
new ranges since the last one, and the union of all of them is on the disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from identity.gsi.printable import quoted

from .ranges import RangeError, RangeSet

_Octets = bytes

#: Octets of a file from which each range marker of our server names what is on the disk. Of a smaller file this is not
#: so of its last marker, directly before its 226.
SYNCED_FROM = 64 * 2**20
RANGE_CODE = 111
PERF_CODE = 112


class MarkerError(ValueError):
    """A malformed reply 111 or 112."""


class RangeMarker(NamedTuple):
    """The ranges on the receiver's disk that are new since the last marker."""

    ranges: RangeSet

    def format(self) -> _Octets:
        """The reply as it goes over the wire."""
        return b"111 Range Marker %b\r\n" % self.ranges.format().encode()


@dataclass(frozen=True)
class PerfMarker:
    """Octets received by one stripe so far, at `timestamp` (seconds since 1970, of the server's clock)."""

    timestamp: float
    stripe: int
    total_stripes: int
    bytes: int

    def format(self) -> _Octets:
        """The reply as it goes over the wire: six lines."""
        return (
            b"112-Perf Marker\r\n Timestamp:  %.1f\r\n Stripe Index: %d\r\n"
            b" Stripe Bytes Transferred: %d\r\n Total Stripe Count: %d\r\n112 End.\r\n"
        ) % (self.timestamp, self.stripe, self.bytes, self.total_stripes)


_RANGES = re.compile(r"range\s+marker:?[ \t]*([0-9,\- \t]*)", re.IGNORECASE)
#: The form that both kinds of servers send for nearly every file; parsed without the general expression.
_ONE_RANGE = re.compile(rb"Range Marker 0-([1-9][0-9]{0,17})")
_NAME, _NUMBER = re.compile(r"[a-z ]{1,40}", re.IGNORECASE), re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?")


def parse_marker(code: int, lines: Sequence[bytes]) -> RangeMarker | PerfMarker:
    """Parse a reply 111 or 112. `lines` are its text lines, with or without the leading code. Raises MarkerError."""
    if code == RANGE_CODE and len(lines) == 1 and (one := _ONE_RANGE.fullmatch(lines[0])):
        return RangeMarker(RangeSet([(0, int(one[1]))]))
    text = b"\n".join(lines).decode("latin-1")
    if code == RANGE_CODE:
        return _parse_ranges(text)
    if code == PERF_CODE:
        return _parse_perf(text)
    raise MarkerError(f"reply {code} is no marker")


def _parse_ranges(text: str) -> RangeMarker:
    found = _RANGES.search(text)
    if found is None:
        raise MarkerError(f"no ranges in a 111: {quoted(text[:80])}")
    try:
        return RangeMarker(RangeSet.parse(found[1]))
    except RangeError as error:
        raise MarkerError(str(error)) from error


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """The lines `name: number`. Not by one regex: on a long line of spaces its time would grow with the square."""
    for line in text.replace("\r", "").split("\n"):
        name, number = (part.strip(" \t") for part in line.partition(":")[::2])
        if _NAME.fullmatch(name) and _NUMBER.fullmatch(number):
            yield name.lower(), number


def _parse_perf(text: str) -> PerfMarker:
    fields = dict(_fields(text))
    try:
        return PerfMarker(
            timestamp=float(fields["timestamp"]),
            stripe=int(fields.get("stripe index", "0")),
            total_stripes=int(fields.get("total stripe count", "1")),
            bytes=int(fields["stripe bytes transferred"]),
        )
    except (KeyError, ValueError) as error:
        raise MarkerError(f"not a performance marker: {quoted(text[:80])}") from error
