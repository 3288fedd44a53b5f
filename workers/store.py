"""The engine's TaskStore on PostgreSQL: each call is one short transaction, in a thread of a small pool."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side, make_fault
from endpoints.gridftp.ranges import RangeSet
from transferapi.tasks import errors, history, leases, protection, settling, troubles, work
from transferapi.tasks.events import NewEvent
from transferapi.tasks.rows import (
    FaultedFile,
    FaultedItem,
    FileFacts,
    ItemFacts,
    MissedFile,
    MovedBytes,
    NewFile,
    ProtectionFacts,
    RunFacts,
    SettledFile,
    Settlement,
    Trouble,
)
from workers.engine.bounds import Bounds
from workers.engine.ports import (
    Batch,
    Checksum,
    Counts,
    EndpointRef,
    Faulted,
    FileRow,
    Found,
    ItemFaulted,
    ItemRow,
    LeaseLostError,
    Missed,
    Protection,
    Pulse,
    Run,
    TaskSpec,
    TooMuchError,
)

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

#: Each keeps a connection to the database.
THREADS = 4
#: Seconds for which a call goes on trying to reach the database; then the lease has run out anyway.
PATIENCE = leases.TTL.total_seconds()
RETRY_SECONDS = 0.2
#: Seconds after which a thread asks whether its idle connection is still good, and too old to keep.
CHECK_SECONDS = 10.0

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="store")
_checked = threading.local()


def close_connections() -> None:
    """Make every thread give its connection back; the next call makes a new one. For tests, and before a fork."""
    everyone = threading.Barrier(THREADS)

    def close() -> None:
        everyone.wait(PATIENCE)
        connection.close()

    for closing in [_threads.submit(close) for _ in range(THREADS)]:
        closing.result()


def bounds() -> Bounds:
    """What a task may see and remember."""
    limits = settings.LIMITS
    return Bounds(limits.task_files, 4 * limits.task_files, limits.scan_memory)


def task_spec(grant: leases.Grant) -> TaskSpec:
    """What the engine is told of the task."""
    return TaskSpec(
        task_id=str(grant.task_id),
        is_delete=grant.is_delete,
        source=_endpoint(grant.source),
        destination=grant.destination and _endpoint(grant.destination),
        options=grant.options,
        max_sessions=grant.sessions,
        suspect_up_to=grant.suspect_up_to,
        started=grant.started,
        connection_failures=grant.connection_failures,
        knowledge=grant.knowledge,
        troubled=grant.troubled,
        warned=grant.told,
    )


def _endpoint(end: leases.End) -> EndpointRef:
    return EndpointRef(
        str(end.id),
        end.name,
        host_id=str(end.host_id),
        root=end.root,
        max_concurrency=end.max_concurrency,
        preferred_concurrency=end.preferred_concurrency,
        max_parallelism=end.max_parallelism,
        preferred_parallelism=end.preferred_parallelism,
    )


class PostgresTaskStore:
    """`workers.engine.ports.TaskStore` for the task of this grant; all stores of a process share their threads.

    beats: done with each heartbeat, in a thread with a connection to the database.
    """

    def __init__(self, grant: leases.Grant, beats: Sequence[Callable[[], None]] = ()) -> None:
        self._grant = grant
        self._beats = beats
        self._compares = grant.options.get("sync_level") is not None

    async def heartbeat(self) -> Pulse:
        pulse = Pulse(*await self._call(leases.heartbeat))
        for beat in self._beats:
            await in_a_thread(beat)
        return pulse

    async def unscanned(self, limit: int, exclude: Sequence[int] = ()) -> list[ItemRow]:
        return [_item_row(item) for item in await self._call(work.unscanned, limit, exclude)]

    async def add_found(self, item: ItemRow, found: Sequence[Found]) -> list[FileRow]:
        rows = [_new_file(item, file) for file in found]
        return self._files(await self._call(work.add_found, rows, durable=self._compares))

    async def has_found(self, item: ItemRow) -> bool:
        return await self._call(work.has_found, item.id)

    async def items(self, after: int, limit: int) -> list[tuple[ItemRow, bool]]:
        return [(_item_row(item), is_file) for item, is_file in await self._call(work.items, after, limit)]

    async def known(self, destinations: Sequence[str]) -> set[str]:
        return await self._call(work.known, destinations)

    async def item_scanned(self, item: ItemRow, directories: int, symlinks: int) -> None:
        await self._call(work.item_scanned, item.id, directories, symlinks)

    async def file_items_scanned(self, found: Sequence[tuple[ItemRow, Found]]) -> list[FileRow]:
        rows = [_new_file(*pair) for pair in found]
        return self._files(await self._call(work.file_items_scanned, rows, durable=self._compares))

    async def items_faulted(self, faulted: Sequence[ItemFaulted]) -> None:
        rows = [FaultedItem(_item(one.item), _trouble(one.fault), one.retry_at, one.skipped) for one in faulted]
        await self._call(settling.items_faulted, rows)

    async def pass_over(self, item: ItemRow, missed: Sequence[Missed]) -> None:
        rows = [
            MissedFile(item.id, one.source_path, one.destination_path, one.kind, _trouble(one.fault)) for one in missed
        ]
        await self._call(settling.pass_over, rows)

    async def pending(self, limit: int, exclude: Sequence[int]) -> list[FileRow]:
        return self._files(await self._call(work.pending, limit, exclude))

    async def begun(self, limit: int) -> list[FileRow]:
        return self._files(await self._call(work.begun, limit))

    async def write_temporary_paths(self, files: Sequence[FileRow]) -> None:
        await self._call(work.write_temporary_paths, [(file.id, file.temporary_path) for file in files])

    async def write(self, batch: Batch) -> None:
        await self._call(settling.write, _settlement(batch))

    async def event(self, code: str, description: str, details: object, *, is_error: bool = False) -> None:
        await self._call(work.event, NewEvent(code, description, details, is_error))

    async def endpoint_failed(self, fault: Fault, retry_at: datetime, *, lanes: bool = False) -> None:
        await self._call(troubles.endpoint_failed, _trouble(fault), retry_at, lanes=lanes)

    async def reached(self, sides: Sequence[Side], *, lanes: bool) -> None:
        await self._call(troubles.reached, tuple(str(side) for side in sides), lanes=lanes)

    async def protected(self, held: Protection) -> None:
        facts = ProtectionFacts(held.level, str(held.side), held.why, held.remedy, held.raw)
        await self._call(protection.note, facts)

    async def counts(self) -> Counts:
        return Counts(*await self._call(work.tally))

    async def learn(self, knowledge: Mapping[str, object] | None, run: Run | None) -> None:
        facts = None if run is None else RunFacts(*(getattr(run, name) for name in RunFacts._fields))
        await self._call(lambda task_id, _: history.learn(task_id, knowledge, facts))

    async def finish(self) -> None:
        await self._call(work.finish)

    async def fail(self, code: str, description: str) -> None:
        await self._call(work.fail, code, description)

    async def suspend(self, fault: Fault, had_credential: datetime | None) -> None:
        await self._call(work.suspend, _trouble(fault), had_credential)

    async def release(self, next_run_at: datetime, connection_failures: int = 0) -> None:
        await self._call(work.release, next_run_at, connection_failures)

    def _files(self, rows: Sequence[FileFacts]) -> list[FileRow]:
        last = self._grant.suspect_up_to
        return [_file_row(row, suspect=row.id <= last) for row in rows]

    async def _call(self, function: Callable[Concatenate[UUID, int, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it in a thread, with the errors of the ports."""
        task_id, epoch = self._grant.task_id, self._grant.epoch

        def run() -> R:
            return on_a_connection(lambda: function(task_id, epoch, *args, **kwargs))

        try:
            return await asyncio.get_running_loop().run_in_executor(_threads, run)
        except errors.LeaseLostError:
            raise LeaseLostError(f"task {task_id}, epoch {epoch}") from None
        except errors.TooMuchError as error:
            raise TooMuchError(error.reason) from None
        except errors.AmbiguousPathError as error:
            raise FaultError(_ambiguous(error.path)) from None


async def in_a_thread(function: Callable[[], R]) -> R:
    """Call it in one of the store's threads, with its connection to the database."""
    return await asyncio.get_running_loop().run_in_executor(_threads, on_a_connection, function)


def on_a_connection(function: Callable[[], R]) -> R:
    """Call it on this thread's connection, and again on a new one while the database is away for a moment.

    One whose answer was lost on the way may have been done already: every call here may be done twice, but for
    an event or a run, which is then told twice, and the end of a task, which then finds its lease gone.
    """
    give_up = time.monotonic() + PATIENCE
    if time.monotonic() - getattr(_checked, "at", 0.0) > CHECK_SECONDS:
        close_old_connections()
    while True:
        try:
            answer = function()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > give_up:
                raise
            log.warning("the database does not answer: %s", type(error).__name__)
            connection.close()
            time.sleep(RETRY_SECONDS)
        else:
            _checked.at = time.monotonic()
            return answer


def _new_file(item: ItemRow, found: Found) -> NewFile:
    return NewFile(
        item.id,
        found.source_path,
        found.destination_path,
        found.size,
        found.modified,
        found.kind,
        found.skipped,
        found.link_target,
        found.checksum and found.checksum.algorithm,
        (found.checksum and found.checksum.value) or None,
        found.checksummed,
    )


def _file_row(row: FileFacts, *, suspect: bool) -> FileRow:
    checksum = Checksum(row.checksum_algorithm, row.checksum or "") if row.checksum_algorithm else None
    return FileRow(*row[:9], suspect, row.modified, row.link_target, checksum)


def _item_row(item: ItemFacts) -> ItemRow:
    algorithm, value = (item.extra.get(name) for name in ("checksum_algorithm", "external_checksum"))
    checksum = Checksum(str(algorithm), str(value or "")) if algorithm else None
    return ItemRow(*item[:5], checksum, bool(item.extra.get("symlink")))


def _item(item: ItemRow) -> ItemFacts:
    return ItemFacts(item.id, item.source_path, item.destination_path, item.recursive, item.attempts, {})


def _trouble(fault: Fault) -> Trouble:
    return Trouble(str(fault.kind), str(fault.side), fault.advice, fault.raw, fault.server)


def _settlement(batch: Batch) -> Settlement:
    return Settlement(
        settled=[
            SettledFile(
                one.file.id,
                one.skipped,
                one.new_size,
                one.checksum and one.checksum.algorithm,
                one.checksum and one.checksum.value,
                one.checksummed,
            )
            for one in batch.settled
        ],
        faulted=[_faulted(one) for one in batch.faulted],
        moved=[MovedBytes(one.file.id, one.ranges, one.bytes) for one in batch.progress],
    )


def _faulted(one: Faulted) -> FaultedFile:
    path = one.file.source_path if one.fault.side is not Side.DESTINATION else one.file.destination_path
    on_disk = RangeSet.parse(one.ranges).total if one.ranges else 0
    return FaultedFile(
        id=one.file.id,
        path=path or one.file.source_path,
        trouble=_trouble(one.fault),
        retry_at=one.retry_at,
        ranges=one.ranges,
        bytes_done=on_disk,
        new_size=one.new_size,
        skipped=one.skipped,
        checksummed=one.checksummed,
    )


def _ambiguous(path: str) -> Fault:
    advice = "Two sources would be written to this path; change one of the items."
    fault = make_fault(Kind.AMBIGUOUS_PATH, path, side=Side.DESTINATION, retryable=False)
    return Fault(fault.kind, fault.side, fault.retryable, fault.scope, advice, fault.raw)
