"""The scan: what the user named becomes rows of files, while folders are made at the destination ahead of them.

A repeated scan finds nothing new, so that it may be ended at any moment and begun again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side, make_fault

from .contents import Compared
from .desk import UnreachableError
from .folders import Folders
from .links import found_link_item
from .paths import parent, trimmed
from .ports import Found, ItemFaulted, ItemRow
from .retry import Fail, PassOver, Retry, Skip
from .selection import Selection
from .stock import Stock
from .sync import Sync, WalkSync
from .visits import Folder, request_fault
from .walk import TRIES, Walk
from .work import Work, wait_for

#: Items fetched from the store at once, and items looked at side by side on one session.
ITEMS = 1000
LOOKS = 200
#: Items that are folders and walked side by side.
WALKS = 4
#: Seconds for which a scan may hold up the end of a slice.
LONGEST = 3600.0
#: Items that wait for their contents to be compared; the scan of further ones pauses while there are more.
BACKLOG = 3000


class Scanner:
    """Scans the items of a TRANSFER."""

    #: Faults of an item that the user asked to pass over.
    skip: Collection[Kind] = ()

    def __init__(self, work: Work, stock: Stock) -> None:
        self.work = work
        self.stock = stock
        self.folders = Folders(work.desk)
        self._selection = Selection.of(work.spec.options)
        self._sync = Sync.of(work)
        self._files_sync = self._sync.of_walk(self._compared, BACKLOG) if self._sync else None
        #: Set while no scan is running.
        self._idle = asyncio.Event()
        self._idle.set()
        #: Items whose contents are being compared.
        self._comparing: set[int] = set()
        self._walks: dict[int, asyncio.Task[None]] = {}
        self._faulted: list[ItemFaulted] = []
        self._skipped: list[ItemRow] = []
        #: The earliest retry of an item given up for now, since somebody last asked.
        self.next_retry: datetime | None = None

    async def scan(self) -> None:
        """Scan every item that is due, once. Ends early when an endpoint cannot be reached."""
        self._idle.clear()
        try:
            while True:
                items = await self.work.store.unscanned(ITEMS, [*self._walks, *self._comparing])
                for start in range(0, len(items), LOOKS):
                    await self._scan_items(items[start : start + LOOKS])
                if len(items) < ITEMS:
                    break
            await self._walks_done(0)
            if self._files_sync:
                await self._files_sync.finish()
        except UnreachableError as error:
            await self.work.unreachable(error.fault)
            self._note_retry(self.work.endpoints.until)
        finally:
            await self._stop_walks()
            await self._stop_sync()
            self._idle.set()
        await self._write_faulted()

    async def last(self) -> None:
        """Wait for the end of the scan, which another slice would have to begin anew: but not for ever.

        What was compared by then is known to the next one.
        """
        await wait_for(self.work.clock, self._idle, LONGEST)
        if self._sync:
            await self._sync.last()

    # ---- what DELETE does otherwise

    def make_walk(self, item: ItemRow) -> Walk:
        """The walk through an item that is a folder. Raises FaultError when it makes no sense."""
        if item.recursive is False:
            why = "This is a folder; to move it with all that is in it, recursive must not be false."
            raise FaultError(request_fault(Kind.IS_A_DIRECTORY, why))
        if item.checksum and item.checksum.value:
            why = "This is a folder; only a file has a checksum that can be given."
            raise FaultError(request_fault(Kind.IS_A_DIRECTORY, why))
        destination = item.destination_path or ""
        if self.work.is_into_itself(item.source_path, destination):
            raise FaultError(request_fault(Kind.AMBIGUOUS_PATH, "The destination lies inside the source."))
        root = Folder(trimmed(item.source_path), trimmed(destination))
        return Walk(self.work, self.stock, self.folders, item, root, self._selection, self._sync)

    def make_file(self, item: ItemRow, entry: Entry) -> Found:
        """The row of an item that is a file, or a symlink to be kept. Raises FaultError when it makes no sense."""
        if item.symlink:
            return found_link_item(item, entry)
        destination = item.destination_path or ""
        if item.recursive:
            raise FaultError(request_fault(Kind.NOT_A_DIRECTORY, "This is no folder; recursive must not be true."))
        if entry.kind == "link":
            raise FaultError(make_fault(Kind.FILE_NOT_FOUND, "The link leads nowhere.", side=Side.SOURCE))
        if entry.kind != "file":
            raise FaultError(request_fault(Kind.UNSUPPORTED, f"Neither a file nor a folder: {entry.kind}"))
        if destination.endswith("/"):
            why = "The destination of a file is its full new name, not the folder to put it in."
            raise FaultError(request_fault(Kind.IS_A_DIRECTORY, why, Side.DESTINATION))
        if self.work.is_into_itself(item.source_path, destination):
            raise FaultError(request_fault(Kind.AMBIGUOUS_PATH, "The source and the destination are one file."))
        return Found(item.source_path, destination, entry.size, entry.modified, checksum=item.checksum)

    async def prepare_files(self, found: Sequence[tuple[ItemRow, Found, Entry]]) -> dict[int, Fault]:
        """Make the folders that these files go into; what went wrong, by item."""
        wrong = await self.folders.make_parents([one.destination_path or "" for _, one, _ in found])
        for error in wrong.values():
            if isinstance(error, UnreachableError):
                raise error
        faults = {
            item.id: wrong[folder].fault
            for item, one, _ in found
            if (folder := parent(one.destination_path or "")) in wrong
        }
        if self.work.same_endpoint:
            looks = await asyncio.gather(*(self._is_itself(one, entry) for _, one, entry in found))
            for (item, _, _), itself in zip(found, looks, strict=True):
                if itself:
                    why = "The source and the destination are one file."
                    faults[item.id] = request_fault(Kind.AMBIGUOUS_PATH, why)
        return faults

    # ---- looking at items

    async def _scan_items(self, items: Sequence[ItemRow]) -> None:
        looks = await self._looks(self._look, items)
        files: list[tuple[ItemRow, Found, Entry]] = []
        walks: list[Walk] = []
        for item, look in zip(items, looks, strict=True):
            try:
                if isinstance(look, Fault):
                    self.faulted(item, look)
                elif look.is_directory and not (item.symlink or self.is_link(look)):
                    walks.append(self.make_walk(item))
                else:
                    files.append((item, self.make_file(item, look), look))
            except UnreachableError:
                raise
            except FaultError as error:
                self.faulted(item, error.fault)
        if files:
            await self._files(files)
        await self._write_faulted()
        for walk in walks:
            await self._walks_done(WALKS - 1)
            self._walks[walk.item.id] = asyncio.create_task(self._walk(walk))

    def is_link(self, entry: Entry) -> bool:
        """Whether a folder is to be treated as the symlink that leads to it: an item's own is followed."""
        return False

    async def _looks(
        self, look_at: Callable[[ItemRow], Awaitable[Entry | Fault]], items: Sequence[ItemRow]
    ) -> Sequence[Entry | Fault]:
        """What is there, item by item. Raises UnreachableError when one connection after the other is lost."""
        looks = await asyncio.gather(*(look_at(item) for item in items))
        lost = 0
        for index, item in enumerate(items):
            if _is_lost(looks[index]):
                # The connection was lost under many looks at once: one by one it shows whose fault that was.
                look = looks[index] = await look_at(item)
                lost += _is_lost(look)
                if isinstance(look, Fault) and lost >= TRIES:
                    raise UnreachableError(look)
        return looks

    async def _look(self, item: ItemRow) -> Entry | Fault:
        return await self._ask(Side.SOURCE, item.source_path)

    async def _look_beside(self, item: ItemRow) -> Entry | Fault:
        return await self._ask(Side.DESTINATION, item.destination_path or "")

    async def _ask(self, side: Side, path: str) -> Entry | Fault:
        try:
            return await self.work.desk.ask(side, lambda session: session.stat(path))
        except UnreachableError:
            raise
        except FaultError as error:
            return error.fault

    async def _files(self, files: Sequence[tuple[ItemRow, Found, Entry]]) -> None:
        """Items that are files: rows at once, once their folders are there."""
        faults = await self.prepare_files(files)
        for item, _, _ in files:
            if item.id in faults:
                self.faulted(item, faults[item.id])
        good = [(item, found) for item, found, _ in files if item.id not in faults]
        await self._add_files(await self._compare(good, self._files_sync) if self._files_sync else good)

    async def _compare(self, files: Sequence[tuple[ItemRow, Found]], sync: WalkSync) -> list[tuple[ItemRow, Found]]:
        """Those whose fate shows at the first look at the destination; the others come by `_compared`."""
        ready = []
        looks = await self._looks(self._look_beside, [item for item, _ in files])
        for (item, found), look in zip(files, looks, strict=True):
            if isinstance(look, Fault) and look.kind is not Kind.FILE_NOT_FOUND:
                self.faulted(item, look)
                continue
            self._comparing.add(item.id)
            known = await sync.decide(item, found, None if isinstance(look, Fault) else look)
            if known is not None:
                self._comparing.discard(item.id)
                ready.append((item, known))
        return ready

    async def _compared(self, compared: Sequence[Compared]) -> None:
        for one in compared:
            if one.fault:
                self.faulted(one.item, one.fault)
        await self._add_files([(one.item, one.found) for one in compared if not one.fault])
        await self._write_faulted()
        self._comparing.difference_update(one.item.id for one in compared)

    async def _add_files(self, found: Sequence[tuple[ItemRow, Found]]) -> None:
        """Write these; one whose destination another source has is left out, the others are written."""
        if not found:
            return
        try:
            await self.stock.add_file_items(found)
        except FaultError as error:
            if len(found) == 1:
                self.faulted(found[0][0], error.fault)
                return
            half = len(found) // 2
            await self._add_files(found[:half])
            await self._add_files(found[half:])

    async def _is_itself(self, found: Found, entry: Entry) -> bool:
        """Whether a file would be written over itself, under another name: a link, or "/~/" for the home."""
        if not entry.unique or found.link_target is not None:
            return False
        try:
            return await self.folders.identity(Side.DESTINATION, found.destination_path or "") == entry.unique
        except UnreachableError:
            raise
        except FaultError:
            return False

    # ---- walks

    async def _walk(self, walk: Walk) -> None:
        try:
            await walk.run()
        except UnreachableError:
            raise
        except FaultError as error:
            if error.fault.scope is not Scope.FILE:
                self.work.connection_failed()
            walk.fault = error.fault
        if walk.fault:
            self.faulted(walk.item, walk.fault)
            await self._write_faulted()
            return
        if walk.specials:
            text = f"{walk.specials} things under {walk.item.source_path} are neither file nor folder: left out"
            await self.work.store.event("PROGRESS", "Some things were left out.", text)
        await self.work.store.item_scanned(walk.item, walk.directories, walk.symlinks)

    async def _walks_done(self, but: int) -> None:
        """Wait until no more than so many walks are under way. Raises what they raise."""
        while len(self._walks) > but:
            await asyncio.wait(self._walks.values(), return_when=asyncio.FIRST_COMPLETED)
            for item_id, walk in list(self._walks.items()):
                if walk.done():
                    del self._walks[item_id]
                    walk.result()

    async def _stop_sync(self) -> None:
        if self._sync and self._files_sync:
            await self._files_sync.stop()
            await self._sync.close()
        self._comparing.clear()

    async def _stop_walks(self) -> None:
        walks = list(self._walks.values())
        self._walks.clear()
        for walk in walks:
            walk.cancel()
        await asyncio.gather(*walks, return_exceptions=True)

    # ---- faults of items

    def faulted(self, item: ItemRow, fault: Fault) -> None:
        """This item met a fault: to be written with the next batch."""
        decision = self.work.decide(fault, item.attempts, self.skip)
        if isinstance(decision, Retry):
            self._faulted.append(ItemFaulted(item, fault, decision.at))
            self._note_retry(decision.at)
        elif isinstance(decision, Fail):
            self._faulted.append(ItemFaulted(item, fault, None))
        elif isinstance(decision, PassOver):
            self._faulted.append(ItemFaulted(item, fault, None, skipped=True))
        elif isinstance(decision, Skip):
            self._skipped.append(item)

    def _note_retry(self, at: datetime | None) -> None:
        if at is not None and (self.next_retry is None or at < self.next_retry):
            self.next_retry = at

    async def _write_faulted(self) -> None:
        faulted, self._faulted = self._faulted, []
        skipped, self._skipped = self._skipped, []
        if faulted:
            await self.work.store.items_faulted(faulted)
        await asyncio.gather(*(self.work.store.item_scanned(item, 0, 0) for item in skipped))


def _is_lost(look: Entry | Fault) -> bool:
    """Whether it was the connection that failed, not the look."""
    return isinstance(look, Fault) and look.scope is not Scope.FILE
