"""What a chunk is begun with: the paper's rules, corrected by what a round trip takes. Pure.

Why (docs/decisions/0008-tuner.md has the measurements): a stream carries at most its window in each round trip, and a
lane never more than what its files under way hold. The rules of the paper are right where a round trip is short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .plan import MAX_PARALLELISM, MAX_PIPELINING, Plan, Summary, make_plan
from .ports import EndpointRef, TaskSpec

#: More than any rule of the paper uses.
MANY_SESSIONS = 1000
#: What a user may fix, and which number of a plan it is.
NUMBERS = {"perf_cc": "concurrency", "perf_p": "parallelism", "perf_pp": "pipelining"}
#: Octets that one stream has under way at most: the sender's buffer as Linux grows it by itself.
WINDOW = 4 * 2**20
#: Octets that the toolkit's server puts on one stream before it takes the next.
BLOCK = 256 * 2**10
#: Octets queued in a lane behind its head at most: a fault makes them be sent again.
QUEUED = 256 * 10**6
#: Seconds of a round trip from which on the paper's lanes spend most of a short task on beginning. Under it servers'
#: processors are the limit, and not the way.
FAR = 0.010
VERY_FAR = 0.100
#: Lanes where a round trip takes FAR and VERY_FAR, and streams in all of them together.
LANES = {FAR: 4, VERY_FAR: 8}
STREAMS = {FAR: 8, VERY_FAR: 16}


@dataclass(frozen=True, slots=True)
class Caps:
    """What the endpoints allow, and would like a task to begin with. None: no word about it."""

    lanes: int
    parallelism: int = MAX_PARALLELISM
    pipelining: int = MAX_PIPELINING
    preferred_concurrency: int | None = None
    preferred_parallelism: int | None = None
    stream_only: bool = False

    @classmethod
    def of(cls, spec: TaskSpec) -> Caps:
        """Both endpoints' limits, and what the task itself may have."""
        ends = [end for end in (spec.source, spec.destination) if end is not None]
        return cls(
            lanes=max(1, min([spec.most_lanes, *_given(ends, "max_concurrency")])),
            parallelism=max(1, min([MAX_PARALLELISM, *_given(ends, "max_parallelism")])),
            preferred_concurrency=min(_given(ends, "preferred_concurrency"), default=None),
            preferred_parallelism=min(_given(ends, "preferred_parallelism"), default=None),
            stream_only=spec.destination is not None and spec.destination.stream_only,
        )


def _given(ends: list[EndpointRef], name: str) -> list[int]:
    return [value for end in ends if (value := getattr(end, name))]


def paper_plan(chunk: Summary, options: Mapping[str, object], caps: Caps) -> Plan:
    """The rules of the paper and what the user asked for, within the caps."""
    plan = make_plan(chunk, options, stream_only=caps.stream_only, max_sessions=caps.lanes + 1)
    return within(plan, caps)


def within(plan: Plan, caps: Caps) -> Plan:
    """The plan, cut to what the endpoints allow."""
    most = {"concurrency": caps.lanes, "parallelism": caps.parallelism, "pipelining": caps.pipelining}
    cut = {name: limit for name, limit in most.items() if getattr(plan, name) > limit}
    if not cut:
        return plan
    words = ", ".join(f"{name} {limit} instead of {getattr(plan, name)}" for name, limit in cut.items())
    return _with(plan, cut, f"{plan.reason}; {words}: the endpoints allow no more")


def _with(plan: Plan, numbers: Mapping[str, int], reason: str) -> Plan:
    changes: dict[str, Any] = dict(numbers)
    return replace(plan, reason=reason, **changes)


def opening_plan(chunk: Summary, options: Mapping[str, object], caps: Caps, round_trip: float | None) -> Plan:
    """The plan to begin with where nothing is known but the chunk and, perhaps, what a round trip takes (seconds)."""
    plan = _preferred(_rule(chunk, {}, caps), caps)
    if round_trip is not None and chunk.count and not caps.stream_only:
        plan = _corrected(plan, chunk, caps, round_trip)
    return asked(plan, options, caps)


def _rule(chunk: Summary, options: Mapping[str, object], caps: Caps) -> Plan:
    """The paper's, whatever the endpoints allow."""
    return make_plan(chunk, options, stream_only=caps.stream_only, max_sessions=MANY_SESSIONS)


def asked(plan: Plan, options: Mapping[str, object], caps: Caps) -> Plan:
    """What the user asked for takes the place of any other number, and the caps of that."""
    names = [name for name in NUMBERS if pinned(options, name, caps)]
    if names:
        wishes = _rule(Summary(), options, caps)
        numbers = {NUMBERS[name]: int(getattr(wishes, NUMBERS[name])) for name in names}
        plan = _with(plan, numbers, f"{plan.reason}; {', '.join(names)} as asked")
    return within(plan, caps)


def pinned(options: Mapping[str, object], name: str, caps: Caps) -> bool:
    """Whether the user's word on this number counts: mode S has one stream, and one file at a time."""
    value = options.get(name)
    given = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return given and (name == "perf_cc" or not caps.stream_only)


def _preferred(plan: Plan, caps: Caps) -> Plan:
    """What the endpoints' administrators would like a task to begin with."""
    lanes = caps.preferred_concurrency or plan.concurrency
    streams = plan.parallelism if caps.stream_only else caps.preferred_parallelism or plan.parallelism
    if (lanes, streams) == (plan.concurrency, plan.parallelism):
        return plan
    return Plan(lanes, streams, plan.pipelining, f"{plan.reason}; as the endpoints prefer")


def _corrected(plan: Plan, chunk: Summary, caps: Caps, round_trip: float) -> Plan:
    size = max(1, chunk.total // chunk.count)
    lanes = _lanes(plan, chunk, caps, round_trip)
    streams = max(1, _streams(plan, size, min(lanes, chunk.count, caps.lanes), caps, round_trip))
    deep = chunk.count > lanes
    depth = depth_for(size, streams, plan.pipelining, caps) if deep else plan.pipelining
    words = [
        *_words("lane", plan.concurrency, lanes),
        *_words("stream", plan.parallelism, streams, " in each lane"),
        *_words("file", plan.pipelining, depth, " under way in each lane"),
    ]
    if not words:
        return plan
    takes = f"a round trip takes {milliseconds(round_trip)} and a file has {octets(size)} on average"
    return Plan(lanes, streams, depth, f"{plan.reason}; {takes}: {', '.join(words)}")


def _lanes(plan: Plan, chunk: Summary, caps: Caps, round_trip: float) -> int:
    if caps.preferred_concurrency or round_trip < FAR:
        return plan.concurrency
    return max(plan.concurrency, min(_by_distance(LANES, round_trip), caps.lanes, chunk.count))


def _streams(plan: Plan, size: int, lanes: int, caps: Caps, round_trip: float) -> int:
    """More streams begin faster together; a file smaller than a block for each leaves some of them idle."""
    streams = plan.parallelism
    if round_trip >= FAR and not caps.preferred_parallelism:
        paper = streams * min(plan.concurrency, lanes)
        streams = min(max(paper, _by_distance(STREAMS, round_trip)) // lanes, caps.parallelism)
    return min(streams, power_of_two(max(1, size // BLOCK)))


def _by_distance(table: Mapping[float, int], round_trip: float) -> int:
    return max(value for limit, value in table.items() if round_trip >= limit)


def depth_for(size: int, streams: int, least: int, caps: Caps) -> int:
    """Files under way in a lane: two windows of each stream, so that it never runs dry; not too much to send again."""
    wanted = max(least, -(-2 * WINDOW * streams // size))
    wanted = -(-wanted // 20) * 20 if wanted > least else wanted
    return min(wanted, depth_limit(size, caps))


def depth_limit(size: int, caps: Caps) -> int:
    """Files under way in a lane at most: what is queued behind the head is sent again after a fault."""
    return min(2 + QUEUED // size, caps.pipelining)


def power_of_two(most: int) -> int:
    """The greatest power of two up to `most` (>= 1)."""
    return 1 << (most.bit_length() - 1)


def _words(thing: str, before: int, after: int, where: str = "") -> list[str]:
    if before == after:
        return []
    return [f"{counted(after, thing)}{where} instead of {before}"]


def counted(number: int, thing: str) -> str:
    """In words for people."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"


def octets(count: float) -> str:
    """In words for people, two or three digits."""
    for unit in ("octets", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
