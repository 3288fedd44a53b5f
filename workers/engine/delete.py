"""DELETE: what the user named is found first, then removed: files and symlinks as found, folders deepest first.

The rows of an item's folders are written last, when all of it has been seen, so that the order of the rows is an
order in which things can be removed, and stays so when a worker dies and another goes on. Nothing is removed while a
scan is running: a root that is gone before its scan is written off could not be told from one that never was there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side, make_fault
from endpoints.gridftp.patterns import is_pattern
from endpoints.gridftp.words import quoted

from .dealer import Dealer
from .desk import UnreachableError
from .globs import Expansion
from .hidden import unlink_hidden
from .ledger import Ledger
from .paths import is_a_name, is_within, trimmed
from .plan import Plan, SizeClass, Summary
from .ports import DIRECTORY, FILE, SYMLINK, Faulted, FileRow, Found, ItemRow, Missed, Settled
from .retry import Fail, Retry, Skip
from .scan import Scanner
from .stock import Stock
from .uproot import BATCH, GONE, Uprooter
from .visits import Folder, Listing, request_fault
from .walk import FOUND, Walk
from .work import PATIENCE, Work

NOT_RECURSIVE = "This is a folder; to delete it with all that is in it, recursive must be true."
PLAN = Plan(1, 1, BATCH, "removals are pipelined on one session")


def delete_plan(_kind: SizeClass, _chunk: Summary) -> Plan:
    """One session removes all: what costs time is the round trip, and pipelining hides that."""
    return PLAN


class DeleteWalk(Walk):
    """Finds all that must go before the folder itself can. Symlinks are removed, never followed."""

    async def _prepare(self) -> None:
        #: Paths of folders by their depth, each with a NUL behind it: a fifth of what so many `Folder` take.
        self._seen: dict[int, bytearray] = {}
        self._stack = list(await self._enter([self._root]))

    async def _enter(self, folders: Sequence[Folder]) -> Sequence[Folder]:
        paths = [folder.source for folder in folders]
        apart = await self._work.desk.ask(Side.SOURCE, lambda session: unlink_hidden(session, paths))
        for path, fault in apart.items():
            if fault:
                self._blame(fault)
            else:
                self._found.append(Found(path, None, 0, None, SYMLINK))
        real = [folder for folder in folders if folder.source not in apart]
        for folder in real:
            octets = folder.source.encode("utf-8", "surrogateescape") + b"\0"
            self._memory.take(len(octets))
            self._seen.setdefault(folder.depth, bytearray()).extend(octets)
        return real

    def _take(self, folder: Folder, entry: Entry, listing: Listing) -> None:
        path = f"{folder.source}/{entry.name}"
        if not is_a_name(entry.name):
            self._blame(request_fault(Kind.INVALID_PATH_NAME, f"Not a name: {quoted(entry.name)} in {folder.source}"))
        elif entry.link_target is not None or entry.kind == "link":
            listing.symlinks += 1
            self._found.append(Found(path, None, 0, entry.modified, SYMLINK))
        elif entry.is_directory:
            self._take_folder(folder, entry, listing)
        else:
            self._found.append(Found(path, None, 0, entry.modified, FILE))

    def _miss(self, missed: Missed) -> None:
        """A folder that somebody else has removed meanwhile is as good as removed by us."""
        if missed.fault.kind not in GONE:
            super()._miss(missed)

    async def _conclude(self) -> None:
        """A folder that could not be seen whole cannot be removed, nor what it lies in."""
        if self.fault:
            return
        for depth in sorted(self._seen, reverse=True):
            paths = self._seen.pop(depth)
            for found in _batches(paths):
                await self._add(found)
            self._memory.free(len(paths))


def _batches(paths: bytearray) -> Iterator[list[Found]]:
    """No more than one batch at a time: of all folders of a depth there may be a million."""
    batch: list[Found] = []
    at = 0
    while (end := paths.find(b"\0", at)) >= 0:
        path = paths[at:end].decode("utf-8", "surrogateescape")
        batch.append(Found(path, None, 0, None, DIRECTORY))
        at = end + 1
        if len(batch) == FOUND:
            yield batch
            batch = []
    if batch:
        yield batch


class GlobWalk(DeleteWalk):
    """The same for all that a path with patterns matches.

    It may match nothing in a later scan, because an earlier one that broke off found what there was: it is gone then.
    """

    async def _prepare(self) -> None:
        self._seen = {}
        self._stack = []
        expansion = Expansion(self._work.desk, self.item.source_path)
        matched = False
        async for above, entries in expansion.matches():
            matched = matched or bool(entries)
            await self._take_all(Folder(above, None, -1), entries)
            await self._flush_if_due()
        if expansion.fault:
            self._blame(expansion.fault)
        elif not matched and not await self._work.store.has_found(self.item):
            raise FaultError(make_fault(Kind.FILE_NOT_FOUND, "Nothing matches this path.", side=Side.SOURCE))

    async def _take_all(self, above: Folder, entries: Sequence[Entry]) -> None:
        listing = Listing()
        for entry in entries:
            self._take(above, entry, listing)
        if listing.folders and not self._work.spec.options.get("recursive"):
            self._blame(request_fault(Kind.IS_A_DIRECTORY, NOT_RECURSIVE, raw=listing.folders[0].source))
            return
        self._stack += await self._enter(listing.folders)


class DeleteScanner(Scanner):
    """Scans the items of a DELETE."""

    def __init__(self, work: Work, stock: Stock) -> None:
        super().__init__(work, stock)
        if work.spec.options.get("ignore_missing"):
            self.skip = GONE

    async def _look(self, item: ItemRow) -> Entry | Fault:
        if self._is_pattern(item):
            return Entry("", "dir")  # to be walked through, whatever it may match
        return await super()._look(item)

    def _is_pattern(self, item: ItemRow) -> bool:
        return bool(self.work.spec.options.get("interpret_globs")) and is_pattern(item.source_path)

    def make_walk(self, item: ItemRow) -> Walk:
        root = trimmed(item.source_path)
        if self._is_pattern(item):
            return GlobWalk(self.work, self.stock, self.folders, item, Folder(root, None))
        if not self.work.spec.options.get("recursive"):
            raise FaultError(request_fault(Kind.IS_A_DIRECTORY, NOT_RECURSIVE))
        if not root:
            raise FaultError(request_fault(Kind.INVALID_PATH_NAME, "The root of an endpoint cannot be deleted."))
        return DeleteWalk(self.work, self.stock, self.folders, item, Folder(root, None))

    def make_file(self, item: ItemRow, entry: Entry) -> Found:
        return Found(trimmed(item.source_path), None, 0, entry.modified, SYMLINK if self.is_link(entry) else FILE)

    def is_link(self, entry: Entry) -> bool:
        return entry.link_target is not None or entry.kind == "link"

    async def prepare_files(self, found: Sequence[tuple[ItemRow, Found, Entry]]) -> dict[int, Fault]:
        return {}


class Remover:
    """Removes what is pending, batch after batch, in the order of the rows."""

    def __init__(self, work: Work, dealer: Dealer, stock: Stock, ledger: Ledger) -> None:
        self._work = work
        self._dealer = dealer
        self._stock = stock
        self._ledger = ledger
        self._hand: asyncio.Task[None] | None = None
        self._scanning = True
        self._closed_to_new = False
        self._told = work.spec.started
        #: After the connection was lost the next batches are small, to find what it was lost by.
        self._size = BATCH

    @property
    def idle(self) -> bool:
        return self._dealer.under_way == 0

    def staff(self) -> None:
        ready = not (self._scanning or self._closed_to_new or self._work.seconds_blocked() > PATIENCE)
        if ready and self._hand is None and (self._dealer.waiting or self._stock.low):
            self._hand = self._work.spawn(self._remove_all())

    def scanning(self, now: bool) -> None:
        self._scanning = now
        self._dealer.decided = True
        self.staff()

    def stop_feeding(self) -> None:
        self._closed_to_new = True

    async def leave(self, mark: bool) -> None:
        """Nothing to mark: what is removed twice is gone all the same."""
        self._closed_to_new = True
        if self._hand:
            self._hand.cancel()
            await asyncio.gather(self._hand, return_exceptions=True)

    async def _remove_all(self) -> None:
        try:
            await self._tell()
            while not (self._scanning or self._closed_to_new or await self._blocked()):
                if self._stock.low:
                    await self._stock.fetch()
                rows = self._dealer.take(self._size)
                if not rows:
                    break
                await self._remove(rows)
        finally:
            self._hand = None
        self._ledger.hurry()
        self._work.wake.set()

    async def _tell(self) -> None:
        if not self._told:
            self._told = True
            await self._work.store.event(
                "STARTED", "The deletion has begun.", {"type": "GridFTP Delete", "pipelining": BATCH}
            )

    async def _blocked(self) -> bool:
        """Sit out a short backoff. True: it is a long one."""
        seconds = self._work.seconds_blocked()
        if 0 < seconds <= PATIENCE:
            await self._work.clock.sleep(seconds)
        return seconds > PATIENCE

    async def _remove(self, rows: Sequence[FileRow]) -> None:
        entries = [(row.source_path, row.kind == DIRECTORY) for row in rows]
        try:
            faults = await self._work.desk.ask(Side.SOURCE, lambda session: session.remove(entries))
        except FaultError as error:
            self._dealer.came_back(len(rows))
            await self._lost(rows, error)
            return
        self._dealer.came_back(len(rows))
        self._size = min(BATCH, self._size * 2)
        self._work.endpoints.succeeded()
        refilled: list[FileRow] = []
        for row, fault in zip(rows, faults, strict=True):
            if fault is None:
                self._ledger.settle(Settled(row, 0))
            elif fault.kind is Kind.DIRECTORY_NOT_EMPTY and row.attempts:
                refilled.append(row)
            else:
                self._fault(row, fault)
        await self._clear(refilled)

    async def _clear(self, folders: Sequence[FileRow]) -> None:
        """What appeared in these folders since the scan, deepest first, goes with them."""
        stuck = ""
        for index, row in enumerate(folders):
            if is_within(stuck, row.source_path):
                self._fault(row, make_fault(Kind.DIRECTORY_NOT_EMPTY, stuck, side=Side.SOURCE))
                continue
            uprooter = Uprooter(self._work, Side.SOURCE)
            try:
                await uprooter.remove_folders([row.source_path])
            except FaultError as error:
                await self._lost(folders[index:], error)
                return
            if uprooter.fault:
                stuck = row.source_path
                self._fault(row, uprooter.fault)
            else:
                self._ledger.settle(Settled(row, 0))

    async def _lost(self, rows: Sequence[FileRow], error: FaultError) -> None:
        """The batch is done again; what brings down a connection all by itself waits longer than the others."""
        if isinstance(error, UnreachableError):
            await self._work.unreachable(error.fault)
            self._dealer.put_first(rows)
            return
        if error.fault.scope is not Scope.FILE:
            self._work.connection_failed()
        if len(rows) == 1:
            self._fault(rows[0], error.fault)
        else:
            self._size = 1
            self._dealer.put_first(rows)

    def _fault(self, row: FileRow, fault: Fault) -> None:
        # The scan has seen it: what is gone was removed by a worker that died before it could say so.
        decision = self._work.decide(fault, row.attempts, GONE)
        if isinstance(decision, Skip):
            self._ledger.settle(Settled(row, 0))
        elif isinstance(decision, Retry):
            self._ledger.fault(Faulted(row, fault, decision.at))
        elif isinstance(decision, Fail):
            self._ledger.fault(Faulted(row, fault, None))
