"""Sync for one slice: what compares folders and files, with the sessions and the room that this takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from weakref import WeakSet

from endpoints.gridftp.facts import Entry

from .compare import Beside, Destination, Level, Verdict, level_of, verdict
from .contents import Compared, Contents
from .desk import Desk
from .ports import Found, ItemRow
from .work import Work

Deliver = Callable[[Sequence[Compared]], Awaitable[None]]


class Sync:
    """One for all walks and items of a slice."""

    def __init__(self, work: Work, level: Level) -> None:
        self.level = level
        self.destination = Destination(work.desk)
        self._store = work.store
        #: Checksums have sessions of their own: a listing must not wait until one is made.
        self._checksums = Desk(work.sessions)
        self._contents: WeakSet[Contents] = WeakSet()

    @classmethod
    def of(cls, work: Work) -> Sync | None:
        """None: this task sends everything."""
        level = level_of(work.spec.options)
        return None if level is None else cls(work, level)

    def of_walk(self, deliver: Deliver, backlog: int | None = None) -> WalkSync:
        """For files whose contents, when they are compared, are given to `deliver`."""
        contents = Contents(self._store, self._checksums, deliver, backlog)
        self._contents.add(contents)
        return WalkSync(self, contents)

    async def last(self) -> None:
        """`Contents.last` for all."""
        await asyncio.gather(*(contents.last() for contents in self._contents))

    async def close(self) -> None:
        """Give the sessions back."""
        await self._checksums.close()


class WalkSync:
    """For one walk, or for all items that are files."""

    def __init__(self, sync: Sync, contents: Contents) -> None:
        self._level = sync.level
        self._contents = contents
        self.folder = sync.destination.folder
        self.finish = contents.finish
        self.stop = contents.stop

    async def sort(self, item: ItemRow, found: Sequence[Found], beside: Beside) -> list[Found]:
        """What is known of these at once; those whose contents must be compared come later. Raises FaultError."""
        pairs = zip(found, await beside.of(found), strict=True)
        return [ready for one, there in pairs if (ready := await self.decide(item, one, there))]

    async def decide(self, item: ItemRow, found: Found, there: Entry | None) -> Found | None:
        """What is known of this one at once; None: it comes when its contents are compared."""
        match verdict(self._level, found, there):
            case Verdict.SEND:
                return found
            case Verdict.IN_PLACE:
                return replace(found, skipped=True)
            case Verdict.COMPARE:
                await self._contents.put(item, found)
                return None
