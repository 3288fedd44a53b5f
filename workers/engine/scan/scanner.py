"""The scan: items become rows of files, while folders are made at the destination ahead of them.

A repeated scan finds nothing new, so a scan can be stopped at any moment and begun again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import NO_FILE, Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.patterns import folded, folded_path
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import FaultedItem, FoundFile, ItemRow
from workers.engine.control_sessions import UnreachableError, is_missing
from workers.engine.folders import Folders
from workers.engine.paths import parent, trimmed
from workers.engine.queue.queue_feeder import QueueFeeder, write_possible
from workers.engine.retry import Fail, PassOver, Retry, Skip
from workers.engine.same_storage import may_be_one
from workers.engine.work import SliceContext, cancel_all, wait_for

from .checksum_comparison import Compared
from .folded_names import one_name
from .links import found_link_item
from .refused import refused
from .selection import NameSelection
from .sync import Sync, WalkSync
from .visits import Folder, request_fault
from .walk import TRIES, Walk

#: Items fetched from the store at once, and facts requested in parallel on one session.
ITEMS = 1000
PARALLEL_STATS = 200
#: Items that are folders and walked in parallel.
WALKS = 4
#: Seconds for which a scan may delay the end of a slice.
LONGEST = 3600.0
#: Items that wait for a comparison by checksum; the scan pauses while there are more.
BACKLOG = 3000
#: Destinations of items that are compared with each other by their spelling.
MAX_SPELLINGS = 20_000


class Scanner:
    """Scans the items of a TRANSFER."""

    #: Kinds of faults of an item that the user asked to skip.
    skip: Collection[Kind] = ()

    def __init__(self, work: SliceContext, feeder: QueueFeeder) -> None:
        self.work = work
        self.feeder = feeder
        self.folders = Folders(work.control_sessions)
        self._selection = NameSelection.of(work.spec.options)
        self._sync = Sync.of(work)
        self._files_sync = self._sync.of_walk(self._compared, BACKLOG) if self._sync else None
        #: Set while no scan is running.
        self._idle = asyncio.Event()
        self._idle.set()
        #: Items that are being compared by checksum.
        self._comparing: set[int] = set()
        self._walks: dict[int, asyncio.Task[None]] = {}
        #: Folded destinations of items that are files -> the first spelling.
        self._spellings: dict[str, str] = {}
        self._faulted: list[FaultedItem] = []
        self._skipped: list[ItemRow] = []
        #: The earliest retry of an item since the slice last read this.
        self.next_retry: datetime | None = None

    async def scan(self) -> None:
        """Scan every due item once. Returns early when an endpoint cannot be reached."""
        self._idle.clear()
        try:
            while True:
                items = await self.work.store.unscanned(ITEMS, [*self._walks, *self._comparing])
                for start in range(0, len(items), PARALLEL_STATS):
                    await self._scan_items(items[start : start + PARALLEL_STATS])
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

    async def drain(self) -> None:
        """Wait for the end of the scan, which another slice would have to begin again, at most LONGEST seconds.

        The next scan knows the files that were compared by then.
        """
        await wait_for(self.work.clock, self._idle, LONGEST)
        if self._sync:
            await self._sync.drain()

    # ---- overridden for DELETE

    def make_walk(self, item: ItemRow, *, missing: bool = False) -> Walk:
        """The walk through an item that is a folder. missing: see `Walk`. Raises FaultError if the item forbids it."""
        if item.recursive is False:
            why = "This is a folder; to transfer it with its contents, recursive must not be false."
            raise FaultError(request_fault(Kind.IS_A_DIRECTORY, why))
        if item.checksum and item.checksum.value:
            why = "This is a folder; a checksum can be given for a file only."
            raise FaultError(request_fault(Kind.IS_A_DIRECTORY, why))
        destination = item.destination_path or ""
        if self.work.is_into_itself(item.source_path, destination):
            raise FaultError(request_fault(Kind.AMBIGUOUS_PATH, "The destination lies inside the source."))
        root = Folder(trimmed(item.source_path), trimmed(destination))
        return Walk(self.work, self.feeder, self.folders, item, root, self._selection, self._sync, missing=missing)

    def make_file(self, item: ItemRow, entry: Entry) -> FoundFile:
        """The row of an item that is a file, or a symlink to keep. Raises FaultError when the item forbids it."""
        if item.symlink:
            return found_link_item(item, entry)
        destination = item.destination_path or ""
        if item.recursive:
            raise FaultError(request_fault(Kind.NOT_A_DIRECTORY, "This is not a folder; recursive must not be true."))
        if entry.kind == "link":
            raise FaultError(
                make_fault(Kind.FILE_NOT_FOUND, "The target of the link does not exist.", side=Side.SOURCE)
            )
        if entry.kind != "file":
            raise FaultError(request_fault(Kind.UNSUPPORTED, NO_FILE, raw=entry.kind))
        if destination.endswith("/"):
            why = "The destination of a file is its full new path, not the folder to put it in."
            raise FaultError(request_fault(Kind.IS_A_DIRECTORY, why, Side.DESTINATION))
        if self.work.is_into_itself(item.source_path, destination):
            raise FaultError(request_fault(Kind.AMBIGUOUS_PATH, "The source and the destination are the same file."))
        return FoundFile(trimmed(item.source_path), destination, entry.size, entry.modified, checksum=item.checksum)

    async def prepare_files(self, found: Sequence[tuple[ItemRow, FoundFile, Entry]]) -> dict[int, Fault]:
        """Make the parent folders of these files, but not for those that are `refused`. Returns the faults, by item."""
        faults = await refused(self.work.control_sessions, self.folders, found)
        found = [each for each in found if each[0].id not in faults]
        faults |= await self._without_folder(found)
        if self.work.same_endpoint or await self.work.storage_probe.is_possible():
            for item_id in await self._onto_themselves(found):
                why = "The source and the destination are the same file."
                faults[item_id] = request_fault(Kind.AMBIGUOUS_PATH, why)
        return faults

    async def _without_folder(self, found: Sequence[tuple[ItemRow, FoundFile, Entry]]) -> dict[int, Fault]:
        """Make the parent folders of these files. Returns the faults, by item. Raises UnreachableError."""
        wrong = await self.folders.make_parents([one.destination_path or "" for _, one, _ in found])
        for error in wrong.values():
            if isinstance(error, UnreachableError):
                raise error
        return {
            item.id: wrong[folder].fault
            for item, one, _ in found
            if (folder := parent(one.destination_path or "")) in wrong
        }

    # ---- the facts of items

    async def _scan_items(self, items: Sequence[ItemRow]) -> None:
        results, there, _ = await asyncio.gather(
            self._stat_all(self._stat_source, items), self.destinations(items), self._look_at_folders(items)
        )
        files: list[tuple[ItemRow, FoundFile, Entry]] = []
        walks: list[Walk] = []
        for item, result in zip(items, results, strict=True):
            try:
                if isinstance(result, Fault):
                    self.faulted(item, result)
                elif result.is_directory and not (item.symlink or self.is_link(result)):
                    walks.append(self.make_walk(item, missing=is_missing(there.get(item.id))))
                else:
                    found = self.make_file(item, result)._replace(absent=is_missing(there.get(item.id)))
                    files.append((item, found, result))
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

    async def destinations(self, items: Sequence[ItemRow]) -> Mapping[int, Entry | Fault]:
        """The entries of the items' destinations, or their faults, by item, asked in the round trip of their sources.

        Where sync compares, it looks itself; where the server replaces files, nobody needs to know. An unreachable
        destination is reported by the next step that needs it.
        """
        work, side = self.work, Side.DESTINATION
        if self._sync or work.spec.is_delete or work.spec.renames_all:
            return {}
        try:
            if (await work.control_sessions.session(side)).replaces:
                return {}
            found = await work.control_sessions.facts(side, [item.target for item in items])
        except UnreachableError:
            return {}
        return {item.id: entry for item, entry in zip(items, found, strict=True)}

    async def _look_at_folders(self, items: Sequence[ItemRow]) -> None:
        """Learn, in the same round trip, which of their folders need not be made."""
        if not self.work.spec.is_delete:
            with suppress(UnreachableError):
                await self.folders.look([parent(item.target) for item in items])

    def is_link(self, entry: Entry) -> bool:
        """Whether to treat a folder as the symlink that leads to it. The link of a TRANSFER's item is followed."""
        return False

    async def _stat_all(
        self, stat: Callable[[ItemRow], Awaitable[Entry | Fault]], items: Sequence[ItemRow]
    ) -> Sequence[Entry | Fault]:
        """The entry or fault of each item. Raises UnreachableError when connections are lost again and again."""
        results = await asyncio.gather(*(stat(item) for item in items))
        lost = 0
        for index, item in enumerate(items):
            if _is_lost(results[index]):
                # The connection was lost during many requests: one by one, they show which item causes it.
                result = results[index] = await stat(item)
                lost += _is_lost(result)
                if isinstance(result, Fault) and lost >= TRIES:
                    raise UnreachableError(result)
        return results

    async def _stat_source(self, item: ItemRow) -> Entry | Fault:
        return await self._stat(Side.SOURCE, item.source_path)

    async def _stat_destination(self, item: ItemRow) -> Entry | Fault:
        return await self._stat(Side.DESTINATION, item.destination_path or "")

    async def _stat(self, side: Side, path: str) -> Entry | Fault:
        # With a slash behind it a symlink is resolved (POSIX.1-2017 section 4.13), and would look like its target.
        entry = trimmed(path) or "/"
        return await self.work.control_sessions.answer(side, lambda session: session.stat(entry))

    async def _files(self, files: Sequence[tuple[ItemRow, FoundFile, Entry]]) -> None:
        """Write items that are files as rows, after their parent folders are made."""
        faults = await self.prepare_files(files)
        faults |= await self._folded_together([(item, found) for item, found, _ in files if item.id not in faults])
        for item, _, _ in files:
            if item.id in faults:
                self.faulted(item, faults[item.id])
        good = [(item, found) for item, found, _ in files if item.id not in faults]
        await self._add_files(await self._compare(good, self._files_sync) if self._files_sync else good)

    async def _folded_together(self, files: Sequence[tuple[ItemRow, FoundFile]]) -> dict[int, Fault]:
        """The faults of files whose destination is that of an earlier one, by another spelling of its name."""
        pairs: dict[str, dict[str, tuple[ItemRow, str]]] = {}
        for item, found in files:
            path = found.destination_path
            if path is None or len(self._spellings) >= MAX_SPELLINGS:
                continue
            first = self._spellings.setdefault(folded_path(path), path)
            if first != path and parent(first) == parent(path):
                pairs.setdefault(parent(path), {})[path.rpartition("/")[2]] = item, first.rpartition("/")[2]
        faults: dict[int, Fault] = {}
        for folder, names in pairs.items():
            found_faults = await one_name(self.work, folder, {name: other for name, (_, other) in names.items()})
            faults |= {names[name][0].id: fault for name, fault in found_faults.items()}
        return faults

    async def _compare(
        self, files: Sequence[tuple[ItemRow, FoundFile]], sync: WalkSync
    ) -> list[tuple[ItemRow, FoundFile]]:
        """Return the files that can be decided now; the others arrive through `_compared`."""
        ready = []
        results = await self._stat_all(self._stat_destination, [item for item, _ in files])
        for (item, found), result in zip(files, results, strict=True):
            if isinstance(result, Fault) and result.kind is not Kind.FILE_NOT_FOUND:
                self.faulted(item, result)
                continue
            self._comparing.add(item.id)
            known = await sync.decide(item, found, None if isinstance(result, Fault) else result)
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

    async def _add_files(self, found: Sequence[tuple[ItemRow, FoundFile]]) -> None:
        """Write these; a file whose destination belongs to another source is left out."""
        for (item, _), fault in await write_possible(self.feeder.add_file_items, found):
            self.faulted(item, fault)

    async def _onto_themselves(self, found: Sequence[tuple[ItemRow, FoundFile, Entry]]) -> list[int]:
        """The items of files that would be written over themselves: by a link, "/~/" for the home, another endpoint."""
        files = [(item, one, entry) for item, one, entry in found if one.link_target is None]
        there = await asyncio.gather(
            *(self._stat(Side.DESTINATION, one.destination_path or "/") for _, one, _ in files)
        )
        folders: dict[tuple[str, str], bool] = {}
        answers = [
            not isinstance(other, Fault) and await self._is_itself(one, entry, other, folders)
            for (_, one, entry), other in zip(files, there, strict=True)
        ]
        return [item.id for (item, _, _), itself in zip(files, answers, strict=True) if itself]

    async def _is_itself(
        self, found: FoundFile, entry: Entry, there: Entry, folders: dict[tuple[str, str], bool]
    ) -> bool:
        """Whether this file is the entry at its destination. folders: answers about folders of both sides."""
        same_identity = bool(entry.unique) and entry.unique == there.unique
        if self.work.same_endpoint:
            return same_identity
        if not may_be_one(entry, there):
            return False
        if same_identity or _last(found.source_path) != _last(found.destination_path):
            return same_identity
        pair = parent(found.source_path), parent(found.destination_path or "")
        if pair not in folders:
            folders[pair] = await self.work.storage_probe.is_one_folder(*pair)
        return folders[pair]

    # ---- walks

    async def _walk(self, walk: Walk) -> None:
        try:
            await walk.run()
        except UnreachableError:
            raise
        except FaultError as error:
            if error.fault.scope is not FaultScope.FILE:
                self.work.connection_failed()
            walk.fault = error.fault
        if walk.fault:
            self.faulted(walk.item, walk.fault)
            await self._write_faulted()
            return
        if walk.specials:
            text = f"{walk.specials} entries under {walk.item.source_path} are neither files nor folders"
            await self.work.store.event("PROGRESS", Sentence("Some entries were left out."), text)
        await self.work.store.item_scanned(walk.item, walk.directories, walk.symlinks)

    async def _walks_done(self, but: int) -> None:
        """Wait until at most so many walks are running. Raises their errors."""
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
        walks, self._walks = self._walks, {}
        await cancel_all(walks.values())

    # ---- faults of items

    def faulted(self, item: ItemRow, fault: Fault) -> None:
        """Record the fault of this item; it is written with the next batch."""
        decision = self.work.decide(fault, item.attempts, self.skip)
        if isinstance(decision, Retry):
            self._faulted.append(FaultedItem(item, fault, decision.at))
            self._note_retry(decision.at)
        elif isinstance(decision, Fail | PassOver):
            self._faulted.append(FaultedItem(item, fault, None, skipped=isinstance(decision, PassOver)))
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


def _last(path: str | None) -> str:
    """The last name of a path, as every file system may compare it."""
    return folded((path or "").rpartition("/")[2])


def _is_lost(result: Entry | Fault) -> bool:
    """Whether the connection failed, and not the request."""
    return isinstance(result, Fault) and result.scope is not FaultScope.FILE
