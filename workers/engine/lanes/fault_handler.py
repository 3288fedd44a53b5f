"""The consequences of a fault of a file or of a lane: retry, failure, or another lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from endpoints.gridftp.faults import Fault, FaultScope, Kind, Side
from endpoints.gridftp.third_party.slots import FileRefused
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import FaultedFile, FileRow, PartialFile
from workers.engine.queue.file_queue import FileQueue
from workers.engine.queue.queue_feeder import QueueFeeder
from workers.engine.retry import Fail, PassOver, Retry, Wait, unless_changing
from workers.engine.settle.arrival import octets
from workers.engine.settle.settlement_writer import SettlementWriter
from workers.engine.work import SliceContext

from .background_tasks import BackgroundTasks
from .suspect_files import SuspectFiles

#: Kinds with which a server refuses the name that a file is written under, or to rename it. Many servers name no cause
#: (UNKNOWN), and some do not show a name that begins with a dot (FILE_NOT_FOUND).
NAME_REFUSALS = frozenset({Kind.PERMISSION_DENIED, Kind.UNSUPPORTED, Kind.INVALID_PATH_NAME, Kind.UNKNOWN})
RENAME_REFUSALS = NAME_REFUSALS | {Kind.PATH_EXISTS, Kind.FILE_NOT_FOUND}
WRITTEN_IN_PLACE = Sentence(
    "The destination refuses the names of files on their way: they are written under their real names."
)


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
        self._noted_refusal = False

    def file_refused(self, file: FileRow, refused: FileRefused, *, lane_alive: bool) -> None:
        """Handle a file that met a fault in a lane."""
        file, fault = file._replace(begun=refused.begun or file.begun), refused.fault
        if fault.scope is not FaultScope.FILE:
            self._work.connection_failed()
        if self._may_be_the_name(file, refused):
            self._background.start(self._write_in_place(file, refused))
            return
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

    def _may_be_the_name(self, file: FileRow, refused: FileRefused) -> bool:
        """Whether the server may refuse only the name that the file has on its way: then its own name is tried.

        A refusal to open a file without a cause is tried once more first: it may be over at another time.
        """
        fault = refused.fault
        if self._feeder.renames_all:
            return False
        if refused.unnamed:
            return fault.kind in RENAME_REFUSALS
        opened = file.temporary_path is not None and fault.side is Side.DESTINATION and not refused.trusted
        return opened and fault.kind in NAME_REFUSALS and (fault.kind is not Kind.UNKNOWN or file.attempts > 0)

    async def _write_in_place(self, file: FileRow, refused: FileRefused) -> None:
        """Send the file again under its real name at once: another slice would try the temporary one first."""
        fault = refused.fault
        named = await self._feeder.refused_name(file, fault.kind, arrived=refused.unnamed)
        if not self._noted_refusal:
            self._noted_refusal = True
            await self._work.store.event("PROGRESS", WRITTEN_IN_PLACE, f"{file.temporary_path}: {fault.raw}")
        self._send_again([named])

    async def _rename_then_fault(self, file: FileRow, fault: Fault) -> None:
        """Rename the file first: a server process may still be writing under the old name."""
        (renamed,) = await self._suspects.rename([file])
        self.file_faulted(renamed, fault)

    async def _give_up(self, lost: FaultedFile, left: Sequence[FileRow]) -> None:
        """Remove the partial files before the result is written: after that, no row names them."""
        await self._feeder.remove(await self._feeder.partials(left))
        self._settlement_writer.fault(lost)
