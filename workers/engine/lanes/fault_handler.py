"""The consequences of a fault of a file or of a lane: retry, failure, or another lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from endpoints.gridftp.faults import Fault, FaultScope, Kind
from endpoints.gridftp.third_party.slots import FileRefused
from transferapi.tasks.records import FaultedFile, FileRow, PartialFile
from workers.engine.queue.file_queue import FileQueue
from workers.engine.queue.queue_feeder import QueueFeeder
from workers.engine.retry import Fail, PassOver, Retry, Wait, unless_changing
from workers.engine.settle.arrival import octets
from workers.engine.settle.settlement_writer import SettlementWriter
from workers.engine.work import SliceContext

from .background_tasks import BackgroundTasks
from .suspect_files import SuspectFiles

#: Kinds with which a server refuses to rename a file at all, and with which another try would end.
RENAME_REFUSALS = frozenset({Kind.PERMISSION_DENIED, Kind.UNSUPPORTED, Kind.PATH_EXISTS})


@dataclass(slots=True)
class ReturnedFiles:
    """Files that a lane returned unsettled, by the way in which they are sent again."""

    #: Nothing of them is at the destination.
    fresh: list[FileRow] = field(default_factory=list)
    #: Progress is recorded, and the lane may have removed their octets when it was drained.
    partial: list[FileRow] = field(default_factory=list)
    #: A server process may still write them.
    suspect: list[FileRow] = field(default_factory=list)


class FaultHandler:
    """Decides what follows from a fault, and records the decision."""

    def __init__(
        self,
        work: SliceContext,
        file_queue: FileQueue,
        feeder: QueueFeeder,
        settlement_writer: SettlementWriter,
        background: BackgroundTasks,
        suspects: SuspectFiles,
    ) -> None:
        self._work = work
        self._file_queue = file_queue
        self._feeder = feeder
        self._settlement_writer = settlement_writer
        self._background = background
        self._suspects = suspects

    def file_refused(self, file: FileRow, refused: FileRefused, *, lane_alive: bool) -> None:
        """Handle a file that met a fault in a lane."""
        file, fault = file._replace(begun=refused.begun or file.begun), refused.fault
        if refused.unnamed and fault.kind in RENAME_REFUSALS and not self._feeder.renames_all:
            self._background.start(self._write_in_place(file, fault))
            return
        if fault.scope is not FaultScope.FILE:
            self._work.connection_failed()
        # A lane that is alive has been drained: no server process writes this file any more.
        if not lane_alive and not refused.trusted:
            self._suspects.add([file])
            self._background.start(self._rename_then_fault(file, fault))
        else:
            self.file_faulted(file, fault, ranges=refused.trusted.format() if refused.trusted else "")

    def files_returned(self, returned: ReturnedFiles) -> None:
        """Send again the files that a lane returned through no fault of their own."""
        if returned.suspect:
            self._suspects.add(returned.suspect)
            self._background.start(self._rename_and_send(returned.suspect))
        if returned.partial:
            self._background.start(self._send_from_start(returned.partial))
        if returned.fresh:
            self._send_again(returned.fresh)

    def file_faulted(
        self, file: FileRow, fault: Fault, *, ranges: str = "", new_size: int | None = None, checksummed: int = 0
    ) -> None:
        """Record the decision about this file. One that needs a new credential, or an absent agent, stays as it is."""
        fault = unless_changing(fault, file.attempts, file.last_fault)
        decision = self._work.decide(fault, file.attempts)
        if isinstance(decision, Retry):
            self._settlement_writer.fault(
                FaultedFile(file, fault, decision.at, ranges, new_size, checksummed=checksummed)
            )
        elif isinstance(decision, Wait) and ranges:
            self._settlement_writer.progress(PartialFile(file, ranges, octets(ranges)))
        elif isinstance(decision, Fail | PassOver):
            passed_over = isinstance(decision, PassOver)
            lost = FaultedFile(file, fault, None, "", new_size, passed_over, checksummed)
            left = file._replace(ranges=ranges or file.ranges)
            self._background.start(self._give_up(lost, [] if self._feeder.untouched(left) else [left]))

    def arrived_file_faulted(self, file: FileRow, fault: Fault, **details: Any) -> None:
        """`file_faulted` for a file that arrived completely and is wrong."""
        self.file_faulted(file._replace(begun=True), fault, **details)

    def _send_again(self, files: Sequence[FileRow]) -> None:
        self._file_queue.put_back(files)
        self._work.more_to_do()

    async def _rename_and_send(self, files: Sequence[FileRow]) -> None:
        self._send_again(await self._suspects.rename(files))

    async def _send_from_start(self, files: Sequence[FileRow]) -> None:
        """Send these files again from the start: a drained lane may have removed what was written of them."""
        await self._settlement_writer.delete_progress(files)
        self._send_again([file._replace(ranges="") for file in files])

    async def _write_in_place(self, file: FileRow, fault: Fault) -> None:
        """The server does not rename: the next attempt writes the file under its real name."""
        self.file_faulted(await self._feeder.refused_name(file), fault)

    async def _rename_then_fault(self, file: FileRow, fault: Fault) -> None:
        """Rename the file first: a server process may still be writing under the old name."""
        (renamed,) = await self._suspects.rename([file])
        self.file_faulted(renamed, fault)

    async def _give_up(self, lost: FaultedFile, left: Sequence[FileRow]) -> None:
        """Remove the partial files before the result is written: after that, no row names them."""
        await self._feeder.remove(await self._feeder.partials(left))
        self._settlement_writer.fault(lost)
