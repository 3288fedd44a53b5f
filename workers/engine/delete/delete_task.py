"""DELETE tasks: the items are scanned first, then removed: files and symlinks as found, folders deepest first.

The rows of an item's folders are written last, when all of it has been listed: the order of the rows is then an order
in which they can be removed, and stays so when another worker continues. Nothing is removed while a scan is running:
a root that is removed before its scan is recorded would look like one that never existed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, FaultScope, Kind, Side, make_fault
from endpoints.gridftp.patterns import is_pattern
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import (
    DIRECTORY,
    FILE,
    SYMLINK,
    FaultedFile,
    FileRow,
    FoundFile,
    ItemRow,
    SettledFile,
    SkippedSource,
)
from workers.engine.control_sessions import UnreachableError
from workers.engine.paths import is_a_name, is_within, trimmed
from workers.engine.queue.file_queue import FileQueue
from workers.engine.queue.queue_feeder import QueueFeeder
from workers.engine.retry import Fail, Retry, Skip, unless_ending
from workers.engine.scan.globs import Expansion
from workers.engine.scan.hidden_links import unlink_hidden
from workers.engine.scan.scanner import Scanner
from workers.engine.scan.visits import Folder, FolderListing, request_fault
from workers.engine.scan.walk import FOUND, Walk
from workers.engine.settle.settlement_writer import SettlementWriter
from workers.engine.tuning.plan import ChunkSummary, Plan, SizeClass
from workers.engine.work import LONGEST_WAIT, SliceContext, cancel_all

from .tree_remover import BATCH, GONE, TreeRemover

NOT_RECURSIVE = "This is a folder; to delete it with its contents, recursive must be true."
PLAN = Plan(1, 1, BATCH, "removals are pipelined on one session")


def delete_plan(_kind: SizeClass, _chunk: ChunkSummary) -> Plan:
    """One session removes everything: the round trips take the time, and pipelining hides them."""
    return PLAN


class DeleteWalk(Walk):
    """Finds all entries that must be removed before the folder itself. Symlinks are removed, never followed."""

    async def _prepare(self) -> None:
        #: Paths of folders by depth, each ended by a NUL: a fifth of the memory of as many `Folder` objects.
        self._seen: dict[int, bytearray] = {}
        self._stack = list(await self._make_folders([self._root]))

    async def _make_folders(self, folders: Sequence[Folder]) -> Sequence[Folder]:
        paths = [folder.source for folder in folders]
        links = await self._work.control_sessions.ask(Side.SOURCE, lambda session: unlink_hidden(session, paths))
        for path, fault in links.items():
            if fault:
                self._add_fault(fault)
            else:
                self._found.append(FoundFile(path, None, 0, None, SYMLINK))
        real = [folder for folder in folders if folder.source not in links]
        for folder in real:
            octets = folder.source.encode("utf-8", "surrogateescape") + b"\0"
            self._memory.take(len(octets))
            self._seen.setdefault(folder.depth, bytearray()).extend(octets)
        return real

    def _add_entry(self, folder: Folder, entry: Entry, listing: FolderListing) -> None:
        path = f"{folder.source}/{entry.name}"
        if not is_a_name(entry.name):
            self._add_invalid_name(folder, entry.name)
        elif entry.is_link:
            listing.symlinks += 1
            self._found.append(FoundFile(path, None, 0, entry.modified, SYMLINK))
        elif entry.is_directory:
            self._add_folder(folder, entry, listing)
        else:
            self._found.append(FoundFile(path, None, 0, entry.modified, FILE))

    def _skip_or_fail(self, missed: SkippedSource) -> None:
        """A folder that was removed by others meanwhile counts as removed."""
        if missed.fault.kind not in GONE:
            super()._skip_or_fail(missed)

    async def _finish(self) -> None:
        """Write the folders. A folder that could not be listed completely cannot be removed, nor can its parents."""
        if self.fault:
            return
        for depth in sorted(self._seen, reverse=True):
            paths = self._seen.pop(depth)
            for found in _batches(paths):
                await self._add(found)
            self._memory.free(len(paths))


def _batches(paths: bytearray) -> Iterator[list[FoundFile]]:
    """One batch at a time: one depth may have a million folders."""
    ended = re.finditer(rb"[^\0]+", paths)
    while some := [one.group().decode("utf-8", "surrogateescape") for one in islice(ended, FOUND)]:
        yield [FoundFile(path, None, 0, None, DIRECTORY) for path in some]


class GlobWalk(DeleteWalk):
    """The same for everything that a path with patterns matches.

    It may match nothing in a later scan, because an earlier one found all matches and they have been removed.
    """

    async def _prepare(self) -> None:
        self._seen = {}
        self._stack = []
        expansion = Expansion(self._work.control_sessions, self.item.source_path)
        matched = False
        async for above, entries in expansion.matches():
            matched = matched or bool(entries)
            await self._add_entries(Folder(above, None, -1), entries)
            await self._flush_if_due()
        if expansion.fault:
            self._add_fault(expansion.fault)
        elif not matched and not await self._work.store.has_found(self.item):
            raise FaultError(make_fault(Kind.FILE_NOT_FOUND, "Nothing matches this path.", side=Side.SOURCE))

    async def _add_entries(self, above: Folder, entries: Sequence[Entry]) -> None:
        listing = FolderListing()
        for entry in entries:
            self._add_entry(above, entry, listing)
        if listing.folders and not self._work.spec.options.get("recursive"):
            self._add_fault(request_fault(Kind.IS_A_DIRECTORY, NOT_RECURSIVE, raw=listing.folders[0].source))
            return
        self._stack += await self._make_folders(listing.folders)


class DeleteScanner(Scanner):
    """Scans the items of a DELETE."""

    def __init__(self, work: SliceContext, feeder: QueueFeeder) -> None:
        super().__init__(work, feeder)
        if work.spec.options.get("ignore_missing"):
            self.skip = GONE

    async def _stat_source(self, item: ItemRow) -> Entry | Fault:
        if self._is_pattern(item):
            return Entry("", "dir")  # walked through, whatever it matches
        return await super()._stat_source(item)

    def _is_pattern(self, item: ItemRow) -> bool:
        return bool(self.work.spec.options.get("interpret_globs")) and is_pattern(item.source_path)

    def make_walk(self, item: ItemRow, *, missing: bool = False) -> Walk:
        root = trimmed(item.source_path)
        if self._is_pattern(item):
            return GlobWalk(self.work, self.feeder, self.folders, item, Folder(root, None))
        if not self.work.spec.options.get("recursive"):
            raise FaultError(request_fault(Kind.IS_A_DIRECTORY, NOT_RECURSIVE))
        if not root:
            raise FaultError(request_fault(Kind.INVALID_PATH_NAME, "The root of an endpoint cannot be deleted."))
        return DeleteWalk(self.work, self.feeder, self.folders, item, Folder(root, None))

    def make_file(self, item: ItemRow, entry: Entry) -> FoundFile:
        return FoundFile(trimmed(item.source_path), None, 0, entry.modified, SYMLINK if self.is_link(entry) else FILE)

    def is_link(self, entry: Entry) -> bool:
        return entry.is_link

    async def prepare_files(self, found: Sequence[tuple[ItemRow, FoundFile, Entry]]) -> dict[int, Fault]:
        return {}


class Remover:
    """A FileProcessor that removes pending files, batch after batch, in the order of the rows."""

    def __init__(
        self, work: SliceContext, file_queue: FileQueue, feeder: QueueFeeder, settlement_writer: SettlementWriter
    ) -> None:
        self._work = work
        self._file_queue = file_queue
        self._feeder = feeder
        self._settlement_writer = settlement_writer
        self._worker: asyncio.Task[None] | None = None
        self._scanning = True
        self._closed_to_new = False
        self._announced = work.spec.started
        #: After a lost connection the next batches are small, to find the file that causes it.
        self._size = BATCH

    @property
    def idle(self) -> bool:
        return self._file_queue.under_way == 0

    def start_work(self) -> None:
        ready = not (self._scanning or self._closed_to_new or self._work.seconds_blocked() > LONGEST_WAIT)
        if ready and self._worker is None and (self._file_queue.waiting or self._feeder.low):
            self._worker = self._work.spawn(self._remove_all())

    def set_scanning(self, running: bool) -> None:
        self._scanning = running
        self._file_queue.decided = True
        self._work.more_to_do()

    def stop_feeding(self) -> None:
        self._closed_to_new = True

    async def abort(self, *, rename_suspects: bool) -> None:
        """Stop; a removal that is sent twice does no harm."""
        self._closed_to_new = True
        if self._worker:
            await cancel_all([self._worker])

    async def _remove_all(self) -> None:
        try:
            await self._announce()
            while not (self._scanning or self._closed_to_new or await self._work.wait_out_backoff()):
                if self._feeder.low:
                    await self._feeder.fetch()
                rows = self._file_queue.take(self._size)
                if not rows:
                    break
                await self._remove(rows)
        finally:
            self._worker = None
        self._settlement_writer.flush_soon()
        self._work.more_to_do()

    async def _announce(self) -> None:
        if not self._announced:
            self._announced = True
            await self._work.store.event(
                "STARTED", Sentence("The deletion has begun."), {"type": "GridFTP Delete", "pipelining": BATCH}
            )

    async def _remove(self, rows: Sequence[FileRow]) -> None:
        entries = [(row.source_path, row.kind == DIRECTORY) for row in rows]
        try:
            faults = await self._work.control_sessions.ask(Side.SOURCE, lambda session: session.remove(entries))
        except FaultError as error:
            self._file_queue.left_lanes(len(rows))
            await self._batch_failed(rows, error)
            return
        self._file_queue.left_lanes(len(rows))
        self._size = min(BATCH, self._size * 2)
        self._work.endpoints.succeeded()
        refilled: list[FileRow] = []
        for row, fault in zip(rows, faults, strict=True):
            if fault is None:
                self._settlement_writer.settle(SettledFile(row, 0))
            elif fault.kind is Kind.DIRECTORY_NOT_EMPTY and row.attempts:
                refilled.append(row)
            else:
                self._fault(row, fault)
        await self._remove_refilled(refilled)

    async def _remove_refilled(self, folders: Sequence[FileRow]) -> None:
        """Remove these folders with all entries that appeared since the scan, deepest first."""
        stuck = ""
        for index, row in enumerate(folders):
            if is_within(stuck, row.source_path):
                self._fault(row, make_fault(Kind.DIRECTORY_NOT_EMPTY, stuck, side=Side.SOURCE))
                continue
            tree_remover = TreeRemover(self._work, Side.SOURCE)
            try:
                await tree_remover.remove_folders([row.source_path])
            except FaultError as error:
                await self._batch_failed(folders[index:], error)
                return
            if tree_remover.fault:
                stuck = row.source_path
                self._fault(row, tree_remover.fault)
            else:
                self._settlement_writer.settle(SettledFile(row, 0))

    async def _batch_failed(self, rows: Sequence[FileRow], error: FaultError) -> None:
        """Try the batch again; a file that loses a connection by itself waits longer than the others."""
        if isinstance(error, UnreachableError):
            await self._work.unreachable(error.fault)
            self._file_queue.put_first(rows)
            return
        if error.fault.scope is not FaultScope.FILE:
            self._work.connection_failed()
        if len(rows) == 1:
            (row,) = rows
            self._fault(row, unless_ending(error.fault, row.attempts, row.last_fault))
        else:
            self._size = 1
            self._file_queue.put_first(rows)

    def _fault(self, row: FileRow, fault: Fault) -> None:
        # The scan has seen it: a file that is missing was removed by a worker that died before it could record it.
        decision = self._work.decide(fault, row.attempts, GONE)
        if isinstance(decision, Skip):
            self._settlement_writer.settle(SettledFile(row, 0))
        elif isinstance(decision, Retry):
            self._settlement_writer.fault(FaultedFile(row, fault, decision.at))
        elif isinstance(decision, Fail):
            self._settlement_writer.fault(FaultedFile(row, fault, None))
