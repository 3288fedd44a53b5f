"""Opens the lanes of a slice, feeds them, handles their events, and replaces lost ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from endpoints.gridftp.faults import Kind
from endpoints.gridftp.ranges import RangeSet
from endpoints.gridftp.third_party.slots import FileEvent, FileProgress, FileRefused, FileReturned, FileSettled
from transferapi.tasks.records import FileRow, PartialFile, SettledFile
from workers.engine.queue.file_queue import FileQueue
from workers.engine.queue.queue_feeder import QueueFeeder
from workers.engine.scan.links import make_links
from workers.engine.settle.arrival import moved_now
from workers.engine.settle.post_transfer import PostTransfer
from workers.engine.settle.settlement_writer import SettlementWriter
from workers.engine.tuning.plan import Plan
from workers.engine.tuning.tuner import Tuner
from workers.engine.work import LONGEST_WAIT, SliceContext, cancel_all

from .background_tasks import BackgroundTasks
from .counter import TransferCounter
from .fault_handler import FaultHandler, ReturnedFiles
from .file_inspector import FileInspector
from .lane_pool import LanePool, LaneSlot
from .plan_monitor import PlanMonitor
from .suspect_files import SuspectFiles

#: Seconds that few small files wait for the scan to find more, before they get a plan.
DECIDE_AFTER = 0.3
#: The number of waiting files that is reported while the real number is unknown.
MANY = 1_000_000


class LaneManager:
    """A FileProcessor with one worker coroutine for each lane. Lanes without work are parked in the pool."""

    def __init__(
        self,
        work: SliceContext,
        file_queue: FileQueue,
        feeder: QueueFeeder,
        settlement_writer: SettlementWriter,
        tuner: Tuner,
    ) -> None:
        self.counter = TransferCounter()
        self._work = work
        self._file_queue = file_queue
        self._feeder = feeder
        self._settlement_writer = settlement_writer
        self._lane_workers: dict[int, asyncio.Task[None]] = {}
        self._lane_slots: dict[int, LaneSlot] = {}
        self._background = BackgroundTasks(work, self._flush_if_last)
        self._suspects = SuspectFiles(feeder, settlement_writer)
        self._faults = FaultHandler(work, file_queue, feeder, settlement_writer, self._background, self._suspects)
        self._post_transfer = PostTransfer(work, settlement_writer, self._faults.arrived_file_faulted)
        self._inspector = FileInspector(work, file_queue, self._suspects, self._faults, self._post_transfer)
        self._lane_pool = LanePool(work, tuner, self.counter)
        self._plan_monitor = PlanMonitor(
            work, file_queue, tuner, self.counter, self._background, self._lane_slots, self._waiting
        )
        #: Files under way whose beginning is on the destination's disk: they can be continued.
        self._on_disk: set[int] = set()
        self._fetching: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._closed_to_new = False
        self._scanning = False
        work.spawn(self._plan_monitor.run())

    @property
    def idle(self) -> bool:
        moving = any(lane_slot.under_way for lane_slot in self._lane_slots.values())
        return not (moving or self._background) and self._post_transfer.idle

    @property
    def announced(self) -> Plan | None:
        """The plan that the user was shown last."""
        return self._plan_monitor.announced

    @property
    def left_behind(self) -> Sequence[FileRow]:
        """Files that were under way when the slice ended, and that have no new name."""
        return self._suspects.left_behind

    def start_work(self) -> None:
        """Start as many lane workers as have something to do; fetch more files when few are left."""
        if self._closed_to_new or self._work.seconds_blocked() > LONGEST_WAIT:
            return
        self._post_transfer.resume()
        self._start_background()
        wanted = min(self._file_queue.lanes_wanted(), self._work.spec.most_lanes)
        for index in range(wanted):
            # Where a server is full, another worker has the lane that this one would need.
            if index not in self._lane_workers and len(self._lane_workers) < self._lane_pool.allowed(wanted):
                self._post_transfer.prepare()
                self._lane_workers[index] = self._work.spawn(self._lane_worker(index))

    def set_scanning(self, running: bool) -> None:
        self._scanning = running
        if running:
            self._lane_pool.open_ahead()
        else:
            self._file_queue.decided = True
            self._work.more_to_do()

    async def is_possible(self) -> bool:
        """See `LanePool.open_first` and `Verifier.is_possible`."""
        return await self._lane_pool.open_first() and await self._post_transfer.is_possible()

    def stop_feeding(self) -> None:
        self._closed_to_new = True

    async def drain(self) -> None:
        """Start no more files, and wait for work that another slice would have to begin again."""
        self._closed_to_new = True
        await self._post_transfer.drain()

    async def abort(self, *, rename_suspects: bool) -> None:
        self._closed_to_new = True
        await cancel_all([*self._lane_workers.values(), *self._background.running])
        await self._post_transfer.abort()
        lane_slots = list(self._lane_slots.values())
        begun = {row.id for lane_slot in lane_slots for row in lane_slot.lane.begun}
        await asyncio.gather(self._lane_pool.close(lane_slots), self._lane_pool.abort())
        for lane_slot in lane_slots:
            lost = [row for row in lane_slot.under_way.values() if not row.ranges and row.id not in self._on_disk]
            self._suspects.add(row._replace(begun=True) if row.id in begun else row for row in lost)
        self._lane_slots.clear()
        await self._suspects.close(rename=rename_suspects)

    # ---- background tasks

    def _start_background(self) -> None:
        for row in self._file_queue.take_partial():
            self._background.start(self._inspector.check_partial(row))
        # Some servers make a link only when its target exists: links come after all files.
        files_done = not (self._scanning or self._file_queue.waiting or self._file_queue.under_way)
        if files_done and (links := self._file_queue.take_links()):
            self._background.start(make_links(self._work, links, self._link_made, self._faults.file_faulted))
        self._start_fetching()
        if self._file_queue.waiting and not self._file_queue.decided and self._timer is None:
            self._timer = self._work.spawn(self._decide_later())

    def _start_fetching(self) -> None:
        idle = self._fetching is None or self._fetching.done()
        if idle and self._feeder.low and not self._work.is_blocked():
            self._fetching = self._background.start(self._feeder.fetch())

    async def _decide_later(self) -> None:
        await self._work.clock.sleep(DECIDE_AFTER)
        self._file_queue.decided = True
        self._work.more_to_do()

    def _link_made(self, row: FileRow) -> None:
        self._settlement_writer.settle(SettledFile(row, 0))

    def _waiting(self) -> int:
        """Number of files that wait for a lane. Memory holds only a part of a large task: the rest counts as MANY."""
        return self._file_queue.waiting + (MANY if self._feeder.more or self._scanning else 0)

    def _flush_if_last(self) -> None:
        """Write the collected settlements at once when nothing else is under way."""
        if not (self._file_queue.under_way or self._file_queue.waiting or self._background):
            self._settlement_writer.flush_soon()

    # ---- a lane worker

    async def _lane_worker(self, index: int) -> None:
        try:
            await self._work_in_lanes(index)
        finally:
            del self._lane_workers[index]
        self._work.more_to_do()

    async def _work_in_lanes(self, index: int) -> None:
        while (plan := self._file_queue.plan()) and self._may_go_on(index, plan):
            if await self._work.wait_out_backoff():
                return
            self._plan_monitor.announce(plan)
            lane_slot = await self._lane_pool.take(plan, index)
            if lane_slot is None:
                if self._lane_pool.full:
                    return
                continue
            self._lane_slots[index] = lane_slot
            await self._drive(lane_slot, index)
            del self._lane_slots[index]
            await self._lane_pool.give_back(lane_slot)

    def _may_go_on(self, index: int, plan: Plan) -> bool:
        return index < self._lane_pool.allowed(plan.concurrency) and not self._closed_to_new

    async def _drive(self, lane_slot: LaneSlot, index: int) -> None:
        """Keep the lane full until there is no more work for it, or until it is lost."""
        lane, under_way = lane_slot.lane, lane_slot.under_way
        while True:
            self._feed(lane_slot, index)
            if not under_way:
                if not self._post_transfer.full or not lane.alive or self._closed_to_new:
                    break
                await self._post_transfer.wait_for_room()
                continue
            self._handle(await lane.events(), lane_slot)
            self._flush_if_last()
        if not lane.alive and not lane_slot.full:
            self.counter.fault()
            self._work.connection_failed()

    def _feed(self, lane_slot: LaneSlot, index: int) -> None:
        lane, under_way = lane_slot.lane, lane_slot.under_way
        if not lane.alive or self._closed_to_new or self._post_transfer.full or self._work.is_blocked():
            return
        for queued in self._file_queue.take_for_lane(index, lane_slot.parallelism, len(under_way) - lane.renaming):
            row = self._feeder.as_written(queued)
            under_way[row.id] = row
            lane.feed(row)
            self._work.trace.add("files")
        if self._feeder.low:
            self._work.more_to_do()

    # ---- the events of a lane

    def _handle(self, events: Sequence[FileEvent], lane_slot: LaneSlot) -> None:
        returned = ReturnedFiles()
        came_back = len(events)
        for event in events:
            match event:
                case FileSettled(FileRow() as file, received):
                    self._left(file, lane_slot)
                    self._settled(file, received)
                case FileProgress(FileRow() as file, ranges):
                    came_back -= 1
                    self._progressed(file, ranges)
                case FileRefused(FileRow() as file):
                    self._refused(file, event, lane_slot, returned)
                case FileReturned(FileRow() as file, suspect, begun):
                    self.counter.left(file)
                    partial = self._left(file, lane_slot) or bool(file.ranges)
                    suspect = suspect or self._feeder.renames_all
                    group = returned.suspect if suspect else returned.partial if partial else returned.fresh
                    group.append(file._replace(begun=True) if begun else file)
                case _:
                    raise AssertionError(event)
        self._file_queue.left_lanes(came_back)
        self._faults.files_returned(returned)

    def _refused(self, file: FileRow, refused: FileRefused, lane_slot: LaneSlot, returned: ReturnedFiles) -> None:
        self.counter.left(file)
        self._left(file, lane_slot)
        if not refused.trusted and self._lane_pool.lost_to_full_server(lane_slot, refused.fault):
            # Other lanes are open: the file goes there, and its server was only asked for too much.
            self._background.start(self._lane_pool.limit_without(refused.fault))
            returned.suspect.append(file._replace(begun=True) if refused.begun else file)
            return
        before, lane_alive = self._feeder.entry_before(file), lane_slot.lane.alive
        if before and refused.fault.kind is Kind.FILE_SIZE_CHANGED:
            self._background.start(self._inspector.check_refused(file, refused, before, lane_alive=lane_alive))
        else:
            self._faults.file_refused(file, refused, lane_alive=lane_alive)

    def _left(self, file: FileRow, lane_slot: LaneSlot) -> bool:
        """Record that the file left its lane. Returns whether its beginning is on the destination's disk."""
        del lane_slot.under_way[file.id]
        if file.id not in self._on_disk:
            return False
        self._on_disk.remove(file.id)
        return True

    def _progressed(self, file: FileRow, ranges: RangeSet) -> None:
        self._on_disk.add(file.id)
        self.counter.progressed(file, ranges.total)
        self._settlement_writer.progress(PartialFile(file, ranges.format(), ranges.total))
        # A large file may keep its lane for hours: the other lanes must not wait for its end.
        self._work.more_to_do()

    def _settled(self, file: FileRow, received: int | None) -> None:
        if self._work.endpoints.failures:
            self._work.endpoints.succeeded()
        if file.temporary_path:
            self._feeder.renamed()
        else:
            self._feeder.written_in_place(file)
        moved = moved_now(file, received)
        octets = received or file.size if moved is None else moved
        self.counter.arrived(file, octets)
        self._work.trace.add("files", 1, octets)
        before = self._feeder.entry_before(file)
        if moved is None or (before and before.size == file.size):
            self._background.start(self._inspector.check_size(file, received, before))
        else:
            self._post_transfer.accept(SettledFile(file, moved))
