"""The rows of one task in memory, with the rules of the real tables."""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side, make_fault
from transferapi.tasks.errors import LeaseLostError
from transferapi.tasks.records import (
    DataProtection,
    DataWay,
    FaultedFile,
    FaultedItem,
    FileRow,
    FoundFile,
    HeartbeatReply,
    ItemRow,
    SettledFile,
    Settlement,
    SkippedSource,
    SliceMeasurement,
    TaskCounts,
)
from workers.engine.ports import Clock

from .fuse import Fuse
from .rows import Event, Item, Row, State, Totals, is_due


class MemoryStore:
    """One task. items: (source path, destination path or None, recursive or None), or whole rows.

    `violations` lists what a correct engine never does, such as settling a file twice.
    """

    def __init__(
        self,
        clock: Clock,
        items: Sequence[tuple[str, str | None, bool | None] | ItemRow],
        *,
        deadline: timedelta = timedelta(days=1),
    ) -> None:
        self.clock = clock
        self.items = {
            index: Item(replace(one, id=index) if isinstance(one, ItemRow) else ItemRow(index, *one, 0))
            for index, one in enumerate(items, 1)
        }
        self.rows: dict[int, Row] = {}
        self.totals = Totals()
        self.events: list[Event] = []
        #: The fault of `endpoint_failed`, until the endpoint is reached: (code, side, whether of lanes).
        self.trouble: tuple[str, Side, bool] | None = None
        self.protections: list[DataProtection] = []
        self.writes: list[Settlement] = []
        self.status = "ACTIVE"
        self.fatal: tuple[str, str] | None = None
        self.suspended: Fault | None = None
        #: The entries that a mirror would delete, and all of the destination, once it waits for its owner.
        self.unconfirmed: tuple[int, int] | None = None
        self.suspended_at: datetime | None = None
        self.had_credential: datetime | None = None
        self.deadline = clock.now() + deadline
        self.cancel_requested = False
        self.pause_requested = False
        self.next_run_at = clock.now()
        self.connection_failures = 0
        self.epoch = 0
        #: Whether another task writes the same files.
        self.shared_place = False
        self.held = False
        self.knowledge: Mapping[str, object] = {}
        self.runs: list[SliceMeasurement] = []
        self.violations: list[str] = []
        self.pending: dict[int, Row] = {}
        self.missed: dict[tuple[int, str], SkippedSource] = {}
        self._by_key: dict[str, int] = {}

    def lease(self, fuse: Fuse | None = None, latency: float = 0.0) -> MemoryLease:
        """Take the lease from its holder. latency: seconds that each call takes."""
        self.epoch += 1
        self.held = True
        return MemoryLease(self, self.epoch, fuse, latency)

    def file(self, source_path: str) -> Row:
        """The row of this source."""
        return next(row for row in self.rows.values() if row.file.source_path == source_path)

    @property
    def destinations(self) -> set[str]:
        return {row.file.destination_path for row in self.rows.values() if row.file.destination_path is not None}

    def codes(self) -> list[str]:
        return [event.code for event in self.events]

    def count(self, state: State) -> int:
        return sum(row.state is state for row in self.rows.values())

    def add(self, item: ItemRow, found: Sequence[FoundFile]) -> list[FileRow]:
        """Add rows for these; all or nothing."""
        fresh: dict[str, FoundFile] = {}
        for one in found:
            key = one.destination_path if one.destination_path is not None else one.source_path
            known = self._by_key.get(key)
            other = fresh.get(key) or (self.rows[known].file if known else None)
            if other is None:
                fresh[key] = one
            elif other.source_path != one.source_path:
                raise FaultError(make_fault(Kind.AMBIGUOUS_PATH, key, retryable=False))
        rows = []
        for key, one in fresh.items():
            row = FileRow(
                len(self.rows) + 1,
                item.id,
                one.source_path,
                one.destination_path,
                one.size,
                one.kind,
                modified=one.modified,
                link_target=one.link_target,
                checksum=one.checksum,
                absent=one.absent,
            )
            self.rows[row.id] = Row(row, State.SKIPPED if one.skipped else State.PENDING)
            self._by_key[key] = row.id
            self.totals.files += one.kind == 0
            self.totals.bytes_checksummed += one.checksummed
            if one.skipped:
                self.totals.skipped += one.kind == 0
            else:
                self.pending[row.id] = self.rows[row.id]
                rows.append(row)
        return rows

    def settle(self, settled: SettledFile) -> None:
        row = self.rows[settled.file.id]
        if row.state is not State.PENDING:
            self.violations.append(f"settled twice: {settled.file.source_path}")
            return
        row.state = State.SKIPPED if settled.skipped else State.DONE
        del self.pending[row.file.id]
        if settled.new_size is not None:
            row.file = row.file._replace(size=settled.new_size)
        row.file = row.file._replace(checksum=settled.checksum)
        self.totals.bytes_checksummed += settled.checksummed
        if row.file.kind:
            return
        if settled.skipped:
            self.totals.skipped += 1
        else:
            self.totals.transferred += 1
            self.totals.bytes_transferred += settled.bytes

    def note_fault(self, faulted: FaultedFile) -> None:
        row = self.rows[faulted.file.id]
        if row.state is not State.PENDING:
            self.violations.append(f"a fault of a settled file: {faulted.file.source_path}")
            return
        size = row.file.size if faulted.new_size is None else faulted.new_size
        row.file = _with_ranges(row.file, faulted.file, faulted.ranges)
        attempts, last = row.file.attempts + 1, faulted.fault.kind.value
        row.file = row.file._replace(attempts=attempts, size=size, last_fault=last)
        row.fault = faulted.fault
        row.next_try_at = faulted.retry_at
        self._error(faulted.fault, is_error=not faulted.skipped)
        self.totals.bytes_checksummed += faulted.checksummed
        if faulted.retry_at is None:
            row.state = State.SKIPPED if faulted.skipped else State.FAILED
            del self.pending[row.file.id]
            self.totals.files += row.file.kind > 0
            self._give_up(faulted.skipped)

    def note_item_fault(self, faulted: FaultedItem) -> None:
        item = self.items[faulted.item.id]
        if item.scanned:
            self.violations.append(f"a fault of a scanned item: {faulted.item.source_path}")
        item.row = replace(item.row, attempts=item.row.attempts + 1)
        item.fault = faulted.fault
        item.next_try_at = faulted.retry_at
        self._error(faulted.fault, is_error=not faulted.skipped)
        if faulted.retry_at is None:
            item.scanned = item.given_up = True
            self.totals.files += 1
            self._give_up(faulted.skipped)

    def note_missed(self, item: ItemRow, missed: SkippedSource) -> None:
        if self.missed.setdefault((item.id, missed.source_path), missed) is not missed:
            return
        self.totals.files += 1
        self._give_up(skipped=True)
        self._error(missed.fault, is_error=False)

    def _give_up(self, skipped: bool) -> None:
        if skipped:
            self.totals.skipped += 1
            self.totals.skipped_errors += 1
        else:
            self.totals.failed += 1

    def _error(self, fault: Fault, *, is_error: bool) -> None:
        self.totals.faults += is_error
        self.events.append(Event(fault.kind, fault.advice, fault.raw, is_error))


@dataclass(slots=True)
class MemoryLease:
    """The lease of a worker: a TaskStore until another worker takes the lease."""

    store: MemoryStore
    epoch: int
    fuse: Fuse | None = None
    latency: float = 0.0
    #: Files with an id up to this are returned as suspect.
    suspect_up_to: int = 0
    calls: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def _call(self, name: str) -> AsyncIterator[MemoryStore]:
        """One transaction: a worker may die before it, or after it and before it gets the answer."""
        self.calls[name] = self.calls.get(name, 0) + 1
        await asyncio.sleep(self.latency)
        if self.fuse:
            await self.fuse.burn()
        if self.store.epoch != self.epoch or not self.store.held:
            raise LeaseLostError(UUID(int=0), self.epoch)
        yield self.store
        await asyncio.sleep(self.latency)
        if self.fuse:
            await self.fuse.burn()

    async def heartbeat(self) -> HeartbeatReply:
        async with self._call("heartbeat") as store:
            return HeartbeatReply(store.cancel_requested, store.deadline, store.pause_requested)

    async def unscanned(self, limit: int, exclude: Sequence[int] = ()) -> Sequence[ItemRow]:
        async with self._call("unscanned") as store:
            now, without = store.clock.now(), set(exclude)
            items = (item for item in store.items.values() if not item.scanned and item.row.id not in without)
            return list(islice((item.row for item in items if is_due(item.next_try_at, now)), limit))

    async def add_found(self, item: ItemRow, found: Sequence[FoundFile]) -> Sequence[FileRow]:
        async with self._call("add_found") as store:
            return store.add(item, found)

    async def has_found(self, item: ItemRow) -> bool:
        async with self._call("has_found") as store:
            return any(row.file.item_id == item.id for row in store.rows.values())

    async def items(self, after: int, limit: int) -> Sequence[tuple[ItemRow, bool]]:
        async with self._call("items") as store:
            rows = [item.row for item in store.items.values() if item.row.id > after][:limit]
            return [(row, row.destination_path in store.destinations) for row in rows]

    async def known(self, destinations: Sequence[str]) -> Collection[str]:
        async with self._call("known") as store:
            return store.destinations.intersection(destinations)

    async def item_scanned(self, item: ItemRow, directories: int, symlinks: int) -> None:
        async with self._call("item_scanned") as store:
            store.items[item.id].scanned = True
            store.totals.directories += directories
            store.totals.symlinks += symlinks

    async def file_items_scanned(self, found: Sequence[tuple[ItemRow, FoundFile]]) -> Sequence[FileRow]:
        async with self._call("file_items_scanned") as store:
            # All or nothing: the whole batch is checked before anything is kept.
            rows = store.add(found[0][0], [one for _, one in found]) if found else []
            for item, one in found:
                store.items[item.id].scanned = True
                store.totals.symlinks += one.link_target is not None
            return rows

    async def items_faulted(self, faulted: Sequence[FaultedItem]) -> None:
        async with self._call("items_faulted") as store:
            for one in faulted:
                store.note_item_fault(one)

    async def skip_sources(self, item: ItemRow, missed: Sequence[SkippedSource]) -> None:
        async with self._call("skip_sources") as store:
            for one in missed:
                store.note_missed(item, one)

    async def pending(self, limit: int, exclude: Sequence[int]) -> Sequence[FileRow]:
        async with self._call("pending") as store:
            now, without = store.clock.now(), set(exclude)
            due = (
                row.file
                for row in store.pending.values()
                if is_due(row.next_try_at, now) and row.file.id not in without
            )
            files = heapq.nsmallest(limit, due, key=lambda file: (file.size, file.id))
            return [file._replace(suspect=file.id <= self.suspect_up_to) for file in files]

    async def begun(self, limit: int) -> Sequence[FileRow]:
        async with self._call("begun") as store:
            rows = (row.file for row in store.pending.values())
            left = (file._replace(suspect=file.id <= self.suspect_up_to) for file in rows)
            begun = (file for file in left if file.temporary_path or file.ranges or file.suspect)
            return list(islice(begun, limit))

    async def others_write(self) -> bool:
        async with self._call("others_write") as store:
            return store.shared_place

    async def write_temporary_paths(self, files: Sequence[FileRow]) -> None:
        async with self._call("write_temporary_paths") as store:
            for file in files:
                row = store.rows[file.id]
                row.file = row.file._replace(temporary_path=file.temporary_path)

    async def source_changed(self, files: Sequence[FileRow]) -> None:
        async with self._call("source_changed") as store:
            for file in files:
                row = store.rows[file.id]
                row.file = row.file._replace(size=file.size, modified=file.modified, ranges="")

    async def arrived(self, after: int, limit: int) -> Sequence[SettledFile]:
        async with self._call("arrived") as store:
            rows = (
                row.file
                for row in store.rows.values()
                if row.state is State.DONE and after < row.file.id <= self.suspect_up_to and not row.file.absent
            )
            return [SettledFile(file, 0, checksum=file.checksum) for file in islice(rows, limit)]

    async def send_again(self, files: Sequence[FileRow]) -> None:
        async with self._call("send_again") as store:
            for file in files:
                row = store.rows[file.id]
                row.state = State.PENDING
                store.pending[file.id] = row
                store.totals.transferred -= 1

    async def write(self, batch: Settlement) -> None:
        async with self._call("write") as store:
            store.writes.append(batch)
            for settled in batch.settled:
                store.settle(settled)
            for faulted in batch.faulted:
                store.note_fault(faulted)
            for progress in batch.progress:
                row = store.rows[progress.file.id]
                if row.state is State.PENDING:
                    row.file = _with_ranges(row.file, progress.file, progress.ranges)

    async def event(self, code: str, description: str, details: object) -> None:
        async with self._call("event") as store:
            json.dumps(details)
            store.events.append(Event(code, description, details, False))

    async def endpoint_failed(self, fault: Fault, retry_at: datetime, *, lanes: bool = False) -> None:
        async with self._call("endpoint_failed") as store:
            store.events.append(Event(str(fault.kind), f"{fault.side}: {fault.advice}", fault.raw, True))
            store.trouble = (str(fault.kind), fault.side, lanes)

    async def reached(self, sides: Sequence[Side], *, lanes: bool) -> None:
        async with self._call("reached") as store:
            _, side, of_lanes = store.trouble or ("", Side.UNKNOWN, False)
            if (lanes or not of_lanes) and side in (*sides, Side.UNKNOWN):
                store.trouble = None

    async def protected(self, protection: DataProtection) -> None:
        async with self._call("protected") as store:
            store.protections.append(protection)

    async def data_goes(self, way: DataWay) -> None:
        async with self._call("data_goes") as store:
            store.events.append(Event("DATA_WAY", way.why, way.way, False))

    async def counts(self) -> TaskCounts:
        async with self._call("counts") as store:
            return _counts(store)

    async def learn(self, knowledge: Mapping[str, object] | None, run: SliceMeasurement | None) -> None:
        self.calls["learn"] = self.calls.get("learn", 0) + 1
        if knowledge is not None:
            self.store.knowledge = json.loads(json.dumps(knowledge))
        if run is not None:
            self.store.runs.append(run)

    async def finish(self) -> None:
        async with self._call("finish") as store:
            counts, totals = _counts(store), store.totals
            if counts.items_unscanned or counts.files_pending:
                store.violations.append(f"finished with work left: {counts}")
            if totals.files != totals.transferred + totals.skipped + totals.failed:
                store.violations.append(f"the counts do not add up: {totals}")
            if totals.skipped_errors:
                store.events.append(Event("SKIPPED_ERRORS", "Some were passed over.", totals.skipped_errors, False))
            self._end("FAILED" if totals.failed else "SUCCEEDED")

    async def fail(self, code: str, description: str) -> None:
        async with self._call("fail") as store:
            store.fatal = (code, description)
            self._end("FAILED")

    async def suspend(self, fault: Fault, had_credential: datetime | None) -> None:
        async with self._call("suspend") as store:
            store.suspended = fault
            store.suspended_at = store.clock.now()
            store.had_credential = had_credential
            self._end("INACTIVE")

    async def ask_deletion(self, extra: int, total: int) -> None:
        async with self._call("ask_deletion") as store:
            store.unconfirmed = extra, total
            self._end("INACTIVE")

    async def wait_for_agent(self, fault: Fault, look_at: datetime, connection_failures: int = 0) -> None:
        async with self._call("wait_for_agent") as store:
            if store.trouble is None or store.trouble[:2] != (fault.kind, fault.side):
                store.events.append(Event(str(fault.kind), f"{fault.side}: {fault.advice}", "", False))
            store.trouble = (str(fault.kind), fault.side, False)
            store.next_run_at = look_at
            store.held = False

    async def release(self, next_run_at: datetime | None, connection_failures: int = 0) -> None:
        async with self._call("release") as store:
            store.next_run_at = next_run_at or store.next_run_at
            store.connection_failures = connection_failures
            store.held = False

    def _end(self, status: str) -> None:
        self.store.status = status
        self.store.held = False


def _with_ranges(kept: FileRow, given: FileRow, ranges: str) -> FileRow:
    """The row with new ranges; they are recorded together with the name under which they lie."""
    return kept._replace(ranges=ranges, temporary_path=given.temporary_path if ranges else kept.temporary_path)


def _counts(store: MemoryStore) -> TaskCounts:
    items = [item.next_try_at for item in store.items.values() if not item.scanned]
    files = [row.next_try_at for row in store.pending.values()]
    tries = [at for at in (*items, *files) if at is not None]
    return TaskCounts(
        len(items), len(files), store.totals.failed, min(tries, default=None), store.totals.skipped_errors
    )
