"""What a slice moves, counted: for the tuner while it moves, and for the history of the pair of endpoints after."""

from __future__ import annotations

from .arrival import octets
from .ports import FileRow
from .tuner import Sample


class Gauge:
    """Counts octets when they are on the destination's disk, by markers and by the ends of files, each once."""

    def __init__(self) -> None:
        self.bytes = 0
        self.files = 0
        self.faults = 0
        #: Octets of a file under way that this sending brought, and that were counted already.
        self._counted: dict[int, int] = {}
        self._last = (0, 0, 0)

    def progressed(self, file: FileRow, on_disk: int) -> None:
        """A range marker: so much of this file is there, what an earlier sending had brought included."""
        brought = on_disk - octets(file.ranges)
        self.bytes += brought - self._counted.get(file.id, 0)
        self._counted[file.id] = brought

    def arrived(self, file: FileRow, moved: int) -> None:
        """This file is whole; `moved` octets came in this sending, those of its markers included."""
        self.bytes += max(0, moved - self._counted.pop(file.id, 0))
        self.files += 1

    def left(self, file: FileRow) -> None:
        """This file is in no lane any more, and has not arrived."""
        self._counted.pop(file.id, None)

    def fault(self) -> None:
        """A connection was refused or lost, or a server was too busy."""
        self.faults += 1

    def sample(self, at: float, *, lanes: int, waiting: int, under_way: int) -> Sample:
        """What happened since the last sample. at: seconds on any steady clock."""
        now = (self.bytes, self.files, self.faults)
        moved, files, faults = (new - old for new, old in zip(now, self._last, strict=True))
        self._last = now
        return Sample(at, moved, files, lanes, waiting, under_way, faults)
