"""The lanes of a slice: opened as the plan wants them, fed, listened to, and replaced when they die."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol

from endpoints.gridftp.faults import Fault, FaultError, Kind, Scope, Side, make_fault

from .aftercare import Aftercare
from .arrival import can_continue, moved_now, octets, verdict
from .dealer import Dealer
from .desk import UnreachableError
from .fleet import Berth, Fleet
from .gauge import Gauge
from .ledger import Ledger
from .links import make_links
from .plan import Plan
from .ports import (
    Faulted,
    FileRow,
    LaneEvent,
    LaneProgress,
    LaneRefused,
    LaneReturned,
    LaneSettled,
    Progress,
    Settled,
)
from .retry import Fail, PassOver, Retry
from .stock import Stock, partials
from .tuner import Tuner
from .work import PATIENCE, Work

#: Seconds in which few small files wait for the scan to find more before they are planned for.
DECIDE_AFTER = 0.3
#: Seconds between two looks at how the plan does.
LOOK = 0.5
#: Files that are said to wait where nobody knows how many.
MANY = 1_000_000


class Movers(Protocol):
    """Those who do the work on pending files: lanes for a TRANSFER, removers for a DELETE."""

    @property
    def idle(self) -> bool:
        """Nothing is under way."""

    def staff(self) -> None:
        """There may be more to do: see that somebody does it."""

    def scanning(self, now: bool) -> None:
        """The scan has begun, or has ended."""

    def stop_feeding(self) -> None:
        """Begin nothing more."""

    async def leave(self, mark: bool) -> None:
        """End all at once. mark: give what was under way a new name, since it may still be written under the old."""


class Crew:
    """One coroutine a lane. A lane without work is parked, and taken up by the next coroutine that can use it."""

    def __init__(self, work: Work, dealer: Dealer, stock: Stock, ledger: Ledger, tuner: Tuner) -> None:
        self.gauge = Gauge()
        self._work = work
        self._dealer = dealer
        self._stock = stock
        self._ledger = ledger
        self._tuner = tuner
        self._aftercare = Aftercare(work, ledger, self._fault_arrived)
        self._fleet = Fleet(work, tuner, self.gauge, self.staff)
        self._hands: dict[int, asyncio.Task[None]] = {}
        self._berths: dict[int, Berth] = {}
        #: Small inquiries about single files: a size that differs, a new name.
        self._inquiries: set[asyncio.Task[None]] = set()
        #: Files under way whose beginning is known to be on the destination's disk: they can be continued.
        self._on_disk: set[int] = set()
        #: Files that were lost with a connection, until they have a new name.
        self._suspects: dict[int, FileRow] = {}
        #: Those that were under way when the slice ended, and that have no new name.
        self.left_behind: list[FileRow] = []
        self.announced: Plan | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._closed_to_new = False
        self._scanning = False
        work.spawn(self._watch_plan())

    @property
    def idle(self) -> bool:
        moving = any(berth.under_way for berth in self._berths.values())
        return not (moving or self._inquiries) and self._aftercare.idle

    def staff(self) -> None:
        """Start as many hands as have something to do; fetch more files when few are left."""
        if self._closed_to_new or self._work.seconds_blocked() > PATIENCE:
            return
        self._aftercare.go_on()
        for row in self._dealer.take_begun():
            self._inquire(self._look_at_begun(row))
        # Some servers make links only to what is there already: after all files.
        all_through = not (self._scanning or self._dealer.waiting or self._dealer.under_way)
        if all_through and (links := self._dealer.take_links()):
            self._inquire(make_links(self._work, links, self._link_made, self._fault))
        if self._stock.low and (self._fetching is None or self._fetching.done()):
            self._fetching = self._inquire(self._stock.fetch())
        if self._dealer.waiting and not self._dealer.decided and self._timer is None:
            self._timer = self._work.spawn(self._decide_later())
        for index in range(min(self._dealer.lanes_wanted(), self._work.spec.most_lanes)):
            if index not in self._hands:
                self._aftercare.prepare()
                self._hands[index] = self._work.spawn(self._hand(index))

    def scanning(self, now: bool) -> None:
        self._scanning = now
        if not now:
            self._dealer.decided = True
            self.staff()
        else:
            self._fleet.open_ahead()

    def stop_feeding(self) -> None:
        self._closed_to_new = True

    async def last(self) -> None:
        """Begin nothing more, and wait for what another slice would have to begin anew."""
        self._closed_to_new = True
        await self._aftercare.last()

    async def leave(self, mark: bool) -> None:
        self._closed_to_new = True
        tasks = [*self._hands.values(), *self._inquiries]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._aftercare.leave()
        berths = list(self._berths.values())
        begun = {row.id for berth in berths for row in berth.lane.begun}
        await asyncio.gather(self._fleet.close(berths), self._fleet.leave())
        for berth in berths:
            for row in berth.under_way.values():
                if not row.ranges and row.id not in self._on_disk:
                    self._suspects[row.id] = replace(row, begun=True) if row.id in begun else row
        self._berths.clear()
        suspects = list(self._suspects.values())
        if mark and suspects:
            await self._rename(suspects)
        elif not mark:
            self.left_behind = suspects
        self._suspects.clear()

    # ---- a hand

    async def _hand(self, index: int) -> None:
        try:
            await self._work_in_lanes(index)
        finally:
            del self._hands[index]
        self._work.wake.set()

    async def _work_in_lanes(self, index: int) -> None:
        while (plan := self._dealer.plan()) and index < plan.concurrency and not self._closed_to_new:
            if await self._wait_for_endpoints():
                return
            self._announce(plan)
            berth = await self._fleet.take(plan, index)
            if berth is None:
                continue
            self._berths[index] = berth
            await self._drive(berth, index)
            del self._berths[index]
            await self._fleet.give_back(berth)

    async def _wait_for_endpoints(self) -> bool:
        """Sit out a short backoff of the endpoints. True: it is a long one, and this hand goes home."""
        seconds = self._work.seconds_blocked()
        if 0 < seconds <= PATIENCE:
            await self._work.clock.sleep(seconds)
        return seconds > PATIENCE

    def _announce(self, plan: Plan) -> None:
        """Tell the user of a plan that is not the last one told."""
        if plan == self.announced:
            return
        first = self.announced is None and not self._work.spec.started
        self.announced = plan
        details = {
            "type": "GridFTP Transfer",
            "concurrency": plan.concurrency,
            "parallelism": plan.parallelism,
            "pipelining": plan.pipelining,
            "reason": plan.reason,
        }
        code, description = ("STARTED", "The transfer has begun.") if first else ("PROGRESS", "The plan has changed.")
        self._inquire(self._work.store.event(code, description, details))

    async def _watch_plan(self) -> None:
        """Show the tuner how the plan does, and go on with what it says."""
        clock = self._work.clock
        begun = clock.now()
        while True:
            await clock.sleep(LOOK)
            if not any(berth.under_way for berth in self._berths.values()) or self.announced is None:
                continue
            # Those of an earlier plan end their files first, and tell nothing of this one.
            streams = self.announced.parallelism
            lanes = sum(berth.parallelism == streams for berth in self._berths.values() if berth.under_way)
            at = (clock.now() - begun).total_seconds()
            dealer = self._dealer
            # Memory holds but a part of a large task: what is beyond it is as good as endless.
            beyond = MANY if self._stock.more or self._scanning else 0
            waiting = dealer.waiting + beyond
            sample = self.gauge.sample(at, lanes=lanes, waiting=waiting, under_way=dealer.under_way)
            plan = self._tuner.measured(sample)
            if plan is not None and dealer.plan() is not None:
                dealer.replan(plan)
                self._announce(plan)
                self.staff()

    async def _drive(self, berth: Berth, index: int) -> None:
        """Keep the lane full until there is nothing more for it, or it is lost."""
        lane, under_way = berth.lane, berth.under_way
        while True:
            if lane.alive and not (self._closed_to_new or self._aftercare.full or self._work.is_blocked()):
                for row in self._dealer.deal(index, berth.parallelism, len(under_way)):
                    under_way[row.id] = row
                    lane.feed(row)
                if self._stock.low:
                    self.staff()
            if not under_way:
                if not self._aftercare.full or not lane.alive or self._closed_to_new:
                    break
                await self._aftercare.room()
                continue
            self._hear(await lane.events(), berth)
            self._hurry_if_last()
        if not lane.alive:
            self.gauge.fault()
            self._work.connection_failed()

    # ---- what a lane says

    def _hear(self, events: Sequence[LaneEvent], berth: Berth) -> None:
        returned: list[FileRow] = []
        begun: list[FileRow] = []
        suspects: list[FileRow] = []
        came_back = 0
        for event in events:
            if type(event) is LaneProgress:
                self._progressed(event)
                continue
            came_back += 1
            file = event.file
            del berth.under_way[file.id]
            if type(event) is not LaneSettled:
                self.gauge.left(file)
            told = file.id in self._on_disk
            if told:
                self._on_disk.remove(file.id)
            if type(event) is LaneSettled:
                self._settled(event)
            elif type(event) is LaneRefused:
                self._refused(event, berth.lane.alive)
            elif type(event) is LaneReturned:
                (suspects if event.suspect or self._stock.aside else begun if told or file.ranges else returned).append(
                    replace(file, begun=True) if event.begun else file
                )
        self._dealer.came_back(came_back)
        if suspects:
            self._suspects.update((row.id, row) for row in suspects)
            self._inquire(self._send_again(suspects))
        if begun:
            self._inquire(self._begin_afresh(begun))
        if returned:
            self._dealer.put_back(returned)
            self.staff()

    def _progressed(self, event: LaneProgress) -> None:
        self._on_disk.add(event.file.id)
        self.gauge.progressed(event.file, event.bytes)
        self._ledger.progress(Progress(event.file, event.ranges, event.bytes))
        # A large file may keep its lane for hours: the other lanes are not to wait for its end.
        self.staff()

    def _settled(self, event: LaneSettled) -> None:
        if self._work.endpoints.failures:
            self._work.endpoints.succeeded()
        file = event.file
        moved = moved_now(file, event.bytes)
        self.gauge.arrived(file, event.bytes or file.size if moved is None else moved)
        if moved is None:
            self._inquire(self._ask_size(file, event.bytes))
        else:
            self._aftercare.accept(Settled(file, moved))

    def _link_made(self, row: FileRow) -> None:
        self._ledger.settle(Settled(row, 0))

    def _refused(self, event: LaneRefused, alive: bool) -> None:
        file, fault = replace(event.file, begun=event.begun or event.file.begun), event.fault
        if fault.scope is not Scope.FILE:
            self._work.connection_failed()
        # A lane that lives has been drained: nobody writes this file any more.
        if not alive and not event.trusted_ranges:
            self._suspects[file.id] = file
            self._inquire(self._fault_renamed(file, fault))
        else:
            self._fault(file, fault, ranges=event.trusted_ranges)

    def _fault(
        self, file: FileRow, fault: Fault, *, ranges: str = "", new_size: int | None = None, checksummed: int = 0
    ) -> None:
        """Write down what becomes of the file. One that waits for a new credential is left as it is."""
        decision = self._work.decide(fault, file.attempts)
        if isinstance(decision, Retry):
            self._ledger.fault(Faulted(file, fault, decision.at, ranges, new_size, checksummed=checksummed))
        elif isinstance(decision, Fail | PassOver):
            passed_over = isinstance(decision, PassOver)
            lost = Faulted(file, fault, None, "", new_size, passed_over, checksummed)
            left = replace(file, ranges=ranges or file.ranges)
            self._inquire(self._give_up(lost, [] if self._stock.untouched(left) else partials(left)))

    def _fault_arrived(self, file: FileRow, fault: Fault, **known: Any) -> None:
        """The same for a file that has arrived, and is not what it should be."""
        self._fault(replace(file, begun=True), fault, **known)

    # ---- inquiries

    def _inquire(self, inquiry: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._work.spawn(inquiry)
        self._inquiries.add(task)
        task.add_done_callback(self._inquired)
        return task

    def _inquired(self, task: asyncio.Task[None]) -> None:
        self._inquiries.discard(task)
        self._hurry_if_last()

    def _hurry_if_last(self) -> None:
        """With nothing more to come, what is collected is written at once."""
        if not (self._dealer.under_way or self._dealer.waiting or self._inquiries):
            self._ledger.hurry()

    async def _send_again(self, suspects: Sequence[FileRow]) -> None:
        """They go into a lane again under new names."""
        self._dealer.put_back(await self._rename(suspects))
        self.staff()

    async def _begin_afresh(self, begun: Sequence[FileRow]) -> None:
        """When a lane is drained, what was begun in it may have been removed."""
        await self._ledger.forget(begun)
        self._dealer.put_back([replace(row, ranges="") for row in begun])
        self.staff()

    async def _look_at_begun(self, file: FileRow) -> None:
        """To continue what is not there would leave a hole: a user may have removed it, a dead worker renamed it."""
        path = file.temporary_path or file.destination_path or ""
        try:
            there = await self._work.desk.ask(Side.DESTINATION, lambda session: session.stat(path))
            good = can_continue(file, there.size)
        except UnreachableError as error:
            await self._work.unreachable(error.fault)
            self._fault(file, error.fault, ranges=file.ranges)
            return
        except FaultError as error:
            if error.fault.kind is not Kind.FILE_NOT_FOUND:
                self._fault(file, error.fault, ranges=file.ranges)
                return
            good = False
        if good and self._stock.aside and not file.temporary_path:
            # It has its own name, where nothing is written: all of it is there, or it begins afresh.
            if there.size == file.size == octets(file.ranges):
                self._aftercare.accept(Settled(file, 0))
                return
            good = False
        self._dealer.put_back([file] if good else await self._rename([file]))
        self.staff()

    async def _give_up(self, lost: Faulted, partials: Sequence[str]) -> None:
        """What is left of it goes first: once its fate is written, nobody would know of it any more."""
        await self._stock.remove(partials)
        self._ledger.fault(lost)

    async def _fault_renamed(self, file: FileRow, fault: Fault) -> None:
        """Its server process may still be writing: the next try must go to a new name."""
        (renamed,) = await self._rename([file])
        self._fault(renamed, fault)

    async def _rename(self, suspects: Sequence[FileRow]) -> Sequence[FileRow]:
        """New names, which nothing of what is under the old ones goes with."""
        await self._ledger.forget(suspects)
        renamed = await self._stock.rename(suspects)
        for row in suspects:
            self._suspects.pop(row.id, None)
        return renamed

    async def _ask_size(self, file: FileRow, received: int | None) -> None:
        """Both sides say success, but of another size than the scan saw: look at both."""
        path = file.destination_path or ""
        try:
            source, destination = await asyncio.gather(
                self._work.desk.ask(Side.SOURCE, lambda session: session.stat(file.source_path)),
                self._work.desk.ask(Side.DESTINATION, lambda session: session.stat(path)),
            )
        except FaultError as error:
            self._fault_arrived(file, error.fault)
            return
        outcome = verdict(file, received, source.size, destination.size)
        if isinstance(outcome, Settled):
            self._aftercare.accept(outcome)
        else:
            self._fault_arrived(
                file, make_fault(Kind.FILE_SIZE_CHANGED, outcome, side=Side.SOURCE), new_size=source.size
            )

    async def _decide_later(self) -> None:
        await self._work.clock.sleep(DECIDE_AFTER)
        self._dealer.decided = True
        self.staff()
