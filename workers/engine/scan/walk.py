"""The walk through one folder that the user named; folders are listed in parallel, down to a limited depth.

Memory: the folders that wait to be listed, and one batch of found files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side
from identity.gsi.printable import quoted
from transferapi.tasks.records import DIRECTORY, FoundFile, ItemRow, SkippedSource
from workers.engine.bounds import TaskShare, size_of
from workers.engine.control_sessions import UnreachableError
from workers.engine.folders import Folders
from workers.engine.paths import is_a_name, parent
from workers.engine.queue.queue_feeder import QueueFeeder, write_possible
from workers.engine.queue.write_names import is_temporary
from workers.engine.retry import FIRST_DELAY, worse
from workers.engine.same_storage import DestinationProbe
from workers.engine.work import SliceContext, cancel_all

from .checksum_comparison import Compared
from .comparison import DestinationFolder, entry_at
from .folded_names import FoldedNames
from .links import found_link, relative
from .selection import EVERYTHING, Links, NameSelection
from .sync import Sync
from .visits import Folder, FolderListing, loop_fault, request_fault

#: Folders of one item that are listed in parallel.
LISTINGS = 8
#: Found files written at once; fewer after so many seconds without a write.
FOUND = 1000
#: Octets read for comparisons after which the results are written at once, so that a slice cannot lose them.
EXPENSIVE = 1 << 27
FOUND_SECONDS = 0.5
#: The size of the first batch: enough to distinguish many small files from few, and to fill the lanes.
FIRST = 128
#: Tries for the listing of a folder when the connection is lost.
TRIES = 3
#: Depth of folders beyond which there must be a loop; no server takes a path of more than 4096 octets.
MAX_DEPTH = 512
MAX_PATH = 4096
#: Entries of the first folder that are held while it is found out whether the destination is the source.
HELD = 10_000
_APPEARED = "The destination folder was made by somebody else while the source was listed."


class Walk:
    """Finds all files below one folder; `fault` then shows whether something could not be listed.

    A walk can be stopped at any moment and begun again: a repetition finds nothing new.
    """

    def __init__(
        self,
        work: SliceContext,
        feeder: QueueFeeder,
        folders: Folders,
        item: ItemRow,
        root: Folder,
        selection: NameSelection = EVERYTHING,
        sync: Sync | None = None,
        *,
        missing: bool = False,
    ) -> None:
        """missing: the destination folder did not exist when the item was looked at."""
        self.item = item
        self.directories = 1
        self.symlinks = 0
        self.specials = 0
        self.fault: Fault | None = None
        self._work = work
        self._feeder = feeder
        self._folders = folders
        self._root = root
        self._found: list[FoundFile] = []
        #: Entries that are skipped, as the user asked.
        self._missed: list[SkippedSource] = []
        #: Folders that wait for their second try, and the paths of all that had one.
        self._second_try: list[Folder] = []
        self._tried_before: set[str] = set()
        self._selection = selection
        self._sync = sync.of_walk(self._compared) if sync else None
        self._stack = [root]
        #: The memory that the folders of the stack take.
        self._memory = TaskShare(work.control_sessions.memory)
        self._flushed_at = work.clock.now()
        self._begun = False
        self._missing = missing
        #: The destination folder is made while the source is listed, from the first entries on.
        self._makes_meanwhile = False
        self._preparing: asyncio.Task[bool] | None = None
        #: Finds out whether the destination is the source, or was made inside it.
        self._checking: asyncio.Task[None] | None = None
        #: The identity of the destination, where the source is on the same endpoint.
        self._avoid = ""
        #: The path of the root, on servers that report full paths of link targets.
        self._real_root: str | None = None
        self._destination_probe = DestinationProbe(work.storage_probe, item.id, root.source, root.destination)

    async def run(self) -> None:
        """Raises FaultError when the root cannot be used, or when the connection is lost again and again.

        Raises TooMuchError or MemoryFullError where folders have no end.
        """
        try:
            await self._scan_all()
            await self._destination_probe.remove()
            await self._finish()
        finally:
            self._memory.close()
            await self._destination_probe.end()

    async def _scan_all(self) -> None:
        try:
            await self._begin()
            await self._visit_all()
            if self._sync:
                await self._sync.finish()
            await self._prepared()
            await self._checked()
            await self._flush()
        finally:
            if self._sync:
                await self._sync.stop()
            await cancel_all([task for task in (self._preparing, self._checking) if task])

    async def _begin(self) -> None:
        """Prepare; in parallel with the listing of the source where the found files do not depend on it."""
        plain = not self._work.same_endpoint and not self._sync and self._selection.links is Links.IGNORE
        if plain and self._root.destination is not None:
            # A folder that does not exist is not the source.
            self._makes_meanwhile = self._missing or not await self._destination_probe.is_possible()
        if not self._makes_meanwhile:
            await self._prepare()

    def _permitted(self) -> None:
        """The source can be listed: the destination may be made."""
        if self._makes_meanwhile and self._preparing is None:
            self._preparing = asyncio.create_task(self._make_destination())

    async def _make_destination(self) -> bool:
        """Make the destination folder. Returns False when it existed."""
        path = self._root.destination or ""
        made = await self._destination_probe.mark_with(self._folders.make(path))
        if await self._destination_probe.is_possible():
            inner = self._folders.made_part(path)
            if not inner:
                # The next try looks whether it is the source.
                raise FaultError(Fault(Kind.PATH_EXISTS, Side.DESTINATION, advice=_APPEARED, raw=path))
            self._checking = asyncio.create_task(self._destination_probe.check(inner))
        return made

    async def _prepared(self) -> None:
        """Wait for the destination folder, before anything goes into it. There is none if the root was not listed."""
        if self._preparing:
            await asyncio.shield(self._preparing)
        if not self._makes_meanwhile:
            await self._checked()

    async def _checked(self) -> None:
        """Wait until the destination is known to be neither the source nor a new folder inside it.

        While a large root is being listed, its files do not wait for that: the answer may come behind the listing.
        """
        if self._checking:
            await asyncio.shield(self._checking)

    async def _visit_all(self) -> None:
        running: set[asyncio.Task[None]] = set()
        done: set[asyncio.Task[None]] = set()
        try:
            while self._stack or running or self._second_try:
                if not (self._stack or running):
                    await self._work.clock.sleep(FIRST_DELAY)
                    self._stack, self._second_try = self._second_try, []
                while self._stack and len(running) < LISTINGS:
                    running.add(asyncio.create_task(self._visit(self._stack.pop())))
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for visit in done:
                    visit.result()
        finally:
            for visit in running:
                visit.cancel()
            # Several visits may have met the error that ends the walk.
            await asyncio.gather(*running, *done, return_exceptions=True)

    # ---- overridden for DELETE

    async def _make_root(self) -> bool:
        """Make the destination folder and its missing parents, where the source can be listed.

        Returns False when it existed.
        """
        path = self._root.destination or ""
        # Asked now, in the round trip of the mark: since the scan of the items others may have removed it.
        there = await self._work.control_sessions.answer(Side.DESTINATION, lambda session: session.stat(path or "/"))
        if isinstance(there, Entry) and there.is_directory:
            self._folders.remember(path)
            return False
        if isinstance(there, Fault) and there.kind is Kind.FILE_NOT_FOUND:
            await self._check_listing()
        return await self._folders.make(path)

    async def _check_listing(self) -> None:
        """Raises FaultError where the source cannot be listed: nothing comes before the error."""
        source = self._work.control_sessions.listing(Side.SOURCE, self._root.source or "/")
        async with aclosing(source) as batches:
            async for entries in batches:
                if entries:
                    break

    async def _prepare(self) -> None:
        """Make the destination folder, and read the facts of both roots that the walk needs."""
        fresh = await self._destination_probe.mark_with(self._make_root())
        self._root = replace(self._root, fresh=fresh)
        if self._selection.links is not Links.IGNORE:
            await self._prepare_for_links()
        self._stack = [self._root]
        if self._work.same_endpoint:
            self._avoid = await self._folders.identity(Side.DESTINATION, self._root.destination or "")
            if self._avoid and self._avoid == await self._folders.identity(Side.SOURCE, self._root.source):
                raise FaultError(
                    request_fault(Kind.AMBIGUOUS_PATH, "The source and the destination are the same folder.")
                )
        if not fresh:
            self._checking = asyncio.create_task(self._destination_probe.check())
            # The question goes out before the listing, behind which some servers would answer it.
            await asyncio.sleep(0)

    async def _prepare_for_links(self) -> None:
        root = await self._work.control_sessions.stat(Side.SOURCE, self._root.source or "/")
        self._root = replace(self._root, unique=root.unique)
        if (await self._work.control_sessions.session(Side.SOURCE)).resolves_links:
            self._real_root = root.link_target or self._root.source

    async def _finish(self) -> None:
        """Called after all folders were listed."""

    async def _make_folders(self, folders: Sequence[Folder]) -> Sequence[Folder]:
        """Make these folders at the destination, ahead of their files. Returns those that exist now."""
        await self._prepared()
        await self._checked()
        try:
            made = await self._folders.make_all([folder.destination or "" for folder in folders])
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                raise
            if len(folders) == 1:
                self._skip_or_fail(SkippedSource(folders[0].source, folders[0].destination, DIRECTORY, error.fault))
                return ()
            half = len(folders) // 2
            return [*await self._make_folders(folders[:half]), *await self._make_folders(folders[half:])]
        return [replace(folder, fresh=True) if new else folder for folder, new in zip(folders, made, strict=True)]

    def _add_entry(self, folder: Folder, entry: Entry, listing: FolderListing) -> None:
        """Add an entry to the contents of its folder."""
        name = entry.name
        link = entry.is_link
        followed = link and self._selection.links is Links.COPY
        if not is_a_name(name):
            self._add_invalid_name(folder, name)
        elif not self._includes(folder, entry, followed=followed):
            return
        elif link and not followed:
            self._add_link(folder, entry, listing)
        elif entry.is_directory:
            self._add_folder(folder, entry, listing)
        elif entry.kind in ("file", "link"):
            self._add_file(folder, entry, listing, followed=followed)
        else:
            listing.specials += 1

    def _includes(self, folder: Folder, entry: Entry, *, followed: bool) -> bool:
        """Whether the user asked for it. A file on its way to its name belongs to another task, and is left out."""
        if folder.destination is not None and is_temporary(entry.name):
            return False
        return self._selection.includes(entry.name, folder=entry.is_directory and (followed or not entry.is_link))

    def _add_file(self, folder: Folder, entry: Entry, listing: FolderListing, *, followed: bool) -> None:
        """A link without a target counts as the file that it should be: the file's fault reports it."""
        source, destination = f"{folder.source}/{entry.name}", f"{folder.destination}/{entry.name}"
        if followed and self._work.same_endpoint:
            listing.followed[destination] = entry.unique
        wanted = self.item.checksum
        listing.found.append(
            FoundFile(source, destination, entry.size, entry.modified, checksum=wanted, absent=folder.fresh)
        )

    def _add_invalid_name(self, folder: Folder, name: str) -> None:
        why = f"Not a valid name: {quoted(name)} in {folder.source}"
        self._add_fault(request_fault(Kind.INVALID_PATH_NAME, why))

    def _add_link(self, folder: Folder, entry: Entry, listing: FolderListing) -> None:
        """Count a symlink that is not followed, and add it if links are kept."""
        listing.symlinks += 1
        if self._selection.links is not Links.KEEP:
            return
        source = f"{folder.source}/{entry.name}"
        if self._real_root is not None and entry.link_target:
            real = self._real_root + source.removeprefix(self._root.source)
            entry = entry._replace(link_target=relative(entry.link_target, real, self._real_root))
        try:
            listing.found.append(found_link(source, f"{folder.destination}/{entry.name}", entry))
        except FaultError as error:
            self._add_fault(error.fault)

    # ---- inside

    def _add_folder(self, folder: Folder, entry: Entry, listing: FolderListing) -> None:
        source = f"{folder.source}/{entry.name}"
        if folder.depth >= MAX_DEPTH or len(source) > MAX_PATH:
            why = f"The folders are nested too deeply: {source[:200]}"
            self._add_fault(request_fault(Kind.INVALID_PATH_NAME, why))
        elif self._avoid and entry.unique == self._avoid:
            fault = request_fault(Kind.AMBIGUOUS_PATH, f"The destination lies inside the source: {source}")
            self._skip_or_fail(SkippedSource(source, f"{folder.destination}/{entry.name}", DIRECTORY, fault))
        else:
            destination = None if folder.destination is None else f"{folder.destination}/{entry.name}"
            inner = Folder(source, destination, folder.depth + 1)
            if self._selection.links is Links.COPY:
                if entry.is_link and (looping := loop_fault(folder, entry)):
                    self._skip_or_fail(SkippedSource(source, destination, DIRECTORY, looping))
                    return
                inner = replace(inner, unique=entry.unique, above=folder)
            self._memory.take(size_of(source, destination))
            listing.folders.append(inner)

    def _add_fault(self, fault: Fault) -> None:
        """Record a fault; the walk continues."""
        self._work.end_if_fatal(fault)
        self.fault = worse(self.fault, fault)

    def _skip_or_fail(self, missed: SkippedSource) -> None:
        """Skip this entry if the user asked for that; else record its fault."""
        if self._work.policy.may_pass_over(missed.fault):
            self._missed.append(missed)
        else:
            self._add_fault(missed.fault)

    async def _visit(self, folder: Folder) -> None:
        """List one folder. A folder that cannot be listed is a fault of this item, or is skipped after a second try.

        A listing that takes too long is not asked for again at once: the server may still be at it.
        """
        for tries_left in reversed(range(TRIES)):
            try:
                await self._list(folder)
                self._memory.free(_size([folder]))
                return
            except UnreachableError:
                raise
            except FaultError as error:
                fault = error.fault
                if fault.scope is FaultScope.FILE:
                    self._unlisted(folder, fault)
                    return
                if not tries_left or fault.kind is Kind.TIMEOUT:
                    raise

    def _unlisted(self, folder: Folder, fault: Fault) -> None:
        """Try a folder that would be skipped, or be given up, again after all others.

        It may be missing for a moment only, and its listing may be incomplete for a moment only.
        """
        once_more = self._work.policy.may_pass_over(fault) or fault.kind is Kind.ENDPOINT_ERROR
        if once_more and folder.source not in self._tried_before:
            self._tried_before.add(folder.source)
            self._second_try.append(folder)
        else:
            self._memory.free(_size([folder]))
            self._skip_or_fail(SkippedSource(folder.source, folder.destination, DIRECTORY, fault))

    async def _list(self, folder: Folder) -> None:
        """List a folder. If its listing is interrupted only its files count, and they are found once."""
        listing = FolderListing()
        entered: Sequence[Folder] = ()
        try:
            if self._sync is None or folder.fresh:
                await self._read(folder, None, listing)
            else:
                async with self._sync.folder(folder.destination or "") as there:
                    await self._read(folder, there, listing)
            if listing.folders:
                entered = await self._make_folders(listing.folders)
        finally:
            # Folders of an interrupted listing, and those that could not be made, do not wait any more.
            self._memory.free(_size(listing.folders) - _size(entered))
        self.directories += len(entered)
        self.symlinks += listing.symlinks
        self.specials += listing.specials
        self._stack.extend(reversed(entered))

    async def _read(self, folder: Folder, there: DestinationFolder | None, listing: FolderListing) -> None:
        """Read the listing of the source; there: the destination folder, where files are compared."""
        empty = folder.fresh or (self._missing and folder.depth == self._root.depth)
        if there is None and folder.destination is not None and not empty:
            self._work.spawn(self._feeder.look_ahead(folder.destination))
        with FoldedNames(self._work, folder, self._prepared, self._skip_or_fail) as names:
            async for entries in self._entries(folder):
                copied = [one for one in entries if not self._destination_probe.is_ours(folder.source, one.name)]
                await self._add_compared(folder, there, listing, names.apart(copied))
            await self._add_compared(folder, there, listing, await names.late())

    async def _entries(self, folder: Folder) -> AsyncGenerator[Sequence[Entry], None]:
        """The entries of a source folder, in batches.

        They are held while the source is asked whether it is the destination: some servers answer that behind the
        listing, which would wait for its consumer. A long listing is read to its end then, and once more.
        """
        held: list[Sequence[Entry]] = []
        early = 0
        async with aclosing(self._listing(folder)) as batches:
            async for entries in batches:
                if early > HELD:
                    continue
                held.append(entries)
                if self._is_checking:
                    early += len(entries)
                    continue
                for batch in held:
                    yield batch
                held.clear()
        if self._is_checking:
            await self._prepared()
        if early > HELD:
            held.clear()
            async with aclosing(self._listing(folder)) as batches:
                async for batch in batches:
                    yield batch
        for batch in held:
            yield batch

    @property
    def _is_checking(self) -> bool:
        return not self._makes_meanwhile and self._checking is not None and not self._checking.done()

    async def _listing(self, folder: Folder) -> AsyncGenerator[Sequence[Entry], None]:
        async with aclosing(self._work.control_sessions.listing(Side.SOURCE, folder.source or "/")) as batches:
            async for entries in batches:
                self._permitted()
                yield entries
        self._permitted()

    async def _add_compared(
        self, folder: Folder, there: DestinationFolder | None, listing: FolderListing, entries: Sequence[Entry]
    ) -> None:
        for entry in entries:
            self._add_entry(folder, entry, listing)
        found, listing.found = listing.found, []
        if listing.followed:
            found = await self._without_self_links(found, listing)
        self._found += await self._sync.sort(self.item, found, there) if self._sync and there else found
        await self._flush_if_due()

    async def _without_self_links(self, found: Sequence[FoundFile], listing: FolderListing) -> list[FoundFile]:
        """Leave out files that would be written over the target of their own link."""
        followed, listing.followed = listing.followed, {}
        there = await asyncio.gather(
            *(entry_at(self._work.control_sessions, Side.DESTINATION, path) for path in followed)
        )
        same = {
            path for (path, unique), one in zip(followed.items(), there, strict=True) if one and one.unique == unique
        }
        for one in found:
            if one.destination_path in same:
                fault = request_fault(
                    Kind.AMBIGUOUS_PATH, "The link leads to its own destination.", raw=one.source_path
                )
                self._skip_or_fail(SkippedSource(one.source_path, one.destination_path, one.kind, fault))
        return [one for one in found if one.destination_path not in same]

    async def _compared(self, compared: Sequence[Compared]) -> None:
        """Add files that were compared by checksum."""
        for one in compared:
            if one.fault:
                self._add_fault(one.fault)
            else:
                self._found.append(one.found)
        if sum(one.found.checksummed for one in compared) >= EXPENSIVE:
            await self._flush()
        else:
            await self._flush_if_due()

    async def _flush_if_due(self) -> None:
        age = (self._work.clock.now() - self._flushed_at).total_seconds()
        ready = len(self._found) + len(self._missed)
        if ready >= (FOUND if self._begun else FIRST) or (ready and age >= FOUND_SECONDS):
            await self._flush()

    async def _flush(self) -> None:
        """Write the found files."""
        await self._prepared()
        found, self._found = self._with_root(self._found), []
        self._flushed_at = self._work.clock.now()
        if not self._begun:
            # Lanes begin with the first few files while the others are being written.
            self._begun = True
            await self._add(found[:FIRST])
            found = found[FIRST:]
        for start in range(0, len(found), FOUND):
            await self._add(found[start : start + FOUND])
        missed, self._missed = self._missed, []
        if missed:
            await self._work.store.skip_sources(self.item, missed)

    def _with_root(self, found: list[FoundFile]) -> list[FoundFile]:
        """The files, where the destination of the root was made while the root was listed: it had no entries."""
        if self._preparing is None or not self._preparing.result():
            return found
        root = self._root.destination
        return [one._replace(absent=True) if parent(one.destination_path or "") == root else one for one in found]

    async def _add(self, found: Sequence[FoundFile]) -> None:
        """Write these; a file whose destination belongs to another source is left out."""
        for one, fault in await write_possible(partial(self._feeder.add_found, self.item), found):
            self._skip_or_fail(SkippedSource(one.source_path, one.destination_path, one.kind, fault))


def _size(folders: Sequence[Folder]) -> int:
    """Octets of memory that these folders count as."""
    return sum(size_of(folder.source, folder.destination) for folder in folders)
