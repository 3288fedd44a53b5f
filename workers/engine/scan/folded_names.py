"""Two source entries whose names fold together: the second is an error where the destination takes them for one.

Most file systems distinguish such names, and both arrive. The destination is asked only when the source has such a
pair: a folder is made beside the files, with one spelling in its name, and looked for by the other.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Self

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side
from endpoints.gridftp.patterns import folded
from transferapi.tasks.records import DIRECTORY, FILE, SkippedSource
from workers.engine.bounds import TaskShare
from workers.engine.control_sessions import ControlSessions, UnreachableError
from workers.engine.same_storage import StorageProbe
from workers.engine.work import SliceContext

from .visits import Folder, request_fault

#: Octets of memory for an entry that waits for the end of the listing, beside those of its name.
LATE_COST = 400


class HashSet:
    """Texts by their hash, with 16 to 32 octets for each: open addressing in one array."""

    def __init__(self, take: Callable[[int], None]) -> None:
        """take: called with the octets before they are used; it may raise."""
        self._take = take
        self._used = 0
        self._table = array("q", bytes(8 * 64))

    def add(self, text: str) -> bool:
        """Add a text. Returns False where it, or one with its hash, was there."""
        if not self._put(self._table, hash(text) or 1):
            return False
        self._used += 1
        if 2 * self._used > len(self._table):
            self._grow()
        return True

    @staticmethod
    def _put(table: array[int], value: int) -> bool:
        mask = len(table) - 1
        at = value & mask
        while table[at]:
            if table[at] == value:
                return False
            at = (at + 1) & mask
        table[at] = value
        return True

    def _grow(self) -> None:
        self._take(16 * len(self._table))
        old, self._table = self._table, array("q", bytes(16 * len(self._table)))
        for value in old:
            if value:
                self._put(self._table, value)


class FoldedNames:
    """The names of one source folder, while it is listed.

    prepared: waits until the destination folder exists. refuse: gets each entry that cannot be copied, with its fault.
    """

    def __init__(
        self,
        work: SliceContext,
        folder: Folder,
        prepared: Callable[[], Awaitable[None]],
        refuse: Callable[[SkippedSource], None],
    ) -> None:
        self._work = work
        self._folder = folder
        self._memory = TaskShare(work.control_sessions.memory)
        #: The names, because a server may list one again and again, and their folded forms.
        self._names = HashSet(self._memory.take)
        self._folded = HashSet(self._memory.take)
        self._late: list[Entry] = []
        self._prepared = prepared
        self._refuse = refuse

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._memory.close()

    def apart(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries without those whose name folds to an earlier one: `late` decides on these. Raises FaultError."""
        if self._folder.destination is None:
            return entries
        new = [entry for entry in entries if self._names.add(entry.name)]
        late = [entry for entry in new if not self._folded.add(folded(entry.name))]
        if not late:
            return entries
        self._memory.take(sum(LATE_COST + len(entry.name) for entry in late))
        self._late += late
        names = {entry.name for entry in late}
        return [entry for entry in entries if entry.name not in names]

    async def late(self) -> Sequence[Entry]:
        """Those of the entries set apart that can be copied: the destination does not take them for an earlier one.

        Called when the listing has ended: on an FTP server a second listing has to wait for the first. Raises
        FaultError.
        """
        late, self._late = self._late, []
        if not late or self._folder.destination is None:
            return []
        await self._prepared()
        faults = await one_name(self._work, self._folder.destination, await self._pairs(late))
        self._refuse_all(late, faults)
        return [entry for entry in late if entry.name not in faults]

    async def _pairs(self, later: Sequence[Entry]) -> dict[str, str]:
        """These names -> the first name of the folder that folds to the same."""
        first = await self._first({folded(entry.name) for entry in later})
        pairs = {entry.name: first.get(folded(entry.name), entry.name) for entry in later}
        return {name: other for name, other in pairs.items() if name != other}

    def _refuse_all(self, later: Sequence[Entry], faults: Mapping[str, Fault]) -> None:
        for entry in later:
            if entry.name in faults:
                source, destination = f"{self._folder.source}/{entry.name}", f"{self._folder.destination}/{entry.name}"
                kind = DIRECTORY if entry.is_directory else FILE
                self._refuse(SkippedSource(source, destination, kind, faults[entry.name]))

    async def _first(self, wanted: set[str]) -> dict[str, str]:
        """The first name in the folder for each of these folded ones: listed once more, as only hashes are kept."""
        found: dict[str, str] = {}
        async for entries in self._work.control_sessions.listing(Side.SOURCE, self._folder.source or "/"):
            for entry in entries:
                if (key := folded(entry.name)) in wanted:
                    found.setdefault(key, entry.name)
        return found


async def one_name(work: SliceContext, folder: str, pairs: Mapping[str, str]) -> dict[str, Fault]:
    """The faults of the names that this folder of the destination takes for the other ones, by name.

    A name for which the destination cannot be asked has a fault, too. Raises FaultError when a connection is lost.
    """
    answers = await _answers(work, folder, list(pairs.items()))
    faults: dict[str, Fault] = {}
    for (name, other), answer in zip(pairs.items(), answers, strict=True):
        if answer is None:
            why = f"It is not known whether the destination distinguishes this name from {other}"
        else:
            why = f"The destination does not distinguish this name from {other}, which it gets"
        if answer is not False:
            path = f"{folder}/{name}"
            faults[name] = request_fault(Kind.AMBIGUOUS_PATH, f"{why}: rename one of the two.", raw=path)
    return faults


async def _answers(work: SliceContext, folder: str, pairs: Sequence[tuple[str, str]]) -> Sequence[bool | None]:
    """`_is_one` for each. Where a pair that differs in the case of ASCII letters is two, all such pairs are.

    A file system ignores the case of all these letters or of none. Dots and blanks at the end are another rule.
    So many pairs cost few requests: servers delay their answers to a client that often asks for what is missing.
    """

    async def ask(name: str, other: str) -> bool | None:
        return await _is_one(work.control_sessions, work.storage_probe, folder, name, other)

    plain = [(name, other) for name, other in pairs if f"{name}{other}".isascii() and name.lower() == other.lower()]
    known: dict[tuple[str, str], bool | None] = {}
    if plain:
        known[plain[0]] = await ask(*plain[0])
        if known[plain[0]] is False:
            known = dict.fromkeys(plain, False)
    unknown = [pair for pair in pairs if pair not in known]
    known.update(zip(unknown, await asyncio.gather(*(ask(*pair) for pair in unknown)), strict=True))
    return [known[pair] for pair in pairs]


async def _is_one(sessions: ControlSessions, probe: StorageProbe, folder: str, name: str, other: str) -> bool | None:
    """Whether both names are one in this folder of the destination; None: the folder of the probe cannot be made."""
    path, by_other = (f"{folder}/{probe.name(0)}-{one}" for one in (name, other))
    try:
        await sessions.ask(Side.DESTINATION, lambda session: session.make_directories([path]))
        try:
            await sessions.stat(Side.DESTINATION, by_other)
            return True
        except FaultError as error:
            if isinstance(error, UnreachableError) or error.fault.scope is not FaultScope.FILE:
                raise
            return False if error.fault.kind is Kind.FILE_NOT_FOUND else None
        finally:
            await sessions.ask(Side.DESTINATION, lambda session: session.remove([(path, True)]))
    except FaultError as error:
        if isinstance(error, UnreachableError) or error.fault.scope is not FaultScope.FILE:
            raise
        return None
