"""The lanes of a slice: opened, ahead of their files where the way is long, parked between two chunks, and closed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from endpoints.gridftp.faults import FaultError, Side

from .gauge import Gauge
from .opening import FAR, LANES
from .plan import Plan
from .ports import LEVELS, FileRow, Lane, Protection
from .transport import wanted
from .tuner import Tuner
from .work import Work

#: Seconds that the closing of a lane may take when the slice ends.
CLOSE_TIMEOUT = 0.5
NO_UDT = "UDT_NOT_USED"


@dataclass(slots=True)
class Berth:
    """A lane, and the files in it."""

    lane: Lane
    #: Streams that it was told to use; 0 before the first word.
    parallelism: int = 0
    under_way: dict[int, FileRow] = field(default_factory=dict)


class Fleet:
    """Lanes that nobody uses are parked, and serve any plan later.

    ready: called when lanes that were opened ahead have come.
    """

    def __init__(self, work: Work, tuner: Tuner, gauge: Gauge, ready: Callable[[], None]) -> None:
        self._work = work
        self._tuner = tuner
        self._gauge = gauge
        self._ready = ready
        self._parked: list[Berth] = []
        #: Opens so many lanes before it is known what for.
        self._ahead: asyncio.Task[None] | None = None
        self._ahead_count = 0
        self._closed_to_new = False
        self._transport = wanted(work.spec.options, work.spec.knowledge)
        self._weakest = ""
        self._told = NO_UDT in work.spec.warned or not work.spec.options.get("perf_udt")
        work.desk.on_open = self._reached

    def open_ahead(self) -> None:
        """Open lanes that will be wanted whatever the scan finds; once, and only where the way is long.

        Connecting, logging in and listening take a round trip each, which the scan's own then hide.
        """
        trip = self._tuner.round_trip
        if self._ahead is None and trip is not None and trip >= FAR and not self._closed_to_new:
            self._ahead_count = min(self._tuner.lanes_before or LANES[FAR], self._tuner.most_lanes)
            self._ahead = self._work.spawn(self._open_ahead())

    async def take(self, plan: Plan, index: int) -> Berth | None:
        """A lane for this plan and this hand: a parked one, or a new one. None: it could not be opened."""
        if self._ahead is not None and index < self._ahead_count:
            await asyncio.wait([self._ahead])
        berth = self._parked_for(plan) or await self._open()
        if berth is None or not berth.lane.alive:
            if berth is not None:
                await self.close([berth])
            return None
        if berth.parallelism != plan.parallelism:
            berth.lane.use_streams(plan.parallelism)
            berth.parallelism = plan.parallelism
        return berth

    async def give_back(self, berth: Berth) -> None:
        """Nobody uses this lane any more."""
        if berth.lane.alive:
            self._parked.append(berth)
        else:
            await self.close([berth])

    async def close(self, berths: Iterable[Berth]) -> None:
        """Close lanes, and do not wait long for those that do not want to; also when nobody waits for it any more."""
        await asyncio.shield(asyncio.gather(*(_close(berth.lane) for berth in berths)))

    async def leave(self) -> None:
        """Open nothing more, and close what is parked."""
        self._closed_to_new = True
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.gather(self._ahead, return_exceptions=True)
        parked, self._parked = self._parked, []
        await self.close(parked)

    # ---- inside

    def _reached(self) -> None:
        """A server was reached: how long that took is what is known of the way to it."""
        if self._work.sessions.round_trip is not None:
            self._tuner.saw_round_trip(self._work.sessions.round_trip)
        self.open_ahead()

    async def _open_ahead(self) -> None:
        await asyncio.gather(*(self._open_and_park() for _ in range(self._ahead_count)))
        self._ready()

    async def _open_and_park(self) -> None:
        berth = await self._open()
        if berth is not None:
            self._parked.append(berth)

    def _parked_for(self, plan: Plan) -> Berth | None:
        """A parked lane, one with as many streams as the plan has if there is one."""
        if not self._parked:
            return None
        berth = min(self._parked, key=lambda one: one.parallelism != plan.parallelism)
        self._parked.remove(berth)
        return berth

    async def _open(self) -> Berth | None:
        try:
            lane = await self._work.sessions.lane(transport=self._transport)
        except FaultError as error:
            self._gauge.fault()
            await self._work.unreachable(error.fault, lanes=True)
            return None
        self._reached()
        try:
            await self._tell(lane)
        except BaseException:
            await self.close([Berth(lane)])
            raise
        return Berth(lane)

    async def _tell(self, lane: Lane) -> None:
        """What the user shall know of a new lane, before anything moves in it."""
        await self._work.reached(Side.SOURCE, Side.DESTINATION, lanes=True)
        await self._tell_transport()
        await self._tell_protection(lane.protection)

    async def _tell_protection(self, now: Protection) -> None:
        """The weakest one of this slice; what earlier ones had, the store knows."""
        if not self._weakest or LEVELS.index(now.level) < LEVELS.index(self._weakest):
            self._weakest = now.level
            await self._work.store.protected(now)

    async def _tell_transport(self) -> None:
        """A user who asked for UDT shall know when it is not used; once."""
        if self._transport.udt and not self._work.sessions.transport.udt and not self._told:
            self._told = True
            text = "The servers do not allow UDT, or it failed between them; TCP is used."
            await self._work.store.event(NO_UDT, text, "")


async def _close(lane: Lane) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await lane.close()
    except (TimeoutError, FaultError):
        return
