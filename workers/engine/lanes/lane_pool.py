"""Opens, parks and closes the lanes of a slice; on a long round trip it opens them before there are files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from endpoints.gridftp.faults import Fault, FaultError, Kind, Side
from identity.gsi.sentences import Sentence
from transferapi.tasks.records import LEVELS, DataProtection, DataWay, FileRow
from workers.engine.ports import Lane
from workers.engine.tuning.lane_backoff import LaneLimit
from workers.engine.tuning.opening import FAR, LANES
from workers.engine.tuning.plan import Plan
from workers.engine.tuning.transport import wanted
from workers.engine.tuning.tuner import Tuner
from workers.engine.work import SliceContext, cancel_all

from .counter import TransferCounter

log = logging.getLogger(__name__)

#: Seconds that the closing of a lane may take when the slice ends.
CLOSE_TIMEOUT = 0.5
NO_UDT = "UDT_NOT_USED"
FEWER_SESSIONS = "FEWER_SESSIONS"


@dataclass(slots=True)
class LaneSlot:
    """A lane in use, and the files in it."""

    lane: Lane
    #: Whether it was opened for a plan that is relayed.
    relayed: bool = False
    #: Data streams of the lane; 0 before they are set.
    parallelism: int = 0
    under_way: dict[int, FileRow] = field(default_factory=dict)
    #: It is lost because a server takes no data connection beside those of other lanes.
    full: bool = False


class LanePool:
    """Parks unused lanes; a parked lane serves any later plan of its way."""

    def __init__(self, work: SliceContext, tuner: Tuner, counter: TransferCounter) -> None:
        self._work = work
        self._tuner = tuner
        self._counter = counter
        self._parked: list[LaneSlot] = []
        #: Lanes that are open, parked ones too.
        self._open_lanes = 0
        self._limit = LaneLimit()
        self._begun = work.clock.now()
        #: Opens lanes before the files are known.
        self._ahead: asyncio.Task[None] | None = None
        self._ahead_count = 0
        self._closed_to_new = False
        self._transport = wanted(work.spec.options, work.spec.knowledge)
        self._weakest = ""
        self._data_way: DataWay | None = None
        self._udt_reported = NO_UDT in work.spec.warned or not work.spec.options.get("perf_udt")
        work.control_sessions.on_open = self._reached

    def open_ahead(self) -> None:
        """Open the lanes that any result of the scan needs; once, and only where the round trip is long.

        Connecting, logging in and listening take a round trip each. They run while the scan waits for its own.
        """
        trip = self._tuner.round_trip
        if self._ahead is None and trip is not None and trip >= FAR and not self._closed_to_new:
            self._ahead_count = min(self._tuner.expected_lanes or LANES[FAR], self._tuner.most_lanes)
            self._ahead = self._work.spawn(self._open_ahead())

    async def open_first(self) -> bool:
        """Open a lane before anything is written, where the servers may refuse what the task demands of it.

        Returns False where it could not be opened: the task has ended then, or the endpoints are tried again later.
        """
        if not self._work.spec.options.get("encrypt_data"):
            return True
        if self._ahead is not None:
            await asyncio.wait([self._ahead])
        if not self._open_lanes:
            await self._open_and_park()
        return bool(self._open_lanes)

    def allowed(self, wanted: int) -> int:
        """How many of these lanes may be open: fewer where a server is full."""
        return self._limit.allowed(self._now(), wanted)

    @property
    def full(self) -> bool:
        """Whether a server takes no lane beside those that are open."""
        return bool(self._open_lanes) and self.allowed(self._open_lanes + 1) <= self._open_lanes

    def lost_to_full_server(self, lane_slot: LaneSlot, fault: Fault) -> bool:
        """Whether this lane met a full server while others are open: then its file is not at fault."""
        lane_slot.full = fault.kind is Kind.ENDPOINT_TOO_BUSY and self._open_lanes > 1
        return lane_slot.full

    async def limit_to(self, lanes: int, fault: Fault) -> None:
        """A server takes no further session: the files go on in the lanes that are open, and nothing waits."""
        if self._limit.refused(self._now(), lanes):
            counted = Sentence.counted("%(number)s lane", "%(number)s lanes", lanes)
            text = Sentence(
                "The server of the destination takes no more sessions; the files go on in %(lanes)s.", lanes=counted
            )
            if fault.side is Side.SOURCE:
                text = Sentence(
                    "The server of the source takes no more sessions; the files go on in %(lanes)s.", lanes=counted
                )
            await self._work.store.event(FEWER_SESSIONS, text, fault.raw)

    async def limit_without(self, fault: Fault) -> None:
        """`limit_to` those that are open beside one that is lost."""
        await self.limit_to(self._open_lanes - 1, fault)

    def _now(self) -> float:
        return (self._work.clock.now() - self._begun).total_seconds()

    async def take(self, plan: Plan, index: int) -> LaneSlot | None:
        """A parked or new lane for this plan and lane worker. Returns None when it could not be opened."""
        if self._ahead is not None and index < self._ahead_count:
            await asyncio.wait([self._ahead])
        lane_slot = self._parked_for(plan)
        if lane_slot is None and (self._parked or not self.full):
            lane_slot = await self._open_instead(plan)
        if lane_slot is None or not lane_slot.lane.alive:
            if lane_slot is not None:
                await self.close([lane_slot])
            return None
        if lane_slot.parallelism != plan.parallelism:
            lane_slot.lane.use_streams(plan.parallelism)
            lane_slot.parallelism = plan.parallelism
        return lane_slot

    async def give_back(self, lane_slot: LaneSlot) -> None:
        """Park a lane that is no longer used, or close it if it is lost."""
        if lane_slot.lane.alive:
            self._parked.append(lane_slot)
        else:
            await self.close([lane_slot])

    async def close(self, lane_slots: Iterable[LaneSlot]) -> None:
        """Close lanes, with a limit on the time. The closing completes even if the caller is canceled."""
        closing = [_close(lane_slot.lane) for lane_slot in lane_slots]
        self._open_lanes -= len(closing)
        await asyncio.shield(asyncio.gather(*closing))

    async def abort(self) -> None:
        """Open nothing more, and close the parked lanes."""
        self._closed_to_new = True
        if self._ahead is not None:
            await cancel_all([self._ahead])
        parked, self._parked = self._parked, []
        await self.close(parked)

    # ---- inside

    def _reached(self) -> None:
        """A server was reached: the tuner learns its round-trip time."""
        if self._work.sessions.round_trip is not None:
            self._tuner.note_round_trip(self._work.sessions.round_trip)
        self.open_ahead()

    async def _open_ahead(self) -> None:
        opening = (self._open_and_park() for _ in range(self._ahead_count))
        # All of them end before the first error is raised: none may park its lane after `abort`.
        for outcome in await asyncio.gather(*opening, return_exceptions=True):
            if outcome is not None:
                raise outcome
        self._work.more_to_do()

    async def _open_and_park(self) -> None:
        lane_slot = await self._open(relayed=self._tuner.expects_relay)
        if lane_slot is not None:
            self._parked.append(lane_slot)

    def _parked_for(self, plan: Plan) -> LaneSlot | None:
        """A parked lane, preferably one with as many streams as the plan has."""
        fitting = [lane_slot for lane_slot in self._parked if lane_slot.relayed is plan.relayed]
        if not fitting:
            return None
        lane_slot = min(fitting, key=lambda one: one.parallelism != plan.parallelism)
        self._parked.remove(lane_slot)
        return lane_slot

    async def _open_instead(self, plan: Plan) -> LaneSlot | None:
        """A new lane. One that is parked for another way gives its sessions back first: the endpoints count them."""
        if self._parked:
            await self.close([self._parked.pop()])
        return await self._open(relayed=plan.relayed)

    async def _open(self, *, relayed: bool = False) -> LaneSlot | None:
        try:
            with self._work.trace.step("lane"):
                lane = await self._work.sessions.lane(transport=self._transport, relayed=relayed)
        except FaultError as error:
            if error.fault.kind is Kind.ENDPOINT_TOO_BUSY and self._open_lanes:
                await self.limit_to(self._open_lanes, error.fault)
                return None
            self._counter.fault()
            await self._work.unreachable(error.fault, lanes=True)
            return None
        self._open_lanes += 1
        self._reached()
        try:
            await self._report(lane)
        except BaseException:
            await self.close([LaneSlot(lane)])
            raise
        return LaneSlot(lane, relayed)

    async def _report(self, lane: Lane) -> None:
        """Report the properties of a new lane before files move in it."""
        await self._work.reached(Side.SOURCE, Side.DESTINATION, lanes=True)
        await self._report_transport()
        await self._report_protection(lane.protection)
        if lane.data_way is not None and lane.data_way != self._data_way:
            self._data_way = lane.data_way
            await self._work.store.data_goes(lane.data_way)

    async def _report_protection(self, now: DataProtection) -> None:
        """Report the weakest protection of this slice; the store knows that of earlier ones."""
        if not self._weakest or LEVELS.index(now.level) < LEVELS.index(self._weakest):
            self._weakest = now.level
            await self._work.store.protected(now)

    async def _report_transport(self) -> None:
        """Report once that UDT is not used although the user asked for it."""
        if self._transport.udt and not self._work.sessions.transport.udt and not self._udt_reported:
            self._udt_reported = True
            text = Sentence("The servers do not allow UDT, or it failed between them; TCP is used.")
            await self._work.store.event(NO_UDT, text, "")


async def _close(lane: Lane) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await lane.close()
    except (TimeoutError, FaultError):
        return
    except Exception:
        # The other lanes are closed all the same, and what the slice has settled is written.
        log.exception("a lane could not be closed")
