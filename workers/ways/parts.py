"""A large file in parts, each in a lane of its own. Pure.

To a destination that cannot listen only MODE S is possible: one stream. Over a long distance a stream carries one
window in each round trip, and four of them what the toolkit's servers reach in MODE E (docs/decisions/agents.md).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise

from endpoints.gridftp.faults import Fault, FaultScope, Kind, make_fault
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party.slots import (
    FileEvent,
    FileProgress,
    FileRefused,
    FileReturned,
    FileSettled,
)
from transferapi.tasks.records import FileRow
from workers.engine.retry import worse

#: Octets below which a part does not pay: opening its data connection costs some round trips.
MIN_PART = 16 * 2**20


#: With this a file comes back whose other parts have arrived when its lane is lost.
_LOST = replace(make_fault(Kind.CONNECTION_BROKEN, "the lane was lost"), scope=FaultScope.SESSION)


@dataclass(frozen=True, slots=True)
class FilePart:
    """The octets of a file from `start` up to `end`. last: it ends where the file ended when it was scanned."""

    file: FileRow
    start: int
    end: int
    last: bool

    @property
    def asked(self) -> tuple[int, int]:
        """The octets to ask for: one more than the last, which only a file that has grown has."""
        return self.start, self.end + self.last


class PartedFile:
    """A file whose parts are under way."""

    def __init__(self, file: FileRow, streams: int) -> None:
        self.file = file
        self.had = RangeSet.parse(file.ranges)
        self.waiting = deque(split(file, self.had, streams))
        self.under_way: set[FilePart] = set()
        self._on_disk: dict[FilePart, RangeSet] = {}
        self._outcome = _Outcome()

    @property
    def done(self) -> bool:
        """Nothing of it is under way, and nothing more is to be sent."""
        return not self.under_way and (not self.waiting or self._outcome.broken)

    @property
    def arrived(self) -> bool:
        """All parts have arrived."""
        return self.done and not self._outcome.broken

    @property
    def on_disk(self) -> RangeSet:
        """The ranges that the destination has reported as written."""
        whole = self.had
        for ranges in self._on_disk.values():
            whole = whole.union(ranges)
        return whole

    def length_of_next(self, most: int) -> int:
        """The octets of the part to send next, so many at most; there is one."""
        return min(most, self.waiting[0].end - self.waiting[0].start)

    def next(self, most: int | None = None) -> FilePart | None:
        """The part to send next, with so many octets at most."""
        if self._outcome.broken or not self.waiting:
            return None
        part = self.waiting.popleft()
        if most is not None and part.start + most < part.end:
            self.waiting.appendleft(replace(part, start=part.start + most))
            part = replace(part, end=part.start + most, last=False)
        self.under_way.add(part)
        return part

    def take(self, part: FilePart, event: FileEvent) -> bool:
        """Note what a lane says of a part. Returns whether more is on the disk."""
        if isinstance(event, FileProgress):
            return self._reported(part, event.ranges)
        self.under_way.discard(part)
        match event:
            case FileSettled(_, octets):
                self._outcome.arrived(part, octets)
                self._on_disk[part] = RangeSet([(part.start, part.end)])
                return True
            case FileRefused(_, fault, trusted, begun):
                self._outcome.failed(fault, begun=begun)
                return self._reported(part, trusted or RangeSet())
            case FileReturned(_, suspect, begun):
                self._outcome.returned(suspect=suspect, begun=begun)
        return False

    def give_up(self) -> None:
        """Send no more parts: the file comes back."""
        self._outcome.returned(suspect=False, begun=False)

    def outcome(self) -> FileEvent:
        """The event of the whole file; it is done."""
        return self._outcome.event(self.file, self.on_disk)

    def _reported(self, part: FilePart, ranges: RangeSet) -> bool:
        length = part.end - part.start
        inside = [(part.start + start, part.start + min(end, length)) for start, end in ranges if start < length]
        if inside:
            self._on_disk[part] = self._on_disk.get(part, RangeSet()).union(RangeSet(inside))
        return bool(inside)


@dataclass(slots=True)
class _Outcome:
    """The state of a whole file, from the events of its parts."""

    received: int = 0
    #: The last part was one octet longer: the source has grown, and the sizes are compared.
    grown: bool = False
    #: A part had another length: the source has changed, or does not send the octets that it is asked for.
    wrong: bool = False
    fault: Fault | None = None
    gone: bool = False
    suspect: bool = False
    begun: bool = False

    @property
    def broken(self) -> bool:
        return self.fault is not None or self.gone

    def arrived(self, part: FilePart, octets: int | None) -> None:
        length = part.end - part.start
        self.received += octets or 0
        if part.last and octets == length + 1:
            self.grown = True
        elif octets != length:
            # Cut to its size the file would look complete.
            self.wrong = True
            self.failed(make_fault(Kind.FILE_SIZE_CHANGED, f"{octets} octets of a part of {length}"), begun=False)

    def failed(self, fault: Fault, *, begun: bool) -> None:
        self.fault = worse(self.fault, fault)
        self.begun = self.begun or begun

    def returned(self, *, suspect: bool, begun: bool) -> None:
        self.gone = True
        self.suspect = self.suspect or suspect
        self.begun = self.begun or begun

    def event(self, file: FileRow, on_disk: RangeSet) -> FileEvent:
        if self.fault is not None:
            trusted = on_disk if on_disk and not self.wrong else None
            return FileRefused(file, self.fault, trusted, self.begun)
        if self.gone and on_disk and not self.suspect:
            return FileRefused(file, _LOST, on_disk, self.begun)
        if self.gone:
            return FileReturned(file, self.suspect, self.begun)
        return FileSettled(file, None if self.grown else self.received)


def split(file: FileRow, had: RangeSet, streams: int) -> list[FilePart]:
    """The parts of what is missing, as equal as possible, and enough for so many lanes."""
    gaps = had.gaps(file.size)
    missing = sum(end - start for start, end in gaps)
    length = max(MIN_PART, -(-missing // max(1, streams)))
    parts = []
    for start, end in gaps:
        count = max(1, round((end - start) / length))
        each = -(-(end - start) // count)
        bounds = [*range(start, end, each), end]
        parts += [FilePart(file, low, high, high == file.size) for low, high in pairwise(bounds)]
    return parts


def in_parts(file: FileRow) -> bool:
    """Whether it is sent in parts: a large file, or one that is continued. Not after one of another length."""
    return (file.size >= 2 * MIN_PART or bool(file.ranges)) and file.last_fault != Kind.FILE_SIZE_CHANGED
