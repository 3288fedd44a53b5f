"""Sync: decides whether a file is sent, or is in place at the destination.

The listing of a destination folder is held in memory while the listing of the source is read. The memory for such
entries is limited, whatever the number of folders; the facts of all other entries are requested one by one.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, Side
from transferapi.tasks.records import FoundFile
from workers.engine.bounds import TaskShare, size_of_entries
from workers.engine.control_sessions import ControlSessions, UnreachableError

#: Entries of destination folders in memory, as far as `bounds.Memory` allows.
ROOM = 100_000
#: Files whose facts are requested in parallel.
PARALLEL_STATS = 500


class SyncLevel(enum.IntEnum):
    """sync_level: a file is sent when it is missing, or when this differs. Levels above EXISTS compare sizes first."""

    EXISTS = 0
    SIZE = 1
    MODIFIED = 2
    CHECKSUM = 3


class Verdict(enum.Enum):
    SEND = "send"
    IN_PLACE = "in place"
    #: Only the contents show whether the file is in place.
    COMPARE = "compare"


def level_of(options: Mapping[str, object]) -> SyncLevel | None:
    """The level that the task asks for; None: everything is sent."""
    level = options.get("sync_level")
    return SyncLevel(level) if isinstance(level, int) else None


def verdict(level: SyncLevel, found: FoundFile, there: Entry | None) -> Verdict:
    """Decide about a source file; there: the entry of its name at the destination.

    An entry there that is not a file does not prevent sending: the destination then reports the conflict itself.
    """
    if there is None:
        return Verdict.SEND
    if found.link_target is not None:
        return Verdict.IN_PLACE if there.link_target == found.link_target else Verdict.SEND
    if there.kind != "file" or (level > SyncLevel.EXISTS and there.size != found.size):
        return Verdict.SEND
    if level is SyncLevel.MODIFIED and _is_older(there, found):
        return Verdict.SEND
    return Verdict.COMPARE if level is SyncLevel.CHECKSUM and found.size else Verdict.IN_PLACE


def _is_older(there: Entry, found: FoundFile) -> bool:
    """Compare whole seconds, which is all that most servers report (RFC 3659 section 2.3). An unknown time is older."""
    if there.modified is None or found.modified is None:
        return True
    return there.modified.replace(microsecond=0) < found.modified.replace(microsecond=0)


class DestinationFolder:
    """The known entries of one destination folder. whole: there are no others."""

    def __init__(self, control_sessions: ControlSessions, entries: Mapping[str, Entry], *, whole: bool) -> None:
        self._control_sessions = control_sessions
        self._entries = entries
        self._whole = whole

    async def entries_for(self, found: Sequence[FoundFile]) -> Sequence[Entry | None]:
        """The entries at the destinations of these files. Raises FaultError."""
        paths = [one.destination_path or "" for one in found]
        there = [self._entries.get(path.rpartition("/")[2]) for path in paths]
        if not self._whole:
            unknown = [index for index, entry in enumerate(there) if entry is None]
            for start in range(0, len(unknown), PARALLEL_STATS):
                some = unknown[start : start + PARALLEL_STATS]
                entries = await asyncio.gather(
                    *(entry_at(self._control_sessions, Side.DESTINATION, paths[index]) for index in some)
                )
                for index, entry in zip(some, entries, strict=True):
                    there[index] = entry
        return there


class DestinationFolders:
    """Lists destination folders for comparison; all walks of a slice share the memory."""

    def __init__(self, control_sessions: ControlSessions) -> None:
        self._control_sessions = control_sessions
        #: Entries for which there is room.
        self.room = ROOM

    @asynccontextmanager
    async def folder(self, path: str) -> AsyncIterator[DestinationFolder]:
        """List a folder of the destination, and free its entries at the end. Raises FaultError."""
        entries: dict[str, Entry] = {}
        held = 0
        whole = True
        memory = TaskShare(self._control_sessions.memory)
        try:
            async for some in self._control_sessions.listing(Side.DESTINATION, path or "/"):
                # A listing cannot be stopped: entries without room are read and dropped.
                kept = some[: self.room]
                if not memory.try_take(size_of_entries(kept)):
                    kept = ()
                whole = whole and len(kept) == len(some)
                self.room -= len(kept)
                held += len(kept)
                entries.update((entry.name, entry) for entry in kept)
            yield DestinationFolder(self._control_sessions, entries, whole=whole)
        finally:
            self.room += held
            memory.close()


async def entry_at(control_sessions: ControlSessions, side: Side, path: str) -> Entry | None:
    """The entry under this path, if there is one. Raises FaultError.

    Nothing can be reached under a name that no command can contain: whoever uses the name gets that fault.
    """
    try:
        return await control_sessions.stat(side, path)
    except UnreachableError:
        raise
    except FaultError as error:
        if error.fault.kind in (Kind.FILE_NOT_FOUND, Kind.INVALID_PATH_NAME):
            return None
        raise
