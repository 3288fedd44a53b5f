"""The plan that a chunk begins with: the rules of the paper, corrected by the round-trip time. Pure.

The reason (docs/decisions/tuning-and-forecasts.md has the measurements): a stream carries at most one window in each
round trip, and a lane at most its files under way. The rules of the paper are right where the round trip is short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from identity.gsi.sentences import Sentence, joined
from transferapi.tasks.records import TaskEndpoint, TaskSpec

from .plan import MAX_PARALLELISM, MAX_PIPELINING, ChunkSummary, Plan, asked, make_plan, paper_rule, with_numbers

#: Maximum number of octets under way on one stream: the sender's buffer as Linux grows it by itself.
WINDOW = 4 * 2**20
#: Octets that the toolkit's server writes to one stream before it takes the next.
BLOCK = 256 * 2**10
#: Maximum number of octets queued in a lane behind its first file: after a fault they are sent again.
QUEUED = 256 * 10**6
#: Parts of a file that go to an agent at once (docs/decisions/agents.md: four reach what MODE E does at 60 ms); average
#: size of files, in octets, from which they go in parts.
PARTS = 4
PARTED_ABOVE = 32 * 2**20
#: Small files to an agent (docs/decisions/agents.md): round trips that each takes from its lane; files that a lane has
#: under way, to lose no time between them; files a second that all lanes are to carry; and the fewest files for one
#: lane.
TRIPS_A_FILE = 2.5
AHEAD = 6
FILES_A_SECOND = 500
FILES_A_LANE = 8
#: Small files to an agent by a port of the relay (docs/decisions/agents.md): octets a second that a relay process
#: passes on at best, the least gain over a connection for each file, octets of a channel's window, lanes besides those
#: that the windows need, and files under way in a lane: the lanes differ, and each file that a slow one has ahead is
#: waited for.
RELAY_RATE = 60 * 10**6
RELAY_GAIN = 1.25
RELAY_WINDOW = 256 * 2**10
RELAY_LANES = 2
RELAY_DEPTH = 20
#: Seconds of a round trip from which the paper's lanes spend most of a short task on their start. Below it the
#: processors of the servers are the limit, and not the network.
FAR = 0.010
VERY_FAR = 0.100
#: Lanes for round trips from FAR and VERY_FAR, and streams in all of them together.
LANES = {FAR: 4, VERY_FAR: 8}
STREAMS = {FAR: 8, VERY_FAR: 16}


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits and preferences of the endpoints. None: no preference."""

    lanes: int
    parallelism: int = MAX_PARALLELISM
    pipelining: int = MAX_PIPELINING
    preferred_concurrency: int | None = None
    preferred_parallelism: int | None = None
    stream_only: bool = False
    #: The source listens and an agent connects, in mode S: a large file goes in parts, each on a stream of its own.
    parted: bool = False
    #: Octets a second that the relay passes on for small files to an agent; 0: no limit; None if it takes none.
    relay_rate: int | None = None

    @classmethod
    def of(cls, spec: TaskSpec) -> Caps:
        """The limits of both endpoints, and of the task itself."""
        ends = [end for end in (spec.source, spec.destination) if end is not None]
        to_agent = spec.destination is not None and spec.destination.personal and not spec.source.personal
        return cls(
            lanes=max(1, min([spec.most_lanes, *_given(ends, "max_concurrency")])),
            parallelism=max(1, min([MAX_PARALLELISM, *_given(ends, "max_parallelism")])),
            preferred_concurrency=min(_given(ends, "preferred_concurrency"), default=None),
            preferred_parallelism=min(_given(ends, "preferred_parallelism"), default=None),
            stream_only=to_agent or any(end.streamed or (end is spec.destination and end.stream_only) for end in ends),
            parted=to_agent,
            relay_rate=spec.relay_rate if to_agent else None,
        )


def _given(ends: list[TaskEndpoint], name: str) -> list[int]:
    return [value for end in ends if (value := getattr(end, name))]


def paper_plan(chunk: ChunkSummary, options: Mapping[str, object], caps: Caps) -> Plan:
    """The plan by the rules of the paper and the options of the user, within the caps."""
    plan = make_plan(chunk, options, stream_only=caps.stream_only, max_sessions=caps.lanes + 1)
    return _in_parts(within(plan, caps), chunk, caps)


def _in_parts(plan: Plan, chunk: ChunkSummary, caps: Caps) -> Plan:
    """The plan for files of which each goes over several streams; all lanes together have no more than before."""
    if not caps.parted or not chunk.count or chunk.total < PARTED_ABOVE * chunk.count:
        return plan
    streams = max(1, min(PARTS, caps.lanes, caps.parallelism))
    lanes = max(1, min(plan.concurrency, caps.lanes // streams))
    return replace(
        plan,
        concurrency=lanes,
        parallelism=streams,
        reason=Sentence("%(reason)s; in %(parts)s parts at once", reason=plan.reason, parts=streams),
    )


def within(plan: Plan, caps: Caps) -> Plan:
    """The plan, cut to the limits of the endpoints."""
    most = {"concurrency": caps.lanes, "parallelism": caps.parallelism, "pipelining": caps.pipelining}
    cut = {name: limit for name, limit in most.items() if getattr(plan, name) > limit}
    if not cut:
        return plan
    words = [
        Sentence("%(name)s %(now)s instead of %(before)s", name=name, now=limit, before=int(getattr(plan, name)))
        for name, limit in cut.items()
    ]
    return with_numbers(
        plan,
        cut,
        Sentence(
            "%(reason)s; %(changes)s: the endpoints allow no more", reason=plan.reason, changes=joined(", ", [*words])
        ),
    )


def opening_plan(chunk: ChunkSummary, options: Mapping[str, object], caps: Caps, round_trip: float | None) -> Plan:
    """The first plan when only the chunk and, perhaps, the round trip (in seconds) are known."""
    plan = _preferred(paper_rule(chunk, stream_only=caps.stream_only), caps)
    if round_trip is not None and chunk.count and not caps.stream_only:
        plan = _corrected(plan, chunk, caps, round_trip)
    if round_trip is not None and caps.parted and chunk.many_small:
        relayed = _by_relay(plan, chunk, caps, round_trip)
        plan = relayed or _many_to_agent(plan, chunk, caps, round_trip)
    return _in_parts(asked_within(plan, options, caps), chunk, caps)


def _by_relay(plan: Plan, chunk: ChunkSummary, caps: Caps, round_trip: float) -> Plan | None:
    """Small files by kept connections to the relay; None where that is no gain over a connection for each file."""
    size = max(1, chunk.total // chunk.count)
    rate = RELAY_RATE if caps.relay_rate == 0 else min(caps.relay_rate or 0, RELAY_RATE)
    most = min(caps.lanes, ceil(FILES_A_SECOND * TRIPS_A_FILE * round_trip))
    by_connections = size * most / (TRIPS_A_FILE * round_trip)
    if rate < RELAY_GAIN * by_connections:
        return None
    # A channel of a tunnel carries one window in a round trip.
    lanes = caps.preferred_concurrency or min(RELAY_LANES + ceil(rate * round_trip / RELAY_WINDOW), caps.lanes)
    depth = min(max(RELAY_DEPTH, 2 * RELAY_WINDOW // size), depth_limit(size, caps))
    words = [*_words("concurrency", plan.concurrency, lanes), amount("pipelining", depth)]
    reason = Sentence(
        "%(reason)s; a round trip takes %(time)s, and the relay passes %(octets)s a second on: %(changes)s",
        reason=plan.reason, time=milliseconds(round_trip), octets=octets(rate), changes=joined(", ", words),
    )  # fmt: skip
    return Plan(lanes, 1, depth, reason, relayed=True)


def _many_to_agent(plan: Plan, chunk: ChunkSummary, caps: Caps, round_trip: float) -> Plan:
    """Each file takes its lane some round trips, whatever its size: lanes are all that helps."""
    if caps.preferred_concurrency or chunk.total >= PARTED_ABOVE * chunk.count:
        return plan
    wanted = ceil(FILES_A_SECOND * TRIPS_A_FILE * round_trip)
    lanes = max(plan.concurrency, min(wanted, caps.lanes, chunk.count // FILES_A_LANE))
    depth = min(AHEAD, caps.pipelining)
    words = [*_words("concurrency", plan.concurrency, lanes), amount("pipelining", depth)]
    reason = Sentence(
        "%(reason)s; a round trip takes %(time)s, and a file %(trips)s of them: %(changes)s",
        reason=plan.reason, time=milliseconds(round_trip), trips=str(TRIPS_A_FILE), changes=joined(", ", words),
    )  # fmt: skip
    return Plan(lanes, 1, depth, reason)


def asked_within(plan: Plan, options: Mapping[str, object], caps: Caps) -> Plan:
    """The plan with the numbers that the user asked for, within the caps."""
    return within(asked(plan, options, stream_only=caps.stream_only), caps)


def _preferred(plan: Plan, caps: Caps) -> Plan:
    """The plan with the numbers that the endpoints' administrators prefer."""
    lanes = caps.preferred_concurrency or plan.concurrency
    streams = plan.parallelism if caps.stream_only else caps.preferred_parallelism or plan.parallelism
    if (lanes, streams) == (plan.concurrency, plan.parallelism):
        return plan
    return Plan(lanes, streams, plan.pipelining, Sentence("%(reason)s; as the endpoints prefer", reason=plan.reason))


def _corrected(plan: Plan, chunk: ChunkSummary, caps: Caps, round_trip: float) -> Plan:
    size = max(1, chunk.total // chunk.count)
    lanes = _lanes(plan, chunk, caps, round_trip)
    streams = max(1, _streams(plan, size, min(lanes, chunk.count, caps.lanes), caps, round_trip))
    deep = chunk.count > lanes
    depth = depth_for(size, streams, plan.pipelining, caps) if deep else plan.pipelining
    words = [
        *_words("concurrency", plan.concurrency, lanes),
        *_words("parallelism", plan.parallelism, streams),
        *_words("pipelining", plan.pipelining, depth),
    ]
    if not words:
        return plan
    reason = Sentence(
        "%(reason)s; a round trip takes %(time)s and a file has %(octets)s on average: %(changes)s",
        reason=plan.reason, time=milliseconds(round_trip), octets=octets(size), changes=joined(", ", words),
    )  # fmt: skip
    return Plan(lanes, streams, depth, reason)


def _lanes(plan: Plan, chunk: ChunkSummary, caps: Caps, round_trip: float) -> int:
    if caps.preferred_concurrency or round_trip < FAR:
        return plan.concurrency
    return max(plan.concurrency, min(_by_distance(LANES, round_trip), caps.lanes, chunk.count))


def _streams(plan: Plan, size: int, lanes: int, caps: Caps, round_trip: float) -> int:
    """More streams start faster together; files with less than a block for each stream leave some idle."""
    streams = plan.parallelism
    if round_trip >= FAR and not caps.preferred_parallelism:
        paper = streams * min(plan.concurrency, lanes)
        streams = min(max(paper, _by_distance(STREAMS, round_trip)) // lanes, caps.parallelism)
    return min(streams, power_of_two(max(1, size // BLOCK)))


def _by_distance(table: Mapping[float, int], round_trip: float) -> int:
    return max(value for limit, value in table.items() if round_trip >= limit)


def depth_for(size: int, streams: int, least: int, caps: Caps) -> int:
    """Files under way in a lane: two windows of each stream keep it busy, within what may be sent again."""
    wanted = max(least, -(-2 * WINDOW * streams // size))
    wanted = -(-wanted // 20) * 20 if wanted > least else wanted
    return min(wanted, depth_limit(size, caps))


def depth_limit(size: int, caps: Caps) -> int:
    """Maximum number of files under way in a lane: those behind the first are sent again after a fault."""
    return min(2 + QUEUED // size, caps.pipelining)


def power_of_two(most: int) -> int:
    """The greatest power of two up to `most` (>= 1)."""
    return 1 << (most.bit_length() - 1)


def _words(name: str, before: int, after: int) -> list[str]:
    if before == after:
        return []
    return [Sentence("%(now)s instead of %(before)s", now=amount(name, after), before=before)]


def amount(name: str, number: int) -> Sentence:
    """A number of a plan with its noun, for users."""
    if name == "concurrency":
        return Sentence.counted("%(number)s lane", "%(number)s lanes", number)
    if name == "parallelism":
        return Sentence.counted("%(number)s stream in each lane", "%(number)s streams in each lane", number)
    return Sentence.counted("%(number)s file under way in each lane", "%(number)s files under way in each lane", number)


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def octets(count: float) -> str:
    """A number of octets with its unit, for users, in two or three digits."""
    for unit in ("octets", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
