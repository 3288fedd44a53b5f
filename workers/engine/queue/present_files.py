"""Which files the destination has already: by one listing of a folder for many files, else by a request for each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from endpoints.gridftp.patterns import folded
from transferapi.tasks.records import FileRow
from workers.engine.control_sessions import ControlSessions, UnreachableError

#: Files of a folder from which on it is listed, and the entries that its listing may have: the rest of a longer one
#: would cost more than the requests.
MANY, LEAST, FOR_EACH = 20, 1000, 4
#: Seconds for which a listing counts, and the most folders that are remembered.
FRESH, FOLDERS = 60.0, 8


class PresentFiles:
    """Asks a destination of which files it has an entry. An entry that cannot be looked at counts as present."""

    def __init__(self, control_sessions: ControlSessions) -> None:
        self._control_sessions = control_sessions
        #: Folder -> when it was listed, and its names, folded; None: it is too large, or could not be listed.
        self._listed: dict[str, tuple[float, frozenset[str] | None]] = {}

    async def among(self, rows: Sequence[FileRow]) -> set[int]:
        """The ids of those that have an entry under their final names. Raises UnreachableError."""
        by_folder: Mapping[str, list[FileRow]] = defaultdict(list)
        for row in rows:
            by_folder[_split(row)[0]].append(row)
        unlisted: list[FileRow] = []
        for folder, some in by_folder.items():
            names = await self._names(folder, len(some))
            unlisted += some if names is None else [row for row in some if _may_be(_split(row)[1], names)]
        found = await self._control_sessions.facts(Side.DESTINATION, [row.destination_path or "" for row in unlisted])
        return {row.id for row, entry in zip(unlisted, found, strict=True) if not _is_missing(entry)}

    async def _names(self, folder: str, files: int) -> frozenset[str] | None:
        """The names in a folder, folded; None where they are not known. Raises UnreachableError."""
        now = asyncio.get_running_loop().time()
        if folder in self._listed:
            listed_at, names = self._listed.pop(folder)
            if now < listed_at + FRESH:
                self._listed[folder] = listed_at, names
                return names
        if files < MANY:
            return None
        names = await self._list(folder, LEAST + FOR_EACH * files)
        self._listed[folder] = now, names
        if len(self._listed) > FOLDERS:
            del self._listed[next(iter(self._listed))]
        return names

    async def _list(self, folder: str, most: int) -> frozenset[str] | None:
        names: set[str] = set()
        try:
            async with aclosing(self._control_sessions.listing(Side.DESTINATION, folder or "/")) as batches:
                async for entries in batches:
                    names.update(folded(entry.name) for entry in entries)
                    if len(names) > most:
                        return None
        except UnreachableError:
            raise
        except FaultError:
            return None
        return frozenset(names)


def _split(row: FileRow) -> tuple[str, str]:
    folder, _, name = (row.destination_path or "").rpartition("/")
    return folder, name


def _may_be(name: str, names: frozenset[str]) -> bool:
    """Whether there may be such an entry: under a name that folds to it, or one that servers hide in their listings."""
    return name.startswith(".") or folded(name) in names


def _is_missing(entry: object) -> bool:
    return isinstance(entry, Fault) and entry.kind is Kind.FILE_NOT_FOUND
