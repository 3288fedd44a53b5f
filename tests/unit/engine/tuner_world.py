"""A network of two servers far apart, as a fluid, and a lane manager that moves a chunk over it as a tuner says.

A lane opens in `setup` round trips and the time of its processes. Its streams begin with ten segments and double each
round trip until all together have EARLY of what the way holds (HyStart leaves slow start early), then grow by GROWTH of
it each round trip. A stream has `window` octets under way at most, a lane as many files as the plan says. Streams share
the bottleneck evenly. Fitted to what real servers did at 1 Gbit/s with cubic (`test_tuner.py` has the figures).
The model does not explain why many lanes of depth 10 are slower in fact (19 MB/s at 200 ms).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from workers.engine.tuning.meter import Sample
from workers.engine.tuning.plan import MB, ChunkSummary, Plan, size_class
from workers.engine.tuning.tuner import Tuner

#: Octets of ten segments.
INITIAL_WINDOW = 14480
WINDOW = 4 * 2**20
#: Fractions of what the way holds.
EARLY = 0.25
GROWTH = 0.013
#: Seconds of processor time for the two processes of a lane, on two processors.
FORK = 0.010
#: Seconds that a lane needs for a file besides its octets; files that both servers together can do in a second.
FILE = 0.00026
FILES = 8000.0
#: Goodput that each stream above eight costs: 128 streams reached four fifths of what 8 did.
CROWDING = 0.002


@dataclass(slots=True)
class Network:
    """capacity: octets a second. others: streams of other people, always busy. noise: standard deviation of samples."""

    round_trip: float
    capacity: float = 125e6
    others: int = 0
    noise: float = 0.0
    window: int = WINDOW
    #: Round trips from the first packet of a control connection to the first octet of data.
    setup: int = 8
    #: Markers report the progress of large files: now and then a sample has none, and the next one two.
    lumps: bool = False
    #: More lanes than this are refused, by both servers.
    most_lanes: int = 1000
    #: Goodput as a function of the lanes, for servers that suffer from many of them.
    toll: Callable[[int], float] = lambda lanes: 1.0

    @property
    def holds(self) -> float:
        """Octets under way that fill it."""
        return self.capacity * self.round_trip


@dataclass(slots=True)
class _Lanes:
    """Lanes that were opened together."""

    count: int
    streams: int
    ready_at: float
    window: float = INITIAL_WINDOW
    #: The window of a stream at which slow start ends.
    early: float = 0.0


@dataclass(slots=True)
class Report:
    """The result of a move. changes: the time and the new plan of each change."""

    seconds: float
    bytes: float
    plans: list[tuple[float, Plan]]
    #: Octets a second over each second.
    goodput: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """MB/s, set-up included."""
        return self.bytes / self.seconds / MB

    @property
    def changes(self) -> list[tuple[float, Plan]]:
        return self.plans[1:]


class Crew:
    """Moves files of one size, in the way of the engine's lane manager, and samples twice a second."""

    SAMPLE = 0.5

    def __init__(self, network: Network, files: int, size: int, seed: int = 0) -> None:
        self.network = network
        self._files = files
        self._size = size
        self._random = Random(seed)
        self._lanes: list[_Lanes] = []
        self._moved = 0.0
        self._refused = 0
        #: Octets that no marker has reported yet.
        self._held = 0.0
        #: Lanes are not asked for again at once when they were refused.
        self._blocked_until = 0.0

    def move(
        self,
        tuner: Tuner,
        *,
        seconds: float = 1e9,
        known: bool = True,
        begin: float = 0.0,
        events: dict[float, Callable[[Network], None]] | None = None,
    ) -> Report:
        """Move until all files have arrived or the time is over. known: the first plan knows the round trip."""
        chunk = ChunkSummary(self._files, self._files * self._size, self._size)
        kind = size_class(self._size)
        if known:
            tuner.note_round_trip(self.network.round_trip)
        plan = tuner.plan(kind, chunk)
        report = Report(0.0, 0.0, [(begin, plan)])
        due = sorted((events or {}).items())
        step = self._step()
        now, sampled, before = begin, begin, 0.0
        while now < begin + seconds and self._moved < chunk.total:
            while due and due[0][0] <= now:
                due.pop(0)[1](self.network)
            self._wake(plan, now)
            self._flow(plan, now, step)
            now += step
            if now - sampled >= self.SAMPLE - 1e-9:
                changed = tuner.measured(self._sample(now, before, plan))
                report.goodput.append((self._moved - before) / (now - sampled))
                sampled, before = now, self._moved
                if changed is not None and changed != plan:
                    plan = changed
                    report.plans.append((now, plan))
        report.seconds, report.bytes = now - begin, min(self._moved, chunk.total)
        return report

    def _step(self) -> float:
        fine = self.network.round_trip / 4
        whole = self._files * self._size / self.network.capacity
        return max(0.001, min(fine, 0.05)) if whole < 60 else 0.25

    # ---- lanes

    def _wake(self, plan: Plan, now: float) -> None:
        """Open what the plan wants, close what it does not; other streams need other lanes."""
        self._lanes = [lanes for lanes in self._lanes if lanes.streams == plan.parallelism]
        have = sum(lanes.count for lanes in self._lanes)
        wanted = min(plan.concurrency, self._files_left())
        if wanted > have and now >= self._blocked_until:
            self._open(min(wanted, self.network.most_lanes) - have, wanted - have, plan.parallelism, now)
        while have > plan.concurrency:
            last = self._lanes[-1]
            last.count -= (fewer := min(last.count, have - plan.concurrency))
            have -= fewer
            if not last.count:
                self._lanes.pop()

    def _open(self, count: int, asked: int, streams: int, now: float) -> None:
        network = self.network
        if asked > count:
            self._refused += asked - max(0, count)
            self._blocked_until = now + 2.0
        if count > 0:
            self._lanes.append(_Lanes(count, streams, now + network.setup * network.round_trip + FORK * count))
            total = sum(lanes.count * lanes.streams for lanes in self._lanes)
            self._lanes[-1].early = EARLY * network.holds / total

    # ---- octets

    def _flow(self, plan: Plan, now: float, step: float) -> None:
        network, ready = self.network, [lanes for lanes in self._lanes if lanes.ready_at <= now]
        streams = sum(lanes.count * lanes.streams for lanes in ready)
        if not streams:
            return
        active = self._busy(sum(lanes.count for lanes in ready))
        room = network.capacity * streams / (streams + network.others)
        room *= network.toll(sum(lanes.count for lanes in ready)) / (1 + CROWDING * max(0, streams - 8))
        wanted = sum(lanes.count * self._wish(lanes, plan) for lanes in ready) * active
        rate = min(wanted, room, FILES * self._size)
        self._moved += rate * step
        for lanes in ready:
            self._grow(lanes, streams, full=wanted >= room, step=step)

    def _busy(self, lanes: int) -> float:
        """The part of the lanes that has a file: in the last round only as many as files are left over."""
        whole, rest = divmod(self._files, lanes)
        return 1.0 if self._moved < whole * lanes * self._size else rest / lanes

    def _wish(self, lanes: _Lanes, plan: Plan) -> float:
        """Octets a second of one lane that nothing else holds up."""
        trip = self.network.round_trip
        by_window = lanes.streams * lanes.window / trip
        by_depth = plan.pipelining * self._size / (trip + plan.pipelining * FILE)
        # A file goes over the streams block by block: a small one does not use them all.
        blocks = max(1, self._size // (256 * 1024))
        used = min(1.0, blocks / lanes.streams)
        return 1 / (1 / min(by_window * used, by_depth) + FILE / self._size)

    def _grow(self, lanes: _Lanes, streams: int, *, full: bool, step: float) -> None:
        network = self.network
        trips = step / network.round_trip
        if lanes.window < lanes.early:
            lanes.window = min(lanes.window * 2 ** min(trips, 30), max(lanes.early, INITIAL_WINDOW))
        elif not full:
            lanes.window += GROWTH * network.holds / streams * trips
        lanes.window = min(lanes.window, network.window)

    # ---- input of the tuner

    def _files_left(self) -> int:
        return max(0, -(-int(self._files * self._size - self._moved) // self._size))

    def _sample(self, now: float, before: float, plan: Plan) -> Sample:
        octets = max(0.0, (self._moved - before) * (1 + self._random.gauss(0, self.network.noise))) + self._held
        lump = self.network.lumps and not self._held and self._random.random() < 0.5
        self._held = octets if lump else 0.0
        octets -= self._held
        ready = sum(lanes.count for lanes in self._lanes if lanes.ready_at <= now - self.SAMPLE)
        under_way = min(self._files_left(), ready * plan.pipelining)
        refused, self._refused = self._refused, 0
        return Sample(
            at=now,
            bytes=int(octets),
            files=round(octets / self._size),
            lanes=ready,
            waiting=self._files_left() - under_way,
            faults=refused,
        )
