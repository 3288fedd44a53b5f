"""The walk through one folder that the user named: listed side by side, never deeper than there is an end.

Memory: the folders yet to be listed, and one batch of found files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side
from endpoints.gridftp.words import quoted

from .bounds import Share, size_of
from .compare import Beside, look
from .contents import Compared
from .desk import UnreachableError
from .folders import Folders
from .links import found_link, is_link, relative, resolves_links
from .paths import is_a_name
from .ports import DIRECTORY, Found, ItemRow, Missed
from .retry import FIRST_DELAY, worse
from .selection import EVERYTHING, Links, Selection
from .stock import Stock
from .sync import Sync
from .visits import Folder, Listing, loop, request_fault
from .work import Work

#: Folders of one item that are listed side by side.
LISTINGS = 8
#: Found files written at once; fewer when the last ones were written so many seconds ago.
FOUND = 1000
#: Octets read to compare files from which on the outcome is written at once: it must not be lost with a slice.
DEAR = 1 << 27
FOUND_SECONDS = 0.5
#: The first ones that are written: enough to tell many small files from few, and to fill the lanes.
FIRST = 128
#: Times that a folder is listed anew when the connection is lost meanwhile.
TRIES = 3
#: Folders within folders beyond which there must be a loop; no server takes a path of more than 4096 octets.
MAX_DEPTH = 512
MAX_PATH = 4096


class Walk:
    """`run` ends when all that can be seen has been seen; `fault` then tells whether something could not.

    A walk may be ended at any moment and begun again: a repetition finds nothing new.
    """

    def __init__(
        self,
        work: Work,
        stock: Stock,
        folders: Folders,
        item: ItemRow,
        root: Folder,
        selection: Selection = EVERYTHING,
        sync: Sync | None = None,
    ) -> None:
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
        #: Folders that wait for their second look, and the paths of all that did.
        self._doubtful: list[Folder] = []
        self._doubted: set[str] = set()
        self._selection = selection
        self._sync = sync.of_walk(self._compared) if sync else None
        self._stack = [root]
        #: For the folders of the stack.
        self._memory = Share(work.desk.memory)
        self._flushed_at = work.clock.now()
        self._begun = False
        #: Under way, where the source may be listed meanwhile.
        self._preparing: asyncio.Task[bool] | None = None
        #: The identity of the destination, where the source is on the same endpoint.
        self._avoid = ""
        #: Where the server tells full paths of what links lead to: the root's.
        self._real_root: str | None = None

    async def run(self) -> None:
        """Raises FaultError when the root cannot be used, or when the connection is lost again and again.

        Raises TooMuchError, CrowdedError where there is no end of folders.
        """
        try:
            await self._see_all()
            await self._conclude()
        finally:
            self._memory.close()

    async def _see_all(self) -> None:
        try:
            await self._begin()
            await self._visit_all()
            if self._sync:
                await self._sync.finish()
            await self._flush()
            await self._prepared()
        finally:
            if self._sync:
                await self._sync.stop()
            if self._preparing:
                self._preparing.cancel()
                await asyncio.gather(self._preparing, return_exceptions=True)

    async def _begin(self) -> None:
        """Prepare; where what is found does not depend on it, while the source is being listed."""
        plain = not (self._sync or self._work.same_endpoint) and self._selection.links is Links.IGNORE
        if plain and self._root.destination is not None:
            self._preparing = asyncio.create_task(self._make_root())
        else:
            await self._prepare()

    async def _prepared(self) -> None:
        """Nothing goes into the destination before it is there."""
        if self._preparing:
            await asyncio.shield(self._preparing)

    async def _visit_all(self) -> None:
        running: set[asyncio.Task[None]] = set()
        done: set[asyncio.Task[None]] = set()
        try:
            while self._stack or running or self._doubtful:
                if not (self._stack or running):
                    await self._work.clock.sleep(FIRST_DELAY)
                    self._stack, self._doubtful = self._doubtful, []
                while self._stack and len(running) < LISTINGS:
                    running.add(asyncio.create_task(self._visit(self._stack.pop())))
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for visit in done:
                    visit.result()
        finally:
            for visit in running:
                visit.cancel()
            # Several may have met what ends the walk.
            await asyncio.gather(*running, *done, return_exceptions=True)

    # ---- what DELETE does otherwise

    async def _make_root(self) -> bool:
        """Make the destination, and the folders above it that are missing; False when it was there."""
        return await self._folders.make(self._root.destination or "")

    async def _prepare(self) -> None:
        """Make the destination, and learn of both what the walk goes by."""
        self._root = replace(self._root, fresh=await self._make_root())
        if self._selection.links is not Links.IGNORE:
            await self._prepare_for_links()
        self._stack = [self._root]
        if self._work.same_endpoint:
            self._avoid = await self._folders.identity(Side.DESTINATION, self._root.destination or "")
            if self._avoid and self._avoid == await self._folders.identity(Side.SOURCE, self._root.source):
                raise FaultError(request_fault(Kind.AMBIGUOUS_PATH, "The source and the destination are one folder."))

    async def _prepare_for_links(self) -> None:
        path = self._root.source or "/"
        root = await self._work.desk.ask(Side.SOURCE, lambda session: session.stat(path))
        self._root = replace(self._root, unique=root.unique)
        if await self._work.desk.ask(Side.SOURCE, resolves_links):
            self._real_root = root.link_target or self._root.source

    async def _conclude(self) -> None:
        """All has been seen."""

    async def _enter(self, folders: Sequence[Folder]) -> Sequence[Folder]:
        """Make these at the destination, ahead of their files; those that could be made are given back."""
        await self._prepared()
        try:
            made = await self._folders.make_all([folder.destination or "" for folder in folders])
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                raise
            if len(folders) == 1:
                self._blame(error.fault)
                return ()
            half = len(folders) // 2
            return [*await self._enter(folders[:half]), *await self._enter(folders[half:])]
        if self._sync is None:
            return folders
        return [replace(folder, fresh=True) if new else folder for folder, new in zip(folders, made, strict=True)]

    def _take(self, folder: Folder, entry: Entry, listing: Listing) -> None:
        """Sort an entry of a folder."""
        name = entry.name
        link = is_link(entry)
        followed = link and self._selection.links is Links.COPY
        if not is_a_name(name):
            self._blame(request_fault(Kind.INVALID_PATH_NAME, f"Not a name: {quoted(name)} in {folder.source}"))
        elif not self._selection.includes(name, folder=entry.is_directory and (followed or not link)):
            return
        elif link and not followed:
            self._take_link(folder, entry, listing)
        elif entry.is_directory:
            self._take_folder(folder, entry, listing)
        elif entry.kind in ("file", "link"):
            # A link that leads nowhere is looked for as the file that it should be: its fault is that file's.
            destination = f"{folder.destination}/{name}"
            if followed and self._work.same_endpoint:
                listing.followed[destination] = entry.unique
            source, wanted = f"{folder.source}/{name}", self.item.checksum
            listing.found.append(Found(source, destination, entry.size, entry.modified, checksum=wanted))
        else:
            listing.specials += 1

    def _take_link(self, folder: Folder, entry: Entry, listing: Listing) -> None:
        """Symlinks that are not followed are counted, and found when they are to be kept."""
        listing.symlinks += 1
        if self._selection.links is not Links.KEEP:
            return
        source = f"{folder.source}/{entry.name}"
        if self._real_root is not None and entry.link_target:
            real = self._real_root + source.removeprefix(self._root.source)
            entry = replace(entry, link_target=relative(entry.link_target, real, self._real_root))
        try:
            listing.found.append(found_link(source, f"{folder.destination}/{entry.name}", entry))
        except FaultError as error:
            self._blame(error.fault)

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
            inner = Folder(source, destination, folder.depth + 1)
            if self._selection.links is Links.COPY:
                if is_link(entry) and (circle := loop(folder, entry)):
                    self._miss(Missed(source, destination, DIRECTORY, circle))
                    return
                inner = replace(inner, unique=entry.unique, above=folder)
            self._memory.take(size_of(source, destination))
            listing.folders.append(inner)

    def _blame(self, fault: Fault) -> None:
        """Something failed; the rest goes on."""
        self._work.end_if_spoiled(fault)
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
                self._memory.free(_size([folder]))
                return
            except UnreachableError:
                raise
            except FaultError as error:
                fault = error.fault
                if fault.scope is Scope.FILE:
                    self._unlisted(folder, fault)
                    return
                if not tries_left:
                    raise

    def _unlisted(self, folder: Folder, fault: Fault) -> None:
        """What would be passed over is looked at again when all else has been seen: it may be away for a moment."""
        if self._work.policy.may_pass_over(fault) and folder.source not in self._doubted:
            self._doubted.add(folder.source)
            self._doubtful.append(folder)
        else:
            self._memory.free(_size([folder]))
            self._miss(Missed(folder.source, folder.destination, DIRECTORY, fault))

    async def _list(self, folder: Folder) -> None:
        """Of a listing that breaks off nothing counts but the files, and those are found only once."""
        listing = Listing()
        entered: Sequence[Folder] = ()
        try:
            if self._sync is None or folder.fresh:
                await self._read(folder, None, listing)
            else:
                async with self._sync.folder(folder.destination or "") as beside:
                    await self._read(folder, beside, listing)
            if listing.folders:
                entered = await self._enter(listing.folders)
        finally:
            # Folders of a listing that broke off, and those that could not be made, are not waiting any more.
            self._memory.free(_size(listing.folders) - _size(entered))
        self.directories += len(entered)
        self.symlinks += listing.symlinks
        self.specials += listing.specials
        self._stack.extend(reversed(entered))

    async def _read(self, folder: Folder, beside: Beside | None, listing: Listing) -> None:
        """Go through the source's listing; beside: the destination's folder, where files are compared."""
        async for entries in self._work.desk.listing(Side.SOURCE, folder.source or "/"):
            for entry in entries:
                self._take(folder, entry, listing)
            found, listing.found = listing.found, []
            if listing.followed:
                found = await self._apart(found, listing)
            self._found += await self._sync.sort(self.item, found, beside) if self._sync and beside else found
            await self._flush_if_due()

    async def _apart(self, found: Sequence[Found], listing: Listing) -> list[Found]:
        """Without those that would be written over the very file that their link leads to."""
        followed, listing.followed = listing.followed, {}
        there = await asyncio.gather(*(look(self._work.desk, path) for path in followed))
        same = {
            path for (path, unique), one in zip(followed.items(), there, strict=True) if one and one.unique == unique
        }
        for one in found:
            if one.destination_path in same:
                fault = request_fault(
                    Kind.AMBIGUOUS_PATH, "The link leads to its own destination.", raw=one.source_path
                )
                self._miss(Missed(one.source_path, one.destination_path, one.kind, fault))
        return [one for one in found if one.destination_path not in same]

    async def _compared(self, compared: Sequence[Compared]) -> None:
        """Files whose contents were compared."""
        for one in compared:
            if one.fault:
                self._blame(one.fault)
            else:
                self._found.append(one.found)
        if sum(one.found.checksummed for one in compared) >= DEAR:
            await self._flush()
        else:
            await self._flush_if_due()

    async def _flush_if_due(self) -> None:
        age = (self._work.clock.now() - self._flushed_at).total_seconds()
        ready = len(self._found) + len(self._missed)
        if ready >= (FOUND if self._begun else FIRST) or (ready and age >= FOUND_SECONDS):
            await self._flush()

    async def _flush(self) -> None:
        """Write what was found."""
        await self._prepared()
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


def _size(folders: Sequence[Folder]) -> int:
    """Octets that these are counted with."""
    return sum(size_of(folder.source, folder.destination) for folder in folders)
