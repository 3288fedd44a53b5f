"""Requests about single files that cannot continue before their size on the servers is known."""

from __future__ import annotations

import asyncio

from endpoints.gridftp.faults import FaultError, Kind, Side, make_fault
from transferapi.tasks.records import FileRow, SettledFile
from workers.engine.control_sessions import UnreachableError
from workers.engine.queue.file_queue import FileQueue
from workers.engine.queue.queue_feeder import QueueFeeder
from workers.engine.settle.arrival import can_continue, compare_sizes, octets
from workers.engine.settle.post_transfer import PostTransfer
from workers.engine.work import SliceContext

from .fault_handler import FaultHandler
from .suspect_files import SuspectFiles


class FileInspector:
    """Compares files with the servers, then passes each on: to the queue, to post-transfer steps, or as a fault."""

    def __init__(
        self,
        work: SliceContext,
        file_queue: FileQueue,
        feeder: QueueFeeder,
        suspects: SuspectFiles,
        faults: FaultHandler,
        post_transfer: PostTransfer,
    ) -> None:
        self._work = work
        self._file_queue = file_queue
        self._feeder = feeder
        self._suspects = suspects
        self._faults = faults
        self._post_transfer = post_transfer

    async def check_partial(self, file: FileRow) -> None:
        """Check that a partial file can be continued: restarting one that was removed or renamed leaves a hole."""
        path = file.temporary_path or file.destination_path or ""
        try:
            there = await self._work.control_sessions.stat(Side.DESTINATION, path)
            good = can_continue(file, there.size)
        except UnreachableError as error:
            await self._work.unreachable(error.fault)
            self._faults.file_faulted(file, error.fault, ranges=file.ranges)
            return
        except FaultError as error:
            if error.fault.kind is not Kind.FILE_NOT_FOUND:
                self._faults.file_faulted(file, error.fault, ranges=file.ranges)
                return
            good = False
        if good and self._feeder.aside and not file.temporary_path:
            # It has its final name, which no lane writes: either it is complete, or it is sent from the start.
            if there.size == file.size == octets(file.ranges):
                self._post_transfer.accept(SettledFile(file, 0))
                return
            good = False
        self._file_queue.put_back([file] if good else await self._suspects.rename([file]))
        self._work.more_to_do()

    async def check_size(self, file: FileRow, received: int | None) -> None:
        """Compare the sizes on both sides after both reported success with a size that the scan did not see."""
        try:
            source, destination = await asyncio.gather(
                self._work.control_sessions.stat(Side.SOURCE, file.source_path),
                self._work.control_sessions.stat(Side.DESTINATION, file.destination_path or ""),
            )
        except FaultError as error:
            self._faults.arrived_file_faulted(file, error.fault)
            return
        outcome = compare_sizes(file, received, source.size, destination.size)
        if isinstance(outcome, SettledFile):
            self._post_transfer.accept(outcome)
        else:
            changed = make_fault(Kind.FILE_SIZE_CHANGED, outcome, side=Side.SOURCE)
            self._faults.arrived_file_faulted(file, changed, new_size=source.size)
