"""Loads pending files into the queue: from the scan as it finds them, and from the store when there was no room."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from transferapi.tasks.records import FileRow, FoundFile, ItemRow
from workers.engine.control_sessions import ControlSessions
from workers.engine.ports import TaskStore

from .file_queue import LOW, FileQueue

#: Files fetched from the store at once, and the least room for which a fetch is worthwhile.
FETCH = 2000
MIN_FETCH = 500
#: Maximum number of orphaned temporary names that are remembered; further ones stay at the destination.
MAX_ORPHANS = 10_000
#: Seconds for the removal of temporary files that are replaced by new names.
REMOVAL = 5.0

T = TypeVar("T")

#: The suffix of a temporary file's name when a partial file also lies under the final name.
BEGUN = "-b"
_PREFIX = ".waybill-"
#: Between the marks in a name: its own, and those of the file's earlier names that could not be removed.
_BETWEEN = "_"
#: The most marks in a name.
_MOST_MARKS = 5


def has_begun(row: FileRow) -> bool:
    """Whether this task wrote a partial file under the final name."""
    temporary = row.temporary_path
    return row.begun or (bool(row.ranges) if temporary is None else temporary.endswith(BEGUN))


def partials(row: FileRow) -> list[str]:
    """The paths at the destination to remove when this file is given up: those that this task surely wrote.

    A file that was there before, and that no server reported to have opened, is not among them.
    """
    temporary = [row.temporary_path, *earlier_names(row)] if row.temporary_path else []
    return [*temporary, row.destination_path] if has_begun(row) and row.destination_path else temporary


def earlier_names(row: FileRow) -> list[str]:
    """The temporary paths that this file had when a computer went away, and kept what lay there."""
    folder, _, _ = (row.temporary_path or "").rpartition("/")
    marks = _marks(row)
    older = [_BETWEEN.join(marks[number:]) for number in range(1, len(marks))]
    return [f"{folder}/{_PREFIX}{one}{suffix}" for one in older for suffix in ("", BEGUN)]


def _marks(row: FileRow) -> list[str]:
    name = (row.temporary_path or "").rpartition("/")[2]
    return name.removeprefix(_PREFIX).removesuffix(BEGUN).split(_BETWEEN) if name else []


async def write_possible(write: Callable[[Sequence[T]], Awaitable[None]], found: Sequence[T]) -> list[tuple[T, Fault]]:
    """Write these files, and return those that cannot be written: their destination belongs to another source.

    `write` writes all or none of its argument (`TaskStore.add_found`), so a batch that it refuses is halved.
    """
    if not found:
        return []
    try:
        await write(found)
    except FaultError as error:
        if len(found) == 1:
            return [(found[0], error.fault)]
        half = len(found) // 2
        return [*await write_possible(write, found[:half]), *await write_possible(write, found[half:])]
    return []


class TemporaryNames:
    """Names for files that may have a stale writer (see endpoints/gridftp/third_party/pair.py, rule 4).

    Each sending gets a new name, hence a new inode that no earlier server process can have open. All names of one
    slice share a prefix, so that names given by earlier workers can be recognized.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(4)

    def give(self, row: FileRow, *, stays: bool = False) -> FileRow:
        """The same file, to be written from the start under a new name in the folder of its destination.

        stays: its earlier temporary file could not be removed. The new name has the mark of that one, so that the next
        worker finds it (`earlier_names`).
        """
        folder = (row.destination_path or "").rpartition("/")[0]
        earlier = _marks(row) if stays else []
        kept = earlier if len(earlier) < _MOST_MARKS else []
        marks = _BETWEEN.join([self._mark + secrets.token_hex(8), *kept])
        name = f"{folder}/{_PREFIX}{marks}{BEGUN if has_begun(row) else ''}"
        return replace(row, temporary_path=name, ranges="", suspect=False)

    def named_here(self, row: FileRow) -> bool:
        """Whether this slice gave the file its temporary name."""
        path = row.temporary_path
        return path is not None and path.rpartition("/")[2].startswith(_PREFIX + self._mark)


class QueueFeeder:
    """Fills the queue with pending files of the store, as far as there is room.

    files_added: called when files were added. aside: see `TaskSpec.writes_aside`. One lock orders the writes of the
    scan and the fetches, so that no file is loaded twice.
    """

    def __init__(
        self,
        store: TaskStore,
        control_sessions: ControlSessions,
        file_queue: FileQueue,
        files_added: Callable[[], None],
        *,
        aside: bool = False,
    ) -> None:
        self.aside = aside
        self._store = store
        self._control_sessions = control_sessions
        self._file_queue = file_queue
        self._names = TemporaryNames()
        self._files_added = files_added
        self._lock = asyncio.Lock()
        #: The store may have due files that are not loaded.
        self.more = False
        #: Temporary names that no file uses any more, to be removed from the destination.
        self.orphans: list[str] = []

    @property
    def low(self) -> bool:
        """Whether it is time to fetch."""
        file_queue = self._file_queue
        return self.more and file_queue.waiting < LOW and file_queue.room >= MIN_FETCH and not self._lock.locked()

    async def add_found(self, item: ItemRow, found: Sequence[FoundFile]) -> None:
        """Write found files as rows, and load them if there is room. Raises as `TaskStore.add_found`."""
        async with self._lock:
            await self._admit(await self._store.add_found(item, found))

    async def add_file_items(self, found: Sequence[tuple[ItemRow, FoundFile]]) -> None:
        """The same for items that are one file each."""
        async with self._lock:
            await self._admit(await self._store.file_items_scanned(found))

    async def fetch(self) -> None:
        """Load due files from the store."""
        async with self._lock:
            limit = min(FETCH, self._file_queue.room)
            if limit <= 0:
                return
            rows = await self._store.pending(limit, self._file_queue.loaded)
            self.more = len(rows) >= limit
            await self._admit(rows)

    async def rename(self, rows: Sequence[FileRow]) -> Sequence[FileRow]:
        """Give these files new temporary names, and record the names before anything is written under them."""
        # Remove the old files first: after a SIGKILL nobody tries again. A late writer then writes into an unlinked
        # file.
        await self.remove([row.temporary_path for row in rows if row.temporary_path])
        return await self._name(rows)

    def untouched(self, row: FileRow) -> bool:
        """Whether nothing lies under the name that this slice gave to a file which is in no lane."""
        return self._names.named_here(row) and not row.ranges and not has_begun(row)

    async def _name(self, rows: Sequence[FileRow]) -> Sequence[FileRow]:
        staying = set(self.orphans)
        renamed = [self._names.give(row, stays=row.temporary_path in staying) for row in rows]
        if renamed:
            await self._store.write_temporary_paths(renamed)
        return renamed

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove files that no lane writes; failed removals are tried again when the slice ends."""
        try:
            await self.remove_within(REMOVAL, paths)
        except TimeoutError:
            self.add_orphans(paths)

    async def remove_within(self, seconds: float, paths: Sequence[str]) -> None:
        """Remove these; refused removals are tried again when the slice ends. Raises TimeoutError without an answer."""
        if not paths:
            return
        entries = [(path, False) for path in paths]
        try:
            async with asyncio.timeout(seconds):
                faults = await self._control_sessions.ask(Side.DESTINATION, lambda session: session.remove(entries))
        except FaultError:
            self.add_orphans(paths)
        else:
            missing = Kind.FILE_NOT_FOUND
            self.add_orphans(
                [path for path, fault in zip(paths, faults, strict=True) if fault and fault.kind is not missing]
            )

    def add_orphans(self, paths: Sequence[str]) -> None:
        """Record names under which nothing will be written any more."""
        self.orphans += paths[: MAX_ORPHANS - len(self.orphans)]

    async def _admit(self, rows: Sequence[FileRow]) -> None:
        """Load as many files as there is room for, under the names that they are written under."""
        room = self._file_queue.room
        self.more = self.more or len(rows) > room
        admitted = rows[:room]
        nameless = [row for row in admitted if self._needs_name(row)]
        await self.remove([*_left_behind(nameless), *(path for row in admitted for path in earlier_names(row))])
        named = {row.id: row for row in await self._name(nameless)}
        if not self._file_queue.admit([named.get(row.id, row) for row in admitted]):
            self.more = True
        if rows:
            self._files_added()

    def _needs_name(self, row: FileRow) -> bool:
        """A file that a dead worker may still be writing needs a new name, unless it can be continued in place.

        With `aside`, all files need one: others may know the name that was used before.
        """
        if row.ranges or row.link_target is not None:
            return False
        return self.aside or (row.suspect and not self._names.named_here(row))


def _left_behind(nameless: Sequence[FileRow]) -> list[str]:
    """Temporary files that a dead worker may have left. Other files have none, or continue in the one they have."""
    return [row.temporary_path for row in nameless if row.suspect and row.temporary_path]
