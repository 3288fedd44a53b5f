"""Loads pending files into the queue: from the scan as it finds them, and from the store when there was no room."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from typing import TypeVar

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from transferapi.tasks.records import FileRow, FoundFile, ItemRow, TaskSpec
from workers.engine.control_sessions import ControlSessions, UnreachableError
from workers.engine.ports import TaskStore

from .file_queue import LOW, FileQueue
from .present_files import PresentFiles
from .write_names import RealNames, TemporaryNames, earlier_names, has_begun, partials

#: Files fetched from the store at once, and the least room for which a fetch is worthwhile.
FETCH = 2000
MIN_FETCH = 500
#: Maximum number of orphaned temporary names that are remembered; further ones stay at the destination.
MAX_ORPHANS = 10_000
#: Seconds for the removal of temporary files that are replaced by new names.
REMOVAL = 5.0

T = TypeVar("T")


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


class QueueFeeder:
    """Fills the queue with pending files of the store, as far as there is room.

    files_added: called when files were added. unreachable: awaited with the fault where the destination cannot be
    asked; the files stay in the store. One lock orders the writes of the scan and the fetches, so that no file is
    loaded twice.
    """

    def __init__(
        self,
        spec: TaskSpec,
        store: TaskStore,
        control_sessions: ControlSessions,
        file_queue: FileQueue,
        files_added: Callable[[], None],
        unreachable: Callable[[Fault], Awaitable[None]],
    ) -> None:
        #: `TaskSpec.renames_all`.
        self.renames_all = spec.renames_all
        self._unreachable = unreachable
        self._store = store
        self._control_sessions = control_sessions
        self._file_queue = file_queue
        self._names = TemporaryNames(spec.mark, spec.lost_marks)
        self._real_names = RealNames()
        self._present_files = PresentFiles(control_sessions)
        #: The entries that files in the queue and in lanes are written over, as they were before, by the files' ids.
        self._before: dict[int, Entry] = {}
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

    async def look_ahead(self, folder: str) -> None:
        """`PresentFiles.look_ahead`, where files are written in place at all."""
        if not self.renames_all:
            await self._present_files.look_ahead(folder)

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
        # file; one that has yet to open it makes it again, so it is removed once more when the slice ends.
        names = [row.temporary_path for row in rows if row.temporary_path]
        await self.remove(names)
        renamed = await self._name(rows)
        staying = set(self.orphans)
        self.add_orphans([name for name in names if name not in staying])
        return renamed

    def untouched(self, row: FileRow) -> bool:
        """Whether nothing lies under the name that this slice gave to a file which is in no lane."""
        return self._names.named_here(row) and not row.ranges and not has_begun(row)

    async def partials(self, rows: Sequence[FileRow]) -> list[str]:
        """`write_names.partials` of these, without real names where another task may have replaced what lies there."""
        names = [path for row in rows for path in partials(row)]
        real = {row.destination_path for row in rows}.intersection(names)
        if real and await self._store.others_write():
            return [name for name in names if name not in real]
        return names

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

    def as_written(self, row: FileRow) -> FileRow:
        """The file as a lane gets it: under its real name where the server refuses to rename what it has written."""
        return self._real_names.apply(row) if self._names.named_here(row) and not self.renames_all else row

    def entry_before(self, row: FileRow) -> Entry | None:
        """The entry that a file which leaves its lane was written over, as it was before; None if it is not known."""
        before = self._before.pop(row.id, None)
        return before if row.temporary_path is None else None

    def renamed(self) -> None:
        """The server has given a file its real name."""
        self._real_names.server_renames = True

    def written_in_place(self, row: FileRow) -> None:
        """A file has arrived under its real name."""
        self._real_names.arrived(row)

    async def refused_name(self, row: FileRow, kind: Kind, *, arrived: bool) -> FileRow:
        """The server refuses the temporary name: write the file under its real one the next time.

        arrived: it was written under that name. Else `kind` may be a refusal of its folder, or of anything else.
        """
        self._real_names.add(row, certain=arrived or kind is Kind.INVALID_PATH_NAME)
        await self.remove([row.temporary_path or ""])
        return row._replace(temporary_path=None, ranges="")

    def of_lost_workers(self, row: FileRow) -> Sequence[str]:
        """`TemporaryNames.of_lost_workers`."""
        return self._names.of_lost_workers(row)

    async def _admit(self, rows: Sequence[FileRow]) -> None:
        """Load as many files as there is room for, under the names that they are written under."""
        room = self._file_queue.room
        self.more = self.more or len(rows) > room
        try:
            admitted = await self._under_names(rows[:room])
        except UnreachableError as error:
            self.more = True
            await self._unreachable(error.fault)
            return
        if not self._file_queue.admit(admitted):
            self.more = True
        if rows:
            self._files_added()

    async def _under_names(self, rows: Sequence[FileRow]) -> Sequence[FileRow]:
        """The files with the names that they are written under. Raises UnreachableError."""
        nameless = [row for row in rows if self._needs_name(row)]
        present = set() if self.renames_all else await self._present(nameless)
        await self.remove([*self._left_behind(nameless), *chain.from_iterable(map(earlier_names, rows))])
        if self.renames_all:
            named = {row.id: row for row in await self._name(nameless)}
        else:
            named = {row.id: self._names.own(row) for row in nameless if row.id not in present}
        return [named.get(row.id, row) for row in rows]

    def _needs_name(self, row: FileRow) -> bool:
        """Whether the file is sent from the start, and has no name of its own yet.

        A file that a dead worker may still be writing needs a new one. On a shared endpoint each sending needs one:
        others may know the name that was used before.
        """
        if row.ranges or row.link_target is not None or row.destination_path is None or self._real_names.has(row):
            return False
        if self.renames_all or row.temporary_path is None:
            return True
        return row.suspect and not self._names.named_here(row)

    async def _present(self, rows: Sequence[FileRow]) -> set[int]:
        """Those with an entry of their name at the destination that belongs to its owner: it is overwritten in place.

        Its inode, mode, owner, ACLs and links stay. Not so where the server replaces a file and keeps these, and where
        a lost worker, or another task, may be writing to the entry: two writers in one file would mix their versions.
        """
        unknown = [row for row in rows if not (row.absent or row.suspect)]
        if not unknown or (await self._control_sessions.session(Side.DESTINATION)).replaces:
            return set()
        present = await self._present_files.among(unknown)
        if present and await self._store.others_write():
            return set()
        self._before.update((number, entry) for number, entry in present.items() if entry is not None)
        return set(present)

    def _left_behind(self, nameless: Sequence[FileRow]) -> list[str]:
        """The paths of all that a dead worker may have left of these.

        Other files have nothing there, or continue under their name.
        """
        recorded = [row.temporary_path for row in nameless if row.suspect and row.temporary_path]
        return [*recorded, *(path for row in nameless for path in self._names.of_lost_workers(row))]
