"""Limits of what a task may list and keep of folders without end, as a hostile server can present them.

The store limits what is written (`ports.TooMuchError`). These limits cover the rest: listed entries that never
become rows, and folders that wait in memory. Each error names the limit and its setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from sys import getsizeof
from typing import ClassVar

from endpoints.gridftp.facts import Entry
from transferapi.tasks.errors import TooMuchError

#: Octets of a folder in memory, without the texts of its paths.
FOLDER = 160
#: A task that holds no more octets than this never waits for the memory of other tasks.
SMALL = 4 << 20


@dataclass(frozen=True, slots=True)
class EngineBounds:
    """folder: entries of one listing. entries: of all listings of one slice. memory: octets of one task.

    All tasks of one worker together may hold twice as much memory.
    """

    folder: int = 5_000_000
    entries: int = 20_000_000
    memory: int = 64 << 20


DEFAULT = EngineBounds()


class MemoryFullError(Exception):
    """The tasks of this worker hold as much memory as they may: this task is released for a while."""


class ListingCounter:
    """Counts the entries of all listings of a slice."""

    def __init__(self, bounds: EngineBounds) -> None:
        self._bounds = bounds
        self._entries = 0

    def check(self, path: str, before: int, entries: Sequence[Entry]) -> int:
        """Add entries of this folder to those counted before. Returns their number. Raises TooMuchError."""
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
    """Octets that a slice holds for folders."""

    #: The octets that all slices of this process hold; they run on one loop.
    all_held: ClassVar[int] = 0

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    def take(self, octets: int) -> None:
        """Hold so many more octets. Raises TooMuchError, MemoryFullError."""
        self._held += octets
        Memory.all_held += octets
        if self._held > self._most:
            text = f"A task keeps at most {self._most} octets of folders that it has yet to list"
            raise TooMuchError(
                f"{text} (WAYBILL_MAX_SCAN_MEMORY): the folders are nested too deeply, or too many are side by side."
            )
        if self._held > SMALL and Memory.all_held > 2 * self._most:
            raise MemoryFullError

    def try_take(self, octets: int) -> bool:
        """Hold so many more octets if half of the memory stays free for what `take` needs. Returns whether it does."""
        fits = 2 * (self._held + octets) <= self._most and Memory.all_held + octets <= self._most
        if fits:
            self._held += octets
            Memory.all_held += octets
        return fits

    def free(self, octets: int) -> None:
        """Hold so many octets less."""
        octets = min(octets, self._held)
        self._held -= octets
        Memory.all_held -= octets

    def close(self) -> None:
        """Free all, at the end of the slice."""
        self.free(self._held)


class TaskShare:
    """The memory of one part of a slice, freed at once when this part ends, however it ends."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._held = 0

    def take(self, octets: int) -> None:
        """See `Memory.take`."""
        self._held += octets
        self._memory.take(octets)

    def try_take(self, octets: int) -> bool:
        """See `Memory.try_take`."""
        fits = self._memory.try_take(octets)
        self._held += octets * fits
        return fits

    def free(self, octets: int) -> None:
        """See `Memory.free`; frees no more than this part holds."""
        octets = min(octets, self._held)
        self._held -= octets
        self._memory.free(octets)

    def close(self) -> None:
        """Free all, at the end of the part."""
        self.free(self._held)


def size_of(*paths: str | None) -> int:
    """Octets of a folder with these paths."""
    return FOLDER + sum(getsizeof(path) for path in paths if path is not None)


def size_of_entries(entries: Iterable[Entry]) -> int:
    """Octets of these entries in a table by name."""
    return sum(size_of(entry.name, entry.unique, entry.link_target) + FOLDER for entry in entries)
