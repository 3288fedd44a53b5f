"""Sync: whether a file has to be sent, or what is at the destination already will do.

Folders are compared side by side: the listing of the destination's folder is held while the source's streams by. There
is room for so many entries, whatever the number of folders; what there is no room for is looked at one by one.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, Side

from .bounds import Share, size_of_entries
from .desk import Desk
from .ports import Found

#: Entries of the destination's folders held at once, as far as there is memory for them (`bounds.Memory`).
ROOM = 100_000
#: Files looked at side by side.
LOOKS = 500


class Level(enum.IntEnum):
    """sync_level: a file is sent when it is missing, or else when this differs; each one looks at the size first."""

    EXISTS = 0
    SIZE = 1
    MODIFIED = 2
    CHECKSUM = 3


class Verdict(enum.Enum):
    SEND = "send"
    IN_PLACE = "in place"
    #: Only the contents can tell.
    COMPARE = "compare"


def level_of(options: Mapping[str, object]) -> Level | None:
    """The level that the task asks for; None: everything is sent."""
    level = options.get("sync_level")
    return Level(level) if isinstance(level, int) else None


def verdict(level: Level, found: Found, there: Entry | None) -> Verdict:
    """What to do about a thing of the source when `there` is what has its name at the destination.

    What is no file there is no reason not to send one: the destination then says by itself what is in the way.
    """
    if there is None:
        return Verdict.SEND
    if found.link_target is not None:
        return Verdict.IN_PLACE if there.link_target == found.link_target else Verdict.SEND
    if there.kind != "file" or (level > Level.EXISTS and there.size != found.size):
        return Verdict.SEND
    if level is Level.MODIFIED and _is_older(there, found):
        return Verdict.SEND
    return Verdict.COMPARE if level is Level.CHECKSUM and found.size else Verdict.IN_PLACE


def _is_older(there: Entry, found: Found) -> bool:
    """By whole seconds, which is all that most servers tell (RFC 3659 section 2.3). What nobody knows is older."""
    if there.modified is None or found.modified is None:
        return True
    return there.modified.replace(microsecond=0) < found.modified.replace(microsecond=0)


class Beside:
    """What is known of the destination's side. whole: nothing else is there."""

    def __init__(self, desk: Desk, entries: Mapping[str, Entry], *, whole: bool) -> None:
        self._desk = desk
        self._entries = entries
        self._whole = whole

    async def of(self, found: Sequence[Found]) -> Sequence[Entry | None]:
        """What stands where each of these would go. Raises FaultError."""
        paths = [one.destination_path or "" for one in found]
        there = [self._entries.get(path.rpartition("/")[2]) for path in paths]
        if not self._whole:
            unknown = [index for index, entry in enumerate(there) if entry is None]
            for start in range(0, len(unknown), LOOKS):
                some = unknown[start : start + LOOKS]
                looks = await asyncio.gather(*(look(self._desk, paths[index]) for index in some))
                for index, entry in zip(some, looks, strict=True):
                    there[index] = entry
        return there


class Destination:
    """The destination's folders while they are compared; all walks of a slice share the room."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        #: Entries that there is room for.
        self.room = ROOM

    @asynccontextmanager
    async def folder(self, path: str) -> AsyncIterator[Beside]:
        """List a folder of the destination, and forget it in the end. Raises FaultError."""
        entries: dict[str, Entry] = {}
        held = 0
        whole = True
        memory = Share(self._desk.memory)
        try:
            async for some in self._desk.listing(Side.DESTINATION, path or "/"):
                # A listing cannot be broken off: what there is no room for is read and dropped.
                kept = some[: self.room]
                if not memory.has_room(size_of_entries(kept)):
                    kept = ()
                whole = whole and len(kept) == len(some)
                self.room -= len(kept)
                held += len(kept)
                entries.update((entry.name, entry) for entry in kept)
            yield Beside(self._desk, entries, whole=whole)
        finally:
            self.room += held
            memory.close()


async def look(desk: Desk, path: str) -> Entry | None:
    """What is at the destination under this path. Raises FaultError."""
    try:
        return await desk.ask(Side.DESTINATION, lambda session: session.stat(path))
    except FaultError as error:
        if error.fault.kind is Kind.FILE_NOT_FOUND:
            return None
        raise
