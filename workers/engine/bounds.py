"""How much a task may see and remember of folders that have no end, as a hostile server can have them.

What it writes is bounded by its store (`ports.TooMuchError`). Here is the rest: entries of listings that never become
rows, and folders that wait in memory for their turn. Errors name the limit and the setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import ClassVar

from endpoints.gridftp.facts import Entry

from .ports import TooMuchError

#: What a folder in memory takes besides the texts of its paths.
FOLDER = 160
#: A task that holds no more than this never has to wait because of what the others hold.
SMALL = 4 << 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """folder: entries of one listing. entries: of all listings of one slice. memory: octets, of one task; all tasks of
    one worker together may hold twice as much."""

    folder: int = 5_000_000
    entries: int = 20_000_000
    memory: int = 64 << 20


DEFAULT = Bounds()


class CrowdedError(Exception):
    """The tasks of this worker hold as much in memory as they may: this one is given back for a while."""


class Listed:
    """Counts the entries of all listings of a slice."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._entries = 0

    def check(self, path: str, before: int, entries: Sequence[Entry]) -> int:
        """Entries of this folder so far. Raises TooMuchError."""
        self._entries += len(entries)
        now = before + len(entries)
        if now > self._bounds.folder:
            text = f"A folder has at most {self._bounds.folder} entries on this service (WAYBILL_MAX_TASK_FILES)"
            raise TooMuchError(f"{text}: {path[:200]}")
        if self._entries > self._bounds.entries:
            text = f"A task lists at most {self._bounds.entries} entries in one go on this service"
            raise TooMuchError(f"{text} (four times WAYBILL_MAX_TASK_FILES).")
        return now


class Memory:
    """Octets that a slice holds of folders."""

    #: Of all slices of this process, which run on one loop.
    all_held: ClassVar[int] = 0

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def take(self, octets: int) -> None:
        """Hold so much more. Raises TooMuchError, CrowdedError."""
        self._held += octets
        Memory.all_held += octets
        if self._held > self._most:
            text = f"A task remembers at most {self._most} octets of folders that it has yet to look into"
            raise TooMuchError(f"{text} (WAYBILL_MAX_SCAN_MEMORY): the folders lie too deep or too many side by side.")
        if self._held > SMALL and Memory.all_held > 2 * self._most:
            raise CrowdedError

    def has_room(self, octets: int) -> bool:
        """Hold so much more if that leaves half of the room for what cannot be done without."""
        fits = 2 * (self._held + octets) <= self._most and Memory.all_held + octets <= self._most
        if fits:
            self._held += octets
            Memory.all_held += octets
        return fits

    def free(self, octets: int) -> None:
        """Hold so much less."""
        octets = min(octets, self._held)
        self._held -= octets
        Memory.all_held -= octets

    def close(self) -> None:
        """The slice is over."""
        self.free(self._held)


class Share:
    """What one part of a slice holds of its memory, to be freed at once when this part is over, however it ends."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._held = 0

    def take(self, octets: int) -> None:
        """As `Memory.take`."""
        self._held += octets
        self._memory.take(octets)

    def has_room(self, octets: int) -> bool:
        """As `Memory.has_room`."""
        fits = self._memory.has_room(octets)
        self._held += octets * fits
        return fits

    def free(self, octets: int) -> None:
        """As `Memory.free`, but no more than this part holds."""
        octets = min(octets, self._held)
        self._held -= octets
        self._memory.free(octets)

    def close(self) -> None:
        """The part is over."""
        self.free(self._held)


def size_of(*paths: str | None) -> int:
    """What a folder with these paths takes."""
    return FOLDER + sum(getsizeof(path) for path in paths if path is not None)


def size_of_entries(entries: Iterable[Entry]) -> int:
    """What these take in a table by their names."""
    return sum(size_of(entry.name, entry.unique, entry.link_target) + FOLDER for entry in entries)
