"""Where pending files come in hand: from the scan as it finds them, and from the store when memory had no room."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from endpoints.gridftp.faults import FaultError, Kind, Side

from .dealer import LOW, Dealer
from .desk import Desk
from .ports import FileRow, Found, ItemRow, TaskStore

#: Files fetched from the store at once, and the least room for which it is worth the while.
FETCH = 2000
MIN_FETCH = 500
#: Names of forgotten files that are remembered at most; what is beyond stays behind.
MAX_LITTER = 10_000
#: Seconds for the removal of temporary files whose files get new names.
REMOVAL = 5.0


#: How the name of a temporary file ends when there is a partial file under the real name, too.
BEGUN = "-b"


def has_begun(row: FileRow) -> bool:
    """Whether this task has written under the file's own name what is no whole copy of it."""
    temporary = row.temporary_path
    return row.begun or (bool(row.ranges) if temporary is None else temporary.endswith(BEGUN))


def partials(row: FileRow) -> list[str]:
    """What is left at the destination of a file that is given up, as far as this task surely wrote it.

    A file that was there before, and that no server has said to have opened, is not among them.
    """
    temporary = [row.temporary_path] if row.temporary_path else []
    return [*temporary, row.destination_path] if has_begun(row) and row.destination_path else temporary


class TemporaryNames:
    """Names for files that may have a stale writer (see endpoints/gridftp/pair.py, rule 4).

    Each sending gets a new name, hence a new inode that no earlier server process can have open. The names of one
    slice begin alike, so that what an earlier worker named is told from what this one did.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(4)

    def give(self, row: FileRow) -> FileRow:
        """The same file, to be written afresh under a new name in the folder of its destination."""
        folder = (row.destination_path or "").rpartition("/")[0]
        name = f"{folder}/.waybill-{self._mark}{secrets.token_hex(8)}{BEGUN if has_begun(row) else ''}"
        return replace(row, temporary_path=name, ranges="", suspect=False)

    def is_ours(self, row: FileRow) -> bool:
        """Whether this slice gave the file the name that it has."""
        path = row.temporary_path
        return path is not None and path.rpartition("/")[2].startswith(f".waybill-{self._mark}")


class Stock:
    """The store's pending files, as far as there is room for them.

    stocked: called when there is more to deal. aside: as `TaskSpec.writes_aside`. One lock orders the scan's writes and
    the fetches, so that no file comes in hand by both ways.
    """

    def __init__(
        self,
        store: TaskStore,
        desk: Desk,
        dealer: Dealer,
        names: TemporaryNames,
        stocked: Callable[[], None],
        *,
        aside: bool = False,
    ) -> None:
        self.aside = aside
        self._store = store
        self._desk = desk
        self._dealer = dealer
        self._names = names
        self._stocked = stocked
        self._lock = asyncio.Lock()
        #: The store may have due files that are not in hand.
        self.more = False
        #: Names that no file has any more, or that are given up: to be removed from the destination.
        self.litter: list[str] = []

    @property
    def low(self) -> bool:
        """Whether it is time to fetch."""
        dealer = self._dealer
        return self.more and dealer.waiting < LOW and dealer.room >= MIN_FETCH and not self._lock.locked()

    async def add_found(self, item: ItemRow, found: Sequence[Found]) -> None:
        """Found files become rows, and come in hand if there is room. Raises as `TaskStore.add_found`."""
        async with self._lock:
            await self._admit(await self._store.add_found(item, found))

    async def add_file_items(self, found: Sequence[tuple[ItemRow, Found]]) -> None:
        """The same for items that are one file each."""
        async with self._lock:
            await self._admit(await self._store.file_items_scanned(found))

    async def fetch(self) -> None:
        """Fill up from the store."""
        async with self._lock:
            limit = min(FETCH, self._dealer.room)
            if limit <= 0:
                return
            rows = await self._store.pending(limit, self._dealer.in_hand)
            self.more = len(rows) >= limit
            await self._admit(rows)

    async def rename(self, rows: Sequence[FileRow]) -> Sequence[FileRow]:
        """Give these files new temporary names, and write that down before anything is written under them."""
        # Before the new names take the place of the old ones: after a SIGKILL nobody would know these any more.
        # A late writer of one then writes into a file without a name.
        await self.remove([row.temporary_path for row in rows if row.temporary_path])
        return await self._name(rows)

    def untouched(self, row: FileRow) -> bool:
        """Of a file that no lane has: whether nothing lies under the name that this slice gave to it.

        A lane that lives has removed what it began of a file that it gives back without ranges.
        """
        return self._names.is_ours(row) and not row.ranges and not has_begun(row)

    async def _name(self, rows: Sequence[FileRow]) -> Sequence[FileRow]:
        renamed = [self._names.give(row) for row in rows]
        if renamed:
            await self._store.write_temporary_paths(renamed)
        return renamed

    async def remove(self, paths: Sequence[str]) -> None:
        """Remove these, which nobody will write again; what cannot be removed now is tried again as the slice ends."""
        try:
            await self.remove_within(REMOVAL, paths)
        except TimeoutError:
            self.drop(paths)

    async def remove_within(self, seconds: float, paths: Sequence[str]) -> None:
        """Remove these; what is refused is tried again as the slice ends. Raises TimeoutError when nobody answers."""
        if not paths:
            return
        entries = [(path, False) for path in paths]
        try:
            async with asyncio.timeout(seconds):
                faults = await self._desk.ask(Side.DESTINATION, lambda session: session.remove(entries))
        except FaultError:
            self.drop(paths)
        else:
            missing = Kind.FILE_NOT_FOUND
            self.drop([path for path, fault in zip(paths, faults, strict=True) if fault and fault.kind is not missing])

    def drop(self, paths: Sequence[str]) -> None:
        """Nothing will be written under these names any more."""
        self.litter += paths[: MAX_LITTER - len(self.litter)]

    async def _admit(self, rows: Sequence[FileRow]) -> None:
        """Take in hand what there is room for, under the names that it is to be written under."""
        room = self._dealer.room
        self.more = self.more or len(rows) > room
        nameless = [row for row in rows[:room] if self._needs_name(row)]
        # Of others a lane has removed what it began, or told how much of it is there.
        await self.remove([row.temporary_path for row in nameless if row.suspect and row.temporary_path])
        named = {row.id: row for row in await self._name(nameless)}
        if not self._dealer.admit([named.get(row.id, row) for row in rows[:room]]):
            self.more = True
        if rows:
            self._stocked()

    def _needs_name(self, row: FileRow) -> bool:
        """What a worker that died may still be writing gets a new name, unless it can be continued in place; and all
        that is written aside does: a name that was seen before is not new to others."""
        if row.ranges or row.link_target is not None:
            return False
        return self.aside or (row.suspect and not self._names.is_ours(row))
