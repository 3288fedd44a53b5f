"""Counts what a slice transfers: for the tuner, and for the history of the pair of endpoints."""

from __future__ import annotations

from transferapi.tasks.records import FileRow
from workers.engine.settle.arrival import octets
from workers.engine.tuning.meter import Sample


class TransferCounter:
    """Counts octets when they are on the destination's disk, from markers and ends of files, each once."""

    def __init__(self) -> None:
        self.bytes = 0
        self.files = 0
        self.faults = 0
        #: Octets of a file under way that this sending transferred, and that were counted already.
        self._counted: dict[int, int] = {}
        self._last = (0, 0, 0)

    def progressed(self, file: FileRow, on_disk: int) -> None:
        """A range marker: octets of this file on the disk, those of an earlier sending included."""
        brought = on_disk - octets(file.ranges)
        self.bytes += brought - self._counted.get(file.id, 0)
        self._counted[file.id] = brought

    def arrived(self, file: FileRow, moved: int) -> None:
        """This file is complete; `moved` octets came in this sending, those of its markers included."""
        self.bytes += max(0, moved - self._counted.pop(file.id, 0))
        self.files += 1

    def left(self, file: FileRow) -> None:
        """This file left its lane and has not arrived."""
        self._counted.pop(file.id, None)

    def fault(self) -> None:
        """A connection was refused or lost, or a server was too busy."""
        self.faults += 1

    def sample(self, at: float, *, lanes: int, waiting: int) -> Sample:
        """The counts since the last sample. at: seconds on any steady clock."""
        now = (self.bytes, self.files, self.faults)
        moved, files, faults = (new - old for new, old in zip(now, self._last, strict=True))
        self._last = now
        return Sample(at, moved, files, lanes, waiting, faults)
