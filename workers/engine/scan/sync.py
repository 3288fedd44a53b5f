"""Sync for one slice: compares folders and files, with the sessions and the memory for that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakSet

from endpoints.gridftp.facts import Entry
from transferapi.tasks.records import FoundFile, ItemRow
from workers.engine.control_sessions import ControlSessions
from workers.engine.work import SliceContext

from .checksum_comparison import ChecksumComparison, Compared
from .comparison import DestinationFolder, DestinationFolders, SyncLevel, Verdict, level_of, verdict

Deliver = Callable[[Sequence[Compared]], Awaitable[None]]


class Sync:
    """Shared by all walks and items of a slice."""

    def __init__(self, work: SliceContext, level: SyncLevel) -> None:
        self.level = level
        self.destination = DestinationFolders(work.control_sessions)
        self._store = work.store
        #: Checksums have sessions of their own: a listing must not wait for one.
        self._checksums = ControlSessions(work.sessions, trace=work.trace)
        self._contents: WeakSet[ChecksumComparison] = WeakSet()

    @classmethod
    def of(cls, work: SliceContext) -> Sync | None:
        """None if this task sends everything."""
        level = level_of(work.spec.options)
        return None if level is None else cls(work, level)

    def of_walk(self, deliver: Deliver, backlog: int | None = None) -> WalkSync:
        """The comparison for one walk. Results of comparisons by checksum are given to `deliver`."""
        contents = ChecksumComparison(self._store, self._checksums, deliver, backlog)
        self._contents.add(contents)
        return WalkSync(self, contents)

    async def drain(self) -> None:
        """Call `ChecksumComparison.drain` for all comparisons."""
        await asyncio.gather(*(contents.drain() for contents in self._contents))

    async def close(self) -> None:
        """Give the sessions back."""
        await self._checksums.put_away()


class WalkSync:
    """The comparison for one walk, or for all items that are files."""

    def __init__(self, sync: Sync, contents: ChecksumComparison) -> None:
        self._level = sync.level
        self._contents = contents
        self.folder = sync.destination.folder
        self.finish = contents.finish
        self.stop = contents.stop

    async def sort(self, item: ItemRow, found: Sequence[FoundFile], there: DestinationFolder) -> list[FoundFile]:
        """Return the files that can be decided now; those compared by checksum come later. Raises FaultError."""
        pairs = zip(found, await there.entries_for(found), strict=True)
        return [ready for one, there in pairs if (ready := await self.decide(item, one, there))]

    async def decide(self, item: ItemRow, found: FoundFile, there: Entry | None) -> FoundFile | None:
        """Return the file if it can be decided now; None if it is compared by checksum."""
        match verdict(self._level, found, there):
            case Verdict.SEND:
                return found._replace(absent=True) if there is None else found
            case Verdict.IN_PLACE:
                return found._replace(skipped=True)
            case Verdict.COMPARE:
                await self._contents.put(item, found)
                return None
