"""The walk through one folder that the user named: listed side by side, never deeper than there is an end.

Memory: the folders yet to be listed, and one batch of found files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side

from .desk import UnreachableError
from .folders import Folders
from .paths import is_a_name
from .ports import Found, ItemRow, Missed
from .retry import FIRST_DELAY, worse
from .stock import Stock
from .work import Work

#: Kinds of `Found`.
FILE, DIRECTORY, SYMLINK = 0, 1, 2
#: Folders of one item that are listed side by side.
LISTINGS = 8
#: Found files written at once; fewer when the last ones were written so many seconds ago.
FOUND = 1000
FOUND_SECONDS = 0.5
#: The first ones that are written: enough to tell many small files from few, and to fill the lanes.
FIRST = 128
#: Times that a folder is listed anew when the connection is lost meanwhile.
TRIES = 3
#: Folders within folders beyond which there must be a loop; no server takes a path of more than 4096 octets.
MAX_DEPTH = 512
MAX_PATH = 4096


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder to be listed, paths without a slash at the end. destination is None where there is none (DELETE)."""

    source: str
    destination: str | None
    depth: int = 0


@dataclass(slots=True)
class Listing:
    """What one folder holds besides files."""

    folders: list[Folder] = field(default_factory=list)
    symlinks: int = 0
    #: Pipes, sockets, devices: nothing that could be moved.
    specials: int = 0


def request_fault(kind: Kind, why: str, side: Side = Side.SOURCE, raw: str = "") -> Fault:
    """A fault of the request itself: no repetition helps."""
    return Fault(kind, side, retryable=False, advice=why, raw=raw)


class Walk:
    """`run` ends when all that can be seen has been seen; `fault` then tells whether something could not.

    A walk may be ended at any moment and begun again: a repetition finds nothing new.
    """

    def __init__(self, work: Work, stock: Stock, folders: Folders, item: ItemRow, root: Folder) -> None:
        self.item = item
        self.directories = 1
        self.symlinks = 0
        self.specials = 0
        self.fault: Fault | None = None
        self._work = work
        self._stock = stock
        self._folders = folders
        self._root = root
        self._found: list[Found] = []
        #: What the user asked to go on without.
        self._missed: list[Missed] = []
        self._stack = [root]
        self._flushed_at = work.clock.now()
        self._begun = False
        #: The identity of the destination, where the source is on the same endpoint.
        self._avoid = ""

    async def run(self) -> None:
        """Raises FaultError when the root cannot be used, or when the connection is lost again and again."""
        await self._prepare()
        running: set[asyncio.Task[None]] = set()
        try:
            while self._stack or running:
                while self._stack and len(running) < LISTINGS:
                    running.add(asyncio.create_task(self._visit(self._stack.pop())))
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for visit in done:
                    visit.result()
        finally:
            for visit in running:
                visit.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await self._flush()
        await self._conclude()

    # ---- what DELETE does otherwise

    async def _prepare(self) -> None:
        """Make the destination, and the folders above it that are missing."""
        destination = self._root.destination or ""
        await self._folders.make(destination)
        if self._work.same_endpoint:
            self._avoid = await self._folders.identity(Side.DESTINATION, destination)
            if self._avoid and self._avoid == await self._folders.identity(Side.SOURCE, self._root.source):
                raise FaultError(request_fault(Kind.AMBIGUOUS_PATH, "The source and the destination are one folder."))

    async def _conclude(self) -> None:
        """All has been seen."""

    async def _enter(self, folders: Sequence[Folder]) -> Sequence[Folder]:
        """Make these at the destination, ahead of their files; those that could be made are given back."""
        try:
            await self._folders.make_all([folder.destination or "" for folder in folders])
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            if len(folders) == 1:
                self._blame(error.fault)
                return ()
            half = len(folders) // 2
            return [*await self._enter(folders[:half]), *await self._enter(folders[half:])]
        return folders

    def _take(self, folder: Folder, entry: Entry, listing: Listing) -> None:
        """Sort an entry of a folder. Symlinks are left out, as the Globus service does: counted, never followed."""
        name = entry.name
        if not is_a_name(name):
            self._blame(request_fault(Kind.INVALID_PATH_NAME, f"Not a name: {name!r} in {folder.source}"))
        elif entry.link_target is not None or entry.kind == "link":
            listing.symlinks += 1
        elif entry.is_directory:
            self._take_folder(folder, entry, listing)
        elif entry.kind == "file":
            destination = f"{folder.destination}/{name}"
            source, wanted = f"{folder.source}/{name}", self.item.checksum
            self._found.append(Found(source, destination, entry.size, entry.modified, checksum=wanted))
        else:
            listing.specials += 1

    # ---- inside

    def _take_folder(self, folder: Folder, entry: Entry, listing: Listing) -> None:
        source = f"{folder.source}/{entry.name}"
        if folder.depth >= MAX_DEPTH or len(source) > MAX_PATH:
            why = f"Folders lie too deep in each other: {source[:200]}"
            self._blame(request_fault(Kind.INVALID_PATH_NAME, why))
        elif self._avoid and entry.unique == self._avoid:
            fault = request_fault(Kind.AMBIGUOUS_PATH, f"The destination lies inside the source: {source}")
            self._miss(Missed(source, f"{folder.destination}/{entry.name}", DIRECTORY, fault))
        else:
            destination = None if folder.destination is None else f"{folder.destination}/{entry.name}"
            listing.folders.append(Folder(source, destination, folder.depth + 1))

    def _blame(self, fault: Fault) -> None:
        """Something failed; the rest goes on."""
        self.fault = worse(self.fault, fault)

    def _miss(self, missed: Missed) -> None:
        """This cannot be had: passed over if the user asked for that."""
        if self._work.policy.may_pass_over(missed.fault):
            self._missed.append(missed)
        else:
            self._blame(missed.fault)

    async def _visit(self, folder: Folder) -> None:
        """List one folder. One that cannot be listed is a fault of this item, or passed over after a second look."""
        for tries_left in reversed(range(TRIES)):
            try:
                await self._list(folder)
                return
            except UnreachableError:
                raise
            except FaultError as error:
                fault = error.fault
                if fault.scope is Scope.FILE:
                    if tries_left == TRIES - 1 and self._work.policy.may_pass_over(fault):
                        await self._work.clock.sleep(FIRST_DELAY)
                        continue
                    self._miss(Missed(folder.source, folder.destination, DIRECTORY, fault))
                    return
                if not tries_left:
                    raise

    async def _list(self, folder: Folder) -> None:
        """Of a listing that breaks off nothing counts but the files, and those are found only once."""
        listing = Listing()
        async for entries in self._work.desk.listing(Side.SOURCE, folder.source or "/"):
            for entry in entries:
                self._take(folder, entry, listing)
            await self._flush_if_due()
        entered = await self._enter(listing.folders) if listing.folders else ()
        self.directories += len(entered)
        self.symlinks += listing.symlinks
        self.specials += listing.specials
        self._stack.extend(reversed(entered))

    async def _flush_if_due(self) -> None:
        age = (self._work.clock.now() - self._flushed_at).total_seconds()
        ready = len(self._found) + len(self._missed)
        if ready >= (FOUND if self._begun else FIRST) or (ready and age >= FOUND_SECONDS):
            await self._flush()

    async def _flush(self) -> None:
        """Write what was found."""
        found, self._found = self._found, []
        self._flushed_at = self._work.clock.now()
        if not self._begun:
            # Lanes begin on the first few while the many are being written.
            self._begun = True
            await self._add(found[:FIRST])
            found = found[FIRST:]
        for start in range(0, len(found), FOUND):
            await self._add(found[start : start + FOUND])
        missed, self._missed = self._missed, []
        if missed:
            await self._work.store.pass_over(self.item, missed)

    async def _add(self, found: Sequence[Found]) -> None:
        """Write these; one whose destination another source has is left out, the others are written."""
        try:
            await self._stock.add_found(self.item, found)
        except FaultError as error:
            if len(found) == 1:
                (one,) = found
                self._miss(Missed(one.source_path, one.destination_path, one.kind, error.fault))
                return
            half = len(found) // 2
            await self._add(found[:half])
            await self._add(found[half:])
