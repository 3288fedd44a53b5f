"""Which files the destination has already: by one listing of a folder for many files, else by a request for each."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import FaultError, Kind, Side
from endpoints.gridftp.patterns import folded
from transferapi.tasks.records import FileRow
from workers.engine.control_sessions import ControlSessions, UnreachableError, is_missing

#: Files of a folder from which on it is listed, and the entries that its listing may have: the rest of a longer one
#: would cost more than the requests.
MANY, LEAST, FOR_EACH = 20, 1000, 4
#: Seconds for which a listing counts, and the most folders that are remembered.
FRESH, FOLDERS = 60.0, 64


class _Listed:
    """The listing of a folder, which may be under way. names: folded; None: too many, or it cannot be listed."""

    def __init__(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        self.most = most
        self.names: asyncio.Future[frozenset[str] | None] = loop.create_future()
        self._until = loop.time() + FRESH

    @property
    def counts(self) -> bool:
        return asyncio.get_running_loop().time() < self._until


class PresentFiles:
    """Asks a destination of which files it has an entry. An entry that cannot be looked at counts as present."""

    def __init__(self, control_sessions: ControlSessions) -> None:
        self._control_sessions = control_sessions
        self._listed: dict[str, _Listed] = {}

    async def look_ahead(self, folder: str) -> None:
        """List a folder, unless it is large, while the files for it are being found."""
        try:
            if folder not in self._listed and not (await self._control_sessions.session(Side.DESTINATION)).replaces:
                await self._list(folder, LEAST)
        except UnreachableError:
            pass  # whoever needs the answer meets it, too

    async def among(self, rows: Sequence[FileRow]) -> dict[int, Entry | None]:
        """The entries under the final names of those that have one, by their ids; None if it cannot be looked at.

        Raises UnreachableError.
        """
        by_folder: Mapping[str, list[FileRow]] = defaultdict(list)
        for row in rows:
            by_folder[_split(row)[0]].append(row)
        unlisted: list[FileRow] = []
        for folder, some in by_folder.items():
            names = await self._names(folder, len(some))
            unlisted += some if names is None else [row for row in some if _may_be(_split(row)[1], names)]
        found = await self._control_sessions.facts(Side.DESTINATION, [row.destination_path or "" for row in unlisted])
        return {
            row.id: entry if isinstance(entry, Entry) else None
            for row, entry in zip(unlisted, found, strict=True)
            if not is_missing(entry)
        }

    async def _names(self, folder: str, files: int) -> frozenset[str] | None:
        """The names in a folder, folded; None where they are not known. Raises UnreachableError."""
        listed, most = self._listed.get(folder), LEAST + FOR_EACH * files
        if listed and listed.counts:
            names = await asyncio.shield(listed.names)
            if names is not None or listed.most >= most or files < MANY:
                return names
        return await self._list(folder, most) if files >= MANY else None

    async def _list(self, folder: str, most: int) -> frozenset[str] | None:
        """Raises UnreachableError."""
        self._listed.pop(folder, None)
        listed = self._listed[folder] = _Listed(most)
        if len(self._listed) > FOLDERS:
            del self._listed[next(iter(self._listed))]
        names: frozenset[str] | None = None
        try:
            names = await self._names_of(folder, most)
        except UnreachableError:
            raise
        except FaultError as error:
            # One that is missing is about to be made, and listed again then. Another is not listed again soon.
            listed.most = most if error.fault.kind is Kind.FILE_NOT_FOUND else sys.maxsize
        finally:
            listed.names.set_result(names)
        return names

    async def _names_of(self, folder: str, most: int) -> frozenset[str] | None:
        """None where there are more. Raises FaultError."""
        names: set[str] = set()
        async with aclosing(self._control_sessions.listing(Side.DESTINATION, folder or "/")) as batches:
            async for entries in batches:
                names.update(folded(entry.name) for entry in entries)
                if len(names) > most:
                    return None
        return frozenset(names)


def _split(row: FileRow) -> tuple[str, str]:
    folder, _, name = (row.destination_path or "").rpartition("/")
    return folder, name


def _may_be(name: str, names: frozenset[str]) -> bool:
    """Whether there may be such an entry: under a name that folds to it, or one that servers hide in their listings."""
    return name.startswith(".") or folded(name) in names
