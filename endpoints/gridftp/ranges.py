"""Sets of half-open octet ranges: the parts of a file on disk, as in 111 markers and in REST (GFD.20)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from identity.gsi.printable import quoted

#: Offsets are signed 64 bit integers in every file system.
MAX_OFFSET = 2**63 - 1
#: An honest peer makes fewer pieces: blocks arrive nearly in order and are merged.
MAX_RANGES = 10_000


class RangeError(ValueError):
    """An invalid range: descending, negative, beyond 2**63 or not a number; or too many ranges."""


class RangeSet:
    """A set of octets of a file, stored as sorted, disjoint, non-touching half-open ranges.

    Mutable only by `add`. Adding in nearly ascending order costs O(1), anywhere else O(log n) and a list insert.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add the octets start <= x < end; an empty range changes nothing."""
        if not 0 <= start <= end <= MAX_OFFSET:
            raise RangeError(f"not a range of octets: {start}-{end}")
        if start == end:
            return
        starts, ends = self._starts, self._ends
        first = last = len(ends)
        if ends and start <= ends[-1]:
            first = bisect_left(ends, start)
            last = bisect_right(starts, end, lo=first)
        if first < last:
            start = min(start, starts[first])
            end = max(end, ends[last - 1])
        elif len(starts) >= MAX_RANGES:
            raise RangeError(f"more than {MAX_RANGES} ranges")
        starts[first:last] = [start]
        ends[first:last] = [end]

    def union(self, other: RangeSet) -> RangeSet:
        merged = self.copy()
        for start, end in other:
            merged.add(start, end)
        return merged

    def copy(self) -> RangeSet:
        twin = RangeSet()
        twin._starts, twin._ends = self._starts.copy(), self._ends.copy()
        return twin

    def beyond(self, offset: int) -> RangeSet:
        """The octets of the set from this offset on."""
        return RangeSet((max(start, offset), end) for start, end in self if end > offset)

    @property
    def total(self) -> int:
        """The number of octets in the set."""
        return sum(self._ends) - sum(self._starts)

    def gaps(self, size: int) -> list[tuple[int, int]]:
        """The ranges of the first `size` octets that are not in the set, in ascending order."""
        found: list[tuple[int, int]] = []
        at = 0
        for start, end in self:
            if start >= size:
                break
            if start > at:
                found.append((at, start))
            at = end
        if at < size:
            found.append((at, size))
        return found

    def covers(self, size: int) -> bool:
        """Whether all of the first `size` octets are in the set."""
        return size <= 0 or (bool(self._starts) and self._starts[0] == 0 and self._ends[0] >= size)

    @classmethod
    def parse(cls, text: str | bytes, most: int = MAX_RANGES) -> RangeSet:
        """Parse `0-664,1000-2000`; overlapping and unsorted ranges are merged, "" is empty. Raises RangeError.

        most: the most ranges in the text.
        """
        if isinstance(text, bytes):
            text = text.decode("latin-1")
        text = text.strip()
        pieces = text.split(",", most) if text else []
        if len(pieces) > most:
            raise RangeError(f"more than {most} ranges")
        return cls(map(_parse_range, pieces))

    def format(self) -> str:
        """The form of REST and 111; "" for the empty set."""
        return ",".join(f"{start}-{end}" for start, end in self)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends)

    def __len__(self) -> int:
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._starts == other._starts and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"RangeSet({self.format()!r})"


def _parse_range(piece: str) -> tuple[int, int]:
    start, dash, end = piece.strip().partition("-")
    # isdecimal also accepts digits of other scripts, and int() underscores and signs: GFD.20 has neither.
    if not (dash and start.isascii() and start.isdecimal() and end.isascii() and end.isdecimal()):
        raise RangeError(f"not a range of octets: {quoted(piece[:60])}")
    if len(start) > 20 or len(end) > 20:
        raise RangeError(f"beyond 2**63: {quoted(piece[:60])}")
    return int(start), int(end)
