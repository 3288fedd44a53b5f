"""Requests about single files that cannot continue before their size on the servers is known."""

from __future__ import annotations

import asyncio

from endpoints.gridftp.facts import Entry
from endpoints.gridftp.faults import Fault, FaultError, Kind, Side, make_fault
from endpoints.gridftp.third_party.slots import FileRefused
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import FileRow, SettledFile
from workers.engine.control_sessions import UnreachableError
from workers.engine.queue.file_queue import FileQueue
from workers.engine.scan.comparison import entry_at
from workers.engine.settle.arrival import LATER, can_continue, compare_sizes, octets, same_entry, same_version
from workers.engine.settle.checksums import common_algorithm
from workers.engine.settle.post_transfer import PostTransfer
from workers.engine.work import SliceContext

from .fault_handler import FaultHandler
from .suspect_files import SuspectFiles

STORED_ELSEWHERE = (
    "The server has confirmed the file, and the entry of this name has the size and time of before: it has stored the "
    "new file under another name (AutoRename of Pure-FTPd), or not at all. Remove or rename the old one, or choose "
    "another folder."
)


def _stored_elsewhere(before: Entry) -> Fault:
    """The fault of a file whose entry has stayed as it was before the transfer."""
    time = f", modified at {before.modified:%Y-%m-%d %H:%M:%S} UTC" if before.modified else ""
    raw = f"as before the transfer: {before.size} octets{time}"
    return Fault(Kind.ENDPOINT_ERROR, Side.DESTINATION, retryable=False, advice=STORED_ELSEWHERE, raw=raw)


class FileInspector:
    """Compares files with the servers, then passes each on: to the queue, to post-transfer steps, or as a fault."""

    def __init__(
        self,
        work: SliceContext,
        file_queue: FileQueue,
        suspects: SuspectFiles,
        faults: FaultHandler,
        post_transfer: PostTransfer,
    ) -> None:
        self._work = work
        self._file_queue = file_queue
        self._suspects = suspects
        self._faults = faults
        self._post_transfer = post_transfer

    async def check_partial(self, file: FileRow) -> None:
        """Check that a partial file can be continued; else it is sent from the start.

        Restarting one that was removed or renamed leaves a hole, and one whose source is another version by now mixes
        the two.
        """
        try:
            source, there = await asyncio.gather(
                self._work.control_sessions.stat(Side.SOURCE, file.source_path), self._partial_at_destination(file)
            )
        except UnreachableError as error:
            await self._work.unreachable(error.fault)
            self._faults.file_faulted(file, error.fault, ranges=file.ranges)
            return
        except FaultError as error:
            self._faults.file_faulted(file, error.fault, ranges=file.ranges)
            return
        if not same_version(file, source):
            await self._send_new_version(file, source)
        elif there is None or not can_continue(file, there.size):
            self._file_queue.put_back(await self._suspects.rename([file]))
        elif not file.temporary_path and await self._work.store.others_write():
            # The real name may belong to a file of another task by now: it is neither continued nor removed.
            self._file_queue.put_back(await self._suspects.rename([file._replace(ranges="", begun=False)]))
        elif octets(file.ranges) == file.size and not file.temporary_path:
            self._post_transfer.accept(SettledFile(file, 0))
        else:
            self._file_queue.put_back([file])
        self._work.more_to_do()

    async def _partial_at_destination(self, file: FileRow) -> Entry | None:
        """Raises FaultError."""
        return await entry_at(
            self._work.control_sessions, Side.DESTINATION, file.temporary_path or file.destination_path or ""
        )

    async def _send_new_version(self, file: FileRow, source: Entry) -> None:
        """Send the source as it is now from the start; the row gets its size and time first."""
        now = file._replace(size=source.size, modified=source.modified)
        (renamed,) = await self._suspects.rename([now])
        await self._work.store.source_changed([renamed])
        details = f"{file.source_path}: {file.size} octets before, {source.size} now"
        text = Sentence("A source has changed since a part of it was sent: it is sent from the start.")
        await self._work.store.event("PROGRESS", text, details)
        self._file_queue.put_back([renamed])

    async def check_size(self, file: FileRow, received: int | None, before: Entry | None) -> None:
        """Compare the sizes on both sides after both reported success, with a size that the scan did not see, or over
        an entry of the same size.

        before: the entry that the file was written over, as it was then. Where it has stayed as it was, the checksums
        must agree: servers confirm a file, too, that they have stored under another name.
        """
        try:
            source, destination = await asyncio.gather(
                self._work.control_sessions.stat(Side.SOURCE, file.source_path),
                self._work.control_sessions.stat(Side.DESTINATION, file.destination_path or ""),
            )
            if destination.size < source.size or (before and same_entry(before, destination)):
                # Some servers confirm a file before all of it is stored.
                await self._work.clock.sleep(LATER)
                destination = await self._work.control_sessions.stat(Side.DESTINATION, file.destination_path or "")
        except FaultError as error:
            self._not_found(file, error.fault)
            return
        if before and same_entry(before, destination) and (fault := await self._not_written(file, source, before)):
            # The entry is not this task's: it is not removed with the file.
            self._faults.file_faulted(file._replace(begun=False), fault)
            return
        outcome = compare_sizes(file, received, source.size, destination.size)
        if isinstance(outcome, SettledFile):
            self._post_transfer.accept(outcome)
        else:
            changed = make_fault(Kind.FILE_SIZE_CHANGED, outcome, side=Side.SOURCE)
            self._faults.arrived_file_faulted(file, changed, new_size=source.size)

    async def check_refused(self, file: FileRow, refused: FileRefused, before: Entry, *, lane_alive: bool) -> None:
        """Find out whether a file has the wrong size at its destination because its entry has stayed as it was."""
        await self._work.clock.sleep(LATER)
        try:
            destination = await entry_at(self._work.control_sessions, Side.DESTINATION, file.destination_path or "")
        except FaultError:
            destination = None  # the next try shows it
        if destination and same_entry(before, destination):
            self._faults.file_faulted(file._replace(begun=False), _stored_elsewhere(before))
        else:
            self._faults.file_refused(file, refused, lane_alive=lane_alive)

    async def _not_written(self, file: FileRow, source: Entry, before: Entry) -> Fault | None:
        """The fault of a file whose entry has stayed as it was; None if the checksums of both sides agree."""
        if source.size != before.size:
            return _stored_elsewhere(before)
        sessions = self._work.control_sessions
        try:
            one, other = await sessions.session(Side.SOURCE), await sessions.session(Side.DESTINATION)
            algorithm = common_algorithm(one.algorithms, other.algorithms)
            here, there = await asyncio.gather(
                sessions.ask(Side.SOURCE, lambda session: session.checksum(file.source_path, algorithm)),
                sessions.ask(
                    Side.DESTINATION, lambda session: session.checksum(file.destination_path or "", algorithm)
                ),
            )
        except FaultError as error:
            return _stored_elsewhere(before) if error.fault.kind is Kind.UNSUPPORTED else error.fault
        return None if here.lower() == there.lower() else _stored_elsewhere(before)

    def _not_found(self, file: FileRow, fault: Fault) -> None:
        """Handle the fault of a look at an arrived file. Some servers confirm a new name, and do not give it."""
        unnamed = file.temporary_path is not None and fault.side is Side.DESTINATION
        if unnamed and fault.kind is Kind.FILE_NOT_FOUND:
            refused = FileRefused(file, fault, None, unnamed=True)
            self._faults.file_refused(file, refused, lane_alive=True)
        else:
            self._faults.arrived_file_faulted(file, fault)
